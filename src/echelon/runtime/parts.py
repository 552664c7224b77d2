"""The working parts of a control plane, whoever serves the API: controllers, scheduler, nodes.

The same parts run embedded over a durable store, in virtual time over a store in memory, and against a real cluster.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from ..agents.simulated import SimulatedNodes
from ..api.cluster import Cluster
from ..api.verbs import Verbs
from ..api.vocabulary import DEFAULT_LEVELS, HOSTNAME
from ..base.clock import Clock
from ..client.events import Recorder
from ..client.informer import Caches
from ..controllers.registry import all_controllers
from ..controllers.runner import Runner
from ..scheduler.loop import Scheduler, Settings


@dataclass(frozen=True)
class Part:
    """One thing that runs until cancelled."""

    name: str
    main: Coroutine[Any, Any, None]


def levels_of(cluster: Cluster) -> tuple[str, ...]:
    """Topology keys from wide to narrow: the cluster's own, else the well-known ones; nodes come last."""
    own = tuple(level.key for level in cluster.levels)
    if not own:
        return DEFAULT_LEVELS
    return own if own[-1] == HOSTNAME else (*own, HOSTNAME)


def assemble(
    verbs: Verbs, caches: Caches, clock: Clock, cluster: Cluster | None, levels: tuple[str, ...], names: Sequence[str]
) -> list[Part]:
    """Everything but the API; nodes are simulated if there is a cluster to simulate."""
    recorders: list[Recorder] = []

    def recorder(component: str) -> Recorder:
        recorders.append(Recorder(verbs, clock, component))
        return recorders[-1]

    parts = [
        Part(controller.name, Runner(controller, verbs, caches, clock, recorder(f"{controller.name}-controller")).run())
        for controller in all_controllers(caches)
    ]
    settings = Settings(names=tuple(names), levels=levels)
    parts.append(Part("scheduler", Scheduler(verbs, caches, clock, recorder("echelon-scheduler"), settings).run()))
    if cluster is not None:
        parts.append(Part("nodes", SimulatedNodes(verbs, caches, clock, cluster).run()))
    parts += [Part("events", one.run()) for one in recorders]
    return [*parts, Part("caches", caches.run())]
