"""What would have to be true for a blocked demand to fit, and which changes of the cluster can make it so.

    Blocked ─► ways_of ─► Certificates.add      somebody waits for one of these ways to open
    view.stirred ───────► Certificates.broken   whose way may be open now, looking at nothing but what changed

A demand that is blocked and later fits puts a pod on a node that changed meanwhile: otherwise it would have fitted
before.  So a leaf of it gets its minimum in a domain around such a node, and every group above it the minimum of all
its leaves: at least that many slots are there, even if everyone of lower priority and every place that is only kept
is counted as free.  As long as no change brings that about, the verdict stands and nobody need be woken.

Where counting pods does not tell (terms between pods, exclusive domains) and where neither the engine nor this count
has proved that nothing fits, there is no certificate: whoever waits is woken by every change.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ...engine import Blocked, ClusterView, Demand, Node, Shape
from ...engine.cluster.node_table import Layout
from ...engine.cluster.potential import Prospects, Reached, Thresholds
from ...engine.space.canonical import Canon, Part, shapes_of, walk

#: A demand with more ways than this to come to hold is woken by every change.
_MOST_WAYS = 64
#: Domains in which a count is looked at more closely before it is given up as no proof.
_MOST_DOMAINS = 16


@dataclass(frozen=True, slots=True)
class Check:
    """So many slots of these shapes together in a domain of a level."""

    level: int
    shapes: tuple[Shape, ...]
    need: int


@dataclass(frozen=True, slots=True)
class Pin:
    """Members run on these nodes: their domain of a level is the only one."""

    level: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """A leaf comes to hold with the help of a node: what its domain must offer, and those of the groups above it."""

    shape: Shape
    level: int
    need: int
    checks: tuple[Check, ...] = ()
    pins: tuple[Pin, ...] = ()

    @property
    def first(self) -> Check:
        """What is looked at first: of all that is asked of slots of its shape alone, the largest number."""
        alone = [one for one in self.checks if one.shapes == (self.shape,)]
        return max([Check(self.level, (self.shape,), self.need), *alone], key=lambda one: one.need)


def ways_of(view: ClusterView, demand: Demand) -> tuple[Way, ...] | None:
    """All ways in which a demand could come to hold, or hold more; None if counting does not tell."""
    layout, found = view.layout, dict[Way, None]()
    for aim in Canon(view).aims(demand.root):
        parts = list(walk(aim))
        if any(part.exclusive for part in parts) or any(shape.tied for shape in shapes_of(aim)):
            return None
        found |= dict.fromkeys(_ways(layout, aim, -1, (), ()))
        if len(found) > _MOST_WAYS:
            return None
    return tuple(found) or None


def _ways(layout: Layout, part: Part, level: int, checks: tuple[Check, ...], pins: tuple[Pin, ...]) -> Iterator[Way]:
    """`level` and `checks` are those of the groups above; keys outside the list of levels count for nothing."""
    own = max((layout.level_of.get(key, -1) for key in part.keys), default=-1)
    level = max(level, own)
    if own >= 0 and part.pins:
        pins = (*pins, Pin(own, tuple(layout.name(row) for row in part.pins)))
    checks = (*checks, *_checks(part, level))
    if part.children:
        seen = set[int]()
        for child in part.children:
            if child.type not in seen:
                seen.add(child.type)
                yield from _ways(layout, child, level, checks, pins)
    elif part.need > 0:
        for shape in shapes_of(part):
            need = max(1, part.least.get(shape, 0))
            yield Way(shape, level, need, tuple(one for one in checks if one != Check(level, (shape,), need)), pins)


def _checks(part: Part, level: int) -> Iterator[Check]:
    shapes = tuple(shapes_of(part))
    for shape, need in part.least.items():
        if need > 0:
            yield Check(level, (shape,), need)
    if shapes and part.pods > 0 and (len(shapes) > 1 or part.least.get(shapes[0], 0) < part.pods):
        yield Check(level, shapes, part.pods)


@dataclass(slots=True)
class _Held:
    """A certificate that somebody relies on."""

    below: int | None
    ways: tuple[Way, ...]
    #: The nodes on which members run, as they were; if one of them becomes another, so may their domain.
    bound: dict[str, Node | None]


@dataclass(slots=True)
class _Kept:
    """For demands of one priority: the cluster as they could have it, and thresholds by level."""

    prospects: Prospects
    levels: dict[int, Thresholds]
    #: By level and shape: the least need first, and whose it is.
    waiting: dict[tuple[int, Shape], list[tuple[int, int, int]]]

    def enter(self, number: int, index: int, way: Way) -> None:
        """Somebody waits for a way to open."""
        first = way.first
        waiting = self.waiting.setdefault((first.level, way.shape), [])
        insort(waiting, (first.need, number, index))
        if first.level not in self.levels:
            self.levels[first.level] = Thresholds(self.prospects, first.level)
        self.levels[first.level].set(way.shape, waiting[0][0])

    def leave(self, number: int, index: int, way: Way) -> None:
        """Nobody does any more."""
        first = way.first
        waiting, thresholds = self.waiting[first.level, way.shape], self.levels[first.level]
        del waiting[bisect_left(waiting, (first.need, number, index))]
        if waiting:
            thresholds.set(way.shape, waiting[0][0])
            return
        del self.waiting[first.level, way.shape]
        thresholds.drop(way.shape)
        if not thresholds:
            del self.levels[first.level]


class Certificates:
    """Who waits for what; numbers are the caller's."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._held: dict[int, _Held] = {}
        #: By node: whose members run there.
        self._on_node: dict[str, dict[int, None]] = {}
        #: By the priority below which pods may be evicted.
        self._kept: dict[int | None, _Kept] = {}
        #: Nodes where room may have grown since certificates were last looked at.
        self._grown: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, number: int, demand: Demand, verdict: Blocked | None) -> bool:
        """Keep what this demand waits for; False if that is not known.  Without a verdict, counting must prove it."""
        self.remove(number)
        ways = ways_of(self._view, demand)
        if ways is None:
            return False
        self._take_in()
        below = demand.priority if demand.may_preempt else None
        kept = self._kept.get(below)
        if kept is None:
            kept = self._kept[below] = _Kept(Prospects(self._view, below), {}, {})
        if not (self._counts_out(kept.prospects, ways) or self._is_proved(below, verdict)):
            self._tidy(below)
            return False
        bound = {one.node: self._view.node(one.node) for leaf in demand.leaves() for one in leaf.bound}
        self._held[number] = _Held(below, ways, bound)
        for name in bound:
            self._on_node.setdefault(name, {})[number] = None
        for index, way in enumerate(ways):
            kept.enter(number, index, way)
        return True

    def remove(self, number: int) -> None:
        """Nobody relies on it any more."""
        held = self._held.pop(number, None)
        if held is None:
            return
        for name in held.bound:
            del self._on_node[name][number]
            if not self._on_node[name]:
                del self._on_node[name]
        for index, way in enumerate(held.ways):
            self._kept[held.below].leave(number, index, way)
        self._tidy(held.below)

    def broken(self) -> list[int]:
        """The certificates that what changed since the last call may have made void; they are kept until removed."""
        self._take_in()
        grown, self._grown = self._grown, {}
        if not self._held:
            return []
        found: dict[int, None] = {}
        for name in grown:
            for number in self._on_node.get(name, ()):
                if self._view.node(name) is not self._held[number].bound[name]:
                    found[number] = None
        rows = [row for row in map(self._view.layout.row, grown) if row is not None]
        for kept in self._kept.values():
            for level, thresholds in kept.levels.items():
                for reached in thresholds.reached(rows):
                    found |= dict.fromkeys(self._opened(kept, level, reached))
        return list(found)

    def _opened(self, kept: _Kept, level: int, reached: Reached) -> Iterator[int]:
        """Whose way is open as far as can be counted, given a domain with so many slots of a shape."""
        for need, number, index in kept.waiting[level, reached.shape]:
            if need > reached.slots:
                return
            way = self._held[number].ways[index]
            if any(self._passes(kept.prospects, way, row) for row in self._apart(way.level, reached.rows)):
                yield number

    def _apart(self, level: int, rows: Iterable[int]) -> Iterable[int]:
        """One row for each domain of a level."""
        domains = self._view.layout.domains(level)
        return {domains.item(row): row for row in rows}.values()

    def _passes(self, prospects: Prospects, way: Way, row: int) -> bool:
        """Whether the domains around a row offer all that a way needs."""
        layout = self._view.layout
        if not layout.named(way.level)[layout.domains(way.level)[row]]:
            return False
        for pin in way.pins:
            domains = layout.domains(pin.level)
            pinned = (layout.row(name) for name in pin.nodes)
            if any(domains[one] != domains[row] for one in pinned if one is not None):
                return False
        if prospects.total(way.shape, way.level, row) < way.need:
            return False
        for check in way.checks:
            if sum(prospects.total(shape, check.level, row) for shape in check.shapes) < check.need:
                return False
        return True

    def _counts_out(self, prospects: Prospects, ways: Iterable[Way]) -> bool:
        """Whether counting alone says that none of these is open anywhere."""
        layout = self._view.layout
        if not layout.size:
            return True
        for way in ways:
            totals = prospects.by_domain(way.shape, way.level)
            enough = np.flatnonzero(layout.named(way.level) & (totals >= way.need)).tolist()
            if len(enough) > _MOST_DOMAINS:
                return False
            if any(self._passes(prospects, way, layout.span(way.level, domain)[0]) for domain in enough):
                return False
        return True

    def _is_proved(self, below: int | None, verdict: Blocked | None) -> bool:
        """Whether the engine has proved that nothing fits, and there is nobody whom it might have evicted."""
        if verdict is None or not verdict.proved:
            return False
        return below is None or not self._view.units_below(below)

    def _take_in(self) -> None:
        """Bring everything up to date with what changed in the view."""
        stirred = self._view.stirred()
        self._grown |= dict.fromkeys(name for name, grown in stirred.items() if grown)
        for kept in self._kept.values():
            kept.prospects.catch_up(stirred)

    def _tidy(self, below: int | None) -> None:
        if not self._kept[below].waiting:
            del self._kept[below]
