"""The status of a JobSet being rewritten: conditions by their rules, an event for every condition that changed."""

from __future__ import annotations

from copy import deepcopy
from typing import Literal

from ...api.objects import meta
from ...api.scheme import JOB_SETS, Object
from ..plan import Note, StatusWrite

COMPLETED = "Completed"
FAILED = "Failed"
SUSPENDED = "Suspended"
RESTARTING = "RestartingJobSet"
STARTUP_IN_PROGRESS = "StartupPolicyInProgress"
STARTUP_COMPLETED = "StartupPolicyCompleted"

_MESSAGE_LIMIT = 32_768
EventType = Literal["Normal", "Warning"]


def finished(jobset: Object) -> bool:
    return meta.condition_is(jobset, COMPLETED) or meta.condition_is(jobset, FAILED)


class StatusDraft:
    """Starts as a copy of the stored status; `write` is None as long as nothing differs."""

    def __init__(self, jobset: Object, now: float) -> None:
        self._jobset = jobset
        self._now = now
        self.body: Object = deepcopy(jobset.get("status") or {})
        self.body.setdefault("restarts", 0)
        self.notes: list[Note] = []

    def set_true(self, type_: str, reason: str, message: str, event: EventType = "Normal") -> None:
        self._set(meta.condition(type_, "True", reason, message[:_MESSAGE_LIMIT], self._now), event)

    def set_false(self, type_: str, reason: str, message: str) -> None:
        """A condition that was never there stays away."""
        if self._find(type_) is not None:
            self._set(meta.condition(type_, "False", reason, message, self._now), "Normal")

    def startup(self, type_: str, reason: str, message: str) -> None:
        """One of the two startup conditions holds; the other, if there, turns False and keeps its words."""
        self.set_true(type_, reason, message)
        other = self._find(STARTUP_COMPLETED if type_ == STARTUP_IN_PROGRESS else STARTUP_IN_PROGRESS)
        if other is not None and other["status"] == "True":
            self.set_false(other["type"], other["reason"], other["message"])

    def fail(self, reason: str, message: str) -> None:
        self.set_true(FAILED, reason, message, "Warning")
        self.body["terminalState"] = FAILED
        self.set_false(RESTARTING, "JobSetFailed", "jobset failed")

    def complete(self) -> None:
        self.set_true(COMPLETED, "AllJobsCompleted", "jobset completed successfully")
        self.body["terminalState"] = COMPLETED
        self.set_false(RESTARTING, "JobSetCompleted", "jobset completed")

    def note(self, type_: EventType, reason: str, message: str) -> None:
        self.notes.append(Note(JOB_SETS, self._jobset, type_, reason, message))

    def write(self) -> StatusWrite | None:
        if self.body == self._jobset.get("status"):
            return None
        return StatusWrite(JOB_SETS, self._jobset, self.body)

    def _find(self, type_: str) -> Object | None:
        for condition in self.body.get("conditions") or ():
            if condition["type"] == type_:
                return condition  # type: ignore[no-any-return]
        return None

    def _set(self, new: Object, event: EventType) -> None:
        old = self._find(new["type"])
        if old is not None and all(old.get(part) == new[part] for part in ("status", "reason", "message")):
            return
        self.body["conditions"] = meta.with_condition(self.body.get("conditions") or (), new)
        self.note(event, new["reason"], new["message"])
