"""Annotations of JobSets about stages and quota."""

from __future__ import annotations

import pytest

from echelon.api.scheme import JOB_SETS
from tests.unit.api.rules.builders import job_set, on_update, refused, replicated

ADMISSION, TIMEOUT, KEEP = (
    "echelon.dev/quota-admission",
    "echelon.dev/quota-timeout-seconds",
    "echelon.dev/keep-completed-stages",
)


@pytest.mark.parametrize(
    "annotations", [{ADMISSION: "stage", TIMEOUT: "60"}, {ADMISSION: "whole"}, {KEEP: "true"}, {KEEP: "false"}]
)
def test_good_annotations_are_accepted(annotations: dict[str, str]) -> None:
    assert refused(JOB_SETS, job_set(annotations=annotations)) == []


@pytest.mark.parametrize(
    ("annotations", "sentence"),
    [
        ({ADMISSION: "stages"}, f'metadata.annotations[{ADMISSION}]: Unsupported value: "stages"'),
        ({ADMISSION: "stage", TIMEOUT: "0"}, "must be a number of seconds above 0"),
        ({ADMISSION: "stage", TIMEOUT: "1h"}, "must be a number of seconds above 0"),
        ({TIMEOUT: "60"}, f"needs the annotation {ADMISSION}"),
        ({KEEP: "yes"}, f'metadata.annotations[{KEEP}]: Unsupported value: "yes"'),
    ],
)
def test_bad_annotations_are_refused(annotations: dict[str, str], sentence: str) -> None:
    (problem,) = refused(JOB_SETS, job_set(annotations=annotations))
    assert sentence in problem


def test_admission_is_for_a_number_of_replicated_jobs_that_can_be_added_up() -> None:
    many = [replicated(f"r{index}") for index in range(65)]
    assert refused(JOB_SETS, job_set(*many)) == []
    (problem,) = refused(JOB_SETS, job_set(*many, annotations={ADMISSION: "stage"}))
    assert "no more than 64 replicatedJobs" in problem


def test_an_update_is_refused_only_for_what_it_changes() -> None:
    bad = job_set(annotations={KEEP: "yes"})
    assert on_update(JOB_SETS, bad, bad) == []
    assert len(on_update(JOB_SETS, bad, job_set())) == 1
