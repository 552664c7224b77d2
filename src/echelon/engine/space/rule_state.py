"""Demands with terms between pods: which they are, the order in which they are placed, their trial state.

    `strategy` ─► has_pod_rules ─► RuleState: free amounts (`trial_state`) and rules (`pod_rules`) ─► the same search

A rule limits what a node may still take, says whether the pods placed so far can still become valid, and judges the
whole when nothing is left to place.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.regions import Region, rows_of
from ..cluster.running_terms import carried, joins, left_open, matches, settled
from ..cluster.slots import roll_up
from ..cluster.view import ClusterView
from ..records.demand import Shape
from .canonical import Part, shapes_of, walk
from .pod_rules import AffinityRule, AntiAffinityRule, SpreadRule
from .trial_state import AmountState, Claims


def has_pod_rules(part: Part) -> bool:
    return any(ask.shape.has_pod_rules for each in walk(part) for ask in each.asks)


def is_counted(view: ClusterView, part: Part, region: Region) -> bool:
    """Whether slots decide although there are rules: equal pods, and rules only with running pods or per node."""
    table, shapes = view.node_table, shapes_of(part)
    if len(shapes) != 1 or region.rows is not None:
        return False
    listed = all(key in table.level_of for each in walk(part) for key in each.keys)
    return listed and settled(table, view.pod_index, shapes[0])


def _supply(parts: list[Part]) -> dict[Shape, int]:
    """The most pods of each shape that may be placed."""
    found: dict[Shape, int] = {}
    for part in parts:
        for ask in part.asks:
            found[ask.shape] = found.get(ask.shape, 0) + ask.most
    return found


class RuleState(AmountState):
    """Free amounts of every node, and the rules between pods."""

    def __init__(self, view: ClusterView, parts: list[Part], claims: Claims, around: int) -> None:
        super().__init__(view, parts, claims, around)
        self.rules: list[AntiAffinityRule | AffinityRule | SpreadRule] = []
        table, pod_index, supply = view.node_table, view.pod_index, _supply(parts)
        shapes = list(supply)
        for shape in shapes:
            self._fits[shape] = self._fits[shape] & left_open(table, pod_index, shape, alone=False)
        for term in carried(shapes):
            if any(matches(term.peers, shape) for shape in shapes):
                self.rules.append(AntiAffinityRule(table, pod_index, term, shapes))
        for like in {shape.affinity: shape for shape in shapes if shape.affinity}.values():
            self.rules.append(AffinityRule(view, like, shapes, supply))
        evens = [(shape, spread) for shape in shapes for spread in shape.spread]
        self.rules += [SpreadRule(self, view, shape, spread, supply) for shape, spread in evens]
        self.has_rules = bool(self.rules)
        self.extras_may_help = any(not isinstance(rule, AntiAffinityRule) for rule in self.rules)
        self._cache.clear()
        #: Rows per domain, to recognise domains of one node.
        self._sizes = {id(rule): [np.bincount(d[d >= 0], minlength=1) for d, _ in rule.tables()] for rule in self.rules}

    def slots_by_row(self, shape: Shape) -> Ints:
        known = self._cache.get((shape, -2))
        if known is None or known[0] != self._count:
            slots = super().slots_by_row(shape)
            for rule in self.rules:
                cap = rule.cap(shape)
                if cap is not None:
                    slots = np.minimum(slots, cap)
            known = self._cache[shape, -2] = (self._count, slots)
        return known[1]

    def slots(self, shape: Shape, level: int) -> Ints:
        slots = self.slots_by_row(shape)
        for rule in self.rules:
            if isinstance(rule, AntiAffinityRule) and rule.single(shape) and self._covers(level, rule):
                slots = _first_only(slots, rule.domain)
        return roll_up(self.table, slots, level)

    def _covers(self, level: int, rule: AntiAffinityRule) -> bool:
        """Whether every domain of a term lies within one of a level."""
        outer = self.table.domains(level)
        named = rule.domain >= 0
        lowest = np.full(len(rule.meant_pods), -1, dtype=np.int64)
        lowest[rule.domain[named]] = outer[named]
        return bool((lowest[rule.domain[named]] == outer[named]).all())

    def most(self, shape: Shape, rows: Ints) -> int:
        """No more pods of a shape than this can go to these rows together."""
        slots = np.zeros(self.table.size, dtype=np.int64)
        slots[rows] = self.slots_by_row(shape)[rows]
        total = int(slots.sum())
        for rule in self.rules:
            if isinstance(rule, AntiAffinityRule) and rule.single(shape):
                total = min(total, int(_first_only(slots, rule.domain).sum()))
            elif isinstance(rule, AffinityRule) and rule.stays_together(shape):
                total = min(total, rule.roomiest(slots))
        return total

    def put(self, rows: Ints, shape: Shape, counts: Ints) -> None:
        super().put(rows, shape, counts)
        for rule in self.rules:
            rule.put(shape, rows, counts)

    def holds(self, rows: Ints, shape: Shape) -> bool:
        return all(rule.holds(shape, rows) for rule in self.rules)

    def complete(self) -> bool:
        return all(rule.complete() for rule in self.rules)

    def one_by_one(self, shape: Shape, region: Region, count: int) -> tuple[Ints, Ints]:
        """Nodes for equal pods, one after the other, each where the rules score best; maybe fewer than `count`."""
        rows, taken = rows_of(self.table, region), list[int]()
        one = np.ones(1, dtype=np.int64)
        for _ in range(count):
            fine = rows[self.slots_by_row(shape)[rows] > 0]
            if not len(fine):
                break
            scores = [score for rule in self.rules if (score := rule.score(shape, fine)) is not None]
            best = int(fine[np.lexsort((fine, self.slots_by_row(shape)[fine], *scores))[0]])
            self.put(np.array([best], dtype=np.int64), shape, one)
            taken.append(best)
        for row in taken:
            self.put(np.array([row], dtype=np.int64), shape, -one)
        found = np.array(sorted(set(taken)), dtype=np.int64)
        return found, np.array([taken.count(row) for row in found.tolist()], dtype=np.int64)

    def signature(self) -> object:
        free = super().signature()
        if free is None:
            return None
        return (free, *(table.tobytes() for rule in self.rules for _, table in rule.tables()))

    def content(self, level: int, index: int) -> object:
        # With rules no two domains are known to be equal.
        return object() if self.rules else super().content(level, index)

    def alike(self, row: int, other: int) -> bool:
        if not super().alike(row, other):
            return False
        for rule in self.rules:
            for (domain, table), sizes in zip(rule.tables(), self._sizes[id(rule)], strict=True):
                here, there = int(domain[row]), int(domain[other])
                if here != there and (min(here, there) < 0 or sizes[here] != 1 or sizes[there] != 1):
                    return False
                if table[here] != table[there]:
                    return False
        return True


def _first_only(slots: Ints, domain: Ints) -> Ints:
    """One slot per domain, at its first row with a slot; rows without a domain keep theirs."""
    useful = np.flatnonzero((slots > 0) & (domain >= 0))
    first = np.full(int(domain.max(initial=-1)) + 1, -1, dtype=np.int64)
    first[domain[useful[::-1]]] = useful[::-1]
    kept = np.where(domain < 0, slots, 0)
    kept[first[first >= 0]] = 1
    return kept


def anchors_first(part: Part) -> Part:
    """The same part with the pods that others need nearby before those others."""
    shapes = shapes_of(part)
    depth = dict.fromkeys(shapes, 0)
    for _ in range(min(len(shapes), 8)):
        for shape in shapes:
            before = [depth[other] for other in shapes if joins(other, shape) and other.affinity != shape.affinity]
            depth[shape] = min(8, max(before, default=-1) + 1)
    return _ordered(part, depth)


def _ordered(part: Part, depth: dict[Shape, int]) -> Part:
    asks = tuple(sorted(part.asks, key=lambda ask: depth[ask.shape]))
    children = tuple(
        sorted((_ordered(child, depth) for child in part.children), key=lambda child: _depth(child, depth))
    )
    return replace(part, asks=asks, children=children)


def _depth(part: Part, depth: dict[Shape, int]) -> int:
    return max((depth[ask.shape] for each in walk(part) for ask in each.asks), default=0)
