"""The components of a control plane besides the API server: controllers, scheduler, simulated nodes.

The same components run embedded over a durable store, in virtual time over a store in memory, and on a real cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from ..agents.simulated_nodes import SimulatedNodes
from ..agents.simulated_volumes import SimulatedVolumes
from ..api.cluster.pools import Cluster, nodes, runs_processes
from ..api.objects.vocabulary import DEFAULT_LEVELS, HOSTNAME
from ..api.verbs import Verbs
from ..base.clock import Clock
from ..client.events import Recorder
from ..client.informer import Caches
from ..controllers.registry import ALL_CONTROLLERS, all_controllers
from ..controllers.runner import Controller, Runner
from ..scheduler.loop import Scheduler, Settings


@dataclass(frozen=True)
class Component:
    """A named coroutine function that runs until cancelled; called again if it fails."""

    name: str
    main: Callable[[], Coroutine[Any, Any, None]]
    #: Called when the caches are synced and this process does not lead yet.
    prepare: Callable[[], None] = lambda: None
    #: Whether its failure ends the process instead.
    vital: bool = False
    #: What is under way in it, for the debug pages; called with the most entries that a list should have.
    state: Callable[[int], Mapping[str, object]] | None = None


def levels_of(cluster: Cluster) -> tuple[str, ...] | None:
    """Topology keys that a cluster file configures, with the hostname last; None where it has well-known ones alone:
    these are found on nodes."""
    own = tuple(level.key for level in cluster.levels)
    if set(own) <= set(DEFAULT_LEVELS):
        return None
    return own if own[-1] == HOSTNAME else (*own, HOSTNAME)


def controllers(
    verbs: Verbs, caches: Caches, clock: Clock, chosen: Iterable[Controller] | None = None
) -> list[Component]:
    """The chosen controllers, else all, each with its own event recorder."""
    parts: list[Component] = []
    for controller in all_controllers(caches) if chosen is None else chosen:
        recorder = Recorder(verbs, clock, f"{controller.name}-controller")
        runner = Runner(controller, verbs, caches, clock, recorder)
        parts.append(Component(controller.name, runner.run, state=runner.state))
        parts.append(Component("events", recorder.run))
    return parts


def scheduler(
    verbs: Verbs, caches: Caches, clock: Clock, settings: Settings, registry: CollectorRegistry | None = None
) -> tuple[Scheduler, list[Component]]:
    """The scheduler, for tests that read its view, and the components that run it."""
    recorder = Recorder(verbs, clock, "echelon-scheduler")
    made = Scheduler(verbs, caches, clock, recorder, settings, registry)
    main = Component("scheduler", made.run, made.follow, state=made.state)
    return made, [main, Component("events", recorder.run)]


def assemble(
    verbs: Verbs,
    caches: Caches,
    clock: Clock,
    cluster: Cluster | None,
    levels: tuple[str, ...] | None,
    names: Sequence[str],
    registry: CollectorRegistry | None = None,
    chosen: Collection[str] = ALL_CONTROLLERS,
    *,
    job_workloads: bool = True,
) -> list[Component]:
    """All components but the API server: the chosen controllers, a scheduler for the pods with these scheduler names
    (none: no scheduler), and simulated nodes if `cluster` is given."""
    parts = controllers(verbs, caches, clock, all_controllers(caches, chosen, job_workloads=job_workloads))
    if names:
        parts += scheduler(verbs, caches, clock, Settings(names=tuple(names), levels=levels), registry)[1]
    if cluster is not None:
        if not all(map(runs_processes, nodes(cluster))):
            parts.append(Component("nodes", SimulatedNodes(verbs, caches, clock, cluster).run))
        parts.append(Component("volumes", SimulatedVolumes(verbs, caches, clock).run))
    return [*parts, Component("caches", caches.run)]
