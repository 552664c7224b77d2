"""What is known not to fit: equal demands need not be decided twice while no room appears.

Taking room away never makes a blocked demand fit, so a verdict stays true until someone gives room back.  Of a
hundred equal gangs that wait, one is decided when a pod ends; the others learn from it, each in its own names.
"""

from __future__ import annotations

from dataclasses import replace

from ..engine.demand import Demand, Leaf
from ..engine.demand import Group as Wanted
from ..engine.verdict import Blocked


class Memory:
    """Blocked verdicts since room last appeared."""

    def __init__(self) -> None:
        #: By likeness: the demand decided, its verdict, and whether that came without remedies.
        self._known: dict[object, tuple[Demand, Blocked, bool]] = {}

    def room(self) -> None:
        """Room has appeared: everything is possible again."""
        self._known.clear()

    def keep(self, demand: Demand, verdict: Blocked, *, brief: bool) -> None:
        self._known[likeness(demand)] = (demand, verdict, brief)

    def recall(self, demand: Demand, *, brief: bool) -> tuple[Blocked, bool] | None:
        """The verdict on an equal demand, said of the groups of this one, and whether it is a brief one."""
        known = self._known.get(likeness(demand)) if self._known else None
        if known is None or (known[2] and not brief):
            return None
        other, verdict, without = known
        names = dict(zip(_ids(other.root), _ids(demand.root), strict=True))
        renamed = replace(
            verdict,
            shortages=tuple(replace(one, group=names.get(one.group, one.group)) for one in verdict.shortages),
            fixes=tuple(replace(one, group=names.get(one.group, one.group)) for one in verdict.fixes),
        )
        return renamed, without


def likeness(demand: Demand) -> object:
    """Equal for demands that differ in names only."""
    return demand.priority, demand.may_preempt, _like(demand.root, {})


def _like(group: Wanted, roles: dict[str, int]) -> object:
    if isinstance(group, Leaf):
        classes = tuple((one.shape, roles.setdefault(one.role, len(roles)), len(one.members)) for one in group.classes)
        bound = tuple((one.node, roles.setdefault(one.role, len(roles))) for one in group.bound)
        # A group that holds a domain exclusively is like no other: what it holds is its own.
        own = group.id if group.exclusive is not None and group.bound else -1
        rest = (group.min_count, group.topology, group.preferred, group.exclusive, group.final_size, own)
        return classes, bound, rest
    children = tuple(_like(child, roles) for child in group.children)
    return group.min_groups, group.topology, group.preferred, children


def _ids(group: Wanted) -> list[int]:
    """The ids of a tree, in an order that equal trees share."""
    below = [] if isinstance(group, Leaf) else [number for child in group.children for number in _ids(child)]
    return [group.id, *below]
