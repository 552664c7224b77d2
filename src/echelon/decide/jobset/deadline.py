"""`activeDeadlineSeconds`: how long a JobSet may run, counted anew after a resume and after a restart of the whole."""

from __future__ import annotations

from ...base.instants import parse, to_time
from ..plan import Draft
from .model import JobSet
from .status import JobSetStatusDraft

_START = "startTime"


def keep_time(js: JobSet, now: float, status: JobSetStatusDraft) -> None:
    """Note since when a JobSet with a deadline has been active."""
    if js.spec.active_deadline_seconds is None or js.suspended:
        status.body.pop(_START, None)
    else:
        status.body.setdefault(_START, to_time(now))


def missed(js: JobSet, now: float, draft: Draft, status: JobSetStatusDraft) -> bool:
    """Whether time is up (which fails the JobSet); if not, look again when it is."""
    seconds = js.spec.active_deadline_seconds
    if seconds is None or _START not in status.body:
        return False
    left = parse(status.body[_START]) + seconds - now
    if left > 0:
        draft.requeue(left)
        return False
    status.fail("DeadlineExceeded", "jobset was active longer than specified deadline")
    return True
