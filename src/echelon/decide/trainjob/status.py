"""The status of a TrainJob: whether it is suspended, how its JobSet ended, and its deadline."""

from __future__ import annotations

from ...api.scheme import TRAIN_JOBS
from ...api.views.job_views import JobSetView
from ...api.views.trainjob_views import TrainJobView
from ...base.instants import parse
from ..status_draft import StatusDraft
from .model import TrainJob

SUSPENDED = "Suspended"
COMPLETE = "Complete"
FAILED = "Failed"
DEADLINE_EXCEEDED = "DeadlineExceeded"
_COUNTERS = ("name", "ready", "succeeded", "failed", "active", "suspended")


def missed_deadline(trainjob: TrainJobView) -> bool:
    failed = trainjob.condition(FAILED)
    return failed is not None and failed.status == "True" and failed.reason == DEADLINE_EXCEEDED


class TrainJobStatusDraft(StatusDraft):
    """The next status of a TrainJob."""

    def __init__(self, tj: TrainJob, now: float) -> None:
        super().__init__(TRAIN_JOBS, tj.obj, now)
        self._tj = tj

    def suspension(self) -> None:
        if self._tj.suspended:
            self._tell(SUSPENDED, "True", "Suspended", "TrainJob is suspended", "Suspended")
        elif self.is_true(SUSPENDED):
            self._tell(SUSPENDED, "False", "Resumed", "TrainJob is resumed", "Resumed")

    def follow(self, jobset: JobSetView | None) -> None:
        """Take over the JobSet's counts and its end; a missed deadline is an end of our own and stays."""
        if jobset is None:
            return
        counts = [
            {counter: getattr(entry, counter) for counter in _COUNTERS}
            for entry in jobset.status.replicated_jobs_status
        ]
        if counts:
            self.body["jobsStatus"] = counts
        if missed_deadline(self._tj.view):
            return
        for theirs, ours, event in (("Completed", COMPLETE, "Completed"), (FAILED, FAILED, "Failed")):
            found = jobset.condition(theirs)
            if found is not None and found.status == "True":
                self._tell(ours, "True", found.reason, found.message, event, found.last_transition_time)

    def deadline(self) -> float | None:
        """Seconds left of the active deadline; fails the TrainJob when there are none."""
        seconds = self._tj.spec.active_deadline_seconds
        if seconds is None or self._tj.suspended or self.finished:
            return None
        left = self._started() + seconds - self._now
        if left > 0:
            return max(1.0, left)
        message = "TrainJob exceeded its active deadline"
        self._tell(FAILED, "True", DEADLINE_EXCEEDED, message, DEADLINE_EXCEEDED)
        return None

    def unsupported_runtime(self) -> None:
        reference = self._tj.spec.runtime_ref
        message = f"no kind of runtime is called {reference.kind}.{reference.api_group}"
        self._tell(FAILED, "True", "TrainingRuntimeNotSupported", message, "Failed")

    @property
    def finished(self) -> bool:
        return self.is_true(COMPLETE) or self.is_true(FAILED)

    def _started(self) -> float:
        """When the deadline began to run; a resume begins a new window, in this very decision if it is now."""
        resumed = self.find(SUSPENDED)
        if resumed is not None and resumed["status"] == "False":
            return parse(resumed["lastTransitionTime"])
        return parse(self._tj.view.metadata.creation_timestamp)

    def _tell(self, type_: str, status: str, reason: str, message: str, event: str, since: str = "") -> None:
        """Set a condition, with an event if it changed."""
        if self.set(type_, status, reason, message, since):
            self.note("Warning" if type_ == FAILED else "Normal", event, message)
