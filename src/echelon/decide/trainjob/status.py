"""The status of a TrainJob: whether it is suspended, how its JobSet ended, and its deadline."""

from __future__ import annotations

from copy import deepcopy

from ...api.objects import meta
from ...api.scheme import TRAIN_JOBS, Object
from ...base.instants import parse
from ..plan import Note, StatusWrite
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


class StatusDraft:
    """Starts as a copy of the stored status; `write` is None as long as nothing differs."""

    def __init__(self, tj: TrainJob, now: float) -> None:
        self._tj = tj
        self._now = now
        self.body: Object = deepcopy(tj.obj.get("status") or {})
        self.notes: list[Note] = []

    def suspension(self) -> None:
        if self._tj.suspended:
            self._set(meta.condition(SUSPENDED, "True", "Suspended", "TrainJob is suspended", self._now), "Suspended")
        elif meta.condition_is(self._tj.obj, SUSPENDED):
            self._set(meta.condition(SUSPENDED, "False", "Resumed", "TrainJob is resumed", self._now), "Resumed")

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
                self._set({**found, "type": ours}, event)

    def deadline(self) -> float | None:
        """Seconds left of the active deadline; fails the TrainJob when there are none."""
        seconds = self._tj.spec.get("activeDeadlineSeconds")
        if seconds is None or self._tj.suspended or self.finished:
            return None
        left = self._started() + float(seconds) - self._now
        if left > 0:
            return max(1.0, left)
        message = "TrainJob exceeded its active deadline"
        self._set(meta.condition(FAILED, "True", DEADLINE_EXCEEDED, message, self._now), DEADLINE_EXCEEDED)
        return None

    def unsupported_runtime(self) -> None:
        reference = self._tj.spec["runtimeRef"]
        message = f"no kind of runtime is called {reference.get('kind')}.{reference.get('apiGroup')}"
        self._set(meta.condition(FAILED, "True", "TrainingRuntimeNotSupported", message, self._now), "Failed")

    @property
    def finished(self) -> bool:
        return finished({"status": self.body})

    def write(self) -> StatusWrite | None:
        if self.body == (self._tj.obj.get("status") or {}):
            return None
        return StatusWrite(TRAIN_JOBS, self._tj.obj, self.body)

    def _started(self) -> float:
        """A resume begins a new window, in this very decision if it is now."""
        resumed = meta.find_condition({"status": self.body, "metadata": {}}, SUSPENDED)
        if resumed is not None and resumed["status"] == "False":
            return parse(resumed["lastTransitionTime"])
        return parse(self._tj.obj["metadata"]["creationTimestamp"])

    def _set(self, new: Object, event: str) -> None:
        old = meta.find_condition({"status": self.body, "metadata": {}}, new["type"])
        if old is not None and all(old.get(part) == new[part] for part in ("status", "reason", "message")):
            return
        self.body["conditions"] = meta.with_condition(self.body.get("conditions") or (), new)
        bad = new["type"] == FAILED
        self.notes.append(Note(TRAIN_JOBS, self._tj.obj, "Warning" if bad else "Normal", event, new["message"]))
