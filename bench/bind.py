"""Rack-gangs through the durable store: how far from the bare cost of the same writes?

One run, three sizes (1,008 pods in 63 rack-gangs on 1,024 nodes, four times that, and 10,000 pods that fill 10,000
nodes), three figures each:

    through   from the first create until every pod is bound: API, store, caches, scheduler, conditions, events
    bare      the very same bytes, as logged by that run, put into an empty store of the same kind
    deciding  the placement decisions alone, on a view of the same nodes

`through / bare` is what the system costs beyond its disk; the cost per pod must not grow with the size.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.table import Table

from echelon.api.cluster.pools import Cluster, Level, Pool, nodes
from echelon.api.objects.vocabulary import BLOCK, DEFAULT_LEVELS, RACK
from echelon.api.scheme import NODES, POD_GROUPS, PODS, Object
from echelon.base.rng import Rng
from echelon.client.informer import Caches
from echelon.engine import ClusterView, Demand, Leaf, Node, Placed, PodClass, Running, Shape, Unit, decide
from echelon.runtime.clocks import RealClock
from echelon.runtime.components import assemble, levels_of
from echelon.runtime.config import EMBEDDED_SCHEDULER_NAMES
from echelon.runtime.plane import run_program
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.interface import Change, Header, Store
from echelon.store.sqlite import open_sqlite

_GANG = 16
_WRITERS = 64


@dataclass(frozen=True)
class Size:
    blocks: int
    racks_per_block: int
    gangs: int

    @property
    def nodes(self) -> int:
        return self.blocks * self.racks_per_block * _GANG

    @property
    def pods(self) -> int:
        return self.gangs * _GANG

    @property
    def cluster(self) -> Cluster:
        pool = Pool(
            "gpu",
            {"block": self.blocks, "rack": self.racks_per_block, "node": _GANG},
            {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"},
        )
        return Cluster((Level("block", BLOCK), Level("rack", RACK)), (pool,))


SIZES = {"1k": Size(4, 16, 63), "4k": Size(16, 16, 252), "10k": Size(25, 25, 625)}


@dataclass(frozen=True)
class Figures:
    size: Size
    through: float
    #: Processor seconds of the whole process meanwhile.
    processor: float
    bare: float
    writes: int
    deciding: float


def _group(index: int) -> Object:
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": f"gang-{index}"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": _GANG}},
            "schedulingConstraints": {"topology": [{"key": RACK}]},
        },
    }


def _pod(gang: int, index: int) -> Object:
    container = {"name": "c", "image": "registry.example/c:1", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {"name": f"gang-{gang}-{index}"},
        "spec": {"schedulingGroup": {"podGroupName": f"gang-{gang}"}, "containers": [container]},
    }


@asynccontextmanager
async def _plane(size: Size, directory: Path) -> AsyncIterator[tuple[Store, Pipeline, Caches]]:
    """A plane without HTTP and without an agent, its nodes in place."""
    clock = RealClock()
    store = open_sqlite(directory, header_of)
    pipeline = Pipeline(store, clock, Rng(1))
    await pipeline.bootstrap()
    await _all_at_once([pipeline.create(NODES, node) for node in nodes(size.cluster)])
    caches = Caches(pipeline, clock)
    parts = assemble(pipeline, caches, clock, None, levels_of(size.cluster), EMBEDDED_SCHEDULER_NAMES)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.main(), name=part.name) for part in parts]
        await caches.wait_synced()
        yield store, pipeline, caches
        for task in tasks:
            task.cancel()
    await store.close()


async def _all_at_once(writes: Sequence[object]) -> None:
    gate = asyncio.Semaphore(_WRITERS)

    async def one(write: object) -> None:
        async with gate:
            await write  # type: ignore[misc]

    await asyncio.gather(*map(one, writes))


async def _through(size: Size, directory: Path) -> tuple[float, float, list[Change]]:
    """Create everything, wait until everything is bound; time, processor time and the log of what was written."""
    log: list[Change] = []
    async with _plane(size, directory) as (store, pipeline, caches):
        bound: set[str] = set()
        done = asyncio.Event()

        def hear(_: Object | None, new: Object | None) -> None:
            if new is not None and new["spec"].get("nodeName"):
                bound.add(new["metadata"]["name"])
                if len(bound) == size.pods:
                    done.set()

        caches.of(PODS).add_handler(hear)
        recording = asyncio.create_task(record(store, log))
        await asyncio.sleep(0)
        begin, worked = time.perf_counter(), time.process_time()
        await _all_at_once([pipeline.create(POD_GROUPS, _group(gang), "default") for gang in range(size.gangs)])
        await _all_at_once(
            [
                pipeline.create(PODS, _pod(gang, index), "default")
                for gang in range(size.gangs)
                for index in range(_GANG)
            ]
        )
        await done.wait()
        elapsed, worked = time.perf_counter() - begin, time.process_time() - worked
        recording.cancel()
        await asyncio.gather(recording, return_exceptions=True)
        return elapsed, worked, log


async def record(store: Store, log: list[Change]) -> None:
    async for batch in store.watch("/", store.revision):
        log.extend(batch)


def _value(value: bytes, _revision: int) -> bytes:
    return value


async def bare(log: Sequence[Change], directory: Path) -> float:
    """The same values under the same keys, straight into a store."""
    store = open_sqlite(directory, lambda _key, _value: Header())
    begin = time.perf_counter()
    await _all_at_once(
        [
            store.put(change.key, partial(_value, change.record.value), None)
            for change in log
            if change.record is not None
        ]
    )
    elapsed = time.perf_counter() - begin
    await store.close()
    return elapsed


def _deciding(size: Size) -> float:
    """The decisions of the run on a view of their own."""
    view = ClusterView(levels_of(size.cluster) or DEFAULT_LEVELS)
    for obj in nodes(size.cluster):
        amounts = {"cpu": 96_000, "memory": 1 << 40, "nvidia.com/gpu": 8, "pods": 110}
        view.put_node(Node(obj["metadata"]["name"], obj["metadata"]["labels"], amounts))
    shape = Shape((("nvidia.com/gpu", 8), ("pods", 1)))
    elapsed = 0.0
    for gang in range(size.gangs):
        members = tuple(range(gang * _GANG, (gang + 1) * _GANG))
        demand = Demand(Leaf(gang, _GANG, (PodClass(shape, members),), topology=RACK))
        begin = time.perf_counter()
        verdict = decide(view, demand, 0.0)
        elapsed += time.perf_counter() - begin
        assert isinstance(verdict, Placed)
        for member, node in verdict.assignment.items():
            view.put_unit(Unit(member, 0))
            view.bind(Running(member, node, shape.requests, member, 0.0))
    return elapsed


async def _measure(size: Size) -> Figures:
    with tempfile.TemporaryDirectory(prefix="echelon-bench-") as directory:
        through, processor, log = await _through(size, Path(directory, "plane"))
        limit = await bare(log, Path(directory, "bare"))
    return Figures(size, through, processor, limit, len(log), _deciding(size))


def table(figures: Sequence[Figures]) -> Table:
    drawn = Table(title="rack-gangs of 16 through the durable store")
    headings = ("pods", "nodes", "through", "pods/s", "CPU", "bare", "through/bare", "writes", "deciding", "per gang")
    for heading in headings:
        drawn.add_column(heading, justify="right")
    for one in figures:
        drawn.add_row(
            f"{one.size.pods:,}",
            f"{one.size.nodes:,}",
            f"{one.through:.2f} s",
            f"{one.size.pods / one.through:,.0f}",
            f"{one.processor:.2f} s",
            f"{one.bare:.2f} s",
            f"{one.through / one.bare:.1f}×",
            f"{one.writes:,}",
            f"{one.deciding * 1000:.0f} ms",
            f"{one.deciding / one.size.gangs * 1000:.2f} ms",
        )
    return drawn


def measure(names: Sequence[str]) -> list[Figures]:
    return [run_program(_measure(SIZES[name])) for name in names]
