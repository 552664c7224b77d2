"""The status of a JobSet: its conditions by their rules, and an event for every condition that changed."""

from __future__ import annotations

from ...api.scheme import JOB_SETS, Object
from ..status_draft import EventType, StatusDraft

COMPLETED = "Completed"
FAILED = "Failed"
SUSPENDED = "Suspended"
RESTARTING = "RestartingJobSet"
STARTUP_IN_PROGRESS = "StartupPolicyInProgress"
STARTUP_COMPLETED = "StartupPolicyCompleted"


class JobSetStatusDraft(StatusDraft):
    """The next status of a JobSet."""

    def __init__(self, jobset: Object, now: float) -> None:
        super().__init__(JOB_SETS, jobset, now)
        self.body.setdefault("restarts", 0)

    def set_true(self, type_: str, reason: str, message: str, event: EventType = "Normal") -> None:
        if self.set(type_, "True", reason, message):
            self.note(event, reason, message)

    def set_false(self, type_: str, reason: str, message: str) -> None:
        """A condition that was never there stays away."""
        if self.find(type_) is not None and self.set(type_, "False", reason, message):
            self.note("Normal", reason, message)

    def startup(self, type_: str, reason: str, message: str) -> None:
        """One of the two startup conditions holds; the other, if there, turns False and keeps its words."""
        self.set_true(type_, reason, message)
        other = self.find(STARTUP_COMPLETED if type_ == STARTUP_IN_PROGRESS else STARTUP_IN_PROGRESS)
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
