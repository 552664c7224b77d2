"""Stages of JobSets and the quotas of their namespace, with the real scheduler: what waits, what is reserved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from echelon.api.cluster.pools import parse
from echelon.api.objects import meta
from echelon.api.scheme import EVENTS, JOB_SETS, JOBS, PODS, RESOURCE_QUOTAS, TRAIN_JOBS, Object
from tests.controller_plane import ControllerPlane, for_training, in_virtual_time
from tests.integration.test_jobset_groups import RACKS, jobset, replicated, running

GPU = "nvidia.com/gpu"
HOUR = 3600


def on_racks(story: Callable[[ControllerPlane], Awaitable[None]]) -> None:
    """Two racks of two nodes with eight GPUs each; the server writes the status of quotas."""

    async def with_server(plane: ControllerPlane) -> None:
        server = asyncio.create_task(plane.api.run())
        await story(plane)
        server.cancel()

    in_virtual_time(with_server, controllers=for_training, cluster=parse(RACKS, "racks"), scheduler=True)


def gpu_quota(gpus: int) -> Object:
    spec = {"hard": {f"requests.{GPU}": str(gpus)}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": spec}


def after(**dependencies: str) -> list[Object]:
    return [{"name": name, "status": status} for name, status in dependencies.items()]


def pipeline(name: str = "js", admission: str = "stage", gpus: int = 8, seconds: int = HOUR, **spec: Any) -> Object:
    """Data is fetched for two hours, two trainers use GPUs, one pod evaluates."""
    annotations = {"echelon.dev/quota-admission": admission, **spec.pop("annotations", {})}
    return jobset(
        replicated("data", seconds=2 * HOUR),
        replicated("train", pods=2, gpus=gpus, seconds=seconds, dependsOn=after(data="Complete")),
        replicated("eval", gpus=1, seconds=seconds, dependsOn=after(train="Complete")),
        metadata={"name": name, "annotations": annotations},
        **spec,
    )


def one_stage(name: str, gpus: int, seconds: int = HOUR, timeout: str = "") -> Object:
    notes = {"echelon.dev/quota-admission": "stage"}
    notes |= {"echelon.dev/quota-timeout-seconds": timeout} if timeout else {}
    return jobset(replicated("w", gpus=gpus, seconds=seconds), metadata={"name": name, "annotations": notes})


async def until_running(plane: ControllerPlane, pods: int, name: str = "js") -> None:
    async def all_run() -> bool:
        return len(await running(plane, name)) == pods

    await plane.until(all_run, 5 * HOUR)


async def status(plane: ControllerPlane, name: str = "js") -> Object:
    found: Object = (await plane.get(JOB_SETS, name))["status"]
    return found


async def condition(plane: ControllerPlane, type_: str, name: str = "js") -> tuple[str, str, str]:
    found = meta.find_condition(await plane.get(JOB_SETS, name), type_)
    return (found["status"], found["reason"], found["message"]) if found else ("", "", "")


async def until_reason(plane: ControllerPlane, type_: str, reason: str, name: str = "js", seconds: float = 300) -> str:
    async def holds() -> bool:
        return (await condition(plane, type_, name))[1] == reason

    await plane.until(holds, seconds)
    return (await condition(plane, type_, name))[2]


@pytest.mark.conformance("JS-S12")
def test_while_data_is_fetched_no_gpu_is_reserved_nor_used() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(16))
        await plane.create(pipeline())
        await until_running(plane, 1)
        await plane.wait(HOUR)
        assert await plane.names(JOBS) == ["js-data-0"]
        assert len(await plane.all(PODS)) == 1
        found = await status(plane)
        assert found["quota"]["reserved"] == found["quota"]["used"] == {"pods": "1"}
        assert found["quota"]["sum"] == {GPU: "17", "pods": "4"}
        assert found["quota"]["peak"] == {GPU: "16", "pods": "2"}
        used = (await plane.get(RESOURCE_QUOTAS, "gpus"))["status"]["used"]
        assert used == {f"requests.{GPU}": "0"}
        await until_running(plane, 2)
        found = await status(plane)
        assert found["quota"]["reserved"] == {GPU: "16", "pods": "2"}
        assert [stage["phase"] for stage in found["stages"]] == ["Complete", "Running", "Waiting"]

    on_racks(story)


@pytest.mark.conformance("JS-S13")
def test_a_whole_jobset_reserves_the_sum_from_the_start() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(17))
        await plane.create(pipeline(admission="whole"))
        await until_running(plane, 1)
        found = await status(plane)
        assert found["quota"]["reserved"] == found["quota"]["sum"] == {GPU: "17", "pods": "4"}
        await plane.create(one_stage("other", gpus=1))
        message = await until_reason(plane, "QuotaReserved", "WaitingForQuota", "other")
        assert message == f"w: needs 1 of requests.{GPU}; quota gpus has 0 of 17 left"
        await plane.wait(HOUR)
        assert await running(plane, "other") == []
        # Jobs that have ended give back what they had.
        await until_running(plane, 1, "other")
        assert (await status(plane))["quota"]["reserved"] == {GPU: "1", "pods": "1"}

    on_racks(story)


@pytest.mark.conformance("JS-S14")
def test_others_use_the_gpus_meanwhile_and_the_next_stage_is_next_in_line() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(16))
        await plane.create(pipeline())
        await until_running(plane, 1)
        await plane.create(one_stage("first", gpus=8, seconds=3 * HOUR))
        await until_running(plane, 1, "first")
        message = await until_reason(plane, "QuotaReserved", "WaitingForQuota", seconds=3 * HOUR)
        assert message == f"train: needs 16 of requests.{GPU}; quota gpus has 8 of 16 left"
        assert (await plane.get(JOBS, "js-train-0"))["spec"]["suspend"] is True
        await plane.create(one_stage("late", gpus=8))
        late = await until_reason(plane, "QuotaReserved", "WaitingForQuota", "late")
        assert late == f"w: requests.{GPU} of quota gpus goes to JobSet js first"
        await plane.wait(60)
        assert await running(plane, "late") == []
        await until_running(plane, 2)
        assert not (await plane.get(JOBS, "late-w-0"))["status"].get("succeeded")
        assert await running(plane, "late") == []
        await plane.until_condition(JOB_SETS, "js", "Completed", 10 * HOUR)
        await plane.until_condition(JOB_SETS, "late", "Completed", 10 * HOUR)

    on_racks(story)


@pytest.mark.conformance("JS-S15")
def test_a_suspension_in_the_second_stage_gives_everything_back_and_does_not_fetch_again() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(16))
        await plane.create(pipeline())
        await until_running(plane, 1)
        await plane.wait(2 * HOUR)
        await until_running(plane, 2)
        fetched = meta.uid(await plane.get(JOBS, "js-data-0"))
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": True}})
        await until_reason(plane, "StageRunning", "StageSuspended")
        await plane.create(one_stage("other", gpus=8))
        await until_running(plane, 1, "other")
        assert (await status(plane))["quota"]["reserved"] == {}
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        await until_reason(plane, "StageRunning", "WaitingForQuota")
        assert (await plane.get(JOBS, "js-train-0"))["spec"]["suspend"] is True
        await plane.until_condition(JOB_SETS, "other", "Completed", 2 * HOUR)
        await until_running(plane, 2)
        assert meta.uid(await plane.get(JOBS, "js-data-0")) == fetched
        await plane.until_condition(JOB_SETS, "js", "Completed", 10 * HOUR)

    on_racks(story)


@pytest.mark.conformance("JS-S16")
def test_a_launcher_and_its_workers_are_one_stage_and_admitted_together() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(17))
        await plane.create(one_stage("other", gpus=8))
        await until_running(plane, 1, "other")
        await plane.create(
            jobset(
                replicated("launcher", gpus=1, seconds=60),
                replicated("workers", pods=2, gpus=8, seconds=60, dependsOn=after(launcher="Ready")),
                metadata={"name": "mpi", "annotations": {"echelon.dev/quota-admission": "stage"}},
            )
        )
        message = await until_reason(plane, "QuotaReserved", "WaitingForQuota", "mpi")
        assert message == f"launcher+workers: needs 17 of requests.{GPU}; quota gpus has 9 of 17 left"
        await plane.wait(60)
        # There is room for the launcher, but it would hold a GPU and wait for its workers.
        assert await running(plane, "mpi") == []
        await until_running(plane, 3, "mpi")
        assert (await status(plane, "mpi"))["quota"]["reserved"] == {GPU: "17", "pods": "3"}
        await plane.until_condition(JOB_SETS, "mpi", "Completed")

    on_racks(story)


@pytest.mark.conformance("JS-S17")
def test_after_the_first_entry_the_rest_runs_beside_each_other_as_one_stage() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(16))
        rest = [replicated(name, gpus=8, seconds=60, dependsOn=after(first="Complete")) for name in ("left", "right")]
        notes = {"name": "js", "annotations": {"echelon.dev/quota-admission": "stage"}}
        await plane.create(jobset(replicated("first", seconds=60), *rest, metadata=notes))
        await until_running(plane, 2)
        assert [stage["name"] for stage in (await status(plane))["stages"]] == ["first", "left+right"]
        await plane.until_condition(JOB_SETS, "js", "Completed")

    on_racks(story)


@pytest.mark.conformance("JS-S18")
def test_gpus_are_given_back_before_the_last_stage_starts() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(16))
        await plane.create(pipeline())
        await until_running(plane, 1)
        await plane.wait(2 * HOUR)
        await until_running(plane, 2)
        await plane.create(one_stage("other", gpus=15))
        await until_reason(plane, "QuotaReserved", "WaitingForQuota", "other")
        await until_reason(plane, "QuotaReserved", "QuotaReserved", "other", 3 * HOUR)
        await until_running(plane, 1)
        assert (await status(plane))["quota"]["reserved"] == {GPU: "1", "pods": "1"}

    on_racks(story)


def test_what_can_never_run_is_said_at_once_and_runs_when_the_quota_grows() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(8))
        await plane.create(pipeline())
        message = await until_reason(plane, "QuotaReserved", "QuotaTooSmall")
        assert message == f"train needs 16 of requests.{GPU} at once, quota gpus allows 8"
        await plane.wait(60)
        assert await plane.all(PODS) == []
        assert "QuotaTooSmall" in await plane.reasons("js")
        # It keeps no one from running.
        await plane.create(one_stage("other", gpus=8))
        await until_running(plane, 1, "other")
        await plane.patch(RESOURCE_QUOTAS, "gpus", {"spec": {"hard": {f"requests.{GPU}": "16"}}})
        await until_running(plane, 1)

    on_racks(story)


def test_pods_of_others_count_until_they_are_gone() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(8))
        container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "4"}}}
        await plane.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "notebook"}, "spec": {"containers": [container]}}
        )
        await plane.create(one_stage("js", gpus=8))
        message = await until_reason(plane, "QuotaReserved", "WaitingForQuota")
        assert message == f"w: needs 8 of requests.{GPU}; quota gpus has 4 of 8 left"
        await plane.delete(PODS, "notebook")
        await until_running(plane, 1)

    on_racks(story)


def test_a_wait_that_takes_too_long_fails_the_jobset() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(8))
        await plane.create(one_stage("long", gpus=8, seconds=10 * HOUR))
        await until_running(plane, 1, "long")
        await plane.create(one_stage("js", gpus=8, timeout="600"))
        await until_reason(plane, "QuotaReserved", "WaitingForQuota")
        await plane.wait(500)
        assert "terminalState" not in await status(plane)
        await plane.wait(200)
        assert (await condition(plane, "Failed"))[1] == "QuotaTimeout"

    on_racks(story)


def test_a_restart_can_keep_complete_stages() -> None:
    async def story(plane: ControllerPlane) -> None:
        keep = {"echelon.dev/keep-completed-stages": "true"}
        body = pipeline(annotations=keep, seconds=60, failurePolicy={"maxRestarts": 1})
        failing = body["spec"]["replicatedJobs"][1]["template"]["spec"]
        failing["backoffLimit"] = 0
        failing["template"]["metadata"]["annotations"]["echelon.dev/exit-code"] = "1"
        await plane.create(body)
        await until_running(plane, 1)
        fetched = meta.uid(await plane.get(JOBS, "js-data-0"))
        await plane.until_condition(JOB_SETS, "js", "Failed", 3 * HOUR)
        assert (await status(plane))["restarts"] == 1
        assert meta.uid(await plane.get(JOBS, "js-data-0")) == fetched

    on_racks(story)


def test_without_the_annotation_nothing_waits_and_nothing_is_reserved() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(8))
        plain = pipeline()
        plain["metadata"]["annotations"] = {}
        await plane.create(plain)
        await until_running(plane, 1)
        found = await status(plane)
        assert "reserved" not in found["quota"]
        assert meta.find_condition(await plane.get(JOB_SETS, "js"), "QuotaReserved") is None

    on_racks(story)


def test_a_trainjob_waits_for_quota_and_says_so() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(gpu_quota(8))
        await plane.create(one_stage("other", gpus=8, seconds=HOUR))
        await until_running(plane, 1, "other")
        trainer = {"numNodes": 1, "image": "i", "resourcesPerNode": {"limits": {GPU: "8"}}}
        await plane.create(
            {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "metadata": {"name": "tune", "annotations": {"echelon.dev/quota-admission": "stage"}},
                "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer},
            }
        )
        await plane.wait(60)
        assert (await condition(plane, "QuotaReserved", "tune"))[1] == "WaitingForQuota"
        assert await running(plane, "tune") == []
        assert "WaitingForQuota" in await plane.reasons("tune")
        about = [event for event in await plane.all(EVENTS) if event["involvedObject"]["kind"] == "TrainJob"]
        assert "WaitingForQuota" in [event["reason"] for event in about]
        await plane.until_condition(TRAIN_JOBS, "tune", "Complete", 3 * HOUR)

    on_racks(story)
