"""Death after any call: whatever a process was doing, the one after it finishes it or takes it back.

Each scenario is run again and again; the process dies after its first call, after its second, and so on, until it
lives to the end.  The end must be that of an undisturbed run.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import BLOCK, RACK
from echelon.api.scheme import JOB_SETS, NODES, PODS, TRAIN_JOBS, Object, by_kind
from echelon.api.verbs import DeleteOptions, Patch, PatchType
from echelon.base.rng import Rng
from echelon.runtime import virtual_time
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.virtual_plane import PROCESSES, Name, VirtualPlane, virtual_plane

from . import final_checks
from .faults import FaultyVerbs, Weather
from .invariants import Auditor
from .manifests import priority_classes

#: More calls than any of these scenarios needs.
_MOST_CALLS = 400
_DOWN_SECONDS = 5.0
#: Every call in `make test-long`, a sample of them otherwise.
_STRIDE = 1 if os.environ.get("ECHELON_LONG") else 7


@dataclass
class Stage:
    """A plane on which one process will die."""

    plane: VirtualPlane
    ways: dict[Name, FaultyVerbs]

    async def create(self, *objects: Object) -> None:
        for obj in objects:
            resource = by_kind(obj["apiVersion"], obj["kind"])
            assert resource is not None
            await self.plane.verbs.create(resource, obj, meta.namespace(obj))

    async def wait(self, seconds: float) -> None:
        await self.plane.clock.sleep(seconds)

    def start(self, name: Name) -> None:
        way = FaultyVerbs(self.plane.verbs, self.plane.clock, Weather(self.plane.clock), Rng(1))
        self.ways[name] = way
        self.plane.start(name, lambda _: way)

    async def places(self) -> dict[str, bool]:
        """Which pods there are, and whether they run; generated endings of names are cut."""
        listed = (await self.plane.verbs.list(PODS)).items
        return {_stem(pod): bool(pod["spec"].get("nodeName")) for pod in listed if not meta.deleting(pod)}


#: What is there before, and what happens while a process dies.
Step = Callable[[Stage], Awaitable[None]]
Scenario = tuple[Step, Step]


def _stem(pod: Object) -> str:
    owned = meta.controller_of(pod) is not None
    return meta.name(pod).rsplit("-", 1)[0] if owned else meta.name(pod)


def _gang(name: str, size: int, cls: str, **terms: str) -> list[Object]:
    group = make_pod_group(name, gang=size, mode="all", **terms)  # type: ignore[arg-type]
    pods = [make_pod(f"{name}-{n}", gpu=4, group=name, grace=2) for n in range(size)]
    for obj in (group, *pods):
        obj["spec"].pop("preemptionPolicy", None)
        obj["spec"]["priorityClassName"] = cls
    return [group, *pods]


async def _nothing(stage: Stage) -> None:
    """An empty cluster."""


async def _a_low_gang_arrives(stage: Stage) -> None:
    await stage.create(*_gang("low", 4, "low", key=BLOCK))


async def _a_high_gang_arrives(stage: Stage) -> None:
    await stage.create(*_gang("high", 3, "high", key=BLOCK))


async def _a_tree_arrives(stage: Stage) -> None:
    root = make_composite("tree", gang=2, key=BLOCK, mode="all", workload="tree")
    leaves = [make_pod_group(f"leaf{n}", gang=2, key=RACK, parent="tree", workload="tree") for n in range(2)]
    pods = [make_pod(f"{meta.name(leaf)}-{n}", gpu=4, group=meta.name(leaf)) for leaf in leaves for n in range(2)]
    await stage.create(root, *leaves, *pods)


def _job_set() -> Object:
    resources = {"requests": {"nvidia.com/gpu": "4"}, "limits": {"nvidia.com/gpu": "4"}}
    container = {"name": "main", "image": "train:1", "command": ["sleep", "infinity"], "resources": resources}
    job = {
        "parallelism": 2,
        "completions": 2,
        "completionMode": "Indexed",
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    rack = {"topology": [{"key": RACK}]}
    scheduling = {
        "schedulingPolicy": {"gang": {}},
        "replicatedJobs": [{"targetReplicatedJobs": ["w"], "job": {"schedulingConstraints": rack}}],
    }
    spec = {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": job}}], "scheduling": scheduling}
    metadata = {"name": "set", "namespace": "default"}
    return {"apiVersion": JOB_SETS.api_version, "kind": "JobSet", "metadata": metadata, "spec": spec}


async def _a_job_set_arrives(stage: Stage) -> None:
    await stage.create(_job_set())


async def _a_job_set_goes(stage: Stage) -> None:
    """Deleted in the foreground while it runs; nothing of it may be left."""
    await stage.plane.verbs.delete(JOB_SETS, "set", "default", DeleteOptions("Foreground"))


async def _a_job_set_is_suspended_and_resumed(stage: Stage) -> None:
    for suspend in (True, False):
        patch = Patch(PatchType.MERGE, {"spec": {"suspend": suspend}})
        await stage.plane.verbs.patch(JOB_SETS, "set", patch, "default")
        await stage.wait(6)


async def _a_train_job_arrives(stage: Stage) -> None:
    """Initializers first, then the gang."""
    spec = {
        "runtimeRef": {"name": "torchtune-llama3.2-1b-gang"},
        "trainer": {"numNodes": 2, "command": ["sleep", "infinity"]},
        "initializer": {"dataset": {"storageUri": "hf://a/b"}, "model": {"storageUri": "hf://c/d"}},
    }
    metadata = {"name": "train", "namespace": "default"}
    kind = {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob"}
    await stage.create({**kind, "metadata": metadata, "spec": spec})


async def _a_node_is_lost(stage: Stage) -> None:
    await stage.plane.verbs.delete(NODES, "r0-n0")
    await stage.wait(3)
    await stage.create(_node(0, 0))


def _node(rack: int, number: int) -> Object:
    return make_node(f"r{rack}-n{number}", cpu=8, gpu=4, block="b", rack=f"r{rack}")


async def _run(scenario: Scenario, dying: Name, calls: int | None, ends: list[tuple[dict[str, bool], bool]]) -> None:
    async with virtual_plane(seed=5) as plane:
        stage = Stage(plane, {})
        await stage.create(*priority_classes())
        for rack in range(2):
            for number in range(2):
                await stage.create(_node(rack, number))
        for name in PROCESSES:
            stage.start(name)
        before, happens = scenario
        await before(stage)
        await stage.wait(5)
        way = stage.ways[dying]
        way.fuse = _MOST_CALLS if calls is None else calls
        await happens(stage)
        await stage.wait(20)
        died = way.fuse == 0
        await plane.kill(dying)
        await stage.wait(_DOWN_SECONDS)
        stage.start(dying)
        await stage.wait(200)
        plane.check()
        await _audit(plane)
        ends.append((await stage.places(), died))


async def _audit(plane: VirtualPlane) -> None:
    auditor = Auditor()
    watch = plane.store.watch("", 0)
    auditor.read(await anext(aiter(watch)), plane.clock.now())
    watch.close()
    auditor.look(0, fair=True)
    auditor.look(1000, fair=True)
    final_checks.check(auditor)


SCENARIOS: dict[str, Scenario] = {
    "gang": (_nothing, _a_low_gang_arrives),
    "preemption": (_a_low_gang_arrives, _a_high_gang_arrives),
    "tree": (_nothing, _a_tree_arrives),
    "jobset": (_nothing, _a_job_set_arrives),
    "suspension": (_a_job_set_arrives, _a_job_set_is_suspended_and_resumed),
    "lost-node": (_a_job_set_arrives, _a_node_is_lost),
    "trainjob": (_nothing, _a_train_job_arrives),
    "deletion": (_a_job_set_arrives, _a_job_set_goes),
}


@pytest.mark.parametrize("dying", PROCESSES)
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_death_after_any_call_changes_nothing_in_the_end(scenario: Scenario, dying: Name) -> None:
    ends: list[tuple[dict[str, bool], bool]] = []
    virtual_time.run(_run(scenario, dying, None, ends))
    undisturbed = ends[0][0]
    for calls in range(0, _MOST_CALLS, _STRIDE):
        virtual_time.run(_run(scenario, dying, calls, ends))
        end, died = ends[-1]
        assert end == undisturbed, f"{dying} died after {calls} calls"
        if not died:
            break
