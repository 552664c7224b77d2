"""Rules of annotations about stages and quota, on JobSets and on TrainJobs, which hand them on to their JobSets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.decimals import read_count
from ..errors import FieldError, invalid, not_supported
from ..objects import meta
from ..objects.vocabulary import KEEP_COMPLETED_STAGES, QUOTA_ADMISSION, QUOTA_TIMEOUT
from ..scheme import Object

ADMISSIONS = ("stage", "whole")
#: What stages need together is computed for so many replicated jobs.
MOST_STAGED_JOBS = 64

Part = Mapping[str, Any]


def check(obj: Object) -> list[FieldError]:
    """Values that have no meaning are refused: the JobSet would run without what its user asked for."""
    notes = meta.annotations(obj)
    problems: list[FieldError] = []
    choice = notes.get(QUOTA_ADMISSION)
    if choice is not None and choice not in ADMISSIONS:
        problems.append(not_supported(_path(QUOTA_ADMISSION), choice, ADMISSIONS))
    elif choice is not None and len((obj.get("spec") or {}).get("replicatedJobs") or ()) > MOST_STAGED_JOBS:
        detail = f"a JobSet that waits for quota has no more than {MOST_STAGED_JOBS} replicatedJobs"
        problems.append(invalid(_path(QUOTA_ADMISSION), choice, detail))
    timeout = notes.get(QUOTA_TIMEOUT)
    if timeout is not None and not read_count(timeout):
        problems.append(invalid(_path(QUOTA_TIMEOUT), timeout, "must be a number of seconds above 0"))
    elif timeout is not None and choice is None:
        problems.append(invalid(_path(QUOTA_TIMEOUT), timeout, f"needs the annotation {QUOTA_ADMISSION}"))
    keep = notes.get(KEEP_COMPLETED_STAGES)
    if keep is not None and keep not in ("true", "false"):
        problems.append(not_supported(_path(KEEP_COMPLETED_STAGES), keep, ("true", "false")))
    return problems


def check_update(new: Object, old: Object) -> list[FieldError]:
    """What was stored before stays: an object that cannot be written any more could not be deleted either."""
    before = set(map(str, check(old)))
    return [problem for problem in check(new) if str(problem) not in before]


def _path(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"
