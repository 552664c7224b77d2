"""A Job's pods followed one by one: some end by hand, and the Job answers."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import JOBS, POD_GROUPS, PODS, PRIORITY_CLASSES, RESOURCE_QUOTAS, Object
from echelon.decide.job import scaling, tracking
from tests.controller_plane import ControllerPlane, in_virtual_time
from tests.integration.test_job_runs import TRACKING, conditions, ends, job

FOR_LONG = ends(0, 100_000)


async def end(plane: ControllerPlane, phase: str, count: int = 1, index: int | None = None) -> None:
    """Let so many running pods end at once, of one index if that is given."""
    prefix = "train-" if index is None else f"train-{index}-"
    running = [pod for pod in await plane.pods("Running") if meta.name(pod).startswith(prefix)]
    assert len(running) >= count
    for pod in running[:count]:
        await plane.patch(PODS, meta.name(pod), {"status": {"phase": phase}}, "status")


async def counts(plane: ControllerPlane) -> tuple[int, int, int]:
    """(active, succeeded, failed), once every back-off is over."""
    await plane.wait(700)
    status = (await plane.get(JOBS, "train"))["status"]
    return status.get("active", 0), status.get("succeeded", 0), status.get("failed", 0)


async def hold(plane: ControllerPlane, pod: Object) -> None:
    held = {"metadata": {"finalizers": [TRACKING, "example.com/hold"]}}
    await plane.patch(PODS, meta.name(pod), held)


async def let_go(plane: ControllerPlane, name: str) -> None:
    finalizers = (await plane.get(PODS, name))["metadata"]["finalizers"]
    left = [one for one in finalizers if one != "example.com/hold"]
    await plane.patch(PODS, name, {"metadata": {"finalizers": left}})


@pytest.mark.conformance("JOB-J4", "JOB-J5", "JOB-J6")
def test_a_work_queue_job_keeps_its_pods_until_the_first_success() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(parallelism=5, annotations=FOR_LONG))
        await plane.wait(3)
        await end(plane, "Failed", 2)
        assert await counts(plane) == (5, 0, 2)
        await end(plane, "Succeeded")
        assert await counts(plane) == (4, 1, 2)
        await end(plane, "Failed", 2)
        assert await counts(plane) == (2, 1, 4)
        await end(plane, "Succeeded", 2)
        assert await counts(plane) == (0, 3, 4)
        assert conditions(await plane.get(JOBS, "train"))[-1] == ("Complete", "CompletionsReached")

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J9")
def test_small_limits_per_look_still_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    # Upstream's constants of 500; with them, the test would need thousands of pods.
    monkeypatch.setattr(scaling, "MOST_PER_SYNC", 10)
    monkeypatch.setattr(tracking, "MOST_RECORDED_PER_SYNC", 10)

    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(parallelism=54, completions=56, annotations=FOR_LONG))
        await plane.wait(20)
        await end(plane, "Succeeded", 53)
        assert await counts(plane) == (3, 53, 0)
        await end(plane, "Succeeded", 3)
        assert await counts(plane) == (0, 56, 0)
        assert conditions(await plane.get(JOBS, "train"))[-1][0] == "Complete"

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J16", "JOB-J18")
@pytest.mark.parametrize(("sizes", "completed"), [((4,), "0-3"), ((2, 3), "0-2")])
def test_an_elastic_indexed_job_completes_at_its_last_size(sizes: tuple[int, ...], completed: str) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(completionMode="Indexed", parallelism=3, completions=3, annotations=FOR_LONG))
        await plane.wait(3)
        await end(plane, "Succeeded", index=2)
        await plane.wait(3)
        for size in sizes:
            await plane.patch(JOBS, "train", {"spec": {"parallelism": size, "completions": size}})
            await plane.wait(5)
        if sizes == (2, 3):
            assert any(meta.name(pod).startswith("train-2-") for pod in await plane.pods("Running"))
        await end(plane, "Succeeded", len(await plane.pods("Running")))
        done = await plane.finished("train")
        assert done["status"]["completedIndexes"] == completed

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J41")
def test_the_limit_of_the_whole_job_also_holds_where_indexes_have_their_own() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(
            job(
                completionMode="Indexed",
                parallelism=3,
                completions=3,
                backoffLimit=2,
                backoffLimitPerIndex=2,
                annotations=FOR_LONG,
            )
        )
        await plane.wait(3)
        await end(plane, "Failed", 3)
        done = await plane.finished("train")
        assert conditions(done)[-1] == ("Failed", "BackoffLimitExceeded")
        assert (done["status"]["failed"], done["status"]["failedIndexes"]) == (3, "")

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J51")
def test_a_failed_index_outweighs_a_success_policy_that_is_met_too_late() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(
            job(
                completionMode="Indexed",
                parallelism=2,
                completions=2,
                backoffLimitPerIndex=0,
                successPolicy={"rules": [{"succeededIndexes": "0,1"}]},
                annotations=FOR_LONG,
            )
        )
        await plane.wait(3)
        await end(plane, "Failed", index=0)
        await end(plane, "Succeeded", index=1)
        done = await plane.finished("train")
        assert conditions(done)[-1] == ("Failed", "FailedIndexes")
        assert (done["status"]["completedIndexes"], done["status"]["failedIndexes"]) == ("1", "0")

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J53")
def test_a_job_completed_by_scale_down_waits_for_its_last_pod_to_end() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(completionMode="Indexed", parallelism=2, completions=2, annotations=FOR_LONG))
        await plane.wait(3)
        await end(plane, "Succeeded", index=0)
        await plane.patch(JOBS, "train", {"spec": {"parallelism": 1, "completions": 1}})
        await plane.wait(0.2)
        interim = await plane.get(JOBS, "train")
        assert interim["status"]["terminating"] == 1
        assert conditions(interim) == [("SuccessCriteriaMet", "CompletionsReached")]
        done = await plane.finished("train", 20)
        assert conditions(done)[-1] == ("Complete", "CompletionsReached")
        assert "failed" not in done["status"]

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J56")
def test_late_news_of_the_end_does_not_start_another_pod() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job())
        done = await plane.finished("train")
        (pod,) = await plane.pods()
        await plane.delete(PODS, meta.name(pod))
        await plane.wait(30)
        assert await plane.pods() == []
        assert (await plane.get(JOBS, "train"))["status"] == done["status"]

    in_virtual_time(scenario, late=JOBS)


@pytest.mark.conformance("JOB-W34")
def test_a_group_that_is_refused_keeps_the_pods_away_and_is_told() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        wanted = job("train")
        wanted["spec"]["template"]["spec"]["priorityClassName"] = "nosuch"
        await plane.create(wanted)
        await plane.wait(30)
        assert await plane.pods() == await plane.all(POD_GROUPS) == []
        assert await plane.reasons("train") == ["WorkloadCreated", "FailedPodGroupCreate"]

    in_virtual_time(scenario)


# -- changes of the template while suspended -----------------------------------------------------------------


def resources(cpu: str) -> Object:
    return {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}


async def change(plane: ControllerPlane, **spec: Any) -> None:
    await plane.patch(JOBS, "train", {"spec": spec})


@pytest.mark.conformance("JOB-J31", "JOB-J32", "JOB-J33")
def test_a_suspended_job_takes_new_directives_and_resources_and_its_pods_use_them() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(suspend=True, annotations=FOR_LONG))
        first = {"spec": {"nodeSelector": {"tier": "a"}, **resources("1")}}
        await change(plane, template=first, suspend=False)
        await plane.wait(3)
        (pod,) = await plane.pods()
        assert pod["spec"]["nodeSelector"] == {"tier": "a"}
        with pytest.raises(ApiError, match=r"spec\.template: .*field is immutable"):
            await change(plane, template={"spec": resources("2")})
        await change(plane, suspend=True)
        await plane.wait(5)
        await change(plane, template={"spec": {"nodeSelector": {"tier": "b"}, **resources("2")}}, suspend=False)
        await plane.wait(3)
        (pod,) = await plane.pods()
        assert pod["spec"]["nodeSelector"] == {"tier": "b"}
        assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J34")
def test_with_the_failed_policy_a_resumed_job_waits_for_its_old_pods() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(podReplacementPolicy="Failed", annotations=FOR_LONG))
        await plane.wait(3)
        (old,) = await plane.pods()
        await hold(plane, old)
        await change(plane, suspend=True)
        await plane.wait(0.3)
        await change(plane, suspend=False)
        await plane.wait(0.3)
        assert [meta.uid(pod) for pod in await plane.pods()] == [meta.uid(old)]
        await plane.wait(3)
        assert len([pod for pod in await plane.pods("Running") if meta.uid(pod) != meta.uid(old)]) == 1
        await let_go(plane, meta.name(old))

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J61")
def test_refused_pods_are_told_tried_again_and_do_not_keep_the_others_from_being_counted() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        level = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 5,
        }
        await plane.create(level)
        made = job(parallelism=2, completions=4, annotations=ends(0, 5))
        made["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
        await plane.create(made)
        await plane.wait(3)
        await plane.delete(PRIORITY_CLASSES, "urgent")
        await plane.wait(60)
        status = (await plane.get(JOBS, "train"))["status"]
        assert (status["succeeded"], status.get("active", 0)) == (2, 0)
        assert (await plane.reasons("train"))[-1] == "FailedCreate"
        await plane.create(level)
        done = await plane.finished("train")
        assert done["status"]["succeeded"] == 4

    in_virtual_time(scenario)


def test_a_job_whose_pods_are_refused_says_so_until_they_are_made() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
        await plane.create({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
        await plane.create(job(parallelism=2, completions=2, annotations=ends(0)))
        await plane.wait(20)
        told = meta.find_condition(await plane.get(JOBS, "train"), "CreationFailed")
        assert told is not None
        assert (told["status"], told["reason"]) == ("True", "Refused")
        assert "exceeded quota: none" in told["message"]
        await plane.delete(RESOURCE_QUOTAS, "none")
        await plane.finished("train")
        told = meta.find_condition(await plane.get(JOBS, "train"), "CreationFailed")
        assert told is not None
        assert told["status"] == "False"

    in_virtual_time(scenario)
