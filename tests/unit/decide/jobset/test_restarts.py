"""Restarts in place, the count of runs, and Jobs that have succeeded and are gone."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, PODS
from tests.unit.decide.jobset.stage import Stage, jobset, replicated

P = "jobset.sigs.k8s.io/"
ATTEMPT = P + "in-place-restart-attempt"


class Barrier(Stage):
    """A JobSet of one Job with three pods that restart in place."""

    def __init__(self, max_restarts: int = 3, **status: Any) -> None:
        policy = {"restartStrategy": "InPlaceRestart", "maxRestarts": max_restarts}
        super().__init__(jobset(replicated("a", 1, 3), failurePolicy=policy) | {"status": status})

    def pods(self, *attempts: int | str | None, job: str = "test-js-a-0", **status: Any) -> None:
        """One pod per attempt; None: it has not come to the barrier yet."""
        for old in self.names(PODS):
            del self.objects[PODS, old]
        owner = {"kind": "Job", "name": job, "uid": meta.uid(self.get(JOBS, job)), "controller": True}
        for number, attempt in enumerate(attempts):
            notes = {} if attempt is None else {ATTEMPT: str(attempt)}
            labels = {"batch.kubernetes.io/job-name": job, P + "jobset-name": "test-js"}
            metadata = {"name": f"p{number}", "labels": labels, "annotations": notes, "ownerReferences": [owner]}
            self.add(PODS, {"metadata": metadata, "spec": {}, "status": {"phase": "Running", **status}})
        self.settle()

    @property
    def barrier(self) -> tuple[int | None, int | None]:
        """The attempt whose pods restart, and the one whose pods go."""
        return self.status.get("previousInPlaceRestartAttempt"), self.status.get("currentInPlaceRestartAttempt")


@pytest.mark.conformance("JS-U24")
@pytest.mark.parametrize(
    ("attempts", "before", "after"),
    [
        ((), (None, None), (None, None)),
        ((None, None, None), (None, None), (None, None)),
        ((0, 0, None), (None, None), (None, None)),
        ((0, 0, 0), (None, None), (None, 0)),
        ((1, 0, 0), (None, 0), (0, 0)),
        ((1, 1, None), (None, 0), (0, 0)),
        ((1, 1, 1), (0, 0), (0, 1)),
        ((2, 1, 1), (0, 1), (1, 1)),
        ((1, 1, None), (2, 2), (2, 2)),
        ((1, 1, 1), (0, 1), (0, 1)),
    ],
)
def test_the_barrier_moves_with_the_pods(
    attempts: tuple[int | None, ...], before: tuple[int | None, int | None], after: tuple[int | None, int | None]
) -> None:
    fields = ("previousInPlaceRestartAttempt", "currentInPlaceRestartAttempt")
    status = {name: value for name, value in zip(fields, before, strict=True) if value is not None}
    stage = Barrier(**status)
    stage.pods(*attempts)
    assert stage.barrier == after
    assert stage.is_active()
    assert stage.restarts() == (0, 0)


@pytest.mark.conformance("JS-U24")
def test_an_in_place_restart_is_told_once() -> None:
    stage = Barrier()
    stage.pods(0, 0, 0)
    stage.pods(1, 0, 0)
    stage.pods(1, 1, 0)
    stage.pods(1, 1, 1)
    assert stage.reasons() == ["InPlaceRestart"]


def test_pods_that_restart_at_the_same_moment_are_told_too() -> None:
    stage = Barrier()
    stage.pods(0, 0, 0)
    stage.pods(1, 1, 1)
    assert (stage.barrier, stage.reasons()) == ((None, 1), ["InPlaceRestart"])


@pytest.mark.conformance("JS-U24")
@pytest.mark.parametrize("text", ["x", "-1", "1.5", "9" * 30, ""])
def test_an_attempt_that_cannot_be_read_is_told_and_left_out(text: str) -> None:
    stage = Barrier()
    stage.pods(0, 0, text)
    assert stage.barrier == (None, None)
    assert set(stage.reasons()) == {"InvalidInPlaceRestartAttempt"}


@pytest.mark.conformance("JS-U24")
def test_too_many_attempts_fail_the_jobset() -> None:
    stage = Barrier(max_restarts=1)
    stage.pods(1, 0, 0)
    assert stage.is_active()
    stage.pods(2, 1, 1)
    assert stage.condition("Failed") == ("True", "ReachedMaxRestarts")


@pytest.mark.conformance("JS-U24")
def test_uncounted_restarts_leave_the_budget_alone() -> None:
    stage = Barrier(max_restarts=1, restarts=2, restartsCountTowardsMax=1)
    stage.finalize(JOBS)
    stage.settle()
    stage.pods(2, 1, 1)
    assert stage.is_active()
    stage.pods(3, 1, 1)
    assert stage.condition("Failed") == ("True", "ReachedMaxRestarts")


@pytest.mark.conformance("JS-U24")
@pytest.mark.parametrize("part", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize(("count", "failed"), [(1, False), (2, True)])
def test_a_container_that_never_reaches_the_barrier_counts_too(part: str, count: int, failed: bool) -> None:
    stage = Barrier(max_restarts=1)
    stage.pods(None, None, None, **{part: [{"name": "c", "restartCount": count}]})
    assert stage.is_active() is not failed


@pytest.mark.conformance("JS-U24")
def test_failed_pods_are_left_out() -> None:
    stage = Barrier()
    stage.pods(0, 0, 0)
    gone = stage.objects[PODS, "p0"]
    metadata = {**gone["metadata"], "name": "p3", "annotations": {ATTEMPT: "7"}}
    stage.add(PODS, {**gone, "metadata": metadata, "status": {"phase": "Failed"}})
    stage.settle()
    assert stage.barrier == (None, 0)


def test_pods_that_are_done_are_not_waited_for() -> None:
    """Upstream waits for ever: they never say another attempt."""
    stage = Barrier(currentInPlaceRestartAttempt=0)
    stage.pods(1, 1, 0)
    assert stage.barrier == (0, 0)
    stage.objects[PODS, "p2"]["status"] = {"phase": "Succeeded"}
    stage.settle()
    assert stage.barrier == (0, 1)


def test_pods_of_an_earlier_attempt_do_not_count() -> None:
    stage = Barrier()
    stage.pods(0, 0, 0)
    for name in stage.names(PODS):
        metadata = stage.objects[PODS, name]["metadata"]
        metadata["ownerReferences"][0]["uid"] = "gone"
        metadata["annotations"] = {ATTEMPT: "9"}
    stage.settle()
    assert stage.barrier == (None, 0)
    assert stage.is_active()


def test_other_strategies_have_no_barrier() -> None:
    stage = Stage(jobset(replicated("a", 1, 1), failurePolicy={"maxRestarts": 3, "restartStrategy": "Recreate"}))
    Barrier.pods(stage, 0)  # type: ignore[arg-type]
    assert "currentInPlaceRestartAttempt" not in stage.status


# -- the count of runs ---------------------------------------------------------------------------------------


def attempts(stage: Stage) -> tuple[int | None, set[str | None]]:
    """What the status says, and what Jobs and their pods say."""
    written = [(job["metadata"], job["spec"]["template"]["metadata"]) for job in stage.all(JOBS)]
    return (
        stage.status.get("executionAttempts"),
        {(part.get("annotations") or {}).get(P + "execution-attempt") for parts in written for part in parts},
    )


@pytest.mark.conformance("JS-K08")
def test_runs_are_counted_from_zero_once_per_resume_and_restart() -> None:
    stage = Stage(jobset(replicated("a", 2), failurePolicy={"maxRestarts": 9}))
    assert attempts(stage) == (0, {"0"})
    stage.edit_jobset(suspend=True)
    stage.edit_jobset(suspend=False)
    assert attempts(stage) == (1, {"1"})
    stage.fail("test-js-a-0")
    stage.finalize(JOBS)
    stage.settle()
    assert attempts(stage) == (2, {"2"})
    assert stage.restarts() == (1, 1)


@pytest.mark.conformance("JS-K08")
def test_a_jobset_that_never_ran_has_no_count() -> None:
    stage = Stage(jobset(replicated("a"), suspend=True))
    assert attempts(stage) == (None, {None})
    stage.edit_jobset(suspend=False)
    assert attempts(stage) == (0, {"0"})


@pytest.mark.conformance("JS-K08")
def test_the_count_is_stored_before_a_job_is_resumed() -> None:
    stage = Stage(jobset(replicated("a")))
    stage.edit_jobset(suspend=True)
    stage.edit(JOB_SETS, "test-js", suspend=False)
    stage.enact(stage.plan())
    assert stage.status["executionAttempts"] == 1
    assert stage.get(JOBS, "test-js-a-0")["spec"]["suspend"] is True
    # However often it is decided again before the Jobs have been resumed, it is one run.
    stage.settle()
    stage.settle()
    assert attempts(stage) == (1, {"1"})


@pytest.mark.conformance("JS-K08")
@pytest.mark.parametrize(("suspended", "then"), [(False, 3), (True, 4)])
def test_a_jobset_from_before_runs_were_counted_begins_with_its_restarts(suspended: bool, then: int) -> None:
    stage = Stage(jobset(replicated("a"), suspend=suspended) | {"status": {"restarts": 3}})
    if suspended:
        stage.edit_jobset(suspend=False)
    assert attempts(stage)[0] == then


@pytest.mark.conformance("JS-K08")
def test_a_resume_in_order_is_one_run() -> None:
    order = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    stage = Stage(jobset(replicated("a"), replicated("b"), suspend=True, **order))
    stage.edit_jobset(suspend=False)
    stage.ready("test-js-a-0")
    stage.ready("test-js-b-0")
    assert attempts(stage) == (0, {"0"})


# -- Jobs that are gone --------------------------------------------------------------------------------------


def test_a_job_that_has_succeeded_and_is_gone_does_not_run_again() -> None:
    stage = Stage(jobset(replicated("a", 3), replicated("b", dependsOn=[{"name": "a", "status": "Complete"}])))
    stage.complete("test-js-a-0", "test-js-a-1")
    del stage.objects[JOBS, "test-js-a-0"]
    stage.settle()
    assert stage.job_names() == ["test-js-a-1", "test-js-a-2"]
    assert stage.counts("a") == {"succeeded": 2}
    assert stage.status["replicatedJobsStatus"][1]["completedIndexes"] == "0,1"
    stage.complete("test-js-a-2")
    assert "test-js-b-0" in stage.job_names()
    stage.complete("test-js-b-0")
    assert stage.condition("Completed") == ("True", "AllJobsCompleted")


def test_a_job_that_is_gone_before_it_ended_runs_again() -> None:
    stage = Stage(jobset(replicated("a", 2)))
    del stage.objects[JOBS, "test-js-a-0"]
    stage.settle()
    assert stage.job_names() == ["test-js-a-0", "test-js-a-1"]


def test_a_restart_of_the_whole_runs_every_job_again() -> None:
    stage = Stage(jobset(replicated("a", 2), failurePolicy={"maxRestarts": 1}))
    stage.complete("test-js-a-0")
    del stage.objects[JOBS, "test-js-a-0"]
    stage.fail("test-js-a-1")
    stage.finalize(JOBS)
    stage.settle()
    assert stage.attempts() == {"1": 2}
    assert stage.counts("a") == {}
