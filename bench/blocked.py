"""From submission to a clear reason, on a cluster that is full: embedded, through the durable store.

Every node is taken by a running pod of the same priority; then trees arrive that do not fit.  What is timed is from the
last create of a tree until its root says `Unschedulable` and why, as a watching client would see it.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import DEFAULT_LEVELS
from echelon.api.scheme import COMPOSITE_POD_GROUPS, NODES, POD_GROUPS, PODS, Object, Resource
from echelon.api.verbs import Verbs
from echelon.base.rng import Rng
from echelon.client.informer import Caches
from echelon.runtime.clocks import RealClock
from echelon.runtime.components import assemble
from echelon.runtime.config import EMBEDDED_SCHEDULER_NAMES
from echelon.runtime.plane import run_program
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.sqlite import open_sqlite

from .cluster.scenarios import Tree, full_cluster, trees_that_do_not_fit

_AT_ONCE = 64
_PATIENCE_SECONDS = 60.0
CONDITIONS = {POD_GROUPS: "PodGroupInitiallyScheduled", COMPOSITE_POD_GROUPS: "CompositePodGroupInitiallyScheduled"}


@dataclass(frozen=True)
class Reason:
    """What a tree was told, and when."""

    tree: str
    pods: int
    nodes: int
    submitting: float
    seconds: float
    text: str


async def time_to_reason(
    verbs: Verbs, namespace: str, tree: Tree, nodes: int, heard: Callable[[Resource, str], Object | None]
) -> Reason:
    """Submit one tree and wait until its root says why it waits; `heard` is what a watch last said of an object."""
    submitted = time.perf_counter()
    for resource, group in tree.groups:
        await verbs.create(resource, group, namespace)
    await all_at_once([verbs.create(PODS, pod, namespace) for pod in tree.pods])
    begin = time.perf_counter()
    resource, root = tree.groups[0]
    while time.perf_counter() < begin + _PATIENCE_SECONDS:
        known = heard(resource, f"{namespace}/{root['metadata']['name']}")
        condition = meta.find_condition(known, CONDITIONS[resource]) if known is not None else None
        if condition is not None and not condition["message"].startswith("waiting for"):
            elapsed = time.perf_counter() - begin
            return Reason(tree.title, len(tree.pods), nodes, begin - submitted, elapsed, condition["message"])
        await asyncio.sleep(0.002)
    raise RuntimeError(f"{tree.title}: no reason within {_PATIENCE_SECONDS:.0f} s")


async def all_at_once(writes: Sequence[object]) -> None:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(write: object) -> None:
        async with gate:
            await write  # type: ignore[misc]

    await asyncio.gather(*map(one, writes))


async def _embedded(scale: float, directory: Path) -> list[Reason]:
    clock = RealClock()
    store = open_sqlite(directory, header_of)
    pipeline = Pipeline(store, clock, Rng(1))
    await pipeline.bootstrap()
    nodes, fillers = full_cluster(scale)
    await all_at_once([pipeline.create(NODES, node) for node in nodes])
    await all_at_once([pipeline.create(PODS, pod, "default") for pod in fillers])
    caches = Caches(pipeline, clock)
    parts = assemble(pipeline, caches, clock, None, DEFAULT_LEVELS, EMBEDDED_SCHEDULER_NAMES)
    reasons = []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.main(), name=part.name) for part in parts]
        await caches.wait_synced()
        await asyncio.sleep(1.0)  # the scheduler takes in what is there
        for tree in trees_that_do_not_fit():
            heard = lambda resource, key: caches.of(resource).get(key)  # noqa: E731
            reasons.append(await time_to_reason(pipeline, "default", tree, len(nodes), heard))
        for task in tasks:
            task.cancel()
    await store.close()
    return reasons


def measure(scale: float) -> list[Reason]:
    with tempfile.TemporaryDirectory(prefix="echelon-bench-") as directory:
        return run_program(_embedded(scale, Path(directory)))


def table(reasons: Sequence[Reason], where: str = "through the durable store") -> Table:
    drawn = Table(title=f"from submission to a reason on a full cluster, {where} (aim: under 1 s)")
    for heading in ("tree", "pods", "nodes", "submitted in", "reason after", "reason"):
        drawn.add_column(heading, justify="left" if heading in ("tree", "reason") else "right")
    for one in reasons:
        late = "" if one.seconds < 1.0 else "  MISSED"
        took = f"{one.submitting:.2f} s"
        drawn.add_row(one.tree, str(one.pods), f"{one.nodes:,}", took, f"{one.seconds:.2f} s{late}", one.text)
    return drawn
