"""Suspending and resuming a JobSet."""

from __future__ import annotations

import pytest

from echelon.api.scheme import JOBS, Object
from tests.unit.decide.jobset.stage import A, B, Stage, jobset, replicated

A_JOB = f"test-js-{A}-0"


def suspended_status() -> Object:
    stopped = {
        "type": "Suspended",
        "status": "True",
        "reason": "JobSuspended",
        "message": "",
        "lastTransitionTime": "x",
    }
    return {"startTime": "2027-01-15T08:00:00Z", "conditions": [stopped]}


@pytest.mark.conformance("JS-I36", "JS-I49")
def test_created_suspended_then_resumed() -> None:
    stage = Stage(jobset(suspend=True))
    assert stage.condition("Suspended") == ("True", "SuspendedJobs")
    assert stage.counts(B) == {"suspended": 3}
    assert stage.counts(A) == {"suspended": 1}
    stage.edit_jobset(suspend=False)
    assert not any(job["spec"]["suspend"] for job in stage.all(JOBS))
    assert stage.condition("Suspended") == ("False", "ResumeJobs")
    assert stage.counts(B) == {}


@pytest.mark.conformance("JS-I01", "JS-I38")
def test_suspending_a_running_jobset_suspends_its_jobs() -> None:
    stage = Stage(jobset(failurePolicy={"maxRestarts": 1}))
    stage.fail(A_JOB)
    stage.finalize(JOBS)
    stage.settle()
    stage.edit_jobset(suspend=True)
    assert [job["spec"]["suspend"] for job in stage.all(JOBS)] == [True] * 4
    assert stage.condition("Suspended") == ("True", "SuspendedJobs")
    assert stage.condition("RestartingJobSet") == ("False", "JobSetSuspended")


@pytest.mark.conformance("JS-I37")
def test_changes_made_meanwhile_reach_the_jobs_with_the_resume() -> None:
    stage = Stage(jobset(replicated("a", pod={"nodeSelector": {"zone": "x", "old": "1"}}), suspend=True))
    changed = replicated("a", pod={"nodeSelector": {"zone": "y"}, "tolerations": [{"key": "k"}]})
    changed["template"]["spec"]["template"]["metadata"] = {"labels": {"flavour": "spot"}}
    stage.edit_jobset(replicatedJobs=[changed])
    before = stage.get(JOBS, "test-js-a-0")["spec"]["template"]["spec"]
    assert before["nodeSelector"] == {"zone": "x", "old": "1"}
    stage.edit_jobset(suspend=False)
    template = stage.get(JOBS, "test-js-a-0")["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"zone": "y"}
    assert template["spec"]["tolerations"] == [{"key": "k"}]
    assert template["metadata"]["labels"]["flavour"] == "spot"
    assert template["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"] == "0"


def test_a_job_that_has_run_gets_its_new_template_once_it_is_known_to_have_stopped() -> None:
    stage = Stage(jobset(replicated("a")))
    stage.edit_jobset(suspend=True)
    stage.objects[JOBS, "test-js-a-0"] = {**stage.get(JOBS, "test-js-a-0"), "status": {"startTime": "x", "active": 1}}
    gated = replicated("a", pod={"schedulingGates": [{"name": "g"}]})
    stage.edit_jobset(replicatedJobs=[gated], suspend=False)
    assert stage.get(JOBS, "test-js-a-0")["spec"]["suspend"] is True
    assert stage.condition("Suspended") == ("True", "ResumingJobs")
    stage.objects[JOBS, "test-js-a-0"] = {**stage.get(JOBS, "test-js-a-0"), "status": suspended_status()}
    stage.settle()
    job = stage.get(JOBS, "test-js-a-0")
    assert job["spec"]["suspend"] is False
    assert job["spec"]["template"]["spec"]["schedulingGates"] == [{"name": "g"}]
    assert "startTime" not in job["status"], "most servers keep templates of Jobs that have started"
    assert stage.condition("Suspended") == ("False", "ResumeJobs")
