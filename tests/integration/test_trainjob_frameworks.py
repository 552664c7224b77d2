"""TrainJobs of every framework from creation to end: mpi, jax, xgboost, flux."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, JOB_SETS, JOBS, PODS, SECRETS, TRAIN_JOBS, Object
from echelon.runtime import virtual_time
from tests.controller_plane import ControllerPlane, for_training, in_virtual_time

KEYS, HOSTS = "train-mpi-ssh-auth", "train-mpi-hostfile"


def trainjob(runtime: str, **trainer: Any) -> Object:
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": "TrainJob",
        "metadata": {"name": "train"},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": trainer},
    }


def counts(job: Object) -> dict[str, tuple[int, int, int]]:
    """Active, succeeded and failed Jobs by replicated job."""
    entries = (job.get("status") or {}).get("jobsStatus") or ()
    return {one["name"]: (one["active"], one["succeeded"], one["failed"]) for one in entries}


@pytest.mark.conformance("TJ-70")
@pytest.mark.parametrize("runtime", ["deepspeed-distributed", "mlx-distributed", "deepspeed-distributed-gang"])
def test_a_launcher_runs_once_its_workers_are_ready_and_its_end_is_the_end(runtime: str) -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(trainjob(runtime, numNodes=2, command=["mpirun", "sleep", "10"]))

        async def launched() -> bool:
            return "train-launcher-0" in await plane.names(JOBS)

        await plane.wait(3)
        assert not await launched(), "its worker is ready after five seconds"
        await plane.until(launched)
        now = await plane.get(TRAIN_JOBS, "train")
        assert counts(now)["node"] == (1, 0, 0)
        done = await plane.until_condition(TRAIN_JOBS, "train", "Complete")
        assert [(one["type"], one["reason"]) for one in done["status"]["conditions"]] == [
            ("Complete", "AllJobsCompleted")
        ]
        assert counts(done)["launcher"] == (0, 1, 0)
        assert counts(done)["node"][2] == 0

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("TJ-98")
@pytest.mark.parametrize("runtime", ["deepspeed-distributed", "deepspeed-distributed-gang"])
def test_one_node_is_the_launcher_alone(runtime: str) -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(trainjob(runtime, numNodes=1, command=["mpirun", "sleep", "10"]))
        await plane.wait(5)
        (pod,) = await plane.all(PODS)
        assert meta.labels(pod)["jobset.sigs.k8s.io/replicatedjob-name"] == "launcher"
        assert pod["status"]["phase"] == "Running"
        done = await plane.until_condition(TRAIN_JOBS, "train", "Complete")
        assert counts(done)["launcher"] == (0, 1, 0)

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("TJ-47", "TJ-49")
def test_keys_outlive_a_suspension() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(trainjob("deepspeed-distributed", numNodes=2, command=["mpirun", "sleep", "10"]))
        await plane.wait(3)
        keys = await plane.get(SECRETS, KEYS)
        await plane.patch(TRAIN_JOBS, "train", {"spec": {"suspend": True}})

        async def quiet() -> bool:
            return not await plane.all(PODS)

        await plane.until(quiet)
        await plane.patch(TRAIN_JOBS, "train", {"spec": {"suspend": False}})
        done = await plane.until_condition(TRAIN_JOBS, "train", "Complete")
        assert [one["type"] for one in done["status"]["conditions"]] == ["Suspended", "Complete"]
        assert (await plane.get(SECRETS, KEYS))["data"] == keys["data"]
        await plane.delete(TRAIN_JOBS, "train")

        async def gone() -> bool:
            left = await plane.names(SECRETS), [name for name in await plane.names(CONFIG_MAPS) if "train" in name]
            return left == ([], [])

        await plane.until(gone)

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("TJ-48")
def test_a_launcher_that_fails_fails_the_trainjob() -> None:
    async def story(plane: ControllerPlane) -> None:
        job = trainjob("deepspeed-distributed", numNodes=2)
        pods = {"metadata": {"annotations": {"echelon.dev/exit-code": "1"}}, "spec": {}}
        change = {"name": "launcher", "template": {"spec": {"template": pods}}}
        patch = {"template": {"spec": {"replicatedJobs": [change]}}}
        job["spec"]["runtimePatches"] = [{"manager": "acme.io/test", "trainingRuntimeSpec": patch}]
        await plane.create(job)
        failed = await plane.until_condition(TRAIN_JOBS, "train", "Failed", 30_000)
        assert failed["status"]["conditions"][-1]["reason"] == "FailedJobs"

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("TJ-55", "TJ-58", "TJ-61", "TJ-71", "TJ-72", "TJ-73")
@pytest.mark.parametrize("runtime", ["jax-distributed", "xgboost-distributed", "flux-distributed", "plain-cpu"])
def test_two_nodes_run_and_complete(runtime: str) -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(trainjob(runtime, numNodes=2, command=["sleep", "10"]))
        await plane.wait(5)
        assert counts(await plane.get(TRAIN_JOBS, "train")) == {"node": (1, 0, 0)}
        assert len(await plane.pods("Running")) == 2
        done = await plane.until_condition(TRAIN_JOBS, "train", "Complete")
        assert counts(done) == {"node": (0, 1, 0)}

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("TJ-56", "TJ-59", "TJ-62")
@pytest.mark.parametrize("runtime", ["jax-distributed", "xgboost-distributed", "flux-distributed"])
def test_a_failed_jobset_fails_the_trainjob(runtime: str) -> None:
    async def story(plane: ControllerPlane) -> None:
        job = trainjob(runtime, numNodes=2)
        job["spec"]["suspend"] = True
        await plane.create(job)
        await plane.wait(2)
        assert meta.condition_is(await plane.get(TRAIN_JOBS, "train"), "Suspended")
        await plane.patch(TRAIN_JOBS, "train", {"spec": {"suspend": False}})
        await plane.wait(2)
        condition = meta.condition("Failed", "True", "FailedJobs", "jobset failed", plane.clock.now())
        await plane.patch(JOB_SETS, "train", {"status": {"conditions": [condition]}}, "status")
        failed = await plane.until_condition(TRAIN_JOBS, "train", "Failed")
        assert [(one["type"], one["status"]) for one in failed["status"]["conditions"]] == [
            ("Suspended", "False"),
            ("Failed", "True"),
        ]

    in_virtual_time(story, controllers=for_training)


async def _end(runtime: str, writes: int | None) -> tuple[list[str], dict[str, tuple[int, int, int]]]:
    """What there is at the end, and the counts; with `writes`, killed after so many and started again."""
    plane = ControllerPlane(for_training)
    mortal = await plane.start(writes)
    await plane.create(trainjob(runtime, numNodes=3, command=["mpirun", "sleep", "10"]))
    if writes is not None:
        await mortal.dead.wait()
        before = {meta.name(one): one["data"] for one in await plane.all(SECRETS)}
        await plane.restart()
    done = await plane.until_condition(TRAIN_JOBS, "train", "Complete")
    await plane.wait(5)
    if writes is not None:
        assert before.items() <= {meta.name(one): one["data"] for one in await plane.all(SECRETS)}.items()
    named = [
        f"{kind.kind} {name}" for kind in (SECRETS, CONFIG_MAPS, JOB_SETS, JOBS) for name in await plane.names(kind)
    ]
    await plane.kill()
    return named, counts(done)


@cache
def _undisturbed(runtime: str) -> tuple[list[str], dict[str, tuple[int, int, int]]]:
    return virtual_time.run(_end(runtime, None))


@pytest.mark.parametrize("writes", range(1, 40, 4))
@pytest.mark.parametrize("runtime", ["deepspeed-distributed-gang", "flux-distributed"])
def test_a_death_at_any_write_changes_nothing_in_the_end_and_no_key(runtime: str, writes: int) -> None:
    assert virtual_time.run(_end(runtime, writes)) == _undisturbed(runtime)
