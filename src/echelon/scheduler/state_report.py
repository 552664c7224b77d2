"""What the scheduler knows now, for people who ask: who waits for what, since when, what is reserved.

Names, counts, times and the reasons that objects carry anyway; nothing from inside pods.  `Scheduler.state` makes it,
the debug pages show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..api.objects import meta
from ..api.objects.vocabulary import INITIALLY_SCHEDULED
from ..base.instants import parse, to_time
from ..base.paths import spoken
from .acting.reservation import Reservation
from .intake.group_tree import GroupNode, Root
from .queueing.root_phases import MEANING, Phase
from .queueing.root_state import RootState
from .reporting.decision_log import named

#: Phases of roots for which nothing is to be done.
_DONE = (Phase.SCHEDULED, Phase.IGNORED, Phase.GONE)


def waiting_roots(states: Iterable[RootState], now: float, most: int) -> dict[str, Any]:
    """The roots that wait, the longest waiting first, and how many there are in each phase."""
    known = list(states)
    waiting = [state for state in known if state.phase not in _DONE]
    waiting.sort(key=lambda state: (state.since or "9", state.root.path))
    return {
        "phases": dict(sorted(Counter(str(state.phase) for state in known).items())),
        "waiting": len(waiting),
        "roots": [_root(state, now) for state in waiting[:most]],
    }


def reservations(held: Iterable[Reservation], now: float) -> list[dict[str, Any]]:
    return [
        {
            **named(one.state.root),
            "priority": one.priority,
            "domain": spoken(one.domain),
            "nodes": sorted(one.nodes),
            "pods": len(one.places),
            "waitsForPods": len(one.awaited),
            "ageSeconds": round(now - one.made, 3),
        }
        for one in held
    ]


def _root(state: RootState, now: float) -> dict[str, Any]:
    root = state.root
    found: dict[str, Any] = {
        **named(root),
        "priority": root.priority,
        "phase": str(state.phase),
        "meaning": MEANING[state.phase],
        "pendingPods": sum(1 for _ in root.pending_pods()),
        "since": state.since,
        "waitedSeconds": round(max(0.0, now - parse(state.since)), 3) if state.since else 0.0,
        "reason": _reason(root),
        "story": [f"{event} → {phase}" for event, phase in state.story[-6:]],
    }
    if state.explained_at:
        found["reasonFrom"] = to_time(state.explained_at)
    if state.preempting is not None:
        found["victimsLeaving"] = len(state.preempting.victims)
    if state.binding is not None:
        found["bindingsInFlight"] = state.binding.in_flight
    return found


def _reason(root: Root) -> str:
    """What the object itself says it waits for."""
    type_ = INITIALLY_SCHEDULED[root.key.kind] if isinstance(root, GroupNode) else "PodScheduled"
    condition: Mapping[str, Any] | None = meta.find_condition(root.obj, type_) if root.obj is not None else None
    if condition is None or condition.get("status") == "True":
        return ""
    return str(condition.get("message") or condition.get("reason") or "")
