"""The next status of one object, and the events about its changes.  Every kind builds its own on this.

reconcile ─► StatusDraft (a copy of the stored status) ─► finish ─► Plan with one status write, if anything differs
"""

from __future__ import annotations

from typing import Literal

from ..api.objects import meta
from ..api.objects.subtree import items, mapping
from ..api.scheme import Object, Resource
from .plan import Draft, Note, Plan, StatusWrite

EventType = Literal["Normal", "Warning"]
_MESSAGE_LIMIT = 32_768


class StatusDraft:
    """Starts as a copy of the stored status.  Replace the values in `body`, never change them in place."""

    def __init__(self, resource: Resource, obj: Object, now: float) -> None:
        self._resource = resource
        self._obj = obj
        self._now = now
        self.body: Object = dict(mapping(obj, "status"))
        self.notes: list[Note] = []

    def find(self, type_: str) -> Object | None:
        """The condition of a type as it stands in the draft."""
        for condition in items(self.body, "conditions"):
            if condition.get("type") == type_:
                return condition  # type: ignore[no-any-return]
        return None

    def is_true(self, type_: str) -> bool:
        found = self.find(type_)
        return found is not None and found["status"] == "True"

    def set(self, type_: str, status: str, reason: str, message: str, since: str = "") -> bool:
        """Put a condition in place of its type, as of `since` or now; False if it says the same already."""
        old, new = self.find(type_), self._condition(type_, status, reason, message)
        new |= {"lastTransitionTime": since} if since else {}
        if old is not None and all(old.get(part) == new[part] for part in ("status", "reason", "message")):
            return False
        self.body["conditions"] = meta.with_condition(items(self.body, "conditions"), new)
        return True

    def note(self, type_: EventType, reason: str, message: str) -> None:
        """Record an event once the plan has been carried out."""
        self.notes.append(Note(self._resource, self._obj, type_, reason, message[:_MESSAGE_LIMIT]))

    def write(self) -> StatusWrite | None:
        if self.body == mapping(self._obj, "status"):
            return None
        return StatusWrite(self._resource, self._obj, self.body)

    def finish(self, draft: Draft) -> Plan:
        """The plan with this status and its events."""
        write = self.write()
        if write is not None:
            draft.status(write)
        for note in self.notes:
            draft.note(note)
        return draft.done()

    def _condition(self, type_: str, status: str, reason: str, message: str) -> Object:
        return meta.condition(type_, status, reason, message[:_MESSAGE_LIMIT], self._now)
