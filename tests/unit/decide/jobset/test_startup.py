"""In which order replicated jobs come: dependsOn, startupPolicy, executionPolicy."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import JOBS, Object
from echelon.decide.jobset.children import Counts
from echelon.decide.jobset.startup import startable
from tests.unit.decide.jobset.stage import A, B, C, Stage, jobset, model, replicated

IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
A_JOB = f"test-js-{A}-0"
B_JOBS = [f"test-js-{B}-{i}" for i in range(3)]
C_JOBS = [f"test-js-{C}-{i}" for i in range(3)]


def after(name: str, *dependencies: tuple[str, str], replicas: int = 3) -> Object:
    return replicated(name, replicas, dependsOn=[{"name": on, "status": status} for on, status in dependencies])


@pytest.mark.conformance("JS-I54")
def test_a_ready_dependency_opens_when_all_its_jobs_are_ready() -> None:
    stage = Stage(jobset(replicated(A), after(B, (A, "Ready"))))
    assert stage.job_names() == [A_JOB]
    stage.ready(A_JOB)
    assert stage.job_names() == [A_JOB, *B_JOBS]
    stage.ready(*B_JOBS)
    assert stage.counts(B) == {"ready": 3, "active": 3}
    assert stage.counts(A) == {"ready": 1, "active": 1}


@pytest.mark.conformance("JS-I55")
def test_complete_then_ready() -> None:
    stage = Stage(jobset(replicated(A), after(B, (A, "Complete"), replicas=1), after(C, (B, "Ready"))))
    assert stage.job_names() == [A_JOB]
    stage.ready(A_JOB)
    assert stage.job_names() == [A_JOB]
    stage.complete(A_JOB)
    assert stage.job_names() == [A_JOB, B_JOBS[0]]
    stage.ready(B_JOBS[0])
    assert len(stage.job_names()) == 5
    stage.complete(B_JOBS[0], *C_JOBS)
    assert [stage.counts(name)["succeeded"] for name in (A, B, C)] == [1, 1, 3]
    assert stage.condition("Completed") == ("True", "AllJobsCompleted")


@pytest.mark.conformance("JS-I56", "JS-I57", "JS-E07")
@pytest.mark.parametrize("first", ["Ready", "Complete"])
def test_all_dependencies_must_hold(first: str) -> None:
    stage = Stage(jobset(replicated(A), replicated(B), after(C, (A, first), (B, "Complete"))))
    assert stage.job_names() == [A_JOB, B_JOBS[0]]
    if first == "Ready":
        stage.ready(A_JOB)
    else:
        stage.complete(A_JOB)
    assert len(stage.job_names()) == 2
    stage.complete(B_JOBS[0])
    assert len(stage.job_names()) == 5
    stage.complete(A_JOB, *C_JOBS)
    assert stage.condition("Completed") == ("True", "AllJobsCompleted")


@pytest.mark.conformance("JS-I58")
def test_dependencies_hold_while_suspended_and_after_resuming() -> None:
    stage = Stage(jobset(replicated(A), after(B, (A, "Ready")), suspend=True))
    assert stage.job_names() == [A_JOB]
    assert stage.get(JOBS, A_JOB)["spec"]["suspend"] is True
    stage.edit_jobset(suspend=False)
    assert stage.get(JOBS, A_JOB)["spec"]["suspend"] is False
    assert stage.job_names() == [A_JOB]
    stage.ready(A_JOB)
    assert stage.job_names() == [A_JOB, *B_JOBS]
    assert not any(job["spec"]["suspend"] for job in stage.all(JOBS))


@pytest.mark.conformance("JS-S17")
def test_the_first_entry_then_the_rest_in_parallel() -> None:
    stage = Stage(jobset(replicated(A), after(B, (A, "Complete")), after(C, (A, "Complete"))))
    stage.complete(A_JOB)
    assert len(stage.job_names()) == 7


@pytest.mark.conformance("JS-U15")
@pytest.mark.parametrize(
    ("counts", "opened"),
    [
        ({}, False),
        ({A: Counts(ready=1)}, False),
        ({A: Counts(ready=1, failed=1)}, True),
        ({A: Counts(succeeded=1, ready=1)}, True),
    ],
)
def test_a_ready_dependency_counts_failed_jobs_as_started(counts: dict[str, Counts], opened: bool) -> None:
    walked = startable(model(jobset(replicated(A, 2), after(B, (A, "Ready")))), counts)
    assert (B in [rj.name for rj in walked.open]) == opened


PIPELINE = [replicated("initializer"), replicated("trainer", 2), replicated("post")]
CHAINED = {"executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}}


def chain_of_dependencies() -> list[Object]:
    initializer, trainer, post = PIPELINE
    return [
        initializer,
        {**trainer, "dependsOn": [{"name": "initializer", "status": "Complete"}]},
        {**post, "dependsOn": [{"name": "trainer", "status": "Complete"}]},
    ]


@pytest.mark.parametrize(("entries", "policy"), [(chain_of_dependencies(), {}), (PIPELINE, CHAINED)])
def test_each_stage_waits_for_the_one_before(entries: list[Object], policy: dict[str, Any]) -> None:
    stage = Stage(jobset(*entries, **policy))
    assert stage.job_names() == ["test-js-initializer-0"]
    stage.ready("test-js-initializer-0")
    assert stage.job_names() == ["test-js-initializer-0"]
    stage.complete("test-js-initializer-0")
    trainers = ["test-js-trainer-0", "test-js-trainer-1"]
    assert stage.job_names() == ["test-js-initializer-0", *trainers]
    stage.complete(trainers[0])
    assert "test-js-post-0" not in stage.job_names()
    stage.complete(trainers[1])
    assert "test-js-post-0" in stage.job_names()
    stage.complete("test-js-post-0")
    assert stage.condition("Completed") == ("True", "AllJobsCompleted")


@pytest.mark.conformance("JS-K01")
@pytest.mark.parametrize(("entries", "policy"), [(chain_of_dependencies(), {}), (PIPELINE, CHAINED)])
def test_a_failed_stage_stops_the_rest(entries: list[Object], policy: dict[str, Any]) -> None:
    stage = Stage(jobset(*entries, **policy))
    stage.fail("test-js-initializer-0")
    assert stage.condition("Failed") == ("True", "FailedJobs")
    assert stage.job_names() == ["test-js-initializer-0"]


def test_an_empty_stage_does_not_open_the_chain_behind_it() -> None:
    stage = Stage(jobset(replicated("a"), replicated("b", 0), replicated("c"), **CHAINED))
    assert stage.job_names() == ["test-js-a-0"]
    stage.complete("test-js-a-0")
    assert stage.job_names() == ["test-js-a-0", "test-js-c-0"]


@pytest.mark.conformance("JS-K02")
def test_a_restart_runs_the_whole_sequence_again() -> None:
    stage = Stage(jobset(*chain_of_dependencies(), failurePolicy={"maxRestarts": 1}))
    stage.complete("test-js-initializer-0")
    stage.fail("test-js-trainer-1")
    stage.finalize(JOBS)
    stage.settle()
    assert stage.attempts() == {"1": 1}
    assert stage.job_names() == ["test-js-initializer-0"]


@pytest.mark.conformance("JS-S15")
def test_suspending_a_later_stage_does_not_run_the_first_again() -> None:
    stage = Stage(jobset(*chain_of_dependencies()))
    stage.complete("test-js-initializer-0")
    stage.edit_jobset(suspend=True)
    assert [job["spec"]["suspend"] for job in stage.all(JOBS)] == [False, True, True]
    stage.edit_jobset(suspend=False)
    assert [job["spec"]["suspend"] for job in stage.all(JOBS)] == [False, False, False]
    assert stage.counts("initializer") == {"succeeded": 1}


@pytest.mark.conformance("JS-I51")
def test_in_order_startup_creates_one_replicated_job_at_a_time() -> None:
    stage = Stage(jobset(**IN_ORDER))
    assert stage.job_names() == [A_JOB]
    assert stage.condition("StartupPolicyInProgress") == ("True", "InOrderStartupPolicyInProgress")
    stage.ready(A_JOB)
    assert stage.job_names() == [A_JOB, *B_JOBS]
    stage.set_job(B_JOBS[0], active=1)
    assert stage.condition("StartupPolicyInProgress") == ("True", "InOrderStartupPolicyInProgress")
    stage.ready(*B_JOBS)
    assert stage.condition("StartupPolicyCompleted") == ("True", "InOrderStartupPolicyCompleted")
    assert stage.condition("StartupPolicyInProgress") == ("False", "InOrderStartupPolicyInProgress")


@pytest.mark.conformance("JS-I52")
def test_in_order_startup_begins_again_with_a_restart() -> None:
    stage = Stage(jobset(**IN_ORDER, failurePolicy={"maxRestarts": 1}))
    stage.ready(A_JOB)
    stage.ready(*B_JOBS)
    stage.complete(A_JOB)
    stage.fail(B_JOBS[0])
    stage.finalize(JOBS)
    stage.settle()
    assert stage.job_names() == [A_JOB]
    assert stage.condition("StartupPolicyInProgress") == ("True", "InOrderStartupPolicyInProgress")
    stage.ready(A_JOB)
    stage.ready(*B_JOBS)
    assert stage.condition("StartupPolicyCompleted") == ("True", "InOrderStartupPolicyCompleted")
    assert stage.attempts() == {"1": 4}


@pytest.mark.conformance("JS-I47", "JS-I48")
@pytest.mark.parametrize("order", ["InOrder", "AnyOrder"])
def test_a_suspended_jobset_creates_all_jobs_in_any_order(order: str) -> None:
    stage = Stage(jobset(suspend=True, startupPolicy={"startupPolicyOrder": order}))
    assert len(stage.job_names()) == 4
    assert all(job["spec"]["suspend"] for job in stage.all(JOBS))


@pytest.mark.conformance("JS-I50")
def test_resuming_in_order_goes_one_replicated_job_at_a_time() -> None:
    stage = Stage(jobset(suspend=True, **IN_ORDER))
    stage.edit_jobset(suspend=False)
    assert stage.get(JOBS, A_JOB)["spec"]["suspend"] is False
    assert stage.counts(B) == {"suspended": 3}
    assert stage.condition("Suspended") == ("True", "ResumingJobs")
    stage.ready(A_JOB)
    assert stage.counts(B) == {}
    assert stage.condition("StartupPolicyInProgress") == ("True", "InOrderStartupPolicyInProgress")
    stage.ready(*B_JOBS)
    assert stage.counts(B) == {"ready": 3, "active": 3}
    assert stage.condition("StartupPolicyCompleted") == ("True", "InOrderStartupPolicyCompleted")
    assert stage.condition("Suspended") == ("False", "ResumeJobs")


@pytest.mark.conformance("JS-K04")
def test_a_startup_suspended_halfway_goes_on_from_there() -> None:
    stage = Stage(jobset(**IN_ORDER))
    stage.set_job(A_JOB, active=1)
    stage.edit_jobset(suspend=True)
    assert stage.get(JOBS, A_JOB)["spec"]["suspend"] is True
    stage.set_job(A_JOB)
    stage.edit_jobset(suspend=False)
    assert stage.get(JOBS, A_JOB)["spec"]["suspend"] is False
    assert stage.counts(B) == {"suspended": 3}
    stage.ready(A_JOB)
    stage.ready(*B_JOBS)
    assert stage.condition("StartupPolicyCompleted") == ("True", "InOrderStartupPolicyCompleted")
    assert stage.condition("Suspended") == ("False", "ResumeJobs")
