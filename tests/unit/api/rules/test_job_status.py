"""Job status: which transitions a real server accepts."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import JOBS, Object

from .builders import job, on_update

START, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def conditions(*types: str) -> list[Object]:
    return [{"type": type_, "status": "True"} for type_ in types]


def status(*types: str, **more: Any) -> Object:
    return {"conditions": conditions(*types), "startTime": START, **more}


COMPLETE = status("SuccessCriteriaMet", "Complete", completionTime=LATER, succeeded=1)
FAILED = status("FailureTarget", "Failed", failed=1)
INDEXED = {"completionMode": "Indexed", "completions": 4, "parallelism": 2}


def write(new: Object, old: Object | None = None, **spec: Any) -> list[str]:
    before = {**job(**spec), "status": old if old is not None else status()}
    return on_update(JOBS, {**before, "status": new}, before, "status")


@pytest.mark.parametrize(
    "new",
    [
        status(active=2, ready=1),
        status("SuccessCriteriaMet"),
        COMPLETE,
        FAILED,
        status("FailureTarget"),
        {"conditions": conditions("Suspended")},
    ],
)
def test_an_ordinary_status_is_accepted(new: Object) -> None:
    suspended = "startTime" not in new
    assert write(new, suspend=suspended) == []


@pytest.mark.parametrize(
    ("new", "old", "sentence"),
    [
        (
            status("SuccessCriteriaMet", "Complete", "FailureTarget", completionTime=LATER),
            None,
            "cannot set Complete=True and FailureTarget=True",
        ),
        (
            status("SuccessCriteriaMet", "FailureTarget"),
            None,
            "cannot set SuccessCriteriaMet=True and FailureTarget=True",
        ),
        (status("Failed"), None, "cannot set Failed=True condition without the FailureTarget=true condition"),
        (status("Complete", completionTime=LATER), None, "without the SuccessCriteriaMet=true condition"),
        (status(), status("FailureTarget"), "cannot disable FailureTarget=True condition"),
        ({**FAILED, "active": 1}, None, "active pods must be 0 for finished jobs"),
        ({**FAILED, "terminating": 1}, None, "terminating pods must be 0 for finished jobs"),
        ({**FAILED, "uncountedTerminatedPods": {"failed": ["u"]}}, None, "uncountedTerminatedPods must be empty"),
        ({"conditions": FAILED["conditions"]}, {}, "startTime must be set for finished jobs"),
        (status(completionTime=LATER), None, "cannot set completionTime when there is no Complete=True"),
        ({**COMPLETE, "completionTime": "2025-01-01T00:00:00Z"}, None, "completionTime cannot be set before startTime"),
        (status("SuccessCriteriaMet", "Complete"), None, "completionTime is required for Complete jobs"),
        ({**COMPLETE, "completionTime": START}, COMPLETE, "status.completionTime: Invalid value"),
        ({**status(), "startTime": LATER}, None, "startTime cannot be changed for unsuspended job"),
        (status(failed=1), status(failed=2), "cannot decrease the failed counter"),
        (status(succeeded=1), status(succeeded=2), "cannot decrease the succeeded counter"),
        (status(active=1, ready=2), None, "cannot set more ready pods than active"),
        (status(active=-1), None, "status.active: Invalid value: -1"),
        (status(completedIndexes="0"), None, "completedIndexes when non-indexed completion mode"),
        (status(failedIndexes="0"), None, "failedIndexes when backoffLimitPerIndex is null"),
        (status(uncountedTerminatedPods={"failed": ["u"], "succeeded": ["u"]}), None, "Duplicate value"),
    ],
)
def test_an_impossible_status_is_refused(new: Object, old: Object | None, sentence: str) -> None:
    assert any(sentence in problem for problem in write(new, old))


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (status(completedIndexes="1,0"), "error parsing completedIndexes: non-increasing order"),
        (status(completedIndexes="4"), "error parsing completedIndexes: too large index"),
        (status(completedIndexes="a-b"), "error parsing completedIndexes: cannot convert"),
        (status(completedIndexes="0-2", failedIndexes="2"), "failedIndexes and completedIndexes overlap"),
    ],
)
def test_indexes_must_make_sense(new: Object, sentence: str) -> None:
    assert any(sentence in problem for problem in write(new, backoffLimitPerIndex=1, **INDEXED))


def test_an_elastic_job_may_lose_successes() -> None:
    elastic = {**INDEXED, "parallelism": 4}
    assert write(status(succeeded=1, completedIndexes="0"), status(succeeded=2), **elastic) == []


@pytest.mark.conformance("JOB-J28")
def test_a_resumed_job_starts_anew() -> None:
    old = {"conditions": conditions("Suspended"), "startTime": START}
    new = {"conditions": [{"type": "Suspended", "status": "False"}], "startTime": LATER}
    assert write(new, old) == []
    assert write({"conditions": conditions("Suspended")}, status(), suspend=True) == []
