"""`status.executionAttempts`: how often a JobSet was started, by a resume or by a restart of the whole.

Pods carry the number, so that what they write can be told apart.  It is stored before any Job of the new run starts:
a resume takes a decision of its own, whose mark is the reason of the condition Suspended, and a restart counts
in the write that begins it.
"""

from __future__ import annotations

from ..children import SortedJobs
from ..model import JobSet
from ..status import SUSPENDED, JobSetStatusDraft

_FIELD = "executionAttempts"
_RESUMING = "ResumingJobs"


def begins(js: JobSet, jobs: SortedJobs, status: JobSetStatusDraft) -> bool:
    """Whether a run begins with this decision, which then does nothing but count it."""
    condition = status.find(SUSPENDED)
    if condition is None or condition["status"] != "True":
        # Running, maybe since before runs were counted.
        status.body.setdefault(_FIELD, js.restarts)
        return False
    if condition["reason"] == _RESUMING:
        return False
    known = status.body.get(_FIELD)
    if known is None and (js.restarts or any(job.status.start_time for job in (*jobs.active, *jobs.succeeded))):
        known = js.restarts
    status.body[_FIELD] = 0 if known is None else known + 1
    status.set(SUSPENDED, "True", _RESUMING, "jobset is resuming")
    return True


def count_restart(js: JobSet, status: JobSetStatusDraft) -> None:
    status.body[_FIELD] = status.body.get(_FIELD, js.restarts) + 1
