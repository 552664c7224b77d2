"""A JobSet that waits for quota: its Jobs are made suspended, and run when the queue has admitted their stage."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, Object
from echelon.decide.jobset.stages.admission import held_back
from tests.unit.decide.jobset.stage import Stage, jobset, model, replicated
from tests.unit.decide.jobset.stages.test_amounts import depends, gpus
from tests.unit.decide.plain_api import merge

PREFIX = "echelon.dev/"


def pipeline(**annotations: str) -> Object:
    notes = {PREFIX + name.replace("_", "-"): value for name, value in annotations.items()}
    train = gpus("train", 8, dependsOn=depends(data="Complete"))
    return jobset(replicated("data"), train, annotations=notes)


def annotate(stage: Stage, **annotations: str | None) -> None:
    notes = {PREFIX + name.replace("_", "-"): value for name, value in annotations.items()}
    stage.objects[JOB_SETS, stage.name] = merge(stage.jobset, {"metadata": {"annotations": notes}})
    stage.settle()


def suspended(stage: Stage) -> dict[str, bool]:
    return {meta.name(job): job["spec"]["suspend"] for job in stage.all(JOBS)}


def told(stage: Stage, type_: str = "QuotaReserved") -> tuple[str, str, str] | None:
    found = meta.find_condition(stage.jobset, type_)
    return None if found is None else (found["status"], found["reason"], found["message"])


def test_jobs_are_made_suspended_and_run_once_their_stage_is_admitted() -> None:
    stage = Stage(pipeline(quota_admission="stage"))
    assert suspended(stage) == {"test-js-data-0": True}
    assert told(stage) == (
        "False",
        "WaitingForQuota",
        "data: the stage queue (controller stage-quota) has not answered yet",
    )
    annotate(stage, admitted_stages="data")
    assert suspended(stage) == {"test-js-data-0": False}
    assert told(stage) == ("True", "QuotaReserved", "what may run now is reserved")
    stage.complete("test-js-data-0")
    assert suspended(stage) == {"test-js-data-0": False, "test-js-train-0": True}
    annotate(stage, admitted_stages="train")
    assert suspended(stage)["test-js-train-0"] is False
    stage.complete("test-js-train-0")
    assert told(stage) == ("False", "QuotaReleased", "nothing is reserved")


def test_what_the_queue_says_is_told_in_both_conditions() -> None:
    stage = Stage(pipeline(quota_admission="stage", quota_wait="QuotaTooSmall: far too small"))
    assert told(stage) == ("False", "QuotaTooSmall", "far too small")
    assert told(stage, "StageRunning") == (
        "False",
        "WaitingForQuota",
        "1/2 data waits for quota: far too small; train waits for data to complete (0 of 1 Jobs)",
    )
    assert ("Warning", "QuotaTooSmall", "far too small") in stage.events


@pytest.mark.parametrize("notes", [{}, {"admitted_stages": "train"}])
def test_without_the_wish_nothing_is_held_back(notes: dict[str, str]) -> None:
    stage = Stage(pipeline(**notes))
    assert suspended(stage) == {"test-js-data-0": False}
    assert told(stage) is None
    assert "reserved" not in stage.status["quota"]


def test_the_whole_is_admitted_at_once() -> None:
    stage = Stage(pipeline(quota_admission="whole", admitted_stages="*"))
    assert held_back(model(stage.jobset)) == frozenset()
    assert stage.status["quota"]["reserved"] == {"nvidia.com/gpu": "8", "pods": "2"}
    stage.complete("test-js-data-0")
    assert suspended(stage)["test-js-train-0"] is False
    assert stage.status["quota"]["reserved"] == {"nvidia.com/gpu": "8", "pods": "1"}


def test_reserved_is_what_is_admitted_and_has_not_ended() -> None:
    stage = Stage(pipeline(quota_admission="stage"))
    assert stage.status["quota"]["reserved"] == {}
    annotate(stage, admitted_stages="data")
    assert [one["reserved"] for one in stage.status["stages"]] == [{"pods": "1"}, {}]
    stage.edit_jobset(suspend=True)
    assert stage.status["quota"]["reserved"] == {}
    assert told(stage) == ("False", "QuotaReleased", "nothing is reserved")


def test_every_pod_is_reserved() -> None:
    notes = {PREFIX + "quota-admission": "stage", PREFIX + "admitted-stages": "data"}
    stage = Stage(jobset(replicated("data", 2, 3), annotations=notes))
    assert stage.status["quota"]["reserved"] == {"pods": "6"}


def test_a_resumed_jobset_waits_again() -> None:
    stage = Stage(pipeline(quota_admission="stage", admitted_stages="data"))
    stage.edit_jobset(suspend=True)
    annotate(stage, admitted_stages=None)
    stage.edit_jobset(suspend=False)
    assert suspended(stage) == {"test-js-data-0": True}
    assert stage.condition("Suspended") == ("False", "ResumeJobs")


def test_a_job_that_runs_is_not_stopped_when_its_admission_goes() -> None:
    stage = Stage(pipeline(quota_admission="stage", admitted_stages="data"))
    annotate(stage, admitted_stages=None)
    assert suspended(stage) == {"test-js-data-0": False}


def test_time_is_up_for_a_stage_that_waits_too_long() -> None:
    stage = Stage(pipeline(quota_admission="stage", quota_timeout_seconds="60", quota_wait="WaitingForQuota: no room"))
    stage.now += 59
    assert stage.settle() == pytest.approx(1)
    stage.now += 1
    stage.settle()
    assert stage.condition("Failed") == ("True", "QuotaTimeout")
    found = meta.find_condition(stage.jobset, "Failed")
    assert found is not None
    assert all(map(meta.deleting, stage.all(JOBS)))
    assert found["message"] == "a stage waited longer than 60 seconds for quota: data: no room"


@pytest.mark.parametrize(
    ("notes", "spec"),
    [({"admitted_stages": "data"}, {}), ({}, {"suspend": True}), ({"quota_timeout_seconds": "600"}, {})],
)
def test_time_runs_only_while_a_stage_waits(notes: dict[str, str], spec: dict[str, Any]) -> None:
    stage = Stage(pipeline(**{"quota_admission": "stage", "quota_timeout_seconds": "60", **notes}))
    stage.edit_jobset(**spec)
    stage.now += 500
    stage.settle()
    assert stage.condition("Failed") is None


KEPT = "echelon.dev/keep-completed-stages"


def restarted(keep: str, *complete: str, failing: str) -> Stage:
    entries = [replicated("data", 2), gpus("train", 8, dependsOn=depends(data="Complete")), replicated("side")]
    stage = Stage(jobset(*entries, annotations={KEPT: keep}, failurePolicy={"maxRestarts": 1}))
    stage.complete(*complete)
    stage.fail(failing)
    stage.finalize(JOBS)
    stage.settle()
    return stage


DATA = ("test-js-data-0", "test-js-data-1")


@pytest.mark.parametrize(("keep", "attempts"), [("true", {"0": 2, "1": 2}), ("false", {"1": 3})])
def test_a_restart_keeps_what_others_needed_to_be_complete(keep: str, attempts: dict[str, int]) -> None:
    stage = restarted(keep, *DATA, "test-js-side-0", failing="test-js-train-0")
    assert stage.attempts() == attempts
    assert ("test-js-train-0" in stage.job_names()) is (keep == "true")


def test_a_stage_that_is_not_complete_runs_again() -> None:
    stage = restarted("true", DATA[0], failing=DATA[1])
    assert stage.attempts() == {"1": 3}
    stage.complete(*DATA)
    assert stage.counts("data") == {"succeeded": 2}
