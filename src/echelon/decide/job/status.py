"""The status that a decision leaves behind: counters, times, conditions, and the events about them."""

from __future__ import annotations

from typing import Any

from ...api.objects.vocabulary import GROUPING_DEGRADED
from ...api.scheme import JOBS, Object
from ...base.instants import to_time
from ..status_draft import StatusDraft
from .children import PodCounts
from .model import Job
from .outcome import Outcome
from .scheduling_groups import GroupProblem
from .tracking import Tracking


class JobStatusDraft(StatusDraft):
    """The next status of a Job."""

    def __init__(self, job: Job, start_time: float | None, now: float) -> None:
        super().__init__(JOBS, job.obj, now)
        self._job = job
        if start_time is not None and "startTime" not in self.body:
            self.body["startTime"] = to_time(start_time)

    def set(self, type_: str, status: str, reason: str, message: str, since: str = "") -> bool:
        """As upstream: only a change of status counts, and a condition that was never there does not become False."""
        old = self.find(type_)
        if status == "False" if old is None else old["status"] == status:
            return False
        return super().set(type_, status, reason, message, since)

    def suspension(self) -> None:
        """Say whether the Job is suspended, once that is or ever was the case."""
        if self._job.suspended:
            if self.set("Suspended", "True", "JobSuspended", "Job suspended"):
                self.note("Normal", "Suspended", "Job suspended")
            self.body.pop("startTime", None)
        elif self.set("Suspended", "False", "JobResumed", "Job resumed"):
            self.note("Normal", "Resumed", "Job resumed")
            self.body["startTime"] = to_time(self._now)

    def grouping(self, problem: GroupProblem | None) -> None:
        """Say why pods lack the group that was asked for, and that they have it again."""
        if problem is None:
            self.set(GROUPING_DEGRADED, "False", "Resolved", "The groups of this Job are as they should be")
        elif StatusDraft.set(self, GROUPING_DEGRADED, "True", problem.reason, problem.message):
            self.note("Warning", problem.reason, problem.message)

    def pods(self, active: int, ready: int, terminating: int) -> None:
        self._put("active", active)
        self.body["ready"] = ready
        self.body["terminating"] = terminating

    def counters(self, tracking: Tracking, counts: PodCounts) -> None:
        self._put("succeeded", tracking.succeeded)
        self._put("failed", tracking.failed)
        if self._job.indexed:
            self._put("completedIndexes", str(tracking.completed_indexes))
        if self._job.backoff_limit_per_index is not None:
            self.body["failedIndexes"] = str(counts.failed_indexes)
        uncounted = {"succeeded": tracking.uncounted_succeeded, "failed": tracking.uncounted_failed}
        self.body["uncountedTerminatedPods"] = {key: uids for key, uids in uncounted.items() if uids}

    def interim(self, outcome: Outcome) -> None:
        self.set(outcome.interim, "True", outcome.reason, outcome.message)

    def terminal(self, outcome: Outcome) -> None:
        self.set(outcome.terminal, "True", outcome.reason, outcome.message)
        # A suspended Job has no start time, but a Job that has ended must have one.
        self.body.setdefault("startTime", to_time(self._now))
        if outcome.success:
            self.body["completionTime"] = to_time(self._now)
            self.note("Normal", "Completed", "Job completed")
        else:
            self.note("Warning", outcome.reason, outcome.message)
        completions = self._job.completions
        if completions is not None and self.body.get("succeeded", 0) > completions:
            message = "Too many succeeded pods running after completion count reached"
            self.note("Warning", "TooManySucceededPods", message)

    def _put(self, key: str, value: Any) -> None:
        """Zeros and empty texts are left out, as everywhere in Kubernetes."""
        if value:
            self.body[key] = value
        else:
            self.body.pop(key, None)

    def _condition(self, type_: str, status: str, reason: str, message: str) -> Object:
        made = super()._condition(type_, status, reason, message)
        return {**made, "lastProbeTime": made["lastTransitionTime"]}
