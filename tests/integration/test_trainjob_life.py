"""TrainJobs from creation to end through the API pipeline, JobSet and Job controllers and simulated nodes."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import meta
from echelon.api.scheme import CONFIG_MAPS, JOB_SETS, JOBS, POD_GROUPS, PODS, TRAIN_JOBS, WORKLOADS, Object
from tests.integration.plane import Plane, run


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


@pytest.mark.conformance("TJ-69", "TJ-41")
def test_the_simplest_trainjob_completes() -> None:
    async def story(plane: Plane) -> None:
        await plane.apply(trainjob("torch-distributed"))
        done = await plane.until_condition(TRAIN_JOBS, "train", "Complete")
        assert [(one["type"], one["reason"]) for one in done["status"]["conditions"]] == [
            ("Complete", "AllJobsCompleted")
        ]
        (count,) = done["status"]["jobsStatus"]
        assert (count["name"], count["succeeded"]) == ("node", 1)
        assert await plane.reasons("TrainJob", "train") == ["Completed", "JobSetCreated"]
        assert "train-runtime-snapshot" in await plane.names(CONFIG_MAPS)

    run(story)


@pytest.mark.conformance("TJ-83", "TJ-84")
def test_no_trainer_pod_exists_while_initializers_run_and_the_gang_follows() -> None:
    async def story(plane: Plane) -> None:
        initializer = {"dataset": {"storageUri": "hf://team/data"}, "model": {"storageUri": "hf://team/model"}}
        await plane.apply(trainjob("torchtune-llama3.2-1b-gang", initializer=initializer, trainer={"numNodes": 4}))
        await plane.sleep(3)
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

    run(story)


@pytest.mark.conformance("TJ-41", "TJ-88")
def test_suspended_and_resumed_with_its_groups() -> None:
    async def story(plane: Plane) -> None:
        await plane.apply(trainjob("torch-distributed-gang", trainer={"numNodes": 2, "command": ["sleep", "60"]}))
        await plane.sleep(5)
        before = await plane.names(POD_GROUPS)
        assert len(before) == 1
        await plane.set_spec(TRAIN_JOBS, "train", suspend=True)

        async def quiet() -> bool:
            return not await plane.all(PODS) and all(map(meta.deleting, await plane.all(POD_GROUPS)))

        await plane.until(quiet, "pods and group to be gone")
        assert meta.condition_is(await plane.get(TRAIN_JOBS, "train"), "Suspended")
        assert await plane.names(WORKLOADS) == ["train"]

    run(story)


@pytest.mark.conformance("TJ-50")
def test_a_missed_deadline_ends_it() -> None:
    async def story(plane: Plane) -> None:
        await plane.apply(
            trainjob("torch-distributed", trainer={"command": ["sleep", "600"]}, activeDeadlineSeconds=10)
        )
        failed = await plane.until_condition(TRAIN_JOBS, "train", "Failed", 20)
        assert failed["status"]["conditions"][-1]["reason"] == "DeadlineExceeded"

        async def gone() -> bool:
            return all(map(meta.deleting, await plane.all(JOB_SETS)))

        await plane.until(gone, "the JobSet to go", 20)

    run(story)
