"""Certificates of blocked demands: what must come true for a demand to fit, and which changes can make it so.

    Blocked ─► needs_of ─► Certificates.add      record what the demand waits for
    view.stirred ────────► Certificates.broken   which certificates the changed nodes may have voided

A demand that was blocked and now fits puts a pod on a node that changed meanwhile, or it would have fitted before.  So
one of its leaves gets its minimum in a domain around such a node, and every group above that leaf gets the minimum of
all its leaves.  At least that many slots must exist there, even if every pod of lower priority and every place that is
only kept is counted as free (`cluster.potential`).  As long as no change brings this about, the verdict stands.

There is no certificate where counting slots is not enough (terms between pods, exclusive domains), nor where neither
the engine nor the count proved that the demand does not fit.  Such a demand has to be decided again after any change.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from .cluster.node_table import NodeTable
from .cluster.potential import Potential, Reached, Thresholds
from .cluster.view import ClusterView, Node
from .records.demand import Demand, Shape
from .records.verdict import Blocked
from .space.canonical import Part, PartBuilder, shapes_of, walk

#: A demand with more alternatives than this gets no certificate.
_MOST_NEEDS = 64
#: Domains with enough slots that are checked one by one before the count is given up as a proof.
_MOST_DOMAINS = 16


@dataclass(frozen=True, slots=True)
class SlotCount:
    """`need` slots of these shapes together within one domain of a level."""

    level: int
    shapes: tuple[Shape, ...]
    need: int


@dataclass(frozen=True, slots=True)
class PinnedDomain:
    """Members run on these nodes, so their domain of the level is the only one allowed."""

    level: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeafNeed:
    """What the domain of one leaf must offer, and the domains of the groups above it."""

    shape: Shape
    level: int
    need: int
    counts: tuple[SlotCount, ...] = ()
    pins: tuple[PinnedDomain, ...] = ()

    @property
    def first(self) -> SlotCount:
        """The count that is checked first: the largest one that asks for slots of the leaf's shape alone."""
        alone = [one for one in self.counts if one.shapes == (self.shape,)]
        return max([SlotCount(self.level, (self.shape,), self.need), *alone], key=lambda one: one.need)


def needs_of(view: ClusterView, demand: Demand) -> tuple[LeafNeed, ...] | None:
    """The needs of which one must be met for a demand to hold, or to hold more; None if counting is not enough."""
    table, found = view.node_table, dict[LeafNeed, None]()
    for aim in PartBuilder(view).aims(demand.root):
        parts = list(walk(aim))
        if any(part.exclusive for part in parts) or any(shape.has_pod_rules for shape in shapes_of(aim)):
            return None
        found |= dict.fromkeys(_needs(table, aim, -1, (), ()))
        if len(found) > _MOST_NEEDS:
            return None
    return tuple(found) or None


def _needs(
    table: NodeTable, part: Part, level: int, counts: tuple[SlotCount, ...], pins: tuple[PinnedDomain, ...]
) -> Iterator[LeafNeed]:
    """`level`, `counts` and `pins` come from the groups above.  Keys that are not levels are ignored."""
    own = max((table.level_of.get(key, -1) for key in part.keys), default=-1)
    level = max(level, own)
    if own >= 0 and part.pins:
        pins = (*pins, PinnedDomain(own, tuple(table.name(row) for row in part.pins)))
    counts = (*counts, *_counts(part, level))
    if part.children:
        seen = set[int]()
        for child in part.children:
            if child.type not in seen:
                seen.add(child.type)
                yield from _needs(table, child, level, counts, pins)
    elif part.need > 0:
        for shape in shapes_of(part):
            need = max(1, part.least.get(shape, 0))
            rest = tuple(one for one in counts if one != SlotCount(level, (shape,), need))
            yield LeafNeed(shape, level, need, rest, pins)


def _counts(part: Part, level: int) -> Iterator[SlotCount]:
    shapes = tuple(shapes_of(part))
    for shape, need in part.least.items():
        if need > 0:
            yield SlotCount(level, (shape,), need)
    if shapes and part.pods > 0 and (len(shapes) > 1 or part.least.get(shapes[0], 0) < part.pods):
        yield SlotCount(level, shapes, part.pods)


@dataclass(slots=True)
class _Certificate:
    #: Pods below this priority may be evicted; None: none may.
    below: int | None
    needs: tuple[LeafNeed, ...]
    #: The nodes on which members run, as they were.  If one of them changes, the pinned domain may change too.
    bound: dict[str, Node | None]


@dataclass(slots=True)
class _Watched:
    """The certificates of one priority: what could be free for it, and which slot counts are waited for."""

    potential: Potential
    thresholds: dict[int, Thresholds]
    #: By level and shape: (slots needed, certificate, index of the need), sorted.
    waiting: dict[tuple[int, Shape], list[tuple[int, int, int]]]

    def enter(self, number: int, index: int, need: LeafNeed) -> None:
        first = need.first
        waiting = self.waiting.setdefault((first.level, need.shape), [])
        insort(waiting, (first.need, number, index))
        if first.level not in self.thresholds:
            self.thresholds[first.level] = Thresholds(self.potential, first.level)
        self.thresholds[first.level].set(need.shape, waiting[0][0])

    def leave(self, number: int, index: int, need: LeafNeed) -> None:
        first = need.first
        waiting, thresholds = self.waiting[first.level, need.shape], self.thresholds[first.level]
        del waiting[bisect_left(waiting, (first.need, number, index))]
        if waiting:
            thresholds.set(need.shape, waiting[0][0])
            return
        del self.waiting[first.level, need.shape]
        thresholds.drop(need.shape)
        if not thresholds:
            del self.thresholds[first.level]


class Certificates:
    """The certificates that hold for a view, by numbers that the caller chooses."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._certificates: dict[int, _Certificate] = {}
        #: node -> certificates whose members run there
        self._on_node: dict[str, dict[int, None]] = {}
        #: By the priority below which pods may be evicted.
        self._watched: dict[int | None, _Watched] = {}
        #: Nodes where capacity may have grown since `broken` was last called.
        self._grown: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._certificates)

    def add(self, number: int, demand: Demand, verdict: Blocked | None) -> bool:
        """Record what a blocked demand waits for; False if that cannot be told.

        Without a verdict the count alone must prove that the demand does not fit.
        """
        self.remove(number)
        needs = needs_of(self._view, demand)
        if needs is None:
            return False
        self._catch_up()
        below = demand.priority if demand.may_preempt else None
        watched = self._watched.get(below)
        if watched is None:
            watched = self._watched[below] = _Watched(Potential(self._view, below), {}, {})
        if not (self._counts_out(watched.potential, needs) or self._is_proved(below, verdict)):
            self._tidy(below)
            return False
        bound = {one.node: self._view.node(one.node) for leaf in demand.leaves() for one in leaf.bound}
        self._certificates[number] = _Certificate(below, needs, bound)
        for name in bound:
            self._on_node.setdefault(name, {})[number] = None
        for index, need in enumerate(needs):
            watched.enter(number, index, need)
        return True

    def remove(self, number: int) -> None:
        certificate = self._certificates.pop(number, None)
        if certificate is None:
            return
        for name in certificate.bound:
            del self._on_node[name][number]
            if not self._on_node[name]:
                del self._on_node[name]
        for index, need in enumerate(certificate.needs):
            self._watched[certificate.below].leave(number, index, need)
        self._tidy(certificate.below)

    def broken(self) -> list[int]:
        """The certificates that changes since the last call may have voided.  They stay until they are removed."""
        self._catch_up()
        grown, self._grown = self._grown, {}
        if not self._certificates:
            return []
        found: dict[int, None] = {}
        for name in grown:
            for number in self._on_node.get(name, ()):
                if self._view.node(name) is not self._certificates[number].bound[name]:
                    found[number] = None
        rows = [row for row in map(self._view.node_table.row, grown) if row is not None]
        for watched in self._watched.values():
            for level, thresholds in watched.thresholds.items():
                for reached in thresholds.reached(rows):
                    found |= dict.fromkeys(self._met(watched, level, reached))
        return list(found)

    def _met(self, watched: _Watched, level: int, reached: Reached) -> Iterator[int]:
        """Certificates with a need that is met, as far as can be counted, in a domain that reached a threshold."""
        for slots, number, index in watched.waiting[level, reached.shape]:
            if slots > reached.slots:
                return
            need = self._certificates[number].needs[index]
            if any(self._is_met(watched.potential, need, row) for row in self._apart(need.level, reached.rows)):
                yield number

    def _apart(self, level: int, rows: Iterable[int]) -> Iterable[int]:
        """One row for each domain of a level."""
        domains = self._view.node_table.domains(level)
        return {domains.item(row): row for row in rows}.values()

    def _is_met(self, potential: Potential, need: LeafNeed, row: int) -> bool:
        """Whether the domains around a row offer everything that a leaf needs."""
        table = self._view.node_table
        if not table.named(need.level)[table.domains(need.level)[row]]:
            return False
        for pin in need.pins:
            domains = table.domains(pin.level)
            pinned = (table.row(name) for name in pin.nodes)
            if any(domains[one] != domains[row] for one in pinned if one is not None):
                return False
        if potential.total(need.shape, need.level, row) < need.need:
            return False
        for count in need.counts:
            if sum(potential.total(shape, count.level, row) for shape in count.shapes) < count.need:
                return False
        return True

    def _counts_out(self, potential: Potential, needs: Iterable[LeafNeed]) -> bool:
        """Whether the count alone proves that none of these needs is met anywhere."""
        table = self._view.node_table
        if not table.size:
            return True
        for need in needs:
            totals = potential.by_domain(need.shape, need.level)
            enough = np.flatnonzero(table.named(need.level) & (totals >= need.need)).tolist()
            if len(enough) > _MOST_DOMAINS:
                return False
            if any(self._is_met(potential, need, table.span(need.level, domain)[0]) for domain in enough):
                return False
        return True

    def _is_proved(self, below: int | None, verdict: Blocked | None) -> bool:
        """Whether the engine proved that nothing fits and there is no unit that it might have evicted."""
        if verdict is None or not verdict.proved:
            return False
        return below is None or not self._view.units_below(below)

    def _catch_up(self) -> None:
        """Take in what changed in the view."""
        stirred = self._view.stirred()
        self._grown |= dict.fromkeys(name for name, grown in stirred.items() if grown)
        for watched in self._watched.values():
            watched.potential.catch_up(stirred)

    def _tidy(self, below: int | None) -> None:
        if not self._watched[below].waiting:
            del self._watched[below]
