"""Jobs from creation to their end, through the real API pipeline and simulated nodes."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOBS, POD_GROUPS, PODS, WORKLOADS, Object
from echelon.base.instants import parse
from tests.controller_plane import ControllerPlane, in_virtual_time

TRACKING = "batch.kubernetes.io/job-tracking"


def job(name: str = "train", annotations: Object | None = None, **spec: Any) -> Object:
    template = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template, **spec},
    }


def ends(code: int, after: float = 5) -> Object:
    return {"echelon.dev/exit-code": str(code), "echelon.dev/run-seconds": str(after)}


def conditions(the_job: Object) -> list[tuple[str, str]]:
    return [(one["type"], one["reason"]) for one in the_job["status"]["conditions"]]


async def no_finalizer_left(plane: ControllerPlane) -> bool:
    return not any(TRACKING in (pod["metadata"].get("finalizers") or ()) for pod in await plane.pods())


@pytest.mark.conformance("JOB-J1", "JOB-J3", "JOB-J50")
def test_a_job_of_one_pod_completes() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job())
        await plane.wait(3)
        begun = (await plane.get(JOBS, "train"))["status"]
        assert (begun["active"], begun["ready"], begun["terminating"]) == (1, 1, 0)
        done = await plane.finished("train")
        assert conditions(done) == [
            ("SuccessCriteriaMet", "CompletionsReached"),
            ("Complete", "CompletionsReached"),
        ]
        assert done["status"]["succeeded"] == 1
        assert done["status"]["uncountedTerminatedPods"] == {}
        assert [pod["status"]["phase"] for pod in await plane.pods()] == ["Succeeded"]
        assert await no_finalizer_left(plane)
        assert await plane.reasons("train") == ["WorkloadCreated", "PodGroupCreated", "SuccessfulCreate", "Completed"]

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-W1", "JOB-W2", "JOB-W3", "JOB-W4", "JOB-W5", "JOB-W6", "JOB-W7", "JOB-W49", "SCH-194")
@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({"completionMode": "Indexed", "parallelism": 4, "completions": 4}, 4),
        ({"parallelism": 3}, 3),
        ({"completionMode": "Indexed", "parallelism": 1, "completions": 1}, 1),
        ({"completionMode": "Indexed", "parallelism": 2, "completions": 5}, 2),
    ],
)
def test_every_job_gets_workload_group_and_pods_in_this_order(spec: Object, pods: int) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        made = await plane.create(job(**spec))
        await plane.wait(3)
        (workload,) = await plane.all(WORKLOADS)
        (group,) = await plane.all(POD_GROUPS)
        assert len(workload["spec"]["podGroupTemplates"]) == 1
        assert [owner["uid"] for owner in group["metadata"]["ownerReferences"]] == [meta.uid(made), meta.uid(workload)]
        active = await plane.pods("Running")
        assert len(active) == (await plane.get(JOBS, "train"))["status"]["active"] == pods
        assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in active} == {meta.name(group)}
        assert await plane.reasons("train") == ["WorkloadCreated", "PodGroupCreated"] + ["SuccessfulCreate"] * pods

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J13", "JOB-J10")
def test_an_indexed_job_completes_every_index() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(completionMode="Indexed", parallelism=3, completions=4))
        done = await plane.finished("train")
        assert done["status"]["completedIndexes"] == "0-3"
        assert done["status"]["succeeded"] == 4
        assert await no_finalizer_left(plane)

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J2", "JOB-J22")
def test_failed_pods_are_replaced_after_growing_pauses_until_the_limit() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(annotations=ends(1), backoffLimit=2))
        done = await plane.finished("train")
        assert conditions(done) == [
            ("FailureTarget", "BackoffLimitExceeded"),
            ("Failed", "BackoffLimitExceeded"),
        ]
        assert done["status"]["failed"] == 3
        assert await no_finalizer_left(plane)
        begun = sorted(parse(pod["status"]["startTime"]) for pod in await plane.pods())
        first, second = begun[1] - begun[0] - 5, begun[2] - begun[1] - 5
        assert 10 <= first < 20
        assert 20 <= second < 40

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J26", "JOB-J27", "JOB-J28", "JOB-W10", "JOB-W18", "JOB-W19", "SCH-196")
def test_suspend_and_resume_keep_the_groups_and_count_no_failure() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(completionMode="Indexed", parallelism=4, completions=4, suspend=True))
        await plane.wait(3)
        uids = [meta.uid(one) for one in [*await plane.all(WORKLOADS), *await plane.all(POD_GROUPS)]]
        assert len(uids) == 2
        assert await plane.pods() == []
        assert "startTime" not in (await plane.get(JOBS, "train"))["status"]

        await plane.patch(JOBS, "train", {"spec": {"suspend": False}})
        await plane.wait(2)
        assert len(await plane.pods("Running")) == 4
        await plane.patch(JOBS, "train", {"spec": {"suspend": True}})
        await plane.wait(3)
        suspended = (await plane.get(JOBS, "train"))["status"]
        assert await plane.pods() == []
        assert "active" not in suspended
        assert "failed" not in suspended
        assert "startTime" not in suspended

        await plane.patch(JOBS, "train", {"spec": {"suspend": False}})
        done = await plane.finished("train")
        assert [meta.uid(one) for one in [*await plane.all(WORKLOADS), *await plane.all(POD_GROUPS)]] == uids
        assert [one["type"] for one in done["status"]["conditions"]] == ["Suspended", "SuccessCriteriaMet", "Complete"]
        assert "failed" not in done["status"]

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-W15", "JOB-W16", "JOB-W47", "SCH-199")
def test_an_elastic_gang_moves_min_count_in_both_objects() -> None:
    async def counts(plane: ControllerPlane) -> tuple[int, int]:
        (workload,), (group,) = await plane.all(WORKLOADS), await plane.all(POD_GROUPS)
        template = workload["spec"]["podGroupTemplates"][0]
        policies = (template["schedulingPolicy"], group["spec"]["schedulingPolicy"])
        return policies[0]["gang"]["minCount"], policies[1]["gang"]["minCount"]

    async def scenario(plane: ControllerPlane) -> None:
        gang = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}
        await plane.create(
            job(completionMode="Indexed", parallelism=4, completions=4, scheduling=gang, annotations=ends(0, 500))
        )
        await plane.wait(3)
        assert await counts(plane) == (4, 4)
        await plane.patch(JOBS, "train", {"spec": {"parallelism": 6, "completions": 6}})
        await plane.wait(3)
        assert await counts(plane) == (6, 6)
        assert len(await plane.pods("Running")) == 6
        await plane.patch(JOBS, "train", {"spec": {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 2}}}}})
        await plane.wait(3)
        assert await counts(plane) == (2, 2)

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J57")
def test_the_deadline_ends_a_running_job_and_its_pods() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(parallelism=2, completions=2, activeDeadlineSeconds=20, annotations=ends(0, 500)))
        done = await plane.finished("train", 60)
        assert conditions(done) == [("FailureTarget", "DeadlineExceeded"), ("Failed", "DeadlineExceeded")]
        assert done["status"]["failed"] == 2
        assert await plane.pods() == []

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J36")
def test_an_evicted_pod_that_the_policy_ignores_is_replaced_uncounted() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        ignore = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        await plane.create(job(backoffLimit=0, podFailurePolicy={"rules": [ignore]}, annotations=ends(0, 30)))
        await plane.wait(5)
        (pod,) = await plane.pods("Running")
        await plane.api.evict("default", meta.name(pod))
        done = await plane.finished("train")
        assert conditions(done)[-1] == ("Complete", "CompletionsReached")
        assert "failed" not in done["status"]
        assert meta.uid(pod) not in [meta.uid(one) for one in await plane.pods()]

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J35")
def test_an_exit_code_that_the_policy_names_fails_the_job_at_once() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
        await plane.create(job(podFailurePolicy={"rules": [rule]}, annotations=ends(42)))
        done = await plane.finished("train")
        assert conditions(done)[-1] == ("Failed", "PodFailurePolicy")
        assert done["status"]["failed"] == 1

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J48")
def test_a_success_policy_completes_the_job_and_ends_the_other_pods_uncounted() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        policy = {"rules": [{"succeededIndexes": "1"}]}
        await plane.create(
            job(completionMode="Indexed", parallelism=2, completions=2, successPolicy=policy, annotations=ends(0, 500))
        )
        await plane.wait(3)
        leader = next(pod for pod in await plane.pods() if meta.name(pod).startswith("train-1-"))
        await plane.patch(PODS, meta.name(leader), {"status": {"phase": "Succeeded"}}, "status")
        done = await plane.finished("train", 60)
        assert conditions(done)[-1] == ("Complete", "SuccessPolicy")
        assert (done["status"]["succeeded"], done["status"].get("failed", 0)) == (1, 0)

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J8")
def test_scaling_down_and_up_is_no_failure() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(parallelism=5, completions=50, backoffLimit=2, annotations=ends(0, 5000)))
        await plane.wait(3)
        for size in (2, 4):
            await plane.patch(JOBS, "train", {"spec": {"parallelism": size}})
            await plane.wait(4)
            status = (await plane.get(JOBS, "train"))["status"]
            assert (status["active"], status.get("failed", 0), status["terminating"]) == (size, 0, 0)
            assert len(await plane.pods("Running")) == size

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J59")
def test_a_relabelled_pod_is_released_and_a_matching_one_adopted() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        made = await plane.create(job(annotations=ends(0, 500)))
        await plane.wait(3)
        (pod,) = await plane.pods()
        selected = "batch.kubernetes.io/controller-uid"
        await plane.patch(PODS, meta.name(pod), {"metadata": {"labels": {selected: "stranger"}}})
        await plane.wait(3)
        released = await plane.get(PODS, meta.name(pod))
        assert meta.controller_of(released) is None
        assert not released["metadata"].get("finalizers")
        (replacement,) = [one for one in await plane.pods() if meta.name(one) != meta.name(pod)]
        await plane.delete(PODS, meta.name(replacement))
        await plane.patch(PODS, meta.name(pod), {"metadata": {"labels": {selected: meta.uid(made)}}})
        await plane.wait(1)
        adopted = await plane.get(PODS, meta.name(pod))
        assert meta.controlled_by(adopted, meta.uid(made))
        assert TRACKING in adopted["metadata"]["finalizers"]

    in_virtual_time(scenario)


@pytest.mark.conformance("JOB-J54", "JOB-W48")
def test_a_job_managed_by_somebody_else_is_left_alone() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(managedBy="example.com/other"))
        await plane.wait(10)
        assert (await plane.get(JOBS, "train")).get("status", {}) == {}
        assert await plane.pods() == await plane.all(WORKLOADS) == await plane.all(POD_GROUPS) == []

    in_virtual_time(scenario)


GANG = {"schedulingPolicy": {"gang": {}}}


@pytest.mark.parametrize("name", ["train.v1.2", "t" * 63, "t" * 250 + ".v2"], ids=["dots", "a label", "the longest"])
def test_a_gang_job_runs_under_any_name_that_a_job_may_have(name: str) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        wanted = job(name, parallelism=2, completions=2, scheduling=GANG)
        if len(name) > 63:
            # The server cannot write such a name into the label that it selects pods by.
            wanted["spec"] |= {"manualSelector": True, "selector": {"matchLabels": {"app": "t"}}}
            wanted["spec"]["template"]["metadata"]["labels"] = {"app": "t"}
        await plane.create(wanted)
        await plane.wait(3)
        [group] = await plane.all(POD_GROUPS)
        joined = [pod["spec"]["schedulingGroup"]["podGroupName"] for pod in await plane.pods()]
        assert joined == [meta.name(group)] * 2
        assert (await plane.finished(name))["status"]["succeeded"] == 2

    in_virtual_time(scenario, scheduler=True)


def test_a_basic_workload_of_the_users_own_opts_a_job_out_of_its_gang() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        template = {"name": "plain", "schedulingPolicy": {"basic": {}}}
        reference = {"apiGroup": "batch", "kind": "Job", "name": "train"}
        await plane.create(
            {
                "apiVersion": WORKLOADS.api_version,
                "kind": "Workload",
                "metadata": {"name": "mine", "namespace": "default"},
                "spec": {"controllerRef": reference, "podGroupTemplates": [template]},
            }
        )
        await plane.create(job(parallelism=2, completions=2, scheduling=GANG))
        await plane.finished("train")
        assert [meta.name(one) for one in await plane.all(WORKLOADS)] == ["mine"]
        [group] = await plane.all(POD_GROUPS)
        assert group["spec"]["schedulingPolicy"] == {"basic": {}}
        assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in await plane.pods()} == {meta.name(group)}

    in_virtual_time(scenario, scheduler=True)
