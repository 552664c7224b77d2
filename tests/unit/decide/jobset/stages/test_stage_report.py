"""What a JobSet with stages says: which stage runs or waits, for what, and what it takes of quotas."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, Object
from echelon.decide.jobset import children
from echelon.decide.jobset.stages import stage_report
from echelon.decide.jobset.status import JobSetStatusDraft
from tests.unit.decide.jobset.stage import Stage, jobset, model, replicated
from tests.unit.decide.jobset.stages.test_amounts import depends, gpus


def pipeline(**spec: Any) -> Object:
    return jobset(
        replicated("data", 2),
        gpus("train", 8, dependsOn=depends(data="Complete")),
        replicated("eval", dependsOn=depends(train="Complete")),
        **spec,
    )


def said(stage: Stage) -> tuple[str, str, str]:
    found = meta.find_condition(stage.jobset, "StageRunning")
    assert found is not None
    return found["status"], found["reason"], found["message"]


def test_a_pipeline_says_which_stage_runs_and_what_the_next_one_waits_for() -> None:
    stage = Stage(pipeline())
    waits = "train waits for data to complete"
    assert said(stage) == ("True", "StageStarts", f"1/3 data starts (0 of 2 Jobs ready); {waits} (0 of 2 Jobs)")
    stage.ready("test-js-data-0", "test-js-data-1")
    assert said(stage) == ("True", "StageRuns", f"1/3 data runs (0 of 2 Jobs complete); {waits} (0 of 2 Jobs)")
    stage.complete("test-js-data-0")
    assert said(stage)[2].endswith("train waits for data to complete (1 of 2 Jobs)")
    stage.complete("test-js-data-1")
    assert said(stage)[2].startswith("2/3 train starts (0 of 1 Jobs ready); eval waits for train to complete")
    stage.complete("test-js-train-0")
    assert said(stage)[2] == "3/3 eval starts (0 of 1 Jobs ready)"
    stage.complete("test-js-eval-0")
    assert said(stage) == ("False", "StagesComplete", "3 of 3 stages are complete")


def test_a_chain_by_execution_policy_waits_for_the_entry_before() -> None:
    order = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
    stage = Stage(jobset(replicated("a"), replicated("b"), replicated("c"), executionPolicy=order))
    stage.complete("test-js-a-0")
    assert said(stage)[2] == "2/3 b starts (0 of 1 Jobs ready); c waits for b to complete (0 of 1 Jobs)"


@pytest.mark.parametrize(
    ("dependency", "policy"),
    [({"dependsOn": depends(launcher="Ready")}, {}), ({}, {"startupPolicy": {"startupPolicyOrder": "InOrder"}})],
)
def test_an_order_inside_a_stage_is_told(dependency: Object, policy: Object) -> None:
    stage = Stage(jobset(replicated("launcher"), replicated("workers", 2, **dependency), **policy))
    assert said(stage)[2] == (
        "1/1 launcher+workers starts (0 of 3 Jobs ready), workers waits for launcher to be ready (0 of 1 Jobs)"
    )
    stage.ready("test-js-launcher-0")
    assert said(stage)[2] == "1/1 launcher+workers starts (1 of 3 Jobs ready)"
    stage.ready("test-js-workers-0", "test-js-workers-1")
    assert said(stage)[2] == "1/1 launcher+workers runs (0 of 3 Jobs complete)"


def test_branches_are_told_side_by_side() -> None:
    left, right = ("left", "right")
    entries = [replicated("a"), replicated("b"), replicated(left, dependsOn=depends(a="Complete"))]
    stage = Stage(jobset(*entries, replicated(right, dependsOn=depends(b="Complete"))))
    stage.complete("test-js-a-0")
    assert said(stage)[2] == (
        "1/3 a+b starts (1 of 2 Jobs ready); left starts (0 of 1 Jobs ready); "
        "right waits for b to complete (0 of 1 Jobs)"
    )


def said_with_a_pending_gang(stage: Stage) -> tuple[str, str, str]:
    """What is said beside the condition that a gang is not placed."""
    pending = {"type": "GangPending", "status": "True", "reason": "GangUnschedulable", "message": "no GPU is free"}
    status = JobSetStatusDraft({**stage.jobset, "status": {**stage.status, "conditions": [pending]}}, stage.now)
    js, jobs = model(stage.jobset), stage.observed().jobs
    found = children.classify(js, jobs)
    stage_report.report(js, found, children.count(js, found), status)
    told = status.find("StageRunning")
    assert told is not None
    return told["status"], told["reason"], told["message"]


def test_a_gang_that_is_not_placed_is_told_in_its_own_words() -> None:
    stage = Stage(pipeline())
    stage.complete("test-js-data-0", "test-js-data-1")
    waits = "2/3 train waits for placement: no GPU is free; eval waits for train to complete (0 of 1 Jobs)"
    assert said_with_a_pending_gang(stage) == ("False", "WaitingForPlacement", waits)
    stage.ready("test-js-train-0")
    assert said_with_a_pending_gang(stage)[1] == "StageRuns"


def test_who_waits_for_quota_does_not_wait_for_placement() -> None:
    body = pipeline()
    body["metadata"]["annotations"] = {"echelon.dev/quota-admission": "stage"}
    assert said_with_a_pending_gang(Stage(body))[1] == "WaitingForQuota"


def test_what_is_no_longer_wished_is_no_longer_told() -> None:
    stage = Stage(jobset(replicated("a"), annotations={"echelon.dev/quota-admission": "stage"}))
    assert {"stages", "quota", "conditions"} <= set(stage.status)
    stage.objects[JOB_SETS, stage.name] = {**stage.jobset, "metadata": {**stage.jobset["metadata"], "annotations": {}}}
    stage.settle()
    assert stage.status["conditions"] == []
    assert not {"stages", "quota"} & set(stage.status)


@pytest.mark.parametrize(("branches", "more"), [(3, ""), (5, "; 2 more stages")])
def test_many_stages_side_by_side_are_counted(branches: int, more: str) -> None:
    firsts = [replicated(f"first{number}") for number in range(branches)]
    nexts = [
        replicated(f"next{number}", dependsOn=depends(**{f"first{number}": "Complete"})) for number in range(branches)
    ]
    stage = Stage(jobset(*firsts, *nexts))
    stage.complete(*(f"test-js-first{number}-0" for number in range(branches)))
    clauses = "; ".join(f"next{number} starts (0 of 1 Jobs ready)" for number in range(3))
    assert said(stage)[2] == f"2/{branches + 1} {clauses}{more}"


@pytest.mark.parametrize(("entries", "figures"), [(64, True), (65, False)])
def test_figures_are_for_a_number_of_entries_that_can_be_added_up(entries: int, figures: bool) -> None:
    order = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
    stage = Stage(jobset(*(replicated(f"r{number}") for number in range(entries)), executionPolicy=order))
    assert ("quota" in stage.status) is figures
    assert said(stage)[2].startswith(f"1/{entries} r0 starts")


def test_several_unmet_dependencies_are_told_in_their_order() -> None:
    entries = [replicated("a"), replicated("b", 2), replicated("c", dependsOn=depends(a="Complete", b="Complete"))]
    stage = Stage(jobset(*entries))
    assert said(stage)[2].endswith("c waits for a to complete (0 of 1 Jobs) and b to complete (0 of 2 Jobs)")


def test_suspension_and_failure_are_told() -> None:
    stage = Stage(pipeline())
    stage.edit_jobset(suspend=True)
    assert said(stage)[:2] == ("False", "StageSuspended")
    stage.edit_jobset(suspend=False)
    stage.complete("test-js-data-0", "test-js-data-1")
    stage.fail("test-js-train-0")
    assert said(stage) == ("False", "StageFailed", "train failed; 1 of 3 stages are complete")
    assert ("Warning", "StageFailed", "train failed; 1 of 3 stages are complete") in stage.events


def test_events_come_with_changes_of_the_reason_only() -> None:
    stage = Stage(pipeline())
    stage.complete("test-js-data-0")
    assert stage.reasons().count("StageStarts") == 1


def test_figures_by_stage() -> None:
    stage = Stage(pipeline())
    stage.set_job("test-js-data-0", active=1)
    assert [(one["name"], one["phase"]) for one in stage.status["stages"]] == [
        ("data", "Starting"),
        ("train", "Waiting"),
        ("eval", "Waiting"),
    ]
    assert [one["requests"] for one in stage.status["stages"]] == [
        {"pods": "2"},
        {"nvidia.com/gpu": "8", "pods": "1"},
        {"pods": "1"},
    ]
    assert stage.status["stages"][0]["used"] == {"pods": "1"}
    assert stage.status["quota"] == {
        "admission": "none",
        "sum": {"nvidia.com/gpu": "8", "pods": "4"},
        "peak": {"nvidia.com/gpu": "8", "pods": "2"},
        "used": {"pods": "1"},
    }


@pytest.mark.parametrize("policy", [{}, {"executionPolicy": {}}])
def test_a_jobset_without_order_has_no_stages_to_tell(policy: Object) -> None:
    stage = Stage(jobset(**policy))
    assert len(stage.job_names()) == 4
    assert set(stage.status) == {"restarts", "executionAttempts", "replicatedJobsStatus"}
