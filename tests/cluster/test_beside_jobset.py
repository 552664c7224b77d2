"""Echelon as it is installed beside the real JobSet manager of upstream, which owns all JobSets."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import JOB_SCHEDULING, JOBSET_EXCLUSIVE_TOPOLOGY, POD_GROUP, RACK
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    DEPLOYMENTS,
    JOB_SETS,
    JOBS,
    PODS,
    TRAIN_JOBS,
    Object,
)

from .controlplane import ControlPlane, GateSet, control_plane
from .installing import run
from .job_objects import our_jobset, our_runtime, train_job
from .logins import client_of
from .neighbour_programs import JOBSET, beside, skip_without
from .shipped_roles import NAMESPACE
from .test_any_cluster import RUNTIME
from .waiting import eventually
from .work_places import Place, at_work

pytestmark = pytest.mark.cluster_long
GANG = json.dumps({"schedulingPolicy": {"gang": {}}})
_numbers = itertools.count()


@pytest.fixture(scope="module", params=[GateSet.ALL, GateSet.NONE], ids=str)
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    skip_without(JOBSET)
    with (
        control_plane(tmp_path_factory.mktemp("jobset"), strict=True, gates=request.param) as running,
        beside(running, JOBSET),
    ):
        yield running


@pytest.fixture
async def place(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Place]:
    async with client_of(plane.kubeconfig) as verbs:
        place = Place(plane, verbs, f"team-{next(_numbers)}")
        async with at_work(place, tmp_path):
            yield place
            await place.clear(TRAIN_JOBS, JOB_SETS, JOBS, PODS)


def theirs(name: str, place: Place) -> Object:
    """Two Jobs of two pods, which we schedule."""
    made = our_jobset(name)
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": place.name}
    return made


async def test_an_installation_leaves_jobsets_to_their_own_controller(place: Place) -> None:
    assert "CustomResourceDefinition jobsets.jobset.x-k8s.io is" in place.installed
    assert "it is used and left alone" in place.installed
    assert "not run, because whoever installed the kind runs its own: jobset" in place.installed
    deployment = await place.verbs.get(DEPLOYMENTS, "echelon-controllers", NAMESPACE)
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    run_here = arguments[arguments.index("--only") + 1].split(",")
    assert "jobset" not in run_here
    assert "trainjob" in run_here
    _, said = await run(place.plane, "doctor")
    assert "jobsets.jobset.x-k8s.io is" in said
    assert "it is used and left alone" in said


async def test_the_kind_of_upstream_does_not_keep_scheduling_of_a_jobset(place: Place) -> None:
    """So nothing makes a gang of it: the guide says what does."""
    made = theirs("train", place)
    made["spec"] |= {"scheduling": {"schedulingPolicy": {"gang": {}}}, "suspend": True}
    assert "scheduling" not in (await place.verbs.create(JOB_SETS, made, place.name))["spec"]


async def test_pods_of_a_jobset_join_the_group_that_its_template_names(place: Place) -> None:
    """One gang over all Jobs: too large for the nodes that there are, then placed as a whole."""
    await place.nodes("a", cpu=3)
    await place.group("all", 4)
    made = theirs("train", place)
    template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    if place.native:
        template["spec"]["schedulingGroup"] = {"podGroupName": "all"}
    else:
        template["metadata"] = {"labels": {POD_GROUP: "all"}}
    await place.verbs.create(JOB_SETS, made, place.name)

    async def says_why() -> bool:
        return "4 pods" in await place.told("all")

    await eventually(says_why)
    assert len(await place.pods("train-")) == 4
    assert await place.placed("train-") == 0
    await place.nodes("b", cpu=3)
    await eventually(lambda: place.placed("train-"), 4)
    await place.finish("train-")

    async def is_complete() -> bool:
        return meta.condition_is(await place.verbs.get(JOB_SETS, "train", place.name), "Completed")

    await eventually(is_complete)


async def test_each_job_of_a_jobset_is_a_gang_by_the_annotation_of_its_template(place: Place) -> None:
    """There is room for one Job and a half: one is placed, of the other nothing."""
    await place.nodes("a", cpu=3)
    made = theirs("train", place)
    made["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"annotations": {JOB_SCHEDULING: GANG}}
    await place.verbs.create(JOB_SETS, made, place.name)

    async def halves() -> list[int]:
        return sorted([await place.placed("train-workers-0-"), await place.placed("train-workers-1-")])

    async def told() -> bool:
        return any(["2 pods" in await place.told(f"train-workers-{number}") for number in range(2)])

    await eventually(halves, [0, 2])
    await eventually(told)
    assert await halves() == [0, 2]
    await place.nodes("b", cpu=1)
    await eventually(halves, [2, 2])


async def test_exclusive_placement_of_upstream_gives_each_job_a_rack_of_its_own(place: Place) -> None:
    """Its webhook writes affinity to the first pod of a Job and holds the others back until that one has a node."""
    for rack in ("r0", "r1"):
        await place.nodes(f"{rack}-0", f"{rack}-1", labels={RACK: rack})
    made = theirs("train", place)
    made["metadata"]["annotations"] = {JOBSET_EXCLUSIVE_TOPOLOGY: RACK}
    await place.verbs.create(JOB_SETS, made, place.name)
    await eventually(lambda: place.placed("train-"), 4)
    racks = [
        {one["spec"]["nodeName"].rpartition("-")[0] for one in await place.pods(f"train-workers-{number}-")}
        for number in range(2)
    ]
    assert all(len(one) == 1 for one in racks)
    assert racks[0] != racks[1]


async def test_a_gang_and_exclusive_placement_of_upstream_wait_for_each_other(place: Place) -> None:
    """The gang waits for its second pod, which may not exist before the first has a node."""
    await place.nodes("r0-0", "r0-1", labels={RACK: "r0"})
    made = theirs("train", place)
    made["metadata"]["annotations"] = {JOBSET_EXCLUSIVE_TOPOLOGY: RACK}
    (job,) = made["spec"]["replicatedJobs"]
    job["replicas"] = 1
    job["template"]["metadata"] = {"annotations": {JOB_SCHEDULING: GANG}}
    await place.verbs.create(JOB_SETS, made, place.name)

    async def told() -> str:
        return (await place.told("train-workers-0")).partition(";")[0]

    await eventually(told, "waiting for pods: 1 of 2 exist")
    assert await place.placed("train-") == 0


async def test_a_trainjob_of_ours_is_a_gang_in_a_jobset_of_theirs(place: Place) -> None:
    await place.nodes("a", cpu=1)
    await place.verbs.create(CLUSTER_TRAINING_RUNTIMES, our_runtime(RUNTIME))
    try:
        trained = train_job("tj", RUNTIME, resourcesPerNode={"requests": {"cpu": "1"}})
        await place.verbs.create(TRAIN_JOBS, trained, place.name)

        async def says_why() -> bool:
            return "2 pods" in await place.told("tj")

        await eventually(says_why)
        assert await place.placed("tj-") == 0
        await place.nodes("b", cpu=1)
        await eventually(lambda: place.placed("tj-"), 2)
    finally:
        await place.clear(TRAIN_JOBS, JOB_SETS, JOBS, PODS)
        await place.verbs.delete(CLUSTER_TRAINING_RUNTIMES, RUNTIME)
