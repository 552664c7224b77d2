"""What is left while a search tries things: slots or free amounts, with put and take back.

`SlotState` serves trees whose pods all have one shape and whose keys are listed levels.  Slots are interchangeable
there and domains nest, so a placement exists exactly if, for every domain, the pods put into it or into domains below
do not exceed its slots; nodes are chosen afterwards.  `AmountState` serves all other trees and keeps every node's
free amounts.  Both keep the exclusive claims made during the search.

A trial state is the undo mechanism of the search: a copy of the arrays that the search changes and changes back,
thousands of times per decision, while the view itself stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ..cluster.arrays import Bools, Ints
from ..cluster.node_filters import allowed
from ..cluster.node_table import NodeTable
from ..cluster.regions import Region, rows_of
from ..cluster.slots import roll_up, slots_in
from ..cluster.view import ClusterView
from ..records.demand import Exclusive, Shape
from .canonical import Part

#: Claims made before a search starts: exclusivity and the region that holds it.
Claims = Sequence[tuple[Exclusive, int, Region]]


class TrialState:
    """What all states share: exclusive claims, and a signature of everything that can change."""

    #: Whether there are rules between pods, and whether pods beyond a minimum may help others (affinity, spread).
    has_rules = False
    extras_may_help = False

    def __init__(self, view: ClusterView, parts: list[Part], claims: Claims, around: int) -> None:
        """`around` is the level of the region in which everything is placed."""
        self.table: NodeTable = view.node_table
        self.exclusivity = view.exclusivity
        keys = [key for part in parts for key in part.keys]
        self.levels = sorted({-1, around, *(self.table.level_of[key] for key in keys if key in self.table.level_of)})
        #: exclusivity -> domain -> holders
        self._claims: dict[Exclusive, dict[int | str, set[int]]] = {}
        self._claimed: dict[Exclusive, Bools] = {}
        for exclusive, group, region in claims:
            self._claim(exclusive, group, region)

    def held(self, part: Part, domain: int | str) -> bool:
        """Whether another group of the same rank holds the domain."""
        assert part.exclusive is not None
        running = self.exclusivity.holders(part.exclusive).get(domain, {})
        placed = self._claims.get(part.exclusive, {}).get(domain, set())
        return any(group != part.group for group in (*running, *placed))

    def held_domains(self, part: Part) -> Bools:
        """The same for all domains of the exclusivity key's level."""
        assert part.exclusive is not None
        found = self.exclusivity.taken(part.exclusive) | self._claimed_domains(part.exclusive)
        for domain in self.exclusivity.domains_of(part.exclusive, part.group):
            if isinstance(domain, int):
                found[domain] = self.held(part, domain)
        return found

    @contextmanager
    def claimed(self, part: Part, region: Region) -> Iterator[bool]:
        """Claim the domain around a region for an exclusive part; False if another group holds it."""
        assert part.exclusive is not None
        domain = self._domain(part.exclusive, region)
        if domain is None or self.held(part, domain):
            yield False
            return
        self._claim(part.exclusive, part.group, region)
        try:
            yield True
        finally:
            self._claims[part.exclusive][domain].discard(part.group)
            if isinstance(domain, int):
                self._claimed_domains(part.exclusive)[domain] = bool(self._claims[part.exclusive][domain])

    def complete(self) -> bool:
        """Whether the placement is valid, once nothing is left to place."""
        return True

    def _outline(self, level: int, low: int, high: int, row: int) -> object:
        """Where the domains low..high of a level begin, counted from a row, and which of them are named."""
        return ((self.table.starts(level)[low:high] - row).tobytes(), self.table.named(level)[low:high].tobytes())

    def claims_signature(self) -> tuple[object, ...]:
        return tuple(
            (exclusive.key, exclusive.rank, tuple(sorted(map(str, (d for d, groups in held.items() if groups)))))
            for exclusive, held in sorted(self._claims.items(), key=lambda item: (item[0].key, item[0].rank))
        )

    def _claim(self, exclusive: Exclusive, group: int, region: Region) -> None:
        domain = self._domain(exclusive, region)
        if domain is not None:
            self._claims.setdefault(exclusive, {}).setdefault(domain, set()).add(group)
        if isinstance(domain, int):
            self._claimed_domains(exclusive)[domain] = True

    def _claimed_domains(self, exclusive: Exclusive) -> Bools:
        """Claims on domains of a listed level, as an array."""
        found = self._claimed.get(exclusive)
        if found is None:
            level = self.table.level_of[exclusive.key]
            found = self._claimed[exclusive] = np.zeros(len(self.table.starts(level)), dtype=np.bool_)
        return found

    def _domain(self, exclusive: Exclusive, region: Region) -> int | str | None:
        rows = rows_of(self.table, region)
        return self.exclusivity.domain(exclusive.key, int(rows[0])) if len(rows) else None


class SlotState(TrialState):
    """Slots of one shape, per domain of the levels that matter."""

    def __init__(self, view: ClusterView, parts: list[Part], claims: Claims, around: int, shape: Shape) -> None:
        super().__init__(view, parts, claims, around)
        slots = view.slot_cache.slots(shape)
        self.shape = shape
        self.rows = slots.rows
        self._left = {level: slots.roll(level).copy() for level in self.levels}

    def slots(self, shape: Shape, level: int) -> Ints:
        return self._left[level]

    def take(self, region: Region, count: int) -> bool:
        """Put pods into a domain; False and no change if a domain around it has too few slots."""
        spots = self._around(region)
        if any(int(self._left[level][index]) < count for level, index in spots):
            return False
        for level, index in spots:
            self._left[level][index] -= count
        return True

    def give(self, region: Region, count: int) -> None:
        for level, index in self._around(region):
            self._left[level][index] += count

    def signature(self) -> object:
        return (*(self._left[level].tobytes() for level in self.levels), self.claims_signature())

    def content(self, level: int, index: int) -> object:
        """Equal for domains with equal content inside the same wider domain."""
        row = int(self.table.starts(level)[index])
        wider = max((other for other in self.levels if other < level), default=-1)
        parts: list[object] = [int(self.table.domains(wider)[row])]
        for inner in self.levels:
            if inner >= level:
                low, high = self.table.inner(level, index, inner)
                parts.append(self._left[inner][low:high].tobytes())
                parts.append(self._outline(inner, low, high, row))
        return tuple(parts)

    def _around(self, region: Region) -> list[tuple[int, int]]:
        row = int(self.table.starts(region.level)[region.index])
        domains = self.table.domains
        return [(level, int(domains(level)[row])) for level in self.levels if level <= region.level]


class AmountState(TrialState):
    """Free amounts of every node, on a copy."""

    #: A signature of more bytes costs more than it saves.
    SIGNED = 1 << 16

    def __init__(self, view: ClusterView, parts: list[Part], claims: Claims, around: int) -> None:
        super().__init__(view, parts, claims, around)
        self.free = self.table.free.copy()
        shapes = {ask.shape: None for part in parts for ask in part.asks}
        self._fits = {shape: allowed(self.table, shape) for shape in shapes}
        unlisted = {key: None for part in parts for key in part.keys if key not in self.table.level_of}
        #: Labels that make otherwise equal nodes differ.
        self._labels = [self.table.column(key).ids for key in unlisted]
        self._count = 0
        self._cache: dict[tuple[Shape, int], tuple[int, Ints]] = {}

    def slots(self, shape: Shape, level: int) -> Ints:
        known = self._cache.get((shape, level))
        if known is None or known[0] != self._count:
            known = (self._count, roll_up(self.table, self.slots_by_row(shape), level))
            self._cache[shape, level] = known
        return known[1]

    def slots_by_row(self, shape: Shape) -> Ints:
        known = self._cache.get((shape, -2))
        if known is None or known[0] != self._count:
            slots = np.where(self._fits[shape], slots_in(self.table, self.free, shape), 0)
            known = self._cache[shape, -2] = (self._count, slots)
        return known[1]

    def fits(self, shape: Shape) -> Bools:
        """The rows that a shape may use, whatever is free there."""
        return self._fits[shape]

    def put(self, rows: Ints, shape: Shape, counts: Ints) -> None:
        self._count += 1
        for resource, amount in shape.requests:
            known = self.table.resources.get(resource)
            if known is not None:
                self.free[known, rows] -= amount * counts

    def holds(self, rows: Ints, shape: Shape) -> bool:
        """Whether pods of a shape that were just put on rows break no rule."""
        return True

    def signature(self) -> object:
        if self.free.nbytes > self.SIGNED:
            return None
        return (self.free.tobytes(), self.claims_signature())

    def content(self, level: int, index: int) -> object:
        low, high = self.table.span(level, index)
        if (high - low) * len(self.free) * 8 > self.SIGNED:
            return object()
        return (self._outside(level, low), self._inside(level, index, slice(low, high)))

    def alike(self, row: int, other: int) -> bool:
        """Whether two nodes are interchangeable for the demand."""
        last = self.levels[-1]
        if last >= 0 and self.table.domains(last)[row] != self.table.domains(last)[other]:
            return False
        same = bool((self.free[:, row] == self.free[:, other]).all())
        return same and all(marks[row] == marks[other] for marks in (*self._fits.values(), *self._labels))

    def _outside(self, level: int, row: int) -> int:
        wider = max((other for other in self.levels if other < level), default=-1)
        return int(self.table.domains(wider)[row])

    def _inside(self, level: int, index: int, rows: slice) -> tuple[object, ...]:
        free = self.free[:, rows].tobytes()
        marks = [marks[rows].tobytes() for marks in (*self._fits.values(), *self._labels)]
        bounds = list[object]()
        for inner in self.levels:
            if inner >= level:
                low, high = self.table.inner(level, index, inner)
                bounds.append(self._outline(inner, low, high, rows.start))
        return (free, *marks, *bounds)
