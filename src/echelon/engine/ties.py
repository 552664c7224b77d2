"""Pods that bear on one another while they are placed together: the room with rules between its pods.

Each rule counts pods per domain as they are put down and taken up again.  It caps what a node may still take, says
whether what stands can still become right, and judges the whole when nothing is left to place:

    Apart   a term of anti-affinity: who has it and who is meant by it share no domain
    Near    terms of affinity: someone who is meant is in the same domain; the first of a kind that means itself may
            go anywhere if no such pod runs, and all of that kind that are placed with it go where it goes
    Even    a spread constraint: no domain in use is too far above the emptiest

What is placed together is judged as a whole, so the order of pods does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .capacity import UNLIMITED, roll_up
from .company import Company, Question
from .demand import PodTerm, Shape, Spread
from .layout import Bools, Ints, Layout
from .parts import Part, shapes_of, walk
from .regions import Region, rows_of
from .room import Claims, Packing
from .terms import anchors_of, carried, domain_of, eligible, has_anchor, joins, left_open, matches, settled, tally
from .view import ClusterView


def is_tied(part: Part) -> bool:
    return any(ask.shape.tied for each in walk(part) for ask in each.asks)


def is_counted(view: ClusterView, part: Part, region: Region) -> bool:
    """Whether slots decide all the same: equal pods that only running pods and their own nodes bear on."""
    layout, shapes = view.layout, shapes_of(part)
    if len(shapes) != 1 or region.rows is not None:
        return False
    listed = all(key in layout.level_of for each in walk(part) for key in each.keys)
    return listed and settled(layout, view.company, shapes[0])


def _supply(parts: list[Part]) -> dict[Shape, int]:
    """The most pods of each shape that may be placed."""
    found: dict[Shape, int] = {}
    for part in parts:
        for ask in part.asks:
            found[ask.shape] = found.get(ask.shape, 0) + ask.most
    return found


class Apart:
    """One term of anti-affinity that pods of the demand have and pods of the demand are meant by."""

    def __init__(self, layout: Layout, company: Company, term: PodTerm, shapes: list[Shape]) -> None:
        self.domain = domain_of(layout, term.key)
        self.having = {shape for shape in shapes if term in shape.anti_affinity}
        self.meant = {shape for shape in shapes if matches(term.peers, shape)}
        self.meant_pods = tally(layout, self.domain, company.of(Question((term.peers,))))
        self.having_pods = tally(layout, self.domain, company.repelling().get(term, {}))

    def put(self, shape: Shape, rows: Ints, counts: Ints) -> None:
        if shape in self.meant:
            _count(self.meant_pods, self.domain[rows], counts)
        if shape in self.having:
            _count(self.having_pods, self.domain[rows], counts)

    def cap(self, shape: Shape) -> Ints | None:
        having, meant = shape in self.having, shape in self.meant
        if not having and not meant:
            return None
        shut = np.zeros(len(self.domain), dtype=np.bool_)
        if having:
            shut |= self.meant_pods[self.domain] > 0
        if meant:
            shut |= self.having_pods[self.domain] > 0
        most = np.where((self.domain >= 0) & having & meant, 1, UNLIMITED)
        return np.where(shut, 0, most)

    def single(self, shape: Shape) -> bool:
        """Whether a domain takes one pod of the shape only."""
        return shape in self.having and shape in self.meant

    def holds(self, shape: Shape, rows: Ints) -> bool:
        here = self.domain[rows]
        here = here[here >= 0]
        itself = int(shape in self.having and shape in self.meant)
        if shape in self.having and (self.meant_pods[here] > itself).any():
            return False
        return shape not in self.meant or not (self.having_pods[here] > itself).any()

    def complete(self) -> bool:
        return True

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        return None

    def tables(self) -> Iterator[tuple[Ints, Ints]]:
        yield self.domain, self.meant_pods
        yield self.domain, self.having_pods


class Near:
    """The affinity terms of one or more shapes."""

    def __init__(self, view: ClusterView, like: Shape, shapes: list[Shape], supply: dict[Shape, int]) -> None:
        layout = view.layout
        having = [shape for shape in shapes if shape.affinity == like.affinity]
        meant = [shape for shape in shapes if joins(shape, like)]
        #: Pods that have the terms and are meant by them, those that only have them, those that are only meant.
        self.kind = {shape for shape in having if shape in meant}
        self.followers = {shape for shape in having if shape not in meant}
        self.anchors = {shape for shape in meant if shape not in having}
        # Those who cannot do without company do not count on pods that are still to come, and so nobody does.
        strictest = next((shape for shape in having if shape not in meant), like)
        self.anchored = has_anchor(layout, view.company, strictest)
        self.domains = [domain_of(layout, term.key) for term in like.affinity]
        running = anchors_of(layout, view.company, strictest)
        self.anchor_pods = [tally(layout, domain, running) for domain in self.domains]
        self.kind_pods = [np.zeros_like(pods) for pods in self.anchor_pods]
        self.follower_pods = [np.zeros_like(pods) for pods in self.anchor_pods]
        self.anchors_left = sum(supply[shape] for shape in self.anchors)
        self.kind_left = sum(supply[shape] for shape in self.kind)

    def put(self, shape: Shape, rows: Ints, counts: Ints) -> None:
        total = int(counts.sum())
        if shape in self.anchors:
            self.anchors_left -= total
            pods = self.anchor_pods
        elif shape in self.kind:
            self.kind_left -= total
            pods = self.kind_pods
        elif shape in self.followers:
            pods = self.follower_pods
        else:
            return
        for domain, table in zip(self.domains, pods, strict=True):
            _count(table, domain[rows], counts)

    def cap(self, shape: Shape) -> Ints | None:
        if self.anchors_left or not (shape in self.kind or (shape in self.followers and not self.kind_left)):
            return None
        fine = self._beside(shape)
        if shape in self.kind and not self.anchored:
            fine |= self._with_its_kind()
        return np.where(fine, UNLIMITED, 0)

    def _beside(self, shape: Shape) -> Bools:
        """Rows with everyone near that the shape asks for."""
        fine = np.ones(len(self.domains[0]), dtype=np.bool_)
        for domain, anchors, kind in zip(self.domains, self.anchor_pods, self.kind_pods, strict=True):
            near = anchors if shape in self.kind else anchors + kind
            fine &= near[domain] > 0
        return fine

    def _with_its_kind(self) -> Bools:
        fine = np.ones(len(self.domains[0]), dtype=np.bool_)
        for domain, kind in zip(self.domains, self.kind_pods, strict=True):
            fine &= (domain >= 0) & ((kind[domain] > 0) | (not kind.any()))
        return fine

    def stays_together(self, shape: Shape) -> bool:
        """Whether pods of a shape can only go where the first of them goes."""
        alone = not self.anchored and not self.anchors_left and not any(pods.any() for pods in self.anchor_pods)
        return alone and shape in self.kind

    def roomiest(self, slots: Ints) -> int:
        """The most slots in a domain of each term."""
        sums = [np.zeros_like(pods) for pods in self.anchor_pods]
        for domain, table in zip(self.domains, sums, strict=True):
            _count(table, domain, slots)
        return min(int(table.max(initial=0)) for table in sums)

    def holds(self, shape: Shape, rows: Ints) -> bool:
        if not self.anchors_left and shape in self.kind and not self._kind_holds():
            return False
        late = shape in self.followers and not self.anchors_left and not self.kind_left
        return not late or self._followers_hold()

    def complete(self) -> bool:
        return self._kind_holds() and self._followers_hold()

    def _kind_holds(self) -> bool:
        if not self.anchored and all(int((kind > 0).sum()) <= 1 for kind in self.kind_pods):
            return True
        pairs = zip(self.kind_pods, self.anchor_pods, strict=True)
        return all(bool((anchors[kind > 0] > 0).all()) for kind, anchors in pairs)

    def _followers_hold(self) -> bool:
        tables = zip(self.follower_pods, self.anchor_pods, self.kind_pods, strict=True)
        return all(bool(((anchors + kind)[pods > 0] > 0).all()) for pods, anchors, kind in tables)

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        """Where those that it asks for are, if they are anywhere yet."""
        if shape not in self.kind and shape not in self.followers:
            return None
        return np.where((self._beside(shape) | self._with_its_kind())[rows], 0, 1)

    def tables(self) -> Iterator[tuple[Ints, Ints]]:
        for number, domain in enumerate(self.domains):
            for pods in (self.anchor_pods, self.kind_pods, self.follower_pods):
                yield domain, pods[number]


class Even:
    """One spread constraint of one shape."""

    def __init__(self, room: Packing, view: ClusterView, like: Shape, spread: Spread, supply: dict[Shape, int]) -> None:
        layout = view.layout
        self.like, self.spread = like, spread
        self.counted = eligible(layout, like, spread)
        self.domain = domain_of(layout, spread.key)
        self.meant = {shape for shape in supply if matches(spread.peers, shape)}
        at_home = np.where(self.counted, self.domain, -1)
        self.pods = tally(layout, self.domain, {})
        running = tally(layout, at_home, view.company.of(Question((spread.peers,), staying=True)))
        self.pods[: len(running) - 1] += running[:-1]
        self.used = np.zeros_like(self.pods)
        present = np.zeros(len(self.pods), dtype=np.bool_)
        present[at_home[at_home >= 0]] = True
        self.present = np.flatnonzero(present)
        self.left = sum(supply[shape] for shape in self.meant)
        # No domain can rise above what it holds and the slots it has.
        slots = np.zeros_like(self.pods)
        for shape in self.meant:
            _count(slots, at_home, np.minimum(room.slots_by_row(shape), self.left))
        self.ceiling = int((self.pods + slots)[self.present].min(initial=UNLIMITED))

    def put(self, shape: Shape, rows: Ints, counts: Ints) -> None:
        if shape in self.meant:
            counted = self.counted[rows]
            _count(self.pods, self.domain[rows][counted], counts[counted])
            self.left -= int(counts.sum())
        if shape == self.like:
            _count(self.used, self.domain[rows], counts)

    def cap(self, shape: Shape) -> Ints | None:
        if shape != self.like:
            return None
        more = self.spread.max_skew + self._highest_floor() - self.pods[self.domain]
        if shape not in self.meant:
            more = np.where(more >= 0, UNLIMITED, 0)
        return np.where(self.domain >= 0, np.maximum(more, 0), 0)

    def _highest_floor(self) -> int:
        """The most that the emptiest domain can come to hold: all pods that are left go where it is lowest."""
        if len(self.present) < self.spread.min_domains:
            return 0
        heights = np.sort(self.pods[self.present])
        needed = heights * np.arange(1, len(heights) + 1) - np.cumsum(heights)
        reach = int(np.searchsorted(needed, self.left, side="right"))
        floor = (int(heights[:reach].sum()) + self.left) // reach if reach else 0
        return min(floor, self.ceiling)

    def holds(self, shape: Shape, rows: Ints) -> bool:
        return self._within(self._highest_floor())

    def complete(self) -> bool:
        enough = len(self.present) >= self.spread.min_domains
        return self._within(int(self.pods[self.present].min(initial=UNLIMITED)) if enough else 0)

    def _within(self, floor: int) -> bool:
        return not ((self.used > 0) & (self.pods - floor > self.spread.max_skew)).any()

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        return self.pods[self.domain[rows]] if shape == self.like else None

    def tables(self) -> Iterator[tuple[Ints, Ints]]:
        yield self.domain, self.pods
        yield self.domain, self.used


def _count(table: Ints, domain: Ints, counts: Ints) -> None:
    named = domain >= 0
    np.add.at(table, domain[named], counts[named])


class Tied(Packing):
    """Free amounts of every node, and the rules between pods."""

    def __init__(self, view: ClusterView, parts: list[Part], claims: Claims, around: int) -> None:
        super().__init__(view, parts, claims, around)
        self.rules: list[Apart | Near | Even] = []
        layout, company, supply = view.layout, view.company, _supply(parts)
        shapes = list(supply)
        for shape in shapes:
            self._fits[shape] = self._fits[shape] & left_open(layout, company, shape, alone=False)
        for term in carried(shapes):
            if any(matches(term.peers, shape) for shape in shapes):
                self.rules.append(Apart(layout, company, term, shapes))
        for like in {shape.affinity: shape for shape in shapes if shape.affinity}.values():
            self.rules.append(Near(view, like, shapes, supply))
        evens = [(shape, spread) for shape in shapes for spread in shape.spread]
        self.rules += [Even(self, view, shape, spread, supply) for shape, spread in evens]
        self.between_pods = bool(self.rules)
        self.company_wanted = any(not isinstance(rule, Apart) for rule in self.rules)
        self._cache.clear()
        #: Rows per domain, to tell domains of one node.
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
            if isinstance(rule, Apart) and rule.single(shape) and self._covers(level, rule):
                slots = _first_only(slots, rule.domain)
        return roll_up(self.layout, slots, level)

    def _covers(self, level: int, rule: Apart) -> bool:
        """Whether every domain of a term lies within one of a level."""
        outer = self.layout.domains(level)
        named = rule.domain >= 0
        lowest = np.full(len(rule.meant_pods), -1, dtype=np.int64)
        lowest[rule.domain[named]] = outer[named]
        return bool((lowest[rule.domain[named]] == outer[named]).all())

    def most(self, shape: Shape, rows: Ints) -> int:
        """No more pods of a shape than this can go to these rows together."""
        slots = np.zeros(self.layout.size, dtype=np.int64)
        slots[rows] = self.slots_by_row(shape)[rows]
        total = int(slots.sum())
        for rule in self.rules:
            if isinstance(rule, Apart) and rule.single(shape):
                total = min(total, int(_first_only(slots, rule.domain).sum()))
            elif isinstance(rule, Near) and rule.stays_together(shape):
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
        """Nodes for equal pods, each where the rules and those before it make it best; maybe fewer than asked for."""
        rows, taken = rows_of(self.layout, region), list[int]()
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
        # Under rules no domain is known to be like another.
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
    """One slot per domain, at its first row that has any; rows without a domain keep theirs."""
    useful = np.flatnonzero((slots > 0) & (domain >= 0))
    first = np.full(int(domain.max(initial=-1)) + 1, -1, dtype=np.int64)
    first[domain[useful[::-1]]] = useful[::-1]
    kept = np.where(domain < 0, slots, 0)
    kept[first[first >= 0]] = 1
    return kept


def anchors_first(part: Part) -> Part:
    """The same part with those that others must be near to in front of them."""
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
