"""One log line per decision that matters: who, how many pods, where, how long it took, why not.

Lines are at level `info`; those of pods without a group that are placed at `debug`, since there may be thousands per
second.  Fields have names, counts and times only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any

from ...base.instants import parse
from ...base.paths import spoken
from ...engine import Domain, Placed, UnitName
from ..intake.group_tree import GroupNode, Member, Root
from ..queueing.root_state import RootState

log = logging.getLogger("echelon.scheduler.decisions")

#: The longest reason in a line; the condition of the object has all of it.
_LONGEST_REASON = 500
_UNITS_NAMED = 5


class DecisionLog:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def placed(self, state: RootState, verdict: Placed) -> None:
        level = logging.INFO if isinstance(state.root, GroupNode) else logging.DEBUG
        if log.isEnabledFor(level):
            self._say(level, "placed", state, **self._where(state, verdict))

    def preempting(self, state: RootState, placement: Placed, victims: Collection[UnitName]) -> None:
        if log.isEnabledFor(logging.INFO):
            units = sorted({victim.name for victim in victims})
            told = {"victims": len(victims), "units": len(units), "evicted": ", ".join(units[:_UNITS_NAMED])}
            self._say(logging.INFO, "preempting", state, **self._where(state, placement), **told)

    def blocked(self, state: RootState, reason: str) -> None:
        if log.isEnabledFor(logging.INFO):
            self._say(logging.INFO, "blocked", state, ms=_ms(state), reason=reason[:_LONGEST_REASON])

    def reserved(self, state: RootState, nodes: int, domain: Domain) -> None:
        self._say(logging.INFO, "reserved", state, nodes=nodes, domain=spoken(domain))

    def lapsed(self, state: RootState, seconds: float) -> None:
        self._say(logging.INFO, "reservation lapsed", state, heldSeconds=round(seconds, 3))

    def released(self, state: RootState, unit: GroupNode, pods: int) -> None:
        self._say(logging.INFO, "released", state, unit=unit.title, victims=pods)

    def refused(self, member: Member, trouble: str) -> None:
        fields = {"namespace": member.namespace, "name": member.name, "node": member.assumed, "reason": trouble}
        log.info("binding refused", extra={"fields": fields})

    def _where(self, state: RootState, placement: Placed) -> dict[str, Any]:
        return {
            "members": len(placement.assignment),
            "nodes": len(set(placement.assignment.values())),
            "domain": spoken(placement.domains.get(state.root.id, ())),
            "ms": _ms(state),
        }

    def _say(self, level: int, message: str, state: RootState, **fields: Any) -> None:
        waited = max(0.0, self._now() - parse(state.since)) if state.since else 0.0
        known = {**named(state.root), "priority": state.root.priority, **fields, "waitedSeconds": round(waited, 3)}
        log.log(level, message, extra={"fields": known})


def named(root: Root) -> dict[str, str]:
    """Kind, namespace and name of a root."""
    namespace, _, name = root.path.partition("/")
    return {"kind": root.resource.kind, "namespace": namespace, "name": name}


def _ms(state: RootState) -> float:
    return round(state.decided_in * 1000, 3)
