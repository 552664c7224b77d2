"""Exhaustive search of the judge up to symmetry, for clusters with many equal nodes and domains.

Domains form a tree along the keys that the demand names.  Groups are placed in them one after the other.  Of domains
that have the same content, the same load and the same groups still to place in them only the first is tried, and states
that failed are remembered.  For equal pods a load is a number of slots; mixed pods are packed on kinds of nodes, domain
by domain.

Pod rules, exclusive domains, unlisted keys and mixed pods spread over several domains are left out.  Then "does not
fit" is still a proof, and "fits" is no answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

from ..records.demand import Composite, Demand, Group, Leaf, given
from .counting_bounds import CountingBounds, leaves_below, need
from .facts import Facts, bound_nodes, groups_of, members_to_place, supply

#: Mixed pods of a demand, and mixes of shapes for one leaf, beyond which the question stays open.
MOST_PODS = 400
MOST_MIXES = 60
#: Steps of one search.
STEPS = 15_000

#: Free amounts of a node, and for each shape whether the node admits it.
Kind = tuple[tuple[int, ...], tuple[bool, ...]]
#: Kinds of nodes with their numbers.
Content = tuple[tuple[Kind, int], ...]
#: Pods of each shape.
Load = tuple[int, ...]
#: Places what remains and returns whether that worked.
Continuation = Callable[[], bool]


class OutOfSteps(Exception):
    """The steps of a search ended; the question stays open."""


@dataclass(slots=True)
class Allowance:
    """Steps left for all symmetric searches of a judgement."""

    left: int


class DomainState:
    """A domain: its content, its load, and the domains inside it."""

    def __init__(self, level: int, names: list[str], above: DomainState | None) -> None:
        self.level, self.names, self.above = level, names, above
        self.inside: list[DomainState] = []
        self.slots = 0
        self.content: Content = ()
        #: Equal for equal contents.
        self.kind = 0
        #: Pods of each shape placed in it or inside it.
        self.load: Load = ()
        #: Groups that have bound members here.
        self.tag: tuple[int, ...] = ()

    def at_level(self, level: int) -> Iterator[DomainState]:
        """The domains of a level inside it, itself included."""
        if self.level == level:
            yield self
        for domain in self.inside:
            if domain.level <= level:
                yield from domain.at_level(level)

    def self_and_inner(self) -> Iterator[DomainState]:
        yield self
        for domain in self.inside:
            yield from domain.self_and_inner()

    def self_and_outer(self) -> Iterator[DomainState]:
        yield self
        if self.above is not None:
            yield from self.above.self_and_outer()


class SymmetricSearch:
    """One demand on one cluster; `exact` while no constraint was left out."""

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
        self._numbers: dict[object, int] = {}
        self.root = self._domain_tree()
        self._narrowest = [domain for domain in self.root.self_and_inner() if not domain.inside and domain.level >= 0]
        self._failed: set[object] = set()
        self._packed: dict[tuple[Content, Load], bool] = {}
        self._pending: list[tuple[Group, DomainState]] = []

    def fits(self) -> bool | None:
        """Whether the demand can be placed; None if that stays open."""
        if len(self.shapes) > 1 and members_to_place(self.demand.root) > MOST_PODS:
            return None
        try:
            found = self._place(self.demand.root, self.root, lambda: True)
        except OutOfSteps:
            return None
        return (True if self.exact else None) if found else False

    def _step(self) -> None:
        self.allowance.left -= 1
        if self.allowance.left < max(0, self._least_left):
            raise OutOfSteps

    # ---- domains

    def _domain_tree(self) -> DomainState:
        root = DomainState(-1, list(self.facts.nodes), None)
        slots = self.facts.slots(self.shapes[0]) if self.shapes else {}
        for domain in self._below(root, self.levels):
            domain.load = (0,) * len(self.shapes)
            domain.slots = sum(slots.get(name, 0) for name in domain.names)
            domain.content = tuple(sorted(Counter(map(self._kind, domain.names)).items()))
            domain.kind = self._numbers.setdefault((domain.slots, domain.content), len(self._numbers))
            here = set(domain.names)
            domain.tag = tuple(g.id for g in groups_of(self.demand.root) if not here.isdisjoint(bound_nodes(g)))
        return root

    def _below(self, domain: DomainState, levels: list[int]) -> Iterator[DomainState]:
        """Build the tree of domains inside one; yields all of them."""
        rest = domain.names
        for number, level in enumerate(levels):
            found: dict[object, list[str]] = {}
            for name in rest:
                found.setdefault(self.facts.domain(name, self.facts.levels[level]), []).append(name)
            rest = found.pop(None, [])
            for names in found.values():
                inner = DomainState(level, names, domain)
                domain.inside.append(inner)
                yield from self._below(inner, levels[number + 1 :])
        yield domain

    def _kind(self, name: str) -> Kind:
        free = self.facts.free(name)
        amounts = tuple(max(0, free.get(resource, given(resource))) for resource in self.resources)
        return amounts, tuple(name in self.facts.slots(shape) for shape in self.shapes)

    def _choices(self, group: Group, outer: DomainState) -> Iterator[DomainState]:
        """Domains that a group may have; of symmetric ones the first."""
        if group.topology is None or group.topology not in self.facts.levels:
            yield outer
            return
        level = self.facts.levels.index(group.topology)
        domains = list(outer.at_level(level))
        if outer.level > level and self.facts.domain(outer.names[0], group.topology) is not None:
            domains = [outer]
        pins = [name for name in bound_nodes(group) if name in self.facts.nodes]
        seen = set[object]()
        for domain in domains:
            signature = (self._signature(domain), self._path_between(domain, outer))
            if signature not in seen and set(pins) <= set(domain.names):
                seen.add(signature)
                yield domain

    def _path_between(self, domain: DomainState, outer: DomainState) -> tuple[int, ...]:
        """The domains between a domain and the one around it in which it is chosen."""
        between = [each for each in domain.self_and_outer() if each.level > outer.level]
        return tuple(id(each) for each in between[1:])

    def _signature(self, domain: DomainState) -> int:
        """Equal for symmetric domains."""
        pending_here = tuple(number for number, (_, outer) in enumerate(self._pending) if outer is domain)
        inner = tuple(sorted(map(self._signature, domain.inside)))
        signature = (domain.level, domain.kind, domain.load, domain.tag, pending_here, inner)
        return self._numbers.setdefault(signature, len(self._numbers))

    # ---- groups

    def _place(self, group: Group, outer: DomainState, then: Continuation) -> bool:
        state = (self.counting.kind(group), self._state(outer))
        if state in self._failed or self._too_much(group):
            return False
        for domain in self._choices(group, outer):
            self._step()
            placed = (
                self._children(group, domain, then) if isinstance(group, Composite) else self._leaf(group, domain, then)
            )
            if placed:
                return True
        self._failed.add(state)
        return False

    def _state(self, outer: DomainState) -> object:
        """What is still to be placed and where, and the load of every domain."""
        self._pending.append((self.demand.root, outer))
        signature = self._signature(self.root)
        self._pending.pop()
        return tuple(self.counting.kind(group) for group, _ in self._pending), signature

    def _too_much(self, group: Group) -> bool:
        """Whether equal pods still to be placed in the narrowest domains exceed what these can hold as whole groups."""
        narrowest = self.levels[-1] if self.levels else -1
        if len(self.shapes) > 1 or narrowest < 0 or any(domain.level < narrowest for domain in self._narrowest):
            return False
        key, sums, total = self.facts.levels[narrowest], 1, 0
        groups = [group, *(other for other, _ in self._pending)]
        for leaf in (leaf for each in groups for leaf in _required_leaves(each)):
            if leaf.topology == key:
                sums |= sums << need(leaf)
                total += need(leaf)
        room = (max(0, domain.slots - domain.load[0]) for domain in self._narrowest)
        return total > sum((sums & ((2 << free) - 1)).bit_length() - 1 for free in room)

    def _children(self, group: Composite, domain: DomainState, then: Continuation) -> bool:
        ordered = sorted(group.children, key=lambda child: (-_pods(child), repr(self.counting.kind(child))))
        tried = set[object]()
        for chosen in combinations(ordered, max(0, group.min_groups)):
            kinds = tuple(map(self.counting.kind, chosen))
            if kinds not in tried:
                tried.add(kinds)
                self._pending += [(child, domain) for child in reversed(chosen)]
                found = self._each(len(chosen), then)
                if found:
                    return True
                del self._pending[len(self._pending) - len(chosen) :]
        return False

    def _each(self, number: int, then: Continuation) -> bool:
        """Place the last `number` pending groups."""
        if not number:
            return then()
        group, domain = self._pending.pop()
        found = self._place(group, domain, lambda: self._each(number - 1, then))
        self._pending.append((group, domain))
        return found

    def _leaf(self, leaf: Leaf, domain: DomainState, then: Continuation) -> bool:
        for pods in self._mixes(leaf):
            if self._put(domain, pods, 1) and then():
                return True
            self._put(domain, pods, -1)
        return False

    def _mixes(self, leaf: Leaf) -> list[Load]:
        """The mixes of shapes with which a leaf holds."""
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
        if len(found) > MOST_MIXES:
            raise OutOfSteps
        return found

    # ---- what fits into a domain

    def _put(self, domain: DomainState, pods: Load, times: int) -> bool:
        """Add pods to the load of a domain (1) or remove them (-1); False if the domain cannot hold its load."""
        for each in domain.self_and_outer():
            each.load = tuple(have + times * more for have, more in zip(each.load, pods, strict=True))
        if times < 0 or not any(pods):
            return True
        if len(self.shapes) == 1:
            return all(each.load[0] <= each.slots for each in domain.self_and_outer())
        if domain.inside:
            self.exact = False  # how they divide among the inner domains is not tried
            return True
        return self._packs(domain.content, domain.load)

    def _packs(self, content: Content, load: Load) -> bool:
        known = self._packed.get((content, load))
        if known is None:
            known = self._packed[content, load] = self._pack(content, load)
        return known

    def _pack(self, content: Content, load: Load) -> bool:
        """Place one pod after the other, the largest first, on one node of each kind."""
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
        amounts, admits = kind
        if not admits[shape]:
            return 0
        return min(
            (have // take for have, take in zip(amounts, self.takes[shape], strict=True) if take), default=1 << 31
        )

    def _with_one(self, content: Content, kind: Kind, shape: int) -> Content:
        """The content after one pod is placed on one node of a kind."""
        counts = Counter(dict(content))
        counts[kind] -= 1
        amounts = tuple(have - take for have, take in zip(kind[0], self.takes[shape], strict=True))
        counts[amounts, kind[1]] += 1
        return tuple(sorted((+counts).items()))


def _required_leaves(group: Group) -> Iterator[Leaf]:
    """Leaves that must hold for a group to hold."""
    if isinstance(group, Leaf):
        yield group
    elif group.min_groups >= len(group.children):
        for child in group.children:
            yield from _required_leaves(child)


def _pods(group: Group) -> int:
    return sum(map(need, leaves_below(group)))
