"""TrainJobs from creation to end through the API pipeline, JobSet and Job controllers and simulated nodes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import (
    CONFIG_MAPS,
    EVENTS,
    JOB_SETS,
    JOBS,
    POD_GROUPS,
    PODS,
    RESOURCE_QUOTAS,
    TRAIN_JOBS,
    WORKLOADS,
    Object,
)
from echelon.runtime import virtual_time
from tests.controller_plane import ControllerPlane, for_training, in_virtual_time

MADE = (CONFIG_MAPS, WORKLOADS, POD_GROUPS, JOB_SETS, JOBS, PODS)


def trainjob(runtime: str, **spec: Any) -> Object:
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": "TrainJob",
        "metadata": {"name": "train"},
        "spec": {"runtimeRef": {"name": runtime}, **spec},
    }


def steps(pods: list[Object]) -> dict[str, int]:
    """How many pods there are by replicated job."""
    names = [meta.labels(pod)["jobset.sigs.k8s.io/replicatedjob-name"] for pod in pods]
    return {name: names.count(name) for name in sorted(set(names))}


@pytest.mark.conformance("TJ-69", "TJ-41", "TJ-97")
def test_the_simplest_trainjob_completes() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(trainjob("torch-distributed"))
        done = await plane.until_condition(TRAIN_JOBS, "train", "Complete")
        assert [(one["type"], one["reason"]) for one in done["status"]["conditions"]] == [
            ("Complete", "AllJobsCompleted")
        ]
        (count,) = done["status"]["jobsStatus"]
        assert (count["name"], count["succeeded"]) == ("node", 1)
        assert await plane.reasons("train") == ["JobSetCreated", "AllJobsCompleted", "Completed"]
        assert "train-runtime-snapshot" in await plane.names(CONFIG_MAPS)
        for event in await plane.all(EVENTS):
            assert {"firstTimestamp", "lastTimestamp", "count"} <= event.keys()

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("TJ-83", "TJ-84")
def test_no_trainer_pod_exists_while_initializers_run_and_the_gang_follows() -> None:
    async def story(plane: ControllerPlane) -> None:
        initializer = {"dataset": {"storageUri": "hf://team/data"}, "model": {"storageUri": "hf://team/model"}}
        await plane.create(trainjob("torchtune-llama3.2-1b-gang", initializer=initializer, trainer={"numNodes": 4}))
        await plane.wait(3)
        assert steps(await plane.all(PODS)) == {"dataset-initializer": 1, "model-initializer": 1}
        assert await plane.names(JOBS) == ["train-dataset-initializer-0", "train-model-initializer-0"]
        await plane.until_condition(TRAIN_JOBS, "train", "Complete")
        pods = await plane.all(PODS)
        assert steps(pods) == {"dataset-initializer": 1, "model-initializer": 1, "node": 4}
        (workload,) = await plane.all(WORKLOADS)
        assert [one["name"] for one in workload["spec"]["podGroupTemplates"]] == ["initializer", "trainer"]
        initializers, trainers = await plane.all(POD_GROUPS)
        assert trainers["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}
        for pod in pods:
            group = trainers if meta.labels(pod)["batch.kubernetes.io/job-name"] == "train-node-0" else initializers
            assert pod["spec"]["schedulingGroup"] == {"podGroupName": meta.name(group)}

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("TJ-41", "TJ-88")
def test_suspended_and_resumed_with_its_groups() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(trainjob("torch-distributed-gang", trainer={"numNodes": 2, "command": ["sleep", "60"]}))
        await plane.wait(5)
        before = await plane.names(POD_GROUPS)
        assert len(before) == 1
        await plane.patch(TRAIN_JOBS, "train", {"spec": {"suspend": True}})

        async def quiet() -> bool:
            return not await plane.all(PODS) and all(map(meta.deleting, await plane.all(POD_GROUPS)))

        await plane.until(quiet)
        assert meta.condition_is(await plane.get(TRAIN_JOBS, "train"), "Suspended")
        assert await plane.names(WORKLOADS) == ["train"]
        await plane.patch(TRAIN_JOBS, "train", {"spec": {"suspend": False}})
        done = await plane.until_condition(TRAIN_JOBS, "train", "Complete")
        assert await plane.names(POD_GROUPS) == before
        assert [one["type"] for one in done["status"]["conditions"]] == ["Suspended", "Complete"]

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("TJ-50")
def test_a_missed_deadline_ends_it() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(
            trainjob("torch-distributed", trainer={"command": ["sleep", "600"]}, activeDeadlineSeconds=10)
        )
        failed = await plane.until_condition(TRAIN_JOBS, "train", "Failed", 20)
        assert failed["status"]["conditions"][-1]["reason"] == "DeadlineExceeded"

        async def gone() -> bool:
            return all(map(meta.deleting, await plane.all(JOB_SETS)))

        await plane.until(gone, 20)

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("TJ-89", "TJ-68")
def test_deleting_it_leaves_nothing() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(trainjob("torchtune-llama3.2-1b-gang", trainer={"numNodes": 2}))
        await plane.wait(3)
        await plane.delete(TRAIN_JOBS, "train")

        async def nothing_left() -> bool:
            return not any([await plane.all(kind) for kind in MADE])

        await plane.until(nothing_left)

    in_virtual_time(story, controllers=for_training)


async def _tale(writes: int | None) -> tuple[list[str], list[tuple[str, str]]]:
    """Names of everything made and the conditions at the end; with `writes`, killed after so many and started again."""
    plane = ControllerPlane(for_training)
    mortal = await plane.start(writes)
    await plane.create(trainjob("torchtune-llama3.2-1b-gang", trainer={"numNodes": 2}))
    if writes is not None:
        await mortal.dead.wait()
        await plane.restart()
    done = await plane.until_condition(TRAIN_JOBS, "train", "Complete")
    await plane.wait(5)
    named = [f"{kind.kind} {name}" for kind in MADE if kind != PODS for name in await plane.names(kind)]
    pods = sorted(pod["metadata"]["generateName"] for pod in await plane.all(PODS))
    await plane.kill()
    return named + pods, [(one["type"], one["reason"]) for one in done["status"]["conditions"]]


@cache
def _undisturbed() -> tuple[list[str], list[tuple[str, str]]]:
    return virtual_time.run(_tale(None))


@pytest.mark.conformance("TJ-87", "JS-K03")
@pytest.mark.parametrize("writes", range(1, 60, 4))
def test_a_death_at_any_write_changes_nothing_in_the_end(writes: int) -> None:
    names, conditions = virtual_time.run(_tale(writes))
    undisturbed, expected = _undisturbed()
    # Group names carry a hash of the TrainJob's uid, and chance has gone on differently.
    assert [_unhashed(name) for name in names] == [_unhashed(name) for name in undisturbed]
    assert conditions == expected


def _unhashed(name: str) -> str:
    return name.rsplit("-", 1)[0] if name.startswith("PodGroup") else name


def test_pods_that_the_server_refuses_are_told_on_jobset_and_trainjob_until_they_are_made() -> None:
    async def story(plane: ControllerPlane) -> None:
        quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
        await plane.create({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
        await plane.create(trainjob("plain-cpu", trainer={"command": ["sleep", "3"]}))
        await plane.wait(20)
        told = meta.find_condition(await plane.get(JOB_SETS, "train"), "CreationFailed")
        assert told is not None
        assert told["status"] == "True"
        assert told["message"].startswith("Job train-node-0: ")
        assert "exceeded quota: none" in told["message"]
        about = {one["involvedObject"]["kind"] for one in await plane.all(EVENTS) if one["reason"] == "JobHindered"}
        assert about == {"JobSet", "TrainJob"}
        await plane.delete(RESOURCE_QUOTAS, "none")
        await plane.until_condition(TRAIN_JOBS, "train", "Complete")
        assert not meta.condition_is(await plane.get(JOB_SETS, "train"), "CreationFailed")

    in_virtual_time(story, controllers=for_training)
