"""The life of a root as a table: its phases, the events that it goes through, and which event leads where.

A root is the top of a tree of groups, or a pod without a group.  `RootStates` is the only place that changes a phase;
an event that the table does not allow is refused there.  docs/design/scheduler.md shows the diagram drawn by `diagram`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum


class Phase(StrEnum):
    """What a root waits for."""

    NEW = "New"
    QUEUED = "Queued"
    DECIDING = "Deciding"
    INCOMPLETE = "Incomplete"
    INVALID = "Invalid"
    IGNORED = "Ignored"
    BLOCKED = "Blocked"
    UNEXPLAINED = "Unexplained"
    PREEMPTING = "Preempting"
    BINDING = "Binding"
    SCHEDULED = "Scheduled"
    RETRYING = "Retrying"
    GONE = "Gone"


class Event(StrEnum):
    """What happens to a root."""

    CHANGED = "changed"
    VICTIMS_GONE = "victims gone"
    PLACE_LOST = "place lost"
    WOKEN = "woken"
    TAKEN = "taken"
    MISSING = "pods missing"
    REJECTED = "not valid"
    FOREIGN = "not ours"
    BLOCKED = "does not fit"
    UNEXPLAINED = "does not fit, reason later"
    RESERVED = "reservation changed"
    VICTIMS_LEAVING = "victims leaving"
    MINIMUM_PLACED = "minimum placed"
    PLACED = "placed"
    NOTHING_PENDING = "nothing pending"
    BOUND = "last binding answered"
    REFUSED = "binding refused"
    FAILED = "cycle failed"
    ENDED = "nothing left to do"


#: What each phase means, for readers and for the page.
MEANING: Mapping[Phase, str] = {
    Phase.NEW: "known, nothing asked for it yet",
    Phase.QUEUED: "in the queue for a decision",
    Phase.DECIDING: "taken from the queue; left before the cycle ends",
    Phase.INCOMPLETE: "pods or groups are missing; waits until none has come for a second, then for its own change",
    Phase.INVALID: "the tree must not be scheduled as it is; waits for its own change",
    Phase.IGNORED: "its pods name another scheduler; waits for its own change",
    Phase.BLOCKED: "does not fit and says why; waits for capacity that can help, or its back-off",
    Phase.UNEXPLAINED: "does not fit; its reason is worked out when the queue leaves time for it",
    Phase.PREEMPTING: "places are kept for it until its victims are gone; looks elsewhere after its back-off",
    Phase.BINDING: "everything that can be tried is placed; bindings are under way",
    Phase.SCHEDULED: "nothing is pending",
    Phase.RETRYING: "a binding was refused or a cycle failed; waits for its back-off",
    Phase.GONE: "forgotten",
}

#: Events from outside that put a root into the queue whatever it waits for.
_FROM_OUTSIDE: Mapping[Event, Phase] = {
    Event.CHANGED: Phase.QUEUED,
    Event.VICTIMS_GONE: Phase.QUEUED,
    Event.PLACE_LOST: Phase.QUEUED,
    Event.ENDED: Phase.GONE,
}
#: Bindings of a tree's minimum are answered while the rest of the tree waits for something else.
_ANSWERS: Mapping[Event, Phase] = {Event.REFUSED: Phase.RETRYING, Event.FAILED: Phase.RETRYING}


def _waiting(phase: Phase, arrows: Mapping[Event, Phase] = {}) -> dict[Event, Phase]:
    """The arrows of a phase between two cycles; by default an answered binding does not change it."""
    return {**_FROM_OUTSIDE, **_ANSWERS, Event.BOUND: phase, **arrows}


TRANSITIONS: Mapping[Phase, Mapping[Event, Phase]] = {
    Phase.NEW: _waiting(Phase.NEW),
    Phase.QUEUED: _waiting(
        Phase.QUEUED,
        {Event.TAKEN: Phase.DECIDING, Event.REFUSED: Phase.QUEUED, Event.FAILED: Phase.QUEUED},
    ),
    Phase.DECIDING: {
        Event.MISSING: Phase.INCOMPLETE,
        Event.REJECTED: Phase.INVALID,
        Event.FOREIGN: Phase.IGNORED,
        Event.BLOCKED: Phase.BLOCKED,
        Event.UNEXPLAINED: Phase.UNEXPLAINED,
        Event.RESERVED: Phase.QUEUED,
        Event.VICTIMS_LEAVING: Phase.PREEMPTING,
        Event.VICTIMS_GONE: Phase.QUEUED,
        Event.MINIMUM_PLACED: Phase.QUEUED,
        Event.PLACED: Phase.BINDING,
        Event.NOTHING_PENDING: Phase.SCHEDULED,
        Event.FAILED: Phase.RETRYING,
        Event.ENDED: Phase.GONE,
    },
    Phase.INCOMPLETE: _waiting(Phase.INCOMPLETE, {Event.WOKEN: Phase.QUEUED}),
    Phase.INVALID: _waiting(Phase.INVALID),
    Phase.IGNORED: _waiting(Phase.IGNORED),
    Phase.BLOCKED: _waiting(Phase.BLOCKED, {Event.WOKEN: Phase.QUEUED}),
    Phase.UNEXPLAINED: _waiting(
        Phase.UNEXPLAINED,
        # Its turn to be explained comes soon anyway, and is a decision too.
        {Event.WOKEN: Phase.QUEUED, Event.TAKEN: Phase.DECIDING, Event.REFUSED: Phase.UNEXPLAINED},
    ),
    Phase.PREEMPTING: _waiting(Phase.PREEMPTING, {Event.WOKEN: Phase.QUEUED, Event.REFUSED: Phase.PREEMPTING}),
    Phase.BINDING: _waiting(Phase.BINDING, {Event.BOUND: Phase.SCHEDULED}),
    Phase.SCHEDULED: _waiting(Phase.SCHEDULED),
    Phase.RETRYING: _waiting(Phase.RETRYING, {Event.WOKEN: Phase.QUEUED}),
    Phase.GONE: {},
}


def diagram() -> str:
    """The table as a Mermaid state diagram.

    Arrows that every waiting phase has are drawn once, from `Waiting`; those that stay in their phase are left out.
    """
    return "\n".join(["stateDiagram-v2", "    [*] --> New", *(f"    {line}" for line in _arrows())])


def _arrows() -> Iterator[str]:
    common = {**_FROM_OUTSIDE, **_ANSWERS}
    for event, after in common.items():
        yield f"Waiting --> {after}: {event}"
    for phase, arrows in TRANSITIONS.items():
        labels: dict[Phase, list[str]] = {}
        for event, after in arrows.items():
            if after is not phase and (phase is Phase.DECIDING or common.get(event) is not after):
                labels.setdefault(after, []).append(event)
        for after, events in labels.items():
            yield f"{phase} --> {after}: {', '.join(events)}"
