"""A controller's decision as a value: what to write, in which order, and when to look again.

`controllers.runner` enacts a plan: stages one after the other, the actions of a stage side by side, then the
status, then the events.  A failed action ends the plan; nothing after it happens but the status for that case, and the
key is retried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..api.scheme import Object, Resource
from ..api.verbs import Patch, Propagation, Subresource


@dataclass(frozen=True)
class Note:
    """An Event to be recorded about an object once everything else succeeded."""

    resource: Resource
    obj: Object
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True)
class Create:
    """Create; if the name is taken the plan ends there and the key is decided again from current caches.

    `created` and `refused` are recorded at once, whatever becomes of the rest of the plan; in their messages
    `{name}` stands for the name the object was given and `{error}` for the refusal.
    """

    resource: Resource
    obj: Object
    created: Note | None = None
    refused: Note | None = None


@dataclass(frozen=True)
class ApplyPatch:
    """Patch an object; conditional when the patch carries metadata.resourceVersion or metadata.uid.

    A missing object counts as done when `gone_is_fine`.  `refused` is recorded as that of a creation.
    """

    resource: Resource
    namespace: str
    name: str
    patch: Patch
    subresource: Subresource = ""
    gone_is_fine: bool = False
    refused: Note | None = None


@dataclass(frozen=True)
class Delete:
    """Delete the object with exactly this uid; an object already gone counts as done.

    With `resource_version` it must not have changed either; if it has, the plan ends and the key is retried.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    propagation: Propagation = "Background"
    grace_period_seconds: int | None = None
    resource_version: str = ""


Action = Create | ApplyPatch | Delete


@dataclass(frozen=True)
class StatusWrite:
    """Replace the status of an object that is still at this resourceVersion."""

    resource: Resource
    obj: Object
    status: Object


@dataclass(frozen=True)
class Plan:
    #: Stages in order; actions within a stage are independent.
    stages: tuple[tuple[Action, ...], ...] = ()
    status: StatusWrite | None = None
    notes: tuple[Note, ...] = ()
    #: The status to write instead if a creation or deletion is refused; `{error}` in its conditions says why.
    refused: StatusWrite | None = None
    #: Seconds after which to decide again even if nothing changes.
    requeue_after: float | None = None

    @property
    def empty(self) -> bool:
        return not any(self.stages) and self.status is None and not self.notes


NOTHING = Plan()


@dataclass
class Draft:
    """A plan being written, stage by stage."""

    _stages: list[tuple[Action, ...]] = field(default_factory=list)
    _notes: list[Note] = field(default_factory=list)
    _status: StatusWrite | None = None
    _refused: StatusWrite | None = None
    _requeue: float | None = None

    def stage(self, *actions: Action) -> None:
        if actions:
            self._stages.append(actions)

    def note(self, note: Note) -> None:
        self._notes.append(note)

    def status(self, write: StatusWrite) -> None:
        self._status = write

    def refused(self, write: StatusWrite) -> None:
        self._refused = write

    def requeue(self, after: float) -> None:
        """The soonest of all requests wins."""
        self._requeue = after if self._requeue is None else min(self._requeue, after)

    def done(self) -> Plan:
        return Plan(tuple(self._stages), self._status, tuple(self._notes), self._refused, self._requeue)
