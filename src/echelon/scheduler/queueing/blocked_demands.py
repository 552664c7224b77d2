"""Demands that are known not to fit: an equal demand is not decided again while no capacity appears that could matter.

Taking capacity away never makes a blocked demand fit.  So a verdict stays true until capacity is given back, and enough
of it for the certificate of the demand (`engine.Certificates`).  Of a hundred equal gangs that wait, one is decided;
the others get its verdict, with their own group ids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...engine import Blocked, Certificates, ClusterView, Demand, Leaf, Verdict
from ...engine import Group as Wanted
from .queue import ANY_ROOM

#: Verdicts that no root awaits are swept out when there are this many more than after the last sweep.
_SPARE = 256


@dataclass(slots=True)
class BlockedDemand:
    demand: Demand
    verdict: Blocked
    #: Whether the verdict came without fixes.
    brief: bool
    #: The number of its certificate; `ANY_ROOM` without one.
    awaits: int
    #: How often capacity had appeared when it was decided: later the verdict still holds, but its numbers may not.
    rooms: int


class BlockedDemands:
    """Blocked verdicts that are still true, by likeness of their demands."""

    def __init__(self, view: ClusterView) -> None:
        #: Verdicts without a certificate, which are void as soon as any capacity appears.
        self._loose: dict[object, BlockedDemand] = {}
        #: Verdicts with a certificate, and the reverse: certificate -> likeness.
        self._certain: dict[object, BlockedDemand] = {}
        self._likes: dict[int, object] = {}
        #: Verdicts whose certificates became void.  The capacity may be taken again before the next is decided.
        self._doubtful: dict[object, BlockedDemand] = {}
        self._certificates = Certificates(view)
        self._numbers = ANY_ROOM
        self._rooms = 0
        self._sweep_at = _SPARE

    def room(self, is_awaited: Callable[[int], bool]) -> list[int]:
        """Capacity has appeared: drop what may not be true any more; returns the certificates that are void now."""
        self._rooms += 1
        self._loose.clear()
        self._sweep(is_awaited)
        void = self._certificates.broken()
        for number in void:
            like = self._likes[number]
            self._doubtful[like] = self._drop(number)
        return void

    def _sweep(self, is_awaited: Callable[[int], bool]) -> None:
        if len(self._certain) + len(self._doubtful) > self._sweep_at:
            for number in [number for number in self._likes if not is_awaited(number)]:
                self._drop(number)
            self._doubtful.clear()
            self._sweep_at = len(self._certain) + _SPARE

    def forget(self) -> list[int]:
        """Drop everything; returns the certificates there were."""
        numbers = list(self._likes)
        self._loose.clear()
        self._doubtful.clear()
        for number in numbers:
            self._drop(number)
        return numbers

    def keep(self, demand: Demand, verdict: Blocked, *, brief: bool) -> int:
        """Record that this does not fit; returns the number that its root has to await."""
        like = likeness(demand)
        former = self._certain.get(like)
        if former is not None:
            # Its certificate still holds.
            self._certain[like] = BlockedDemand(demand, verdict, brief, former.awaits, self._rooms)
            return former.awaits
        self._doubtful.pop(like, None)
        known = BlockedDemand(demand, verdict, brief, ANY_ROOM, self._rooms)
        if not self._certify(like, known, verdict):
            self._loose[like] = known
        return known.awaits

    def _certify(self, like: object, known: BlockedDemand, verdict: Blocked | None) -> bool:
        """Keep a demand under a new certificate, if there is one; without a verdict the count must prove it."""
        if not self._certificates.add(self._numbers + 1, known.demand, verdict):
            return False
        self._numbers += 1
        known.awaits = self._numbers
        self._likes[self._numbers] = like
        self._certain[like] = known
        return True

    def recall(self, demand: Demand, *, brief: bool) -> BlockedDemand | None:
        """The verdict on an equal demand, with the group ids of this one; None if it has to be decided."""
        if not self._loose and not self._certain and not self._doubtful:
            return None
        like = likeness(demand)
        known = self._certain.get(like) or self._loose.get(like) or self._still(like)
        if known is None:
            return None
        outdated = known.brief or known.rooms != self._rooms
        if outdated and not brief:
            return None
        names = dict(zip(_ids(known.demand.root), _ids(demand.root), strict=True))
        verdict = replace(
            known.verdict,
            shortages=tuple(replace(one, group=names.get(one.group, one.group)) for one in known.verdict.shortages),
            fixes=tuple(replace(one, group=names.get(one.group, one.group)) for one in known.verdict.fixes),
        )
        return BlockedDemand(demand, verdict, outdated, known.awaits, known.rooms)

    def untrue(self, decide: Callable[[Demand], Verdict]) -> list[str]:
        """Demands with a valid certificate that fit all the same; there should be none."""
        found = []
        for known in self._certain.values():
            verdict = decide(known.demand)
            if not isinstance(verdict, Blocked):
                found.append(f"{known.demand} is held to be blocked, the engine says {verdict}")
        return found

    def _still(self, like: object) -> BlockedDemand | None:
        """A doubtful demand that, as the count proves, does not fit after all."""
        known = self._doubtful.pop(like, None)
        return known if known is not None and self._certify(like, known, None) else None

    def _drop(self, number: int) -> BlockedDemand:
        self._certificates.remove(number)
        return self._certain.pop(self._likes.pop(number))


def likeness(demand: Demand) -> object:
    """Equal for demands that differ only in ids and role names."""
    return demand.priority, demand.may_preempt, _like(demand.root, {})


def _like(group: Wanted, roles: dict[str, int]) -> object:
    if isinstance(group, Leaf):
        classes = tuple((one.shape, roles.setdefault(one.role, len(roles)), len(one.members)) for one in group.classes)
        bound = tuple((one.node, roles.setdefault(one.role, len(roles))) for one in group.bound)
        # A group that holds a domain exclusively is like no other: its domain is its own.
        own = group.id if group.exclusive is not None and group.bound else -1
        rest = (group.min_count, group.topology, group.preferred, group.exclusive, group.final_size, own)
        return classes, bound, rest
    children = tuple(_like(child, roles) for child in group.children)
    return group.min_groups, group.topology, group.preferred, children


def _ids(group: Wanted) -> list[int]:
    """The ids of a tree, in an order that equal trees share."""
    below = [] if isinstance(group, Leaf) else [number for child in group.children for number in _ids(child)]
    return [group.id, *below]
