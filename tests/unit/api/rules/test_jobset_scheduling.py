"""JobSet scheduling: the four levels of grouping, and what contradicts them."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import JOB_SETS, Object

from .builders import edited, job_set, on_update, refused, replicated

TWO = [replicated("a", job={"parallelism": 3}, replicas=2), replicated("b")]
CHAIN = [replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": "Complete"}])]
GANG = {"schedulingPolicy": {"gang": {}}}
RACK = {"schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]}}


def entry(*targets: str, **more: Any) -> Object:
    return {"targetReplicatedJobs": list(targets), **more}


def gang(**count: int) -> Object:
    return {"schedulingPolicy": {"gang": count}}


@pytest.mark.parametrize(
    "scheduling",
    [
        {},
        GANG,
        gang(minCount=7),
        {"schedulingPolicy": {"basic": {}}},
        {**GANG, **RACK, "disruptionMode": {"all": {}}},
        {"replicatedJobs": [entry("a", "b", **gang(minCount=7))]},
        {"replicatedJobs": [entry("a", **gang(minCount=6)), entry("b")]},
        {"replicatedJobs": [entry("a", job={**gang(minCount=3), **RACK}), entry("b", job={})]},
        {
            **gang(minGroupCount=2),
            "replicatedJobs": [entry("a", **gang(minGroupCount=2), job=GANG), entry("b", job={})],
        },
    ],
)
def test_good_grouping_is_accepted(scheduling: Object) -> None:
    assert refused(JOB_SETS, job_set(*TWO, scheduling=scheduling)) == []


PATH = "spec.scheduling"
ENTRIES = f"{PATH}.replicatedJobs"


@pytest.mark.conformance("JS-G13")
@pytest.mark.parametrize(
    ("scheduling", "sentence"),
    [
        ({**GANG, "replicatedJobs": [entry("a"), entry("b", job={})]}, f"{ENTRIES}[0].job: Required value"),
        (
            {"replicatedJobs": [entry("a")]},
            f"{ENTRIES}: Required value: every replicatedJob must be in an entry, missing: b",
        ),
        ({"replicatedJobs": [entry("a", "b"), entry("b")]}, f"{ENTRIES}[1].targetReplicatedJobs[0]: Invalid value"),
        ({"replicatedJobs": [entry("a", "b", "c")]}, "must be the name of an entry of spec.replicatedJobs"),
        ({"replicatedJobs": [entry("a", "b", job={})]}, "`job` needs exactly one target"),
        ({"replicatedJobs": [entry("a", job={}, **GANG), entry("b")]}, f"{ENTRIES}[0].schedulingPolicy: Forbidden"),
        (
            {"replicatedJobs": [entry("a", job={}, **RACK), entry("b")]},
            f"{ENTRIES}[0].schedulingConstraints: Forbidden",
        ),
        ({"schedulingPolicy": {}}, f"{PATH}.schedulingPolicy: Invalid value"),
        ({"schedulingPolicy": {"basic": {}, "gang": {}}}, "must specify exactly one of"),
        ({"disruptionMode": {}}, f"{PATH}.disruptionMode: Invalid value"),
        (gang(minGroupCount=1), f"{PATH}.schedulingPolicy.gang.minGroupCount: Forbidden: this gang is one of pods"),
        (
            {**gang(minCount=1), "replicatedJobs": [entry("a", job={}), entry("b", job={})]},
            f"{PATH}.schedulingPolicy.gang.minCount: Forbidden: this gang is one of groups",
        ),
        (
            {**gang(minGroupCount=3), "replicatedJobs": [entry("a", job={}), entry("b", job={})]},
            "must not be greater than the number of entries of replicatedJobs (2)",
        ),
        (
            {**GANG, "replicatedJobs": [entry("a", job={}, **gang(minGroupCount=3)), entry("b", job={})]},
            "must not be greater than the number of its Jobs (2)",
        ),
    ],
)
def test_contradictory_grouping_is_refused(scheduling: Object, sentence: str) -> None:
    problems = refused(JOB_SETS, job_set(*TWO, scheduling=scheduling))
    assert len(problems) == 1
    assert sentence in problems[0]


@pytest.mark.conformance("JS-G09")
@pytest.mark.parametrize(
    "scheduling",
    [
        gang(minCount=8),
        {"replicatedJobs": [entry("a", **gang(minCount=7)), entry("b")]},
        {"replicatedJobs": [entry("a", job=gang(minCount=4)), entry("b")]},
    ],
)
def test_a_minimum_above_the_pods_is_refused(scheduling: Object) -> None:
    problems = refused(JOB_SETS, job_set(*TWO, scheduling=scheduling))
    assert len(problems) == 1
    assert "gang.minCount: Invalid value" in problems[0]


@pytest.mark.conformance("JS-G08")
def test_a_sequenced_jobset_has_no_common_minimum() -> None:
    assert refused(JOB_SETS, job_set(*CHAIN, scheduling=GANG)) == []
    problems = refused(JOB_SETS, job_set(*CHAIN, scheduling=gang(minCount=2)))
    assert problems[0].startswith(f"{PATH}.schedulingPolicy.gang.minCount: Forbidden")


@pytest.mark.conformance("JS-G13")
def test_more_than_eight_templates_are_refused() -> None:
    nine = [replicated(f"r{i}") for i in range(9)]
    entries = [entry(f"r{i}") for i in range(9)]
    problems = refused(JOB_SETS, job_set(*nine, scheduling={"replicatedJobs": entries}))
    assert "a Workload holds at most 8 templates" in problems[0]
    in_order = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
    problems = refused(JOB_SETS, job_set(*nine, executionPolicy=in_order, scheduling=GANG))
    assert "a Workload holds at most 8 templates" in problems[0]


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (replicated("b", job={"scheduling": GANG}), "template.spec.scheduling: Forbidden"),
        (replicated("b", pods={"schedulingGroup": {"podGroupName": "g"}}), "schedulingGroup: Forbidden"),
        (replicated("b", pods={"priorityClassName": "high"}), 'must be "" as in the first entry'),
    ],
)
def test_templates_do_not_speak_against_the_jobset(job: Object, sentence: str) -> None:
    problems = refused(JOB_SETS, job_set(replicated("a"), job, scheduling=GANG))
    assert len(problems) == 1
    assert sentence in problems[0]


@pytest.mark.conformance("JS-G15")
def test_job_level_scheduling_alone_is_left_alone() -> None:
    assert refused(JOB_SETS, job_set(replicated("a", job={"scheduling": GANG}))) == []


@pytest.mark.conformance("JS-G13")
def test_grouping_changes_only_while_suspended() -> None:
    running, suspended = job_set(*TWO, scheduling=GANG), job_set(*TWO, scheduling=GANG, suspend=True)
    assert on_update(JOB_SETS, edited(suspended, "spec.scheduling", gang(minCount=2)), suspended) == []
    problems = on_update(JOB_SETS, edited(running, "spec.scheduling", gang(minCount=2)), running)
    assert len(problems) == 1
    assert "field is immutable once unsuspended" in problems[0]
    problems = on_update(JOB_SETS, edited(suspended, "spec.scheduling", gang(minCount=99)), suspended)
    assert "must not be greater than the number of pods of the JobSet (7)" in problems[0]
