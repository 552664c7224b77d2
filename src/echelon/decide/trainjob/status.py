"""The status of a TrainJob: whether it is suspended, how its JobSet ended, and its deadline."""

from __future__ import annotations

from ...api.objects import meta
from ...api.scheme import TRAIN_JOBS, Object
from ...base.instants import parse
from ..status_draft import StatusDraft
from .model import TrainJob

SUSPENDED = "Suspended"
COMPLETE = "Complete"
FAILED = "Failed"
DEADLINE_EXCEEDED = "DeadlineExceeded"
_COUNTERS = ("name", "ready", "succeeded", "failed", "active", "suspended")


def finished(trainjob: Object) -> bool:
    return meta.condition_is(trainjob, COMPLETE) or meta.condition_is(trainjob, FAILED)


def missed_deadline(trainjob: Object) -> bool:
    failed = meta.find_condition(trainjob, FAILED)
    return failed is not None and failed["status"] == "True" and failed["reason"] == DEADLINE_EXCEEDED


class TrainJobStatusDraft(StatusDraft):
    """The next status of a TrainJob."""

    def __init__(self, tj: TrainJob, now: float) -> None:
        super().__init__(TRAIN_JOBS, tj.obj, now)
        self._tj = tj

    def suspension(self) -> None:
        if self._tj.suspended:
            self._tell(SUSPENDED, "True", "Suspended", "TrainJob is suspended", "Suspended")
        elif meta.condition_is(self._tj.obj, SUSPENDED):
            self._tell(SUSPENDED, "False", "Resumed", "TrainJob is resumed", "Resumed")

    def follow(self, jobset: Object | None) -> None:
        """Take over the JobSet's counts and its end; a missed deadline is an end of our own and stays."""
        if jobset is None:
            return
        counts = [
            {counter: entry[counter] for counter in _COUNTERS}
            for entry in (jobset.get("status") or {}).get("replicatedJobsStatus") or ()
        ]
        if counts:
            self.body["jobsStatus"] = counts
        if missed_deadline(self._tj.obj):
            return
        for theirs, ours, event in (("Completed", COMPLETE, "Completed"), (FAILED, FAILED, "Failed")):
            found = meta.find_condition(jobset, theirs)
            if found is not None and found["status"] == "True":
                self._tell(ours, "True", found["reason"], found["message"], event, found["lastTransitionTime"])

    def deadline(self) -> float | None:
        """Seconds left of the active deadline; fails the TrainJob when there are none."""
        seconds = self._tj.spec.get("activeDeadlineSeconds")
        if seconds is None or self._tj.suspended or self.finished:
            return None
        left = self._started() + float(seconds) - self._now
        if left > 0:
            return max(1.0, left)
        message = "TrainJob exceeded its active deadline"
        self._tell(FAILED, "True", DEADLINE_EXCEEDED, message, DEADLINE_EXCEEDED)
        return None

    def unsupported_runtime(self) -> None:
        reference = self._tj.spec["runtimeRef"]
        message = f"no kind of runtime is called {reference.get('kind')}.{reference.get('apiGroup')}"
        self._tell(FAILED, "True", "TrainingRuntimeNotSupported", message, "Failed")

    @property
    def finished(self) -> bool:
        return self.is_true(COMPLETE) or self.is_true(FAILED)

    def _started(self) -> float:
        """When the deadline began to run; a resume begins a new window, in this very decision if it is now."""
        resumed = self.find(SUSPENDED)
        if resumed is not None and resumed["status"] == "False":
            return parse(resumed["lastTransitionTime"])
        return parse(self._tj.obj["metadata"]["creationTimestamp"])

    def _tell(self, type_: str, status: str, reason: str, message: str, event: str, since: str = "") -> None:
        """Set a condition, with an event if it changed."""
        if self.set(type_, status, reason, message, since):
            self.note("Warning" if type_ == FAILED else "Normal", event, message)
