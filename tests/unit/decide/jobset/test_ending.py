"""Success, failure and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, Object
from echelon.base.instants import to_time
from echelon.decide.jobset.status import JobSetStatusDraft
from tests.unit.decide.jobset.stage import A, B, Stage, jobset, replicated
from tests.unit.decide.plain_api import START

A_JOB = f"test-js-{A}-0"
B_JOBS = [f"test-js-{B}-{i}" for i in range(3)]


@pytest.mark.conformance("JS-I03", "JS-I42")
def test_all_jobs_complete() -> None:
    stage = Stage(jobset())
    assert stage.status["replicatedJobsStatus"] == [
        {"name": name, "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0} for name in (B, A)
    ]
    assert stage.status["restarts"] == 0
    assert "conditions" not in stage.status
    stage.complete(A_JOB, *B_JOBS)
    assert stage.condition("Completed") == ("True", "AllJobsCompleted")
    assert stage.status["terminalState"] == "Completed"
    assert stage.counts(B) == {"succeeded": 3}
    assert stage.counts(A) == {"succeeded": 1}
    assert stage.events[-1] == ("Normal", "AllJobsCompleted", "jobset completed successfully")


@pytest.mark.conformance("JS-I05", "JS-I43")
def test_one_job_still_running() -> None:
    stage = Stage(jobset())
    stage.complete(A_JOB, *B_JOBS[:2])
    stage.ready(B_JOBS[2])
    assert stage.is_active()
    assert stage.counts(B) == {"succeeded": 2, "ready": 1, "active": 1}
    assert stage.counts(A) == {"succeeded": 1}


@pytest.mark.conformance("JS-I04")
def test_a_job_of_another_owner_never_counts() -> None:
    owner = {"apiVersion": "v1", "kind": "JobSet", "name": "test-js", "uid": "other", "controller": True}
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "unknown", "jobset.sigs.k8s.io/restart-attempt": "0"}
    foreign = {"metadata": {"name": "foreign", "ownerReferences": [owner], "labels": labels}, "spec": {}}
    stage = Stage(jobset(), beside=[(JOBS, foreign)])
    stage.fail("foreign")
    stage.complete(A_JOB, *B_JOBS)
    assert stage.condition("Completed") == ("True", "AllJobsCompleted")


@pytest.mark.conformance("JS-I06", "JS-I07", "JS-I08", "JS-I09", "JS-I44")
@pytest.mark.parametrize(
    ("policy", "not_yet", "then"),
    [
        ({"operator": "All"}, [A_JOB], B_JOBS),
        ({"operator": "All", "targetReplicatedJobs": [B]}, [A_JOB, B_JOBS[0]], B_JOBS[1:]),
        ({"operator": "Any", "targetReplicatedJobs": [B]}, [A_JOB], B_JOBS[:1]),
        ({"operator": "Any"}, [], B_JOBS[:1]),
    ],
)
def test_success_policy(policy: dict[str, Any], not_yet: list[str], then: list[str]) -> None:
    stage = Stage(jobset(successPolicy=policy))
    stage.complete(*not_yet)
    assert stage.is_active()
    stage.complete(*then)
    assert stage.condition("Completed") == ("True", "AllJobsCompleted")
    stage.finalize(JOBS)
    assert stage.job_names() == sorted([*not_yet, *then])


@pytest.mark.conformance("JS-I10", "JS-I13", "JS-I45")
def test_without_a_policy_the_first_failure_ends_it() -> None:
    stage = Stage(jobset())
    stage.fail(B_JOBS[1], settle=False)
    stage.now += 5
    stage.fail(A_JOB)
    found = meta.find_condition(stage.jobset, "Failed")
    assert found is not None
    assert found["reason"] == "FailedJobs"
    assert found["message"] == f"jobset failed due to one or more job failures (first failed job: {B_JOBS[1]})"
    assert stage.status["terminalState"] == "Failed"
    assert stage.restarts() == (0, 0)
    stage.finalize(JOBS)
    assert stage.job_names() == [A_JOB, B_JOBS[1]]
    assert stage.events[-1][:2] == ("Warning", "FailedJobs")


@pytest.mark.conformance("JS-I14")
def test_restarts_up_to_the_maximum() -> None:
    stage = Stage(jobset(failurePolicy={"maxRestarts": 1}))
    stage.fail(A_JOB)
    assert stage.is_active()
    assert stage.condition("RestartingJobSet") == ("True", "DefaultFailurePolicy")
    stage.finalize(JOBS)
    stage.settle()
    stage.fail(B_JOBS[0])
    assert stage.condition("Failed") == ("True", "ReachedMaxRestarts")
    assert stage.condition("RestartingJobSet") == ("False", "JobSetFailed")


MAX1 = {"maxRestarts": 1}


@pytest.mark.conformance("JS-I15", "JS-I16", "JS-I17", "JS-I18", "JS-I19", "JS-I20", "JS-I30", "JS-I31")
@pytest.mark.parametrize(
    ("rule", "job", "reason", "message", "fails"),
    [
        ({}, A_JOB, "PodFailurePolicy", "", True),
        ({"onJobFailureReasons": ["BackoffLimitExceeded"]}, A_JOB, "PodFailurePolicy", "", False),
        ({"onJobFailureMessagePatterns": ["some message"]}, A_JOB, "X", "some critical error with a message", False),
        (
            {"onJobFailureReasons": ["PodFailurePolicy"], "onJobFailureMessagePatterns": ["some message"]},
            A_JOB,
            "PodFailurePolicy",
            "other words",
            False,
        ),
        (
            {"onJobFailureReasons": ["PodFailurePolicy"], "onJobFailureMessagePatterns": ["some message"]},
            A_JOB,
            "PodFailurePolicy",
            "some message",
            True,
        ),
        ({"onJobFailureMessagePatterns": ["some message"]}, A_JOB, "X", "here is some message too", True),
        ({"onJobFailureMessagePatterns": ["("]}, A_JOB, "X", "(", False),
        ({"onJobFailureReasons": ["FailedIndexes"], "targetReplicatedJobs": [B]}, B_JOBS[0], "FailedIndexes", "", True),
        ({"targetReplicatedJobs": [A]}, B_JOBS[0], "BackoffLimitExceeded", "", False),
    ],
)
def test_a_rule_matches_by_reason_and_message_and_target(
    rule: dict[str, Any], job: str, reason: str, message: str, fails: bool
) -> None:
    stage = Stage(jobset(failurePolicy={**MAX1, "rules": [{"name": "r", "action": "FailJobSet", **rule}]}))
    stage.fail(job, reason, message)
    if fails:
        assert stage.condition("Failed") == ("True", "FailJobSetFailurePolicyAction")
        assert stage.restarts() == (0, 0)
    else:
        assert stage.is_active()
        assert stage.restarts() == (1, 1)


@pytest.mark.conformance("JS-I21", "JS-I23", "JS-I32", "JS-I33")
@pytest.mark.parametrize(
    ("first", "second", "fails"), [("FailJobSet", "RestartJobSet", True), ("RestartJobSet", "FailJobSet", False)]
)
def test_the_first_matching_rule_wins(first: str, second: str, fails: bool) -> None:
    rules = [{"name": "r0", "action": first, "targetReplicatedJobs": [A]}, {"name": "r1", "action": second}]
    stage = Stage(jobset(failurePolicy={**MAX1, "rules": rules}))
    stage.fail(A_JOB)
    assert (stage.condition("Failed") is not None) == fails
    assert stage.restarts() == ((0, 0) if fails else (1, 1))
    assert "jobRestarts" not in stage.counts(A)


@pytest.mark.conformance("JS-U14")
def test_an_earlier_rule_beats_an_earlier_failure() -> None:
    rules = [
        {"name": "r0", "action": "FailJobSet", "targetReplicatedJobs": [B]},
        {"name": "r1", "action": "RestartJobSet", "targetReplicatedJobs": [A]},
    ]
    stage = Stage(jobset(failurePolicy={**MAX1, "rules": rules}))
    stage.fail(A_JOB, settle=False)
    stage.now += 5
    stage.fail(B_JOBS[2])
    found = meta.find_condition(stage.jobset, "Failed")
    assert found is not None
    assert found["message"].endswith(f"(first failed job: {B_JOBS[2]})")


@pytest.mark.conformance("JS-I22")
def test_a_restart_is_over_when_all_jobs_are_ready() -> None:
    stage = Stage(jobset(failurePolicy={**MAX1, "rules": [{"name": "Rule1", "action": "RestartJobSet"}]}))
    stage.fail(A_JOB)
    assert stage.condition("RestartingJobSet") == ("True", "FailurePolicy_Rule1")
    assert "RestartJobSetFailurePolicyAction" in stage.reasons()
    stage.finalize(JOBS)
    stage.settle()
    stage.ready(A_JOB, *B_JOBS)
    assert stage.condition("RestartingJobSet") == ("False", "JobsReady")


@pytest.mark.conformance("JS-I26")
def test_recreate_makes_each_job_anew_as_soon_as_the_old_one_is_gone() -> None:
    stage = Stage(jobset(failurePolicy={**MAX1, "restartStrategy": "Recreate"}))
    stage.fail(A_JOB)
    stage.finalize(JOBS, *B_JOBS)
    stage.settle()
    assert stage.attempts() == {"0": 1, "1": 3}
    stage.finalize(JOBS, A_JOB)
    stage.settle()
    assert stage.attempts() == {"1": 4}


@pytest.mark.conformance("JS-I27")
def test_blocking_recreate_waits_for_all_old_jobs() -> None:
    stage = Stage(jobset(failurePolicy={**MAX1, "restartStrategy": "BlockingRecreate"}))
    stage.fail(A_JOB)
    stage.finalize(JOBS, *B_JOBS)
    stage.settle()
    assert stage.attempts() == {"0": 1}
    stage.finalize(JOBS, A_JOB)
    stage.settle()
    assert stage.attempts() == {"1": 4}


@pytest.mark.conformance("JS-I28", "JS-I29", "JS-I34")
def test_ignored_restarts_do_not_count() -> None:
    rules = [
        {"name": "r0", "action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": [A]},
        {"name": "r1", "action": "FailJobSet"},
    ]
    stage = Stage(jobset(failurePolicy={**MAX1, "rules": rules}))
    for number in (1, 2, 3):
        stage.fail(A_JOB)
        assert stage.restarts() == (number, 0)
        assert stage.is_active()
        stage.finalize(JOBS)
        stage.settle()
    stage.fail(B_JOBS[0])
    assert stage.condition("Failed") == ("True", "FailJobSetFailurePolicyAction")
    assert stage.restarts() == (3, 0)


@pytest.mark.conformance("JS-I35")
def test_a_failure_beside_a_success_restarts_both() -> None:
    stage = Stage(jobset(failurePolicy=MAX1))
    stage.complete(A_JOB)
    stage.fail(B_JOBS[0])
    stage.finalize(JOBS)
    stage.settle()
    assert stage.attempts() == {"1": 4}
    stage.complete(A_JOB, *B_JOBS)
    assert stage.condition("Completed") == ("True", "AllJobsCompleted")


@pytest.mark.conformance("JS-I24", "JS-I25")
@pytest.mark.parametrize(
    ("action", "counters"),
    [
        ("RestartJob", {"jobRestarts": [1], "jobRestartsCountTowardsMax": [1]}),
        ("RestartJobAndIgnoreMaxRestarts", {"jobRestarts": [1]}),
    ],
)
def test_one_job_alone_can_be_restarted(action: str, counters: dict[str, list[int]]) -> None:
    stage = Stage(jobset(failurePolicy={**MAX1, "rules": [{"name": "r", "action": action}]}))
    stage.fail(A_JOB)
    assert stage.is_active()
    assert stage.restarts() == (0, 0)
    assert stage.counts(A) == counters
    stage.finalize(JOBS)
    stage.settle()
    assert len(stage.job_names()) == 4
    labels = meta.labels(stage.get(JOBS, A_JOB))
    assert labels["jobset.sigs.k8s.io/job-restart-attempt"] == "1"
    assert labels["jobset.sigs.k8s.io/restart-attempt"] == "0"


def test_single_and_global_restarts_share_one_budget() -> None:
    rules = [
        {"name": "one", "action": "RestartJob", "targetReplicatedJobs": [B]},
        {"name": "all", "action": "RestartJobSet"},
    ]
    stage = Stage(jobset(failurePolicy={"maxRestarts": 1, "rules": rules}))
    stage.fail(B_JOBS[2])
    assert stage.counts(B)["jobRestarts"] == [0, 0, 1]
    stage.finalize(JOBS)
    stage.settle()
    stage.fail(A_JOB)
    assert stage.condition("Failed") == ("True", "ReachedMaxRestarts")


@pytest.mark.conformance("JS-I62", "JS-U23")
def test_a_finished_jobset_is_deleted_after_its_ttl() -> None:
    stage = Stage(jobset(ttlSecondsAfterFinished=2))
    stage.fail(A_JOB)
    assert all(meta.deleting(stage.get(JOBS, job)) for job in B_JOBS)
    stage.now += 1
    assert stage.settle() == pytest.approx(1)
    assert not meta.deleting(stage.jobset)
    stage.now += 1
    stage.settle()
    assert meta.deleting(stage.jobset)


@pytest.mark.parametrize(("end", "deleted"), [("Completed", True), ("Failed", True), ("Suspended", False)])
def test_the_ttl_holds_for_a_jobset_that_another_controller_runs(end: str, deleted: bool) -> None:
    condition = {"type": end, "status": "True", "reason": "r", "message": "", "lastTransitionTime": to_time(START)}
    other = jobset(managedBy="example.com/other", ttlSecondsAfterFinished=5)
    stage = Stage(other | {"status": {"conditions": [condition]}})
    assert stage.job_names() == []
    assert not meta.deleting(stage.jobset)
    stage.now += 5
    stage.settle()
    assert meta.deleting(stage.get(JOB_SETS, "test-js")) is deleted
    assert stage.status == {"conditions": [condition]}


@pytest.mark.conformance("JS-U23")
@pytest.mark.parametrize(("ttl", "deleted"), [(None, False), (0, True)])
def test_ttl_of_none_and_of_nothing(ttl: int | None, deleted: bool) -> None:
    stage = Stage(jobset(ttlSecondsAfterFinished=ttl))
    assert stage.settle() is None
    stage.complete(A_JOB, *B_JOBS)
    assert meta.deleting(stage.get(JOB_SETS, "test-js")) == deleted


@pytest.mark.parametrize("policy", [None, MAX1, {"maxRestarts": 3, "rules": [{"name": "r", "action": "FailJobSet"}]}])
def test_a_failure_without_a_time_counts_as_the_first(policy: Object | None) -> None:
    """Whoever patches the status of a Job may leave lastTransitionTime out."""
    stage = Stage(jobset(failurePolicy=policy))
    stage.fail(A_JOB, settle=False)
    stage.fail(B_JOBS[1], settle=False)
    stage.get(JOBS, B_JOBS[1])["status"]["conditions"][0].pop("lastTransitionTime")
    stage.settle()
    assert any(f"(first failed job: {B_JOBS[1]})" in message for _, _, message in stage.events)


def test_a_job_with_an_unreadable_attempt_is_ignored() -> None:
    stage = Stage(jobset(replicated("a")))
    job = stage.get(JOBS, "test-js-a-0")
    job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] = "x"
    stage.fail("test-js-a-0")
    assert stage.is_active()
    assert stage.counts("a") == {}
    assert ("Warning", "UnreadableJob") in [event[:2] for event in stage.events]


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("jobset.sigs.k8s.io/job-index", "²"),
        ("jobset.sigs.k8s.io/job-index", "9" * 60),
        ("jobset.sigs.k8s.io/job-index", "1"),
        ("jobset.sigs.k8s.io/job-index", None),
        ("jobset.sigs.k8s.io/replicatedjob-name", "another"),
        ("jobset.sigs.k8s.io/replicatedjob-name", None),
    ],
)
@pytest.mark.parametrize("action", ["RestartJob", "RestartJobSet", "FailJobSet"])
def test_a_job_whose_labels_no_longer_say_which_it_is_is_ignored(label: str, value: str | None, action: str) -> None:
    rules = [{"name": "r", "action": action}]
    stage = Stage(jobset(replicated("a"), failurePolicy={"maxRestarts": 3, "rules": rules}, suspend=True))
    labels = stage.get(JOBS, "test-js-a-0")["metadata"]["labels"]
    if value is None:
        del labels[label]
    else:
        labels[label] = value
    stage.edit_jobset(suspend=False)
    stage.fail("test-js-a-0")
    assert stage.is_active()
    assert stage.counts("a") == {}


def test_counters_of_single_restarts_that_are_too_short_are_filled_up() -> None:
    rules = [{"name": "r", "action": "RestartJob"}]
    stage = Stage(jobset(replicated("a", 3), failurePolicy={"maxRestarts": 3, "rules": rules}))
    (entry,) = stage.status["replicatedJobsStatus"]
    entry["jobRestarts"] = [1]
    stage.fail("test-js-a-2")
    assert stage.status["replicatedJobsStatus"][0]["jobRestarts"] == [1, 0, 1]


@pytest.mark.conformance("JS-U16")
def test_condition_rules() -> None:
    obj = jobset()
    draft = JobSetStatusDraft(obj, 1_800_000_000)
    draft.set_false("Suspended", "ResumeJobs", "never was")
    assert "conditions" not in draft.body
    draft.set_true("Suspended", "SuspendedJobs", "jobset is suspended")
    (first,) = draft.body["conditions"]
    later = JobSetStatusDraft({**obj, "status": draft.body}, 1_800_000_100)
    later.set_true("Suspended", "SuspendedJobs", "jobset is suspended")
    assert later.write() is None
    assert later.notes == []
    later.set_true("Suspended", "Another", "reason only")
    (second,) = later.body["conditions"]
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    assert second["reason"] == "Another"
    assert [note.reason for note in later.notes] == ["Another"]


@pytest.mark.conformance("JS-K10")
def test_a_missed_deadline_fails_the_jobset_and_removes_what_runs() -> None:
    stage = Stage(jobset(activeDeadlineSeconds=60))
    assert stage.settle() == pytest.approx(60)
    stage.now += 60
    stage.settle()
    assert stage.condition("Failed") == ("True", "DeadlineExceeded")
    stage.finalize(JOBS)
    assert stage.job_names() == []


@pytest.mark.conformance("JS-K10")
@pytest.mark.parametrize("again", ["resume", "restart"])
def test_a_resume_and_a_restart_begin_the_deadline_anew(again: str) -> None:
    stage = Stage(jobset(activeDeadlineSeconds=60, failurePolicy=MAX1))
    stage.now += 59
    if again == "resume":
        stage.edit_jobset(suspend=True)
        assert "startTime" not in stage.status
        stage.now += 100
        stage.edit_jobset(suspend=False)
    else:
        stage.fail(A_JOB)
        stage.finalize(JOBS)
        stage.settle()
    stage.now += 59
    stage.settle()
    assert stage.is_active()
    stage.now += 1
    stage.settle()
    assert stage.condition("Failed") == ("True", "DeadlineExceeded")


@pytest.mark.conformance("JS-K10")
@pytest.mark.parametrize(("event", "outcome"), [("success", "Completed"), ("failure", "Failed")])
def test_success_beats_the_deadline_and_the_deadline_a_failure(event: str, outcome: str) -> None:
    stage = Stage(jobset(replicated("a"), activeDeadlineSeconds=60, failurePolicy={"maxRestarts": 9}))
    stage.now += 60
    if event == "success":
        stage.complete("test-js-a-0")
    else:
        stage.fail("test-js-a-0")
    assert stage.status["terminalState"] == outcome
    assert stage.restarts() == (0, 0)
