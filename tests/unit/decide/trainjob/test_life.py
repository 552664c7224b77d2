"""Suspension, end and deadline of a TrainJob."""

from __future__ import annotations

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, Object
from tests.unit.decide.trainjob.stage import LLM, TORCH, Stage, counts, runtime, trainjob


def patch_of(selector: dict[str, str]) -> list[dict[str, object]]:
    node = {"name": "node", "template": {"spec": {"template": {"spec": {"nodeSelector": selector}}}}}
    change = {"template": {"spec": {"replicatedJobs": [node]}, "metadata": {"labels": {"flavour": "spot"}}}}
    return [{"manager": "acme.io/x", "trainingRuntimeSpec": change}]


@pytest.mark.conformance("TJ-41", "TJ-42")
@pytest.mark.parametrize(
    ("theirs", "ours", "reason"), [("Completed", "Complete", "AllJobsCompleted"), ("Failed", "Failed", "FailedJobs")]
)
def test_suspended_resumed_ended(theirs: str, ours: str, reason: str) -> None:
    stage = Stage(trainjob(suspend=True))
    assert stage.jobset["spec"]["suspend"] is True
    assert stage.conditions() == [("Suspended", "True", "Suspended")]
    stage.edit_trainjob(suspend=False)
    assert stage.jobset["spec"]["suspend"] is False
    assert stage.conditions() == [("Suspended", "False", "Resumed")]
    stage.set_jobset(replicatedJobsStatus=[counts("node", succeeded=1)])
    stage.end_jobset(theirs, reason, "as the jobset says")
    assert stage.conditions() == [("Suspended", "False", "Resumed"), (ours, "True", reason)]
    assert stage.trainjob["status"]["jobsStatus"] == [counts("node", succeeded=1)]
    ended = meta.find_condition(stage.trainjob, ours)
    assert ended is not None
    assert ended["message"] == "as the jobset says"
    assert stage.reasons() == ["JobSetCreated", "Suspended", "Resumed", theirs]


@pytest.mark.conformance("TJ-43")
def test_the_jobsets_counts_are_followed_in_their_order() -> None:
    stage = Stage(trainjob(LLM))
    for number in (1, 0):
        status = [counts("node"), counts("model-initializer", active=number), counts("dataset-initializer")]
        stage.set_jobset(replicatedJobsStatus=[{**one, "jobRestarts": [1]} for one in status])
        assert stage.trainjob["status"]["jobsStatus"] == status


@pytest.mark.conformance("TJ-38")
def test_a_suspended_jobset_takes_new_placement_and_nothing_else() -> None:
    stage = Stage(trainjob(suspend=True, runtimePatches=patch_of({"zone": "a"})))
    image = stage.container("node")["image"]
    stage.edit_trainjob(runtimePatches=patch_of({"zone": "b"}))
    assert stage.pod("node")["nodeSelector"] == {"zone": "b"}
    assert stage.container("node")["image"] == image
    stage.edit_trainjob(runtimePatches=patch_of({"zone": "c"}), suspend=False)
    assert stage.pod("node")["nodeSelector"] == {"zone": "c"}
    assert stage.jobset["spec"]["suspend"] is False
    assert meta.labels(stage.jobset) == {"flavour": "spot"}


def test_a_running_jobset_is_left_alone() -> None:
    stage = Stage(trainjob(runtimePatches=patch_of({"zone": "a"})))
    stage.edit_trainjob(runtimePatches=patch_of({"zone": "b"}))
    assert stage.pod("node")["nodeSelector"] == {"zone": "a"}


@pytest.mark.conformance("TJ-50", "TJ-51")
def test_a_missed_deadline_fails_the_trainjob_and_takes_the_jobset_down() -> None:
    stage = Stage(trainjob(activeDeadlineSeconds=3600))
    assert stage.settle() == 3600
    stage.now += 3599.5
    assert stage.settle() == 1
    stage.now += 0.5
    stage.settle()
    assert stage.conditions() == [("Failed", "True", "DeadlineExceeded")]
    assert stage.names(JOB_SETS) == []
    assert stage.events[-1] == ("Warning", "DeadlineExceeded", "TrainJob exceeded its active deadline")


@pytest.mark.conformance("TJ-52", "TJ-53")
def test_suspension_stops_the_deadline_and_a_resume_starts_it_anew() -> None:
    stage = Stage(trainjob(activeDeadlineSeconds=2, suspend=True))
    stage.now += 100
    assert stage.settle() is None
    stage.edit_trainjob(suspend=False)
    stage.now += 1
    stage.settle()
    assert stage.conditions() == [("Suspended", "False", "Resumed")]
    stage.now += 1
    stage.settle()
    assert stage.conditions()[-1] == ("Failed", "True", "DeadlineExceeded")
    assert stage.names(JOB_SETS) == []


def test_the_end_is_the_end() -> None:
    stage = Stage(trainjob(activeDeadlineSeconds=10))
    stage.end_jobset("Completed", "AllJobsCompleted", "")
    del stage.objects[JOB_SETS, "train"]
    stage.now += 100
    assert stage.settle() is None
    assert stage.names(JOB_SETS) == []
    assert stage.conditions() == [("Complete", "True", "AllJobsCompleted")]


@pytest.mark.parametrize(
    ("policy", "own", "seconds"),
    [
        ({}, {"ttlSecondsAfterFinished": 60}, 60),
        ({"ttlSecondsAfterFinished": 100}, {}, 100),
        ({"ttlSecondsAfterFinished": 100}, {"ttlSecondsAfterFinished": 0}, 0),
        ({"activeDeadlineSeconds": 5}, {}, None),
    ],
)
def test_a_finished_trainjob_goes_when_its_time_is_up(policy: Object, own: Object, seconds: int | None) -> None:
    stage = Stage(trainjob(**own), runtime(TORCH, runPolicy=policy))
    stage.end_jobset("Completed", "AllJobsCompleted", "done")
    if seconds:
        stage.now += seconds - 1
        stage.settle()
        assert not meta.deleting(stage.trainjob)
    stage.now += 1
    stage.settle()
    assert meta.deleting(stage.trainjob) is (seconds is not None)


@pytest.mark.parametrize(("own", "failed"), [({}, True), ({"activeDeadlineSeconds": 100}, False)])
def test_the_runtimes_deadline_holds_where_the_trainjob_has_none(own: Object, failed: bool) -> None:
    stage = Stage(trainjob(**own), runtime(TORCH, runPolicy={"activeDeadlineSeconds": 10}))
    stage.now += 11
    stage.settle()
    assert (("Failed", "True", "DeadlineExceeded") in stage.conditions()) is failed
