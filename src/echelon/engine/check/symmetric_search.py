"""The judge's search where nodes and domains are many but alike: everything is tried, but of equals one stands for all.

Domains are a tree along the keys that the demand names.  Groups are seated in them one after the other; domains that
hold the same and of which the rest of the demand expects the same are one choice, and what has failed once is
remembered.  Equal pods need slots only: no domain may hold more than it has, whoever is seated inside it.  Mixed pods
are packed onto kinds of nodes, domain by domain.

What has no place here (terms between pods, exclusive domains, unlisted keys, mixed pods that spread over several
domains) is left out.  Then "no" is still a proof, and "yes" says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

from ..records.demand import Composite, Demand, Group, Leaf, given
from .counting_bounds import CountingBounds, leaves_below, need
from .facts import Facts, bound_nodes, groups_of, supply

#: Mixed pods of a demand, and ways to make up one leaf, beyond which nothing is tried.
PODS = 400
WAYS = 60
#: Steps of one question.
STEPS = 15_000

#: Amounts free, which shapes are welcome, and how many nodes are like that.
Kind = tuple[tuple[int, ...], tuple[bool, ...]]
Content = tuple[tuple[Kind, int], ...]
Load = tuple[int, ...]
Next = Callable[[], bool]


class OutOfSteps(Exception):
    """The question stays open."""


@dataclass(slots=True)
class Allowance:
    """Steps of all such searches that a judgement makes."""

    left: int


class DomainState:
    """A domain: what it has, what was seated in it, and the domains inside it."""

    def __init__(self, level: int, names: list[str], above: DomainState | None) -> None:
        self.level, self.names, self.above = level, names, above
        self.inside: list[DomainState] = []
        self.slots = 0
        self.content: Content = ()
        #: A number for its content.
        self.kind = 0
        #: Pods of each shape seated in it or inside it.
        self.load: Load = ()
        #: Groups that have bound members here.
        self.tag: tuple[int, ...] = ()

    def at_level(self, level: int) -> Iterator[DomainState]:
        """The domains of a level in it, itself if it is one."""
        if self.level == level:
            yield self
        for home in self.inside:
            if home.level <= level:
                yield from home.at_level(level)

    def everywhere(self) -> Iterator[DomainState]:
        yield self
        for home in self.inside:
            yield from home.everywhere()

    def upwards(self) -> Iterator[DomainState]:
        yield self
        if self.above is not None:
            yield from self.above.upwards()


class SymmetricSearch:
    """One demand on one cluster; `exact` while nothing was left out."""

    def __init__(self, facts: Facts, demand: Demand, allowance: Allowance) -> None:
        self.facts, self.demand, self.allowance = facts, demand, allowance
        self._least_left = allowance.left - STEPS
        self.counting = CountingBounds(facts, demand)
        leaves = list(demand.leaves())
        self.shapes = list({shape: None for leaf in leaves for shape, _ in supply(leaf)})
        self.resources = sorted({name for shape in self.shapes for name, amount in shape.requests if amount > 0})
        self.takes = [tuple(dict(shape.requests).get(name, 0) for name in self.resources) for shape in self.shapes]
        named = {group.topology for group in groups_of(demand.root)} - {None}
        self.exact = all(key in facts.levels for key in named)
        self.exact &= not any(shape.has_pod_rules for shape in self.shapes) and not any(
            leaf.exclusive for leaf in leaves
        )
        self.levels = [number for number, key in enumerate(facts.levels) if key in named]
        self._looks: dict[object, int] = {}
        self.root = self._homes()
        self._narrowest = [home for home in self.root.everywhere() if not home.inside and home.level >= 0]
        self._failed: set[object] = set()
        self._packed: dict[tuple[Content, Load], bool] = {}
        self._pending: list[tuple[Group, DomainState]] = []

    def fits(self) -> bool | None:
        """Whether the demand can be placed; None if that cannot be told here."""
        if len(self.shapes) > 1 and sum(number for leaf in self.demand.leaves() for _, number in supply(leaf)) > PODS:
            return None
        try:
            found = self._seat(self.demand.root, self.root, lambda: True)
        except OutOfSteps:
            return None
        return (True if self.exact else None) if found else False

    def _step(self) -> None:
        self.allowance.left -= 1
        if self.allowance.left < max(0, self._least_left):
            raise OutOfSteps

    # ---- domains

    def _homes(self) -> DomainState:
        root = DomainState(-1, list(self.facts.nodes), None)
        for home in self._below(root, self.levels):
            home.load = (0,) * len(self.shapes)
            home.slots = sum(self.facts.slots(self.shapes[0]).get(name, 0) for name in home.names) if self.shapes else 0
            home.content = tuple(sorted(Counter(map(self._kind, home.names)).items()))
            home.kind = self._looks.setdefault((home.slots, home.content), len(self._looks))
            here = set(home.names)
            home.tag = tuple(g.id for g in groups_of(self.demand.root) if not here.isdisjoint(bound_nodes(g)))
        return root

    def _below(self, home: DomainState, levels: list[int]) -> Iterator[DomainState]:
        """Grow the tree of domains inside one; yields all of them."""
        rest = home.names
        for number, level in enumerate(levels):
            found: dict[object, list[str]] = {}
            for name in rest:
                found.setdefault(self.facts.domain(name, self.facts.levels[level]), []).append(name)
            rest = found.pop(None, [])
            for names in found.values():
                inner = DomainState(level, names, home)
                home.inside.append(inner)
                yield from self._below(inner, levels[number + 1 :])
        yield home

    def _kind(self, name: str) -> Kind:
        free = self.facts.free(name)
        amounts = tuple(max(0, free.get(resource, given(resource))) for resource in self.resources)
        return amounts, tuple(name in self.facts.slots(shape) for shape in self.shapes)

    def _choices(self, group: Group, around: DomainState) -> Iterator[DomainState]:
        """Domains that a group may have, of those that are alike the first."""
        if group.topology is None or group.topology not in self.facts.levels:
            yield around
            return
        level = self.facts.levels.index(group.topology)
        homes = list(around.at_level(level))
        if around.level > level and self.facts.domain(around.names[0], group.topology) is not None:
            homes = [around]
        pins = [name for name in bound_nodes(group) if name in self.facts.nodes]
        looks = set[object]()
        for home in homes:
            look = (self._look(home), self._way_up(home, around))
            if look not in looks and set(pins) <= set(home.names):
                looks.add(look)
                yield home

    def _way_up(self, home: DomainState, around: DomainState) -> tuple[int, ...]:
        """Domains between a domain and the one that it is chosen in, which no other shares."""
        between = [each for each in home.upwards() if each.level > around.level]
        return tuple(id(each) for each in between[1:])

    def _look(self, home: DomainState) -> int:
        """Equal for domains that can stand for one another."""
        waiting = tuple(number for number, (_, around) in enumerate(self._pending) if around is home)
        inner = tuple(sorted(map(self._look, home.inside)))
        look = (home.level, home.kind, home.load, home.tag, waiting, inner)
        return self._looks.setdefault(look, len(self._looks))

    # ---- groups

    def _seat(self, group: Group, around: DomainState, then: Next) -> bool:
        state = (self.counting.kind(group), self._state(around))
        if state in self._failed or self._too_much(group):
            return False
        for home in self._choices(group, around):
            self._step()
            seated = (
                self._children(group, home, then) if isinstance(group, Composite) else self._leaf(group, home, then)
            )
            if seated:
                return True
        self._failed.add(state)
        return False

    def _state(self, around: DomainState) -> object:
        """What is still to do and where, and what everything holds."""
        self._pending.append((self.demand.root, around))
        look = self._look(self.root)
        self._pending.pop()
        return tuple(self.counting.kind(group) for group, _ in self._pending), look

    def _too_much(self, group: Group) -> bool:
        """Whether equal pods that wait to be seated in narrowest domains cannot be, however these are filled."""
        narrowest = self.levels[-1] if self.levels else -1
        if len(self.shapes) > 1 or narrowest < 0 or any(home.level < narrowest for home in self._narrowest):
            return False
        key, sums, total = self.facts.levels[narrowest], 1, 0
        for leaf in (leaf for each in (group, *(other for other, _ in self._pending)) for leaf in _musts(each)):
            if leaf.topology == key:
                sums |= sums << need(leaf)
                total += need(leaf)
        room = (max(0, home.slots - home.load[0]) for home in self._narrowest)
        return total > sum((sums & ((2 << free) - 1)).bit_length() - 1 for free in room)

    def _children(self, group: Composite, home: DomainState, then: Next) -> bool:
        ordered = sorted(group.children, key=lambda child: (-_pods(child), repr(self.counting.kind(child))))
        tried = set[object]()
        for chosen in combinations(ordered, max(0, group.min_groups)):
            kinds = tuple(map(self.counting.kind, chosen))
            if kinds not in tried:
                tried.add(kinds)
                self._pending += [(child, home) for child in reversed(chosen)]
                found = self._each(len(chosen), then)
                if found:
                    return True
                del self._pending[len(self._pending) - len(chosen) :]
        return False

    def _each(self, number: int, then: Next) -> bool:
        """Seat so many of the last that are waiting."""
        if not number:
            return then()
        group, home = self._pending.pop()
        found = self._seat(group, home, lambda: self._each(number - 1, then))
        self._pending.append((group, home))
        return found

    def _leaf(self, leaf: Leaf, home: DomainState, then: Next) -> bool:
        for pods in self._compositions(leaf):
            if self._put(home, pods, 1) and then():
                return True
            self._put(home, pods, -1)
        return False

    def _compositions(self, leaf: Leaf) -> list[Load]:
        """Numbers of pods of each shape that make up what a leaf needs."""
        kinds, wanted = supply(leaf), need(leaf)
        at = [self.shapes.index(shape) for shape, _ in kinds]
        if len(self.shapes) == 1:
            return [(wanted,)] if wanted <= sum(number for _, number in kinds) else []
        found = []
        for numbers in product(*(range(min(number, wanted), -1, -1) for _, number in kinds)):
            if sum(numbers) == wanted:
                load = [0] * len(self.shapes)
                for spot, number in zip(at, numbers, strict=True):
                    load[spot] += number
                found.append(tuple(load))
            self._step()
        if len(found) > WAYS:
            raise OutOfSteps
        return found

    # ---- what fits into a domain

    def _put(self, home: DomainState, pods: Load, times: int) -> bool:
        """Seat pods in a domain or take them back; False if they cannot be in it."""
        for each in home.upwards():
            each.load = tuple(have + times * more for have, more in zip(each.load, pods, strict=True))
        if times < 0 or not any(pods):
            return True
        if len(self.shapes) == 1:
            return all(each.load[0] <= each.slots for each in home.upwards())
        if home.inside:
            self.exact = False  # they may be on any side of the domains inside
            return True
        return self._packs(home.content, home.load)

    def _packs(self, content: Content, load: Load) -> bool:
        known = self._packed.get((content, load))
        if known is None:
            known = self._packed[content, load] = self._pack(content, load)
        return known

    def _pack(self, content: Content, load: Load) -> bool:
        """Put one pod after the other on a node of each kind, the largest first; of nodes that are alike on one."""
        self._step()
        left = [shape for shape, number in enumerate(load) if number]
        if not left:
            return True
        for shape in left:
            if sum(number * self._slots(kind, shape) for kind, number in content) < load[shape]:
                return False
        shape = max(left, key=lambda each: (self.takes[each], each))
        fewer = tuple(number - (each == shape) for each, number in enumerate(load))
        for kind, _ in content:
            if self._slots(kind, shape) and self._packs(self._with_one(content, kind, shape), fewer):
                return True
        return False

    def _slots(self, kind: Kind, shape: int) -> int:
        amounts, welcome = kind
        if not welcome[shape]:
            return 0
        return min(
            (have // take for have, take in zip(amounts, self.takes[shape], strict=True) if take), default=1 << 31
        )

    def _with_one(self, content: Content, kind: Kind, shape: int) -> Content:
        """The same nodes, one of a kind with one pod more."""
        counts = Counter(dict(content))
        counts[kind] -= 1
        amounts = tuple(have - take for have, take in zip(kind[0], self.takes[shape], strict=True))
        counts[amounts, kind[1]] += 1
        return tuple(sorted((+counts).items()))


def _musts(group: Group) -> Iterator[Leaf]:
    """Leaves that hold if a group does."""
    if isinstance(group, Leaf):
        yield group
    elif group.min_groups >= len(group.children):
        for child in group.children:
            yield from _musts(child)


def _pods(group: Group) -> int:
    return sum(map(need, leaves_below(group)))
