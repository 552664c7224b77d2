"""One look at a Job: which plan follows from which observation."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from echelon.api.scheme import JOBS, Object
from echelon.base.instants import to_time
from echelon.decide.plan import ApplyPatch, Delete

from .objects import INDEX, NOW, TRACKING, indexed, job, job_pod, ready, running
from .plans import PLAIN, actions, conditions, created, deleted, plan, reasons, status, stripped


def replacements(the_job: Object, *pods: Object, now: float = NOW) -> list[Object]:
    """The pods created once everything that has ended is counted."""
    seen = [deepcopy(one) for one in pods]
    for _ in range(4):
        result = plan(the_job, *seen, now=now)
        if created(result):
            break
        if result.status is not None:
            the_job["status"] = status(result)
        for one in seen:
            if one["metadata"]["name"] in stripped(result):
                del one["metadata"]["finalizers"]
    return created(result)


# -- starting ------------------------------------------------------------------------------------------------


@pytest.mark.conformance("JOB-J1")
def test_a_new_job_gets_its_pod_and_its_start_time() -> None:
    result = plan(job())
    (made,) = created(result)
    assert made["metadata"]["finalizers"] == [TRACKING]
    assert made["metadata"]["generateName"] == "train-"
    assert status(result) == {
        "startTime": to_time(NOW),
        "active": 1,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }


@pytest.mark.conformance("JOB-J61")
def test_pods_are_created_in_growing_batches() -> None:
    result = plan(job(parallelism=10, completions=10))
    assert [len(stage) for stage in result.stages] == [1, 2, 4, 3]


@pytest.mark.conformance("JOB-J10")
def test_indexed_pods_carry_their_index_everywhere() -> None:
    result = plan(indexed(4, parallelism=3))
    made = created(result)
    assert [one["metadata"]["annotations"][INDEX] for one in made] == ["0", "1", "2"]
    assert [one["metadata"]["labels"][INDEX] for one in made] == ["0", "1", "2"]
    assert [one["spec"]["hostname"] for one in made] == ["train-0", "train-1", "train-2"]
    assert made[0]["spec"]["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["fieldPath"] == (
        "metadata.labels['batch.kubernetes.io/job-completion-index']"
    )


@pytest.mark.conformance("JOB-J63")
def test_a_container_that_defines_the_index_variable_keeps_its_own() -> None:
    own = {"name": "JOB_COMPLETION_INDEX", "value": "7"}
    containers = {"containers": [{"name": "a", "env": [own]}, {"name": "b"}], "initContainers": [{"name": "i"}]}
    template = {**PLAIN, "spec": {**PLAIN["spec"], **containers}}
    (made,) = created(plan(indexed(1), template=template))
    assert made["spec"]["containers"][0]["env"] == [own]
    assert "valueFrom" in made["spec"]["containers"][1]["env"][0]
    assert "valueFrom" in made["spec"]["initContainers"][0]["env"][0]


@pytest.mark.conformance("JOB-J65")
def test_an_unknown_completion_mode_is_reported_and_left_alone() -> None:
    result = plan(job(completionMode="Sideways"))
    assert reasons(result) == ["UnknownCompletionMode"]
    assert not result.stages
    assert result.status is None


# -- counting ------------------------------------------------------------------------------------------------


@pytest.mark.conformance("JOB-J7")
def test_ready_pods_are_reported_and_ended_ones_are_not() -> None:
    result = plan(
        job(running(), parallelism=3, completions=3),
        job_pod("a", conditions=[ready()]),
        job_pod("b"),
        job_pod("c", "Pending"),
    )
    assert (status(result)["active"], status(result)["ready"]) == (3, 1)


def test_an_ended_pod_is_recorded_before_it_loses_its_finalizer() -> None:
    the_job = job(running(active=1))
    first = plan(the_job, job_pod("a", "Succeeded"))
    assert status(first)["uncountedTerminatedPods"] == {"succeeded": ["uid-a"]}
    assert "succeeded" not in status(first)
    assert stripped(first) == []

    the_job["status"] = status(first)
    second = plan(the_job, job_pod("a", "Succeeded"))
    assert stripped(second) == ["a"]
    assert status(second)["succeeded"] == 1
    assert status(second)["uncountedTerminatedPods"] == {}


def test_counting_comes_before_pods_that_might_be_refused() -> None:
    result = plan(job(running(active=1), completions=2), job_pod("a", "Succeeded"))
    assert created(result) == []
    assert result.status is not None
    assert result.requeue_after == 0


@pytest.mark.parametrize("still_there", [True, False])
def test_a_recorded_pod_without_finalizer_is_counted_once(still_there: bool) -> None:
    the_job = job(
        running(failed=2, uncountedTerminatedPods={"failed": ["uid-a"]}), parallelism=1, completions=1, suspend=True
    )
    pods = [job_pod("a", "Failed", tracked=False)] if still_there else []
    first = plan(the_job, *pods)
    assert status(first)["failed"] == 3
    the_job["status"] = status(first)
    assert plan(the_job, *pods).status is None


@pytest.mark.conformance("JOB-J3", "JOB-J50")
def test_completion_passes_through_success_criteria_met() -> None:
    the_job = job(running(active=1))
    seen = [job_pod("a", "Succeeded")]
    first = plan(the_job, *seen)
    assert conditions(first) == [("SuccessCriteriaMet", "True", "CompletionsReached")]
    the_job["status"] = status(first)
    second = plan(the_job, *seen)
    assert conditions(second) == [
        ("SuccessCriteriaMet", "True", "CompletionsReached"),
        ("Complete", "True", "CompletionsReached"),
    ]
    assert status(second)["completionTime"] == to_time(NOW)
    assert reasons(second) == ["Completed"]


@pytest.mark.conformance("JOB-J11")
def test_a_succeeded_index_is_completed_and_the_next_one_starts() -> None:
    seen = [job_pod("a", index=0), job_pod("b", "Succeeded", 1), job_pod("c", index=2)]
    the_job = indexed(4, running(active=3), parallelism=3)
    assert status(plan(the_job, *seen))["completedIndexes"] == "1"
    assert [one["metadata"]["annotations"][INDEX] for one in replacements(the_job, *seen)] == ["3"]


@pytest.mark.conformance("JOB-J12")
def test_a_failed_index_runs_again() -> None:
    seen = [job_pod("a", index=0), job_pod("b", "Failed", 1)]
    made = replacements(indexed(2, running(active=2)), *seen)
    assert [one["metadata"]["annotations"][INDEX] for one in made] == ["1"]


@pytest.mark.conformance("JOB-J17", "JOB-J18")
def test_scaling_an_indexed_job_down_forgets_successes_out_of_range() -> None:
    seen = [job_pod("a", index=0), job_pod("b", "Failed", 1, tracked=False)]
    result = plan(indexed(1, running(active=1, succeeded=1, failed=1, completedIndexes="2")), *seen)
    assert "completedIndexes" not in status(result)
    assert status(result)["failed"] == 1
    assert [
        one["metadata"]["annotations"][INDEX] for one in created(plan(indexed(3, status(result)), seen[0], now=NOW))
    ] == ["1", "2"]


def test_no_more_than_500_pods_are_recorded_at_once() -> None:
    seen = [job_pod(f"p{number}", "Succeeded") for number in range(600)]
    result = plan(job(running(), parallelism=700, completions=700), *seen)
    assert len(status(result)["uncountedTerminatedPods"]["succeeded"]) == 500


# -- how many pods -------------------------------------------------------------------------------------------


@pytest.mark.conformance("JOB-J8")
def test_scale_down_strips_then_deletes_and_counts_no_failure() -> None:
    seen = [job_pod(name) for name in "abcde"]
    result = plan(job(running(active=5), parallelism=2, completions=None, backoffLimit=2), *seen)
    assert len(deleted(result)) == 3
    assert sorted(stripped(result)) == sorted(deleted(result))
    kinds = [type(stage[0]) for stage in result.stages]
    assert kinds == [ApplyPatch, Delete]
    assert status(result)["active"] == 2
    assert "failed" not in status(result)


@pytest.mark.conformance("JOB-J5")
def test_without_completions_nothing_is_replaced_after_the_first_success() -> None:
    seen = [job_pod("a"), job_pod("b", "Succeeded"), job_pod("c", "Failed")]
    result = plan(job(running(active=3), parallelism=3, completions=None), *seen)
    assert created(result) == []
    assert status(result)["active"] == 1


@pytest.mark.conformance("JOB-J60")
def test_duplicate_and_unindexed_pods_of_an_indexed_job_go() -> None:
    seen = [job_pod("a", index=0), job_pod("b", "Pending", 0), job_pod("c")]
    assert sorted(deleted(plan(indexed(2, running(active=3)), *seen))) == ["b", "c"]


@pytest.mark.conformance("JOB-J14")
def test_a_terminating_pod_is_replaced_at_once_by_default() -> None:
    the_job = job(running(active=1))
    result = plan(the_job, job_pod("a", deleting=True), now=NOW + 60)
    assert status(result)["terminating"] == 1
    assert status(result)["uncountedTerminatedPods"] == {"failed": ["uid-a"]}
    assert len(replacements(the_job, job_pod("a", deleting=True), now=NOW + 60)) == 1


@pytest.mark.conformance("JOB-J15")
def test_a_terminating_pod_is_waited_for_when_only_failed_ones_are_replaced() -> None:
    the_job = job(running(active=1), podReplacementPolicy="Failed")
    result = plan(the_job, job_pod("a", deleting=True))
    assert created(result) == []
    assert status(result)["uncountedTerminatedPods"] == {}
    assert len(replacements(the_job, job_pod("a", "Failed", deleting=True))) == 1


@pytest.mark.conformance("JOB-J19")
def test_scaling_to_nothing_completes() -> None:
    result = plan(indexed(0, running()))
    assert conditions(result) == [("SuccessCriteriaMet", "True", "CompletionsReached")]


def test_a_closed_namespace_gets_no_new_pods() -> None:
    assert created(plan(job(), namespace_closed=True)) == []


# -- back-off ------------------------------------------------------------------------------------------------


@pytest.mark.conformance("JOB-J22")
@pytest.mark.parametrize(("failures", "wait"), [(1, 10), (2, 20), (3, 40), (7, 600), (60, 600)])
def test_back_off_is_read_off_the_failed_pods(failures: int, wait: int) -> None:
    gone = [job_pod(f"f{n}", "Failed", tracked=False, finished=NOW - n) for n in range(failures)]
    the_job = job(running(failed=failures), backoffLimit=100)
    early = plan(the_job, *gone, now=NOW + wait - 1)
    assert created(early) == []
    assert early.requeue_after == pytest.approx(1)
    assert len(created(plan(the_job, *gone, now=NOW + wait))) == 1


def test_a_success_resets_the_back_off() -> None:
    seen = [
        job_pod("f", "Failed", tracked=False, finished=NOW - 5),
        job_pod("s", "Succeeded", tracked=False, finished=NOW - 1),
    ]
    result = plan(job(running(failed=1, succeeded=1), completions=3, parallelism=1), *seen)
    assert len(created(result)) == 1


@pytest.mark.conformance("JOB-J24")
def test_running_pods_stay_reported_while_a_back_off_lasts() -> None:
    seen = [job_pod("a"), job_pod("f", "Failed", finished=NOW)]
    result = plan(job(running(active=2), parallelism=2, completions=2), *seen)
    assert created(result) == []
    assert status(result)["active"] == 1


# -- ends ----------------------------------------------------------------------------------------------------


@pytest.mark.conformance("JOB-J21")
def test_exceeding_the_backoff_limit_takes_every_pod_down_and_counts_it() -> None:
    the_job = indexed(3, running(active=3), backoffLimit=0)
    seen = [job_pod("a", index=0), job_pod("b", "Failed", 1), job_pod("c", "Succeeded", 2)]
    first = plan(the_job, *seen)
    assert conditions(first) == [("FailureTarget", "True", "BackoffLimitExceeded")]
    assert sorted(status(first)["uncountedTerminatedPods"]["failed"]) == ["uid-a", "uid-b"]
    assert status(first)["completedIndexes"] == "2"
    assert deleted(first) == []

    the_job["status"] = status(first)
    second = plan(the_job, *seen)
    assert deleted(second) == ["a"]
    assert sorted(stripped(second)) == ["a", "b", "c"]
    assert status(second)["failed"] == 2
    assert conditions(second)[-1][0] == "FailureTarget"

    the_job["status"] = status(second)
    third = plan(the_job)
    assert conditions(third)[-1] == ("Failed", "True", "BackoffLimitExceeded")
    assert reasons(third) == ["BackoffLimitExceeded"]


@pytest.mark.conformance("JOB-J52")
def test_the_terminal_condition_waits_for_terminating_pods() -> None:
    target = {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}
    the_job = job(running(failed=2, conditions=[target]), backoffLimit=1)
    held = plan(the_job, job_pod("a", deleting=True, tracked=False))
    assert status(held)["terminating"] == 1
    assert [one[0] for one in conditions(held)] == ["FailureTarget"]
    the_job["status"] = status(held)
    assert [one[0] for one in conditions(plan(the_job))] == ["FailureTarget", "Failed"]


@pytest.mark.conformance("JOB-J57")
@pytest.mark.parametrize(("deadline", "ends"), [(0, True), (50, True), (100, True), (101, False)])
def test_the_deadline_counts_from_the_stored_start(deadline: int, ends: bool) -> None:
    result = plan(job(running(active=1), activeDeadlineSeconds=deadline), job_pod("a"))
    if ends:
        assert conditions(result) == [("FailureTarget", "True", "DeadlineExceeded")]
    else:
        assert result.requeue_after == deadline - 100


@pytest.mark.conformance("JOB-J57")
def test_a_suspended_job_never_exceeds_its_deadline() -> None:
    result = plan(job(running(), activeDeadlineSeconds=0, suspend=True))
    assert conditions(result) == [("Suspended", "True", "JobSuspended")]


@pytest.mark.conformance("JOB-J58")
@pytest.mark.parametrize(("restarts", "ends"), [(1, False), (2, True)])
def test_restarts_in_place_count_towards_the_limit(restarts: int, ends: bool) -> None:
    seen = job_pod("a")
    seen["status"]["containerStatuses"] = [{"name": "c", "restartCount": restarts, "state": {"running": {}}}]
    template = {**PLAIN, "spec": {**PLAIN["spec"], "restartPolicy": "OnFailure"}}
    result = plan(job(running(active=1, ready=0), backoffLimit=2), seen, template=template)
    assert bool(result.status and status(result).get("conditions")) is ends


def rule(action: str, **match: Any) -> Object:
    return {"rules": [{"action": action, **match}]}


EXIT_42 = {"onExitCodes": {"operator": "In", "values": [42]}}
NOT_7 = {"onExitCodes": {"operator": "NotIn", "values": [7], "containerName": "c"}}
OTHER = {"onExitCodes": {"operator": "In", "values": [42], "containerName": "other"}}
DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.conformance("JOB-J35")
@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (EXIT_42, "Container c for pod ns/a failed with exit code 42 matching FailJob rule at index 0"),
        (NOT_7, "Container c for pod ns/a failed with exit code 42 matching FailJob rule at index 0"),
        (DISRUPTED, "Pod ns/a has condition DisruptionTarget matching FailJob rule at index 0"),
    ],
)
def test_a_fail_job_rule_ends_the_job_and_says_why(policy: Object, message: str) -> None:
    seen = job_pod("a", "Failed", exit_code=42, conditions=[{"type": "DisruptionTarget", "status": "True"}])
    result = plan(job(running(active=1), podFailurePolicy=rule("FailJob", **policy)), seen)
    assert conditions(result) == [("FailureTarget", "True", "PodFailurePolicy")]
    assert status(result)["conditions"][0]["message"] == message


@pytest.mark.conformance("JOB-J36")
def test_an_ignored_failure_is_replaced_and_not_counted() -> None:
    seen = job_pod("a", "Failed", exit_code=137, conditions=[{"type": "DisruptionTarget", "status": "True"}])
    the_job = job(running(active=1), backoffLimit=0, podFailurePolicy=rule("Ignore", **DISRUPTED))
    result = plan(the_job, seen)
    assert stripped(result) == ["a"]
    assert status(result)["uncountedTerminatedPods"] == {}
    assert len(replacements(the_job, seen)) == 1
    assert "failed" not in the_job["status"]


@pytest.mark.conformance("JOB-J37")
@pytest.mark.parametrize("policy", [rule("Count", **EXIT_42), rule("FailJob", **OTHER)])
def test_a_counted_or_unmatched_failure_counts(policy: Object) -> None:
    the_job = job(running(active=1), podFailurePolicy=policy)
    failed = job_pod("a", "Failed", exit_code=42)
    assert status(plan(the_job, failed))["uncountedTerminatedPods"] == {"failed": ["uid-a"]}
    assert len(replacements(the_job, failed)) == 1
    assert the_job["status"]["failed"] == 1


@pytest.mark.conformance("JOB-J48", "JOB-J49")
@pytest.mark.parametrize("success", [{"succeededIndexes": "1"}, {"succeededCount": 1}])
def test_a_success_policy_ends_the_job_without_counting_the_rest(success: Object) -> None:
    the_job = indexed(2, running(active=2), successPolicy={"rules": [success]})
    seen = [job_pod("a", index=0), job_pod("b", "Succeeded", 1)]
    first = plan(the_job, *seen)
    assert conditions(first) == [("SuccessCriteriaMet", "True", "SuccessPolicy")]
    the_job["status"] = status(first)
    second = plan(the_job, *seen)
    assert deleted(second) == ["a"]
    assert sorted(stripped(second)) == ["a", "b"]
    the_job["status"] = status(second)
    third = plan(the_job)
    assert conditions(third)[-1] == ("Complete", "True", "SuccessPolicy")
    assert "failed" not in status(third)


# -- failures per index --------------------------------------------------------------------------------------

COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


@pytest.mark.conformance("JOB-J39", "JOB-J46")
def test_the_failure_count_is_handed_on_before_the_failed_pod_is_let_go() -> None:
    the_job = indexed(1, running(active=1), backoffLimitPerIndex=1)
    failed = job_pod("a", "Failed", 0, annotations={COUNT: "0"})
    result = plan(the_job, failed)
    assert created(result)[0]["metadata"]["annotations"][COUNT] == "1"
    assert stripped(result) == []
    assert status(result)["failedIndexes"] == ""
    the_job["status"] = status(result)
    follow_up = plan(the_job, failed, job_pod("b", "Running", 0, annotations={COUNT: "1"}))
    assert status(follow_up)["uncountedTerminatedPods"] == {"failed": ["uid-a"]}


@pytest.mark.conformance("JOB-J45")
def test_an_ignored_failure_of_an_index_grows_the_ignored_count() -> None:
    the_job = indexed(1, running(active=1), backoffLimitPerIndex=1, podFailurePolicy=rule("Ignore", **EXIT_42))
    (made,) = created(plan(the_job, job_pod("a", "Failed", 0, exit_code=42, annotations={COUNT: "0"})))
    assert (made["metadata"]["annotations"][COUNT], made["metadata"]["annotations"][IGNORED]) == ("0", "1")


@pytest.mark.conformance("JOB-J40", "JOB-J42")
def test_an_index_out_of_attempts_fails_and_with_the_last_one_the_job() -> None:
    the_job = indexed(2, running(active=2), backoffLimitPerIndex=2)
    dead = job_pod("a", "Failed", 0, annotations={COUNT: "2"})
    first = plan(the_job, dead, job_pod("b", index=1))
    assert status(first)["failedIndexes"] == "0"
    assert created(first) == []
    the_job["status"] = status(first)
    second = plan(the_job, dead, job_pod("b", "Succeeded", 1))
    assert conditions(second) == [("FailureTarget", "True", "FailedIndexes")]


@pytest.mark.conformance("JOB-J43")
def test_more_failed_indexes_than_allowed_end_the_job() -> None:
    the_job = indexed(4, running(active=4), backoffLimitPerIndex=0, maxFailedIndexes=1)
    seen = [job_pod("a", "Failed", 0), job_pod("b", "Failed", 1), job_pod("c", index=2), job_pod("d", index=3)]
    assert conditions(plan(the_job, *seen)) == [("FailureTarget", "True", "MaxFailedIndexesExceeded")]


@pytest.mark.conformance("JOB-J44")
def test_fail_index_fails_the_index_at_once() -> None:
    the_job = indexed(2, running(active=2), backoffLimitPerIndex=5, podFailurePolicy=rule("FailIndex", **EXIT_42))
    seen = [job_pod("a", "Failed", 0, exit_code=42), job_pod("b", index=1)]
    assert status(plan(the_job, *seen))["failedIndexes"] == "0"


@pytest.mark.conformance("JOB-J47")
def test_each_index_waits_for_itself() -> None:
    the_job = indexed(2, running(active=2), backoffLimitPerIndex=5)
    seen = [
        job_pod("a", "Failed", 0, finished=NOW - 5, annotations={COUNT: "0"}),
        job_pod("b", "Failed", 1, finished=NOW - 5, annotations={COUNT: "2"}),
    ]
    result = plan(the_job, *seen, now=NOW + 10)
    assert [one["metadata"]["annotations"][INDEX] for one in created(result)] == ["0"]
    assert result.requeue_after == pytest.approx(25)


# -- suspend, delete, expire ---------------------------------------------------------------------------------


@pytest.mark.conformance("JOB-J26", "JOB-J28")
def test_suspending_removes_pods_and_the_start_time() -> None:
    result = plan(job(running(active=1), suspend=True), job_pod("a"))
    assert (stripped(result), deleted(result)) == (["a"], ["a"])
    assert conditions(result) == [("Suspended", "True", "JobSuspended")]
    assert "startTime" not in status(result)
    assert reasons(result) == ["SuccessfulDelete", "Suspended"]


@pytest.mark.conformance("JOB-J27", "JOB-J28")
def test_resuming_starts_anew() -> None:
    suspended = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": ""}
    result = plan(job({"conditions": [suspended]}))
    assert len(created(result)) == 1
    assert conditions(result) == [("Suspended", "False", "JobResumed")]
    assert status(result)["startTime"] == to_time(NOW)
    assert reasons(result) == ["Resumed"]


@pytest.mark.conformance("JOB-J29")
def test_a_suspended_job_of_nothing_completes() -> None:
    result = plan(job(suspend=True, completions=0))
    assert [one[0] for one in conditions(result)] == ["SuccessCriteriaMet"]


def test_a_job_that_fails_while_suspended_ends_with_a_start_time() -> None:
    target = {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}
    result = plan(job({"conditions": [target], "uncountedTerminatedPods": {}}, suspend=True))
    assert conditions(result)[-1][0] == "Failed"
    assert status(result)["startTime"] == to_time(NOW)


def test_a_deleting_job_lets_go_of_its_pods_and_makes_none() -> None:
    the_job = job(running(active=1), metadata={"deletionTimestamp": to_time(NOW)}, parallelism=3, completions=3)
    result = plan(the_job, job_pod("a"))
    assert stripped(result) == ["a"]
    assert created(result) == []


@pytest.mark.conformance("JOB-J62")
@pytest.mark.parametrize(("ttl", "passed", "gone"), [(0, 0, True), (60, 59, False), (60, 60, True)])
def test_a_finished_job_expires_in_the_foreground(ttl: int, passed: int, gone: bool) -> None:
    done = {"type": "Complete", "status": "True", "lastTransitionTime": to_time(NOW)}
    result = plan(job(running(conditions=[done]), ttlSecondsAfterFinished=ttl), now=NOW + passed)
    assert [(one.resource, one.propagation) for one in actions(result, Delete)] == [(JOBS, "Foreground")] * gone
    assert result.requeue_after == (None if gone else 1)


def test_a_job_that_finished_at_an_unknown_time_does_not_expire() -> None:
    result = plan(job(running(conditions=[{"type": "Failed", "status": "True"}]), ttlSecondsAfterFinished=0))
    assert not actions(result, Delete)


@pytest.mark.conformance("JOB-J59")
def test_matching_orphans_are_adopted_and_strangers_released() -> None:
    orphan = job_pod("o", tracked=False)
    del orphan["metadata"]["ownerReferences"]
    stranger = job_pod("s")
    stranger["metadata"]["labels"] = {"app": "other"}
    (stage,) = plan(job(running()), stranger, orphans=[orphan]).stages
    release, adopt = stage
    assert release.patch.body["metadata"]["ownerReferences"][0]["$patch"] == "delete"
    assert adopt.patch.body["metadata"]["finalizers"] == [TRACKING]
    assert adopt.patch.body["metadata"]["ownerReferences"][0]["controller"] is True
