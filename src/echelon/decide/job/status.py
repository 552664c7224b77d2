"""The status a sync leaves behind: counters, times, conditions in upstream's order, and the events about them."""

from __future__ import annotations

from typing import Any

from ...api.objects import meta
from ...api.scheme import JOBS, Object
from ...base.instants import to_time
from ..plan import Note
from . import indexes
from .outcome import Outcome
from .tally import Tally
from .tracking import Tracking
from .view import Job


def with_job_condition(
    conditions: list[Object], type_: str, status: str, reason: str, message: str, now: float
) -> bool:
    """Set a condition in place; False for one that was never there is no news.  True if anything changed."""
    for number, old in enumerate(conditions):
        if old["type"] == type_:
            if old["status"] == status:
                return False
            conditions[number] = _condition(type_, status, reason, message, now)
            return True
    if status == "False":
        return False
    conditions.append(_condition(type_, status, reason, message, now))
    return True


def _condition(type_: str, status: str, reason: str, message: str, now: float) -> Object:
    made = meta.condition(type_, status, reason, message, now)
    return {**made, "lastProbeTime": made["lastTransitionTime"]}


class StatusDraft:
    """The next status of one Job, and what is to be said about it."""

    def __init__(self, job: Job, start_time: float | None, now: float) -> None:
        self._job = job
        self._now = now
        self._status: dict[str, Any] = dict(job.status)
        self._conditions: list[Object] = list(job.status.get("conditions") or ())
        self.notes: list[Note] = []
        if start_time is not None and "startTime" not in self._status:
            self._status["startTime"] = to_time(start_time)

    def suspension(self) -> None:
        """Say whether the Job is suspended, once that is or ever was the case."""
        if self._job.suspended:
            if with_job_condition(self._conditions, "Suspended", "True", "JobSuspended", "Job suspended", self._now):
                self._say("Normal", "Suspended", "Job suspended")
            self._status.pop("startTime", None)
        elif with_job_condition(self._conditions, "Suspended", "False", "JobResumed", "Job resumed", self._now):
            self._say("Normal", "Resumed", "Job resumed")
            self._status["startTime"] = to_time(self._now)

    def pods(self, active: int, ready: int, terminating: int) -> None:
        self._put("active", active)
        self._status["ready"] = ready
        self._status["terminating"] = terminating

    def counters(self, tracking: Tracking, tally: Tally) -> None:
        self._put("succeeded", tracking.succeeded)
        self._put("failed", tracking.failed)
        if self._job.indexed:
            self._put("completedIndexes", indexes.show(tracking.completed_indexes))
        if self._job.backoff_limit_per_index is not None:
            self._status["failedIndexes"] = indexes.show(tally.failed_indexes)
        uncounted = {"succeeded": tracking.uncounted_succeeded, "failed": tracking.uncounted_failed}
        self._status["uncountedTerminatedPods"] = {key: uids for key, uids in uncounted.items() if uids}

    def interim(self, outcome: Outcome) -> None:
        with_job_condition(self._conditions, outcome.interim, "True", outcome.reason, outcome.message, self._now)

    def terminal(self, outcome: Outcome) -> None:
        with_job_condition(self._conditions, outcome.terminal, "True", outcome.reason, outcome.message, self._now)
        # A suspended Job has no start time, but a Job that has ended must have one.
        self._status.setdefault("startTime", to_time(self._now))
        if outcome.success:
            self._status["completionTime"] = to_time(self._now)
            self._say("Normal", "Completed", "Job completed")
        else:
            self._say("Warning", outcome.reason, outcome.message)
        completions = self._job.completions
        if completions is not None and self._status.get("succeeded", 0) > completions:
            message = "Too many succeeded pods running after completion count reached"
            self._say("Warning", "TooManySucceededPods", message)

    def done(self) -> Object:
        self._put("conditions", self._conditions)
        return self._status

    def _put(self, key: str, value: Any) -> None:
        """Zeros and empty texts are left out, as everywhere in Kubernetes."""
        if value:
            self._status[key] = value
        else:
            self._status.pop(key, None)

    def _say(self, type_: Any, reason: str, message: str) -> None:
        self.notes.append(Note(JOBS, self._job.obj, type_, reason, message))
