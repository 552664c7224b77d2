"""Exhaustive search of the judge, for small demands: try every way to place a demand, one after the other.

No heuristics and no bounds beyond counting, only the definitions and a number of steps after which the question stays
open.  It contradicts a verdict, or confirms it where counting does not decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

from ..records.demand import Composite, Demand, Group, Leaf, Shape, given
from .counting_bounds import CountingBounds, NodeSet, need
from .facts import Facts, Identity, bound_nodes, members_to_place, satisfied, selected, supply, tolerated
from .pod_terms import pod_term_problems
from .symmetric_search import Allowance, OutOfSteps, SymmetricSearch

#: Nodes and pods beyond which this search is not tried: it would only end the steps.
MOST_NODES = 24
MOST_PODS = 48

#: Places what remains and returns whether that worked.
Continuation = Callable[[], bool]


def fits(facts: Facts, demand: Demand, steps: int, allowance: Allowance | None = None) -> bool | None:
    """Whether a demand can be placed, or one more pod or group if it already holds; None if that stays open.

    Large clusters are searched by symmetry (`symmetric_search`), as far as the allowance goes.
    """
    counting = CountingBounds(facts, demand)
    if counting.excluded():
        return False
    aims = [replace(demand, root=aim) for aim in _aims(demand.root)]
    share = steps // max(1, len(aims))
    if len(facts.nodes) <= MOST_NODES and members_to_place(demand.root) <= MOST_PODS:
        try:
            return any(_ExhaustiveSearch(facts, aim, share).exists() for aim in aims)
        except OutOfSteps:
            pass
    if allowance is None:
        return None
    answers = [SymmetricSearch(facts, aim, allowance).fits() for aim in aims]
    return True if True in answers else None if None in answers else False


def _aims(group: Group) -> Iterator[Group]:
    """Trees to place: the root itself or, if it holds, one for each further pod or group below it."""
    if not satisfied(group):
        yield group
    elif isinstance(group, Leaf):
        if supply(group):
            yield replace(group, min_count=len(group.bound) + 1)
    else:
        for number, child in enumerate(group.children):
            for aim in _aims(child):
                # The other groups stay as they are: they keep their domains and need no more pods.
                rest = group.children[:number] + group.children[number + 1 :]
                others = tuple(_as_bound(each) for each in rest if bound_nodes(each))
                yield replace(group, min_groups=len(others) + 1, children=(aim, *others))


def _as_bound(group: Group) -> Group:
    """The group with its bound members only: it needs no more pods but keeps its exclusive domains."""
    if isinstance(group, Composite):
        pinned = tuple(_as_bound(child) for child in group.children if bound_nodes(child))
        return replace(group, min_groups=min(group.min_groups, len(pinned)), children=pinned)
    return replace(group, min_count=0, classes=())


class _ExhaustiveSearch:
    """All placements of one tree."""

    def __init__(self, facts: Facts, demand: Demand, steps: int) -> None:
        self.facts, self.demand, self.steps = facts, demand, steps
        self.counting = CountingBounds(facts, demand)
        self.free = {name: dict(facts.free(name)) for name in facts.nodes}
        self.put: list[tuple[int, Shape, str]] = []
        self.claimed: dict[tuple[object, Identity], int] = {}
        self.has_pod_rules = any(pods.shape.has_pod_rules for leaf in demand.leaves() for pods in leaf.classes)

    def exists(self) -> bool:
        return self._group(self.demand.root, self.counting.everywhere, self._rules_hold)

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise OutOfSteps

    def _rules_hold(self) -> bool:
        """Whether the pod rules hold once everything is placed."""
        if not self.has_pod_rules:
            return True
        shapes = {number: shape for number, (_, shape, _) in enumerate(self.put)}
        where = {number: name for number, (_, _, name) in enumerate(self.put)}
        wrong = pod_term_problems(self.facts.view, where, shapes, self.facts.staying, (selected, tolerated))
        return next(iter(wrong), None) is None

    def _group(self, group: Group, around: NodeSet, then: Continuation) -> bool:
        """Place a group somewhere inside a node set, then the rest."""
        for inside in self.counting.node_sets(group, around):
            self._step()
            if isinstance(group, Composite):
                if self._children(group, inside, then):
                    return True
            elif self._leaf(group, inside, then):
                return True
        return False

    def _children(self, group: Composite, inside: NodeSet, then: Continuation) -> bool:
        most = len(group.children) if self.has_pod_rules else group.min_groups
        for number in range(max(0, group.min_groups), most + 1):
            for chosen in combinations(group.children, number):
                if self._each(list(chosen), inside, then):
                    return True
        return False

    def _each(self, groups: list[Group], inside: NodeSet, then: Continuation) -> bool:
        if not groups:
            return then()
        return self._group(groups[0], inside, lambda: self._each(groups[1:], inside, then))

    def _leaf(self, leaf: Leaf, inside: NodeSet, then: Continuation) -> bool:
        if leaf.exclusive is None:
            return self._sizes(leaf, inside, then)
        domain = self.facts.domain(inside.names[0], leaf.exclusive.key) if inside.names else None
        if domain is None or self.claimed.get((leaf.exclusive, domain), leaf.id) != leaf.id:
            return False
        self.claimed[leaf.exclusive, domain] = leaf.id
        try:
            return self._sizes(leaf, inside, then)
        finally:
            del self.claimed[leaf.exclusive, domain]

    def _sizes(self, leaf: Leaf, inside: NodeSet, then: Continuation) -> bool:
        """Try every number of pods; more than needed can help only where there are pod rules."""
        kinds = supply(leaf)
        members = sum(number for _, number in kinds)
        most = members if self.has_pod_rules else need(leaf)
        return any(
            self._pods(kinds, size, inside, 0, then, leaf.id) for size in range(need(leaf), min(most, members) + 1)
        )

    def _pods(
        self, kinds: list[tuple[Shape, int]], left: int, inside: NodeSet, at: int, then: Continuation, leaf: int
    ) -> bool:
        """Put `left` pods of these kinds on the nodes from `at` on, one kind after the other."""
        self._step()
        if not left:
            return then()
        if not kinds:
            return False
        shape, number = kinds[0]
        for spot in range(at, len(inside.names)):
            name = inside.names[spot]
            for count in range(min(left, number, self._slots(shape, name)), 0, -1):
                self._charge(leaf, shape, name, count)
                rest = [(shape, number - count), *kinds[1:]]
                found = self._pods(rest, left - count, inside, spot + 1, then, leaf)
                self._charge(leaf, shape, name, -count)
                if found:
                    return True
        return self._pods(kinds[1:], left, inside, 0, then, leaf)

    def _slots(self, shape: Shape, name: str) -> int:
        if not self.facts.slots(shape).get(name):
            return 0
        free = self.free[name]
        asked = [(resource, amount) for resource, amount in shape.requests if amount > 0]
        return max(0, min((free.get(r, given(r)) // amount for r, amount in asked), default=1 << 31))

    def _charge(self, leaf: int, shape: Shape, name: str, count: int) -> None:
        free = self.free[name]
        for resource, amount in shape.requests:
            free[resource] = free.get(resource, given(resource)) - amount * count
        if count > 0:
            self.put.extend((leaf, shape, name) for _ in range(count))
        elif count < 0:
            del self.put[count:]
