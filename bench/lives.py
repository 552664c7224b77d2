"""Whole lives of large jobs through the durable store: created, placed, run, completed, deleted.

A JobSet of 500 Jobs × 20 pods and a TrainJob of 1,000 nodes, each beside one of a tenth of its size, with all
controllers, the scheduler and simulated nodes at work:

    phases    from the create until every pod runs, from the first end until the job says that it is complete, and from
              the delete until nothing of it is left; processor seconds of the whole process
    bare      the very same bytes, as logged by that run, put into an empty store of the same kind
    writes    per pod over the whole life, and what one pod's change of readiness costs while all others run

Writes per pod and per change must not grow with the size of the job.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from echelon.api.cluster.pools import Cluster, Level, Pool
from echelon.api.objects import meta
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.objects.vocabulary import RACK, RUN_SECONDS
from echelon.api.scheme import JOB_SETS, JOBS, NODES, PODS, TRAIN_JOBS, Object, Resource
from echelon.api.verbs import DeleteOptions, Patch, PatchType
from echelon.base.rng import Rng
from echelon.client.informer import Caches
from echelon.runtime.clocks import RealClock
from echelon.runtime.components import assemble, levels_of
from echelon.runtime.config import EMBEDDED_SCHEDULER_NAMES
from echelon.runtime.plane import run_program
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.interface import Change, Store
from echelon.store.sqlite import open_sqlite

from .bind import bare, record

#: Every pod takes a whole GPU node's eighth.
_PODS_PER_NODE = 8
#: How long the writes that follow one change may take to arrive.
_SETTLING_SECONDS = 3.0
#: Pods run for this long, so that all of them run at one time before the first ends.
_RUN_SECONDS = {"small": 30, "large": 90}

#: The condition that says that a job is complete.
_END = {JOB_SETS: "Completed", TRAIN_JOBS: "Complete"}


@dataclass(frozen=True)
class Life:
    """One job, and how many pods and Jobs it has."""

    name: str
    resource: Resource
    body: Object
    pods: int
    run_seconds: int


@dataclass(frozen=True)
class Phase:
    seconds: float
    processor: float


@dataclass(frozen=True)
class Figures:
    life: Life
    started: Phase
    completed: Phase
    deleted: Phase
    writes: int
    writes_per_change: int
    bare: float


def _job_set(jobs: int, pods: int, run_seconds: int) -> Life:
    template = {
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {
                "metadata": {"annotations": {RUN_SECONDS: str(run_seconds)}},
                "spec": {"restartPolicy": "Never", "containers": [_container("worker")]},
            },
        }
    }
    spec = {
        "scheduling": {
            "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": {"schedulingPolicy": {"gang": {}}}}]
        },
        "replicatedJobs": [{"name": "workers", "replicas": jobs, "template": template}],
    }
    body = {"apiVersion": JOB_SETS.api_version, "kind": "JobSet", "metadata": {"name": "large"}, "spec": spec}
    return Life(f"JobSet of {jobs} × {pods}", JOB_SETS, body, jobs * pods, run_seconds)


def _train_job(nodes: int, run_seconds: int) -> Life:
    patch = {
        "manager": "echelon.dev/bench",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [
            {"name": "node", "template": {"spec": {"template": {"metadata": {
                "annotations": {RUN_SECONDS: str(run_seconds)}}}}}}
        ]}}},
    }  # fmt: skip
    spec = {
        "runtimeRef": {"name": "torch-distributed"},
        "trainer": {"numNodes": nodes, "resourcesPerNode": _container("node")["resources"]},
        "runtimePatches": [patch],
    }
    body = {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob", "metadata": {"name": "large"}, "spec": spec}
    return Life(f"TrainJob of {nodes} nodes", TRAIN_JOBS, body, nodes, run_seconds)


def _container(name: str) -> Object:
    return {"name": name, "image": "registry.example/train:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}


def lives() -> list[Life]:
    small, large = _RUN_SECONDS["small"], _RUN_SECONDS["large"]
    return [_job_set(50, 20, small), _job_set(500, 20, large), _train_job(100, small), _train_job(1000, small)]


def _cluster(pods: int) -> Cluster:
    racks = -(-pods // (_PODS_PER_NODE * 16))
    capacity = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": str(_PODS_PER_NODE), "pods": "110"}
    return Cluster((Level("rack", RACK),), (Pool("gpu", {"rack": racks, "node": 16}, capacity),))


class _Pods:
    """How many pods there are, run and have ended, and what to do when a number is reached."""

    def __init__(self, caches: Caches) -> None:
        self._phases: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: list[tuple[Callable[[], bool], asyncio.Event]] = []
        caches.of(PODS).add_handler(self._hear)

    def count(self, *phases: str) -> int:
        return sum(self._counts[phase] for phase in phases)

    def __len__(self) -> int:
        return len(self._phases)

    async def reach(self, condition: Callable[[], bool]) -> None:
        reached = asyncio.Event()
        if not condition():
            self._waiting.append((condition, reached))
            await reached.wait()

    def _hear(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            phase = new["status"].get("phase", "Pending")
            self._counts[self._phases.pop(meta.key(new), "")] -= 1
            self._phases[meta.key(new)] = phase
            self._counts[phase] += 1
        elif old is not None:
            self._counts[self._phases.pop(meta.key(old), "")] -= 1
        for condition, reached in self._waiting:
            if condition():
                reached.set()
        self._waiting = [pair for pair in self._waiting if not pair[1].is_set()]


@asynccontextmanager
async def _plane(life: Life, directory: Path) -> AsyncIterator[tuple[Store, Pipeline, Caches]]:
    clock, cluster = RealClock(), _cluster(life.pods)
    store = open_sqlite(directory, header_of)
    pipeline = Pipeline(store, clock, Rng(1))
    await pipeline.bootstrap(builtin_runtimes())
    caches = Caches(pipeline, clock)
    parts = assemble(pipeline, caches, clock, cluster, levels_of(cluster), EMBEDDED_SCHEDULER_NAMES)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.main(), name=part.name) for part in parts]
        await caches.wait_synced()
        await _until(lambda: len(caches.of(NODES)) >= cluster.size)
        yield store, pipeline, caches
        for task in tasks:
            task.cancel()
    await store.close()


class _Watch:
    """Seconds and processor seconds since the last look."""

    def __init__(self) -> None:
        self._at, self._worked = time.perf_counter(), time.process_time()

    def phase(self) -> Phase:
        at, worked = time.perf_counter(), time.process_time()
        phase = Phase(at - self._at, worked - self._worked)
        self._at, self._worked = at, worked
        return phase


async def _live(life: Life, directory: Path) -> tuple[Phase, Phase, Phase, int, list[Change]]:
    log: list[Change] = []
    async with _plane(life, directory) as (store, pipeline, caches):
        pods = _Pods(caches)
        recording = asyncio.create_task(record(store, log))
        await asyncio.sleep(0)
        watch = _Watch()
        await pipeline.create(life.resource, life.body, "default")
        await pods.reach(lambda: pods.count("Running", "Succeeded") == life.pods)
        started = watch.phase()
        changes = await _writes_of_one_change(pipeline, caches, log)
        await pods.reach(lambda: pods.count("Succeeded") > 0)
        watch.phase()
        owners = caches.of(life.resource)
        await _until(lambda: any(meta.condition_is(one, _END[life.resource]) for one in owners.all()))
        completed = watch.phase()
        await pipeline.delete(life.resource, "large", "default", DeleteOptions("Background"))
        await pods.reach(lambda: not len(pods))
        await _until(lambda: not len(caches.of(JOBS)))
        deleted = watch.phase()
        recording.cancel()
        await asyncio.gather(recording, return_exceptions=True)
        return started, completed, deleted, changes, log


async def _writes_of_one_change(pipeline: Pipeline, caches: Caches, log: list[Change]) -> int:
    """What is written because one pod of a running job is no longer ready, its own status aside."""
    seen = -1
    while seen < len(log):  # events are written after all else
        seen = len(log)
        await asyncio.sleep(_SETTLING_SECONDS)
    pod = min(caches.of(PODS).all(), key=meta.name)
    before = len(log)
    condition = {"type": "Ready", "status": "False", "reason": "Measured"}
    body = {"status": {"conditions": [condition]}}
    await pipeline.patch(PODS, meta.name(pod), Patch(PatchType.STRATEGIC, body), "default", "status")
    await asyncio.sleep(_SETTLING_SECONDS)
    return sum("/leases/" not in change.key and "/nodes/" not in change.key for change in log[before:]) - 1


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # a look every 50 ms costs less than a handler for every event
        await asyncio.sleep(0.05)


async def _measure(life: Life) -> Figures:
    with tempfile.TemporaryDirectory(prefix="echelon-bench-") as directory:
        started, completed, deleted, changes, log = await _live(life, Path(directory, "plane"))
        limit = await bare(log, Path(directory, "bare"))
    return Figures(life, started, completed, deleted, len(log), changes, limit)


def table(figures: Sequence[Figures]) -> Table:
    drawn = Table(title="whole lives through the durable store: seconds (processor seconds)")
    headings = ("job", "pods", "all run", "complete", "deleted", "CPU in all", "bare", "CPU/bare", "writes/pod",
                "writes of one change")  # fmt: skip
    for heading in headings:
        drawn.add_column(heading, justify="right")
    for one in figures:
        processor = sum(phase.processor for phase in (one.started, one.completed, one.deleted))
        drawn.add_row(
            one.life.name,
            f"{one.life.pods:,}",
            *(f"{phase.seconds:.1f} ({phase.processor:.1f})" for phase in (one.started, one.completed, one.deleted)),
            f"{processor:.1f}",
            f"{one.bare:.1f}",
            f"{processor / one.bare:.1f}×",
            f"{one.writes / one.life.pods:.1f}",
            str(one.writes_per_change),
        )
    return drawn


def measure(scale: str = "") -> list[Figures]:
    return [run_program(_measure(life)) for life in lives() if scale in life.name]
