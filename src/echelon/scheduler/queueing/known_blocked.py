"""What is known not to fit: equal demands need not be decided twice while no room appears that could matter to them.

Taking room away never makes a blocked demand fit, so a verdict stays true until someone gives room back, and enough of
it for what the `certificate` of the demand says.  Of a hundred equal gangs that wait, one is decided then; the others
learn from it, each in its own names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...engine import Blocked, Certificates, ClusterView, Demand, Leaf, Verdict
from ...engine import Group as Wanted
from .queue import ANY_ROOM

#: Verdicts that nobody awaits any more are looked for when there are so many more than after the last time.
_SPARE = 256


@dataclass(slots=True)
class Known:
    """A demand that does not fit."""

    demand: Demand
    verdict: Blocked
    #: Whether the verdict came without remedies.
    brief: bool
    #: The number of its certificate; `ANY_ROOM` without one.
    awaits: int
    #: How often room had appeared: afterwards it is still true, but not in its numbers.
    rooms: int


class Memory:
    """Blocked verdicts that are still true."""

    def __init__(self, view: ClusterView) -> None:
        #: By likeness: those without a certificate, which no appearance of room leaves in place, and the others.
        self._loose: dict[object, Known] = {}
        self._certain: dict[object, Known] = {}
        self._likes: dict[int, object] = {}
        #: Those whose certificates were void: whoever comes first may have taken what made them so.
        self._doubtful: dict[object, Known] = {}
        self._certificates = Certificates(view)
        self._numbers = ANY_ROOM
        self._rooms = 0
        self._sweep_at = _SPARE

    def room(self, is_awaited: Callable[[int], bool]) -> list[int]:
        """Room has appeared: forget what may not be true any more; the certificates that are void now."""
        self._rooms += 1
        self._loose.clear()
        self._sweep(is_awaited)
        void = self._certificates.broken()
        for number in void:
            like = self._likes[number]
            self._doubtful[like] = self._drop(number)
        return void

    def _sweep(self, is_awaited: Callable[[int], bool]) -> None:
        """Forget what nobody asks for any more, when much has gathered."""
        if len(self._certain) + len(self._doubtful) > self._sweep_at:
            for number in [number for number in self._likes if not is_awaited(number)]:
                self._drop(number)
            self._doubtful.clear()
            self._sweep_at = len(self._certain) + _SPARE

    def forget(self) -> list[int]:
        """Nothing is known any more; the certificates there were."""
        numbers = list(self._likes)
        self._loose.clear()
        self._doubtful.clear()
        for number in numbers:
            self._drop(number)
        return numbers

    def keep(self, demand: Demand, verdict: Blocked, *, brief: bool) -> int:
        """Remember that this does not fit; the number that whoever wants it has to await."""
        like = likeness(demand)
        former = self._certain.get(like)
        if former is not None:
            # Nothing has come that could matter: what is awaited is what was.
            self._certain[like] = Known(demand, verdict, brief, former.awaits, self._rooms)
            return former.awaits
        self._doubtful.pop(like, None)
        known = Known(demand, verdict, brief, ANY_ROOM, self._rooms)
        if not self._certify(like, known, verdict):
            self._loose[like] = known
        return known.awaits

    def _certify(self, like: object, known: Known, verdict: Blocked | None) -> bool:
        """Keep what is known together with what is awaited, if that can be told; without a verdict, by counting."""
        if not self._certificates.add(self._numbers + 1, known.demand, verdict):
            return False
        self._numbers += 1
        known.awaits = self._numbers
        self._likes[self._numbers] = like
        self._certain[like] = known
        return True

    def recall(self, demand: Demand, *, brief: bool) -> Known | None:
        """What is known of an equal demand, said of the groups of this one."""
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
        return Known(demand, verdict, outdated, known.awaits, known.rooms)

    def untrue(self, decide: Callable[[Demand], Verdict]) -> list[str]:
        """Certificates that say of a demand that it does not fit although it does; there should be none."""
        found = []
        for known in self._certain.values():
            verdict = decide(known.demand)
            if not isinstance(verdict, Blocked):
                found.append(f"{known.demand} is taken for blocked, the engine says {verdict}")
        return found

    def _still(self, like: object) -> Known | None:
        """What was in doubt and, as a count tells, is true after all."""
        known = self._doubtful.pop(like, None)
        return known if known is not None and self._certify(like, known, None) else None

    def _drop(self, number: int) -> Known:
        self._certificates.remove(number)
        return self._certain.pop(self._likes.pop(number))


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
