"""How many pods an owner may still create: one whose pods go as fast as they come must not keep the plane busy.

A template can name a node that does not exist, so its pods are deleted at once; nothing of them is left to back off by.
Creations of the last minute are counted instead, far above what any rollout needs.
"""

from __future__ import annotations

from collections import deque

from ...api.scheme import PODS
from ...decide.plan import Action, Create, Plan

_WINDOW_SECONDS = 60.0
_FREE = 100
_PER_REPLICA = 10


class CreationRate:
    """Pods that each owner has created in the last minute."""

    def __init__(self) -> None:
        self._made: dict[str, deque[tuple[float, int]]] = {}

    def room(self, owner: str, replicas: int, now: float) -> int:
        """How many pods the owner of that uid may create now."""
        made = self._made.get(owner)
        if made is None:
            return _FREE + _PER_REPLICA * replicas
        while made and made[0][0] < now - _WINDOW_SECONDS:
            made.popleft()
        if not made:
            del self._made[owner]
        return max(0, _FREE + _PER_REPLICA * replicas - sum(count for _, count in made))

    def count(self, owner: str, plan: Plan, now: float) -> Plan:
        """The plan, after its creations are counted."""
        made = sum(map(_is_pod, (action for stage in plan.stages for action in stage)))
        if made:
            self._made.setdefault(owner, deque()).append((now, made))
        return plan


def _is_pod(action: Action) -> bool:
    return isinstance(action, Create) and action.resource is PODS
