"""The cheapest victims for equal pods, by arithmetic alone: what so many slots cost on a node, in a domain, in a tree.

    row       all subsets of the pieces there, side by side: the least price of 1, 2, … more slots
    domain    rows put together by dynamic programming; units inside the domain that span rows are tried in all ways
    tree      domains put together likewise, for copies of a uniform part

A piece is what a unit gives back on a row.  A unit that spans more than the above can hold together is split: its
pieces are priced one by one, and their prices add up to its cost.  Then the answer is a lower bound, and `bargain`
moves prices between pieces until they agree, or decides the unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from .gaps import Gaps
from .layout import Ints, clip
from .parts import Part
from .regions import Region, rows_of
from .victims import Victim

#: Subsets looked at on one row as a power of two, and on all rows together.
ON_ONE_ROW = 12
SUBSETS = 1 << 18
#: So many units of a domain that span its rows are tried in all ways.
TOGETHER = 5
#: Costs must stay below this, and none reaches it.
INFINITE = 1 << 60

#: Unit -> row -> what giving up the unit costs there.
Prices = Mapping[int, Mapping[int, int]]


class Piece(NamedTuple):
    unit: int
    row: int


class Offer(NamedTuple):
    """A price, and the pieces it is for."""

    price: int
    pieces: tuple[Piece, ...] = ()


class _Stairs(NamedTuple):
    """The slots of a row as it is, the price of each further one, and the pieces for it as bits."""

    base: int
    prices: list[int]
    chosen: list[int]


class Books:
    """One uniform aim in one region, with everyone who could go."""

    def __init__(self, gaps: Gaps, aim: Part, region: Region, victims: Sequence[Victim]) -> None:
        self.gaps, self.aim, self.region = gaps, aim, region
        self._inside = frozenset(rows_of(gaps.layout, region).tolist())
        self._freed = {victim.unit: victim.freed for victim in victims}
        self.cost = _costs(victims)
        level = _leaf_level(gaps, aim, region)
        self._domains = gaps.layout.domains(level) if level >= 0 else np.zeros(gaps.layout.size, dtype=np.int64)
        self._singles: dict[int, list[int]] = {}
        self._together: dict[int, list[int]] = {}
        #: Units that are split, with their rows.
        self.split: dict[int, list[int]] = {}
        #: Rows looked at so far, as a measure of the work.
        self.looks = 0
        for unit in sorted(self._freed):
            self._file(unit, sorted(row for row in self._freed[unit] if row in self._inside))
        for domain in [domain for domain, units in self._together.items() if len(units) > TOGETHER]:
            for unit in self._together.pop(domain):
                self.split[unit] = sorted(row for row in self._freed[unit] if row in self._inside)
        self._known: dict[object, _Stairs] = {}

    def _file(self, unit: int, rows: list[int]) -> None:
        if len(rows) == 1:
            self._singles.setdefault(rows[0], []).append(unit)
        elif rows:
            around = {int(self._domains[row]) for row in rows}
            if len(around) > 1:
                self.split[unit] = rows
            else:
                self._together.setdefault(around.pop(), []).append(unit)

    def is_small(self) -> bool:
        """Whether all subsets can be looked at."""
        on_row = {row: len(units) for row, units in self._singles.items()}
        for rows in self.split.values():
            for row in rows:
                on_row[row] = on_row.get(row, 0) + 1
        small = max(on_row.values(), default=0) <= ON_ONE_ROW and sum(self.cost.values()) < INFINITE
        return small and sum(1 << number for number in on_row.values()) <= SUBSETS

    def least(self, prices: Prices, gone: Iterable[int]) -> Offer | None:
        """The cheapest pieces that let the aim in at such prices of split units, once others are gone."""
        return _Round(self, prices, list(gone)).tree(self.aim, self.region.level, self.region.index, 1).get(1)

    def stairs(self, wanted: Sequence[tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]]]) -> list[_Stairs]:
        """For (row, units gone there, pieces with their prices): what slots cost; all that are new side by side."""
        new = [key for key in dict.fromkeys(wanted) if key not in self._known]
        for size in sorted({len(key[2]) for key in new}):
            alike = [key for key in new if len(key[2]) == size]
            self._known |= zip(alike, self._priced(alike, size), strict=True)
        return [self._known[key] for key in wanted]

    def _priced(self, keys: list[tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]]], size: int) -> list[_Stairs]:
        rows = [row for row, _, _ in keys]
        subsets = (np.arange(1 << size)[:, np.newaxis] >> np.arange(size)) & 1
        prices = np.array([[price for _, price in pieces] for _, _, pieces in keys], dtype=np.int64).reshape(
            len(keys), size
        )
        costs = prices @ subsets.T
        slots = np.full((len(keys), len(subsets)), 1 << 31, dtype=np.int64)
        for name, known, amount in self.gaps.requests:
            given = [[self._given(unit, row, name) for unit, _ in pieces] for row, _, pieces in keys]
            already = [sum(self._given(unit, row, name) for unit in gone) for row, gone, _ in keys]
            free = self.gaps.free[known, rows] + np.array(already, dtype=np.int64)
            more = np.array(given, dtype=np.int64).reshape(len(keys), size) @ subsets.T
            np.minimum(slots, (free[:, np.newaxis] + more) // amount, out=slots)
        usable = self.gaps.most[rows][:, np.newaxis] > 0
        return _climb(np.where(usable, np.minimum(np.maximum(slots, 0), self.gaps.need), 0), costs)

    def _given(self, unit: int, row: int, name: str) -> int:
        return clip(self._freed[unit][row].get(name, 0))

    def rows_in(self, level: int, index: int) -> range:
        low, high = self.gaps.layout.span(level, index)
        return range(low, high)

    def together_in(self, row: int) -> list[int]:
        return self._together.get(int(self._domains[row]), [])

    def singles_on(self, row: int) -> list[int]:
        return self._singles.get(row, [])

    def touches(self, unit: int, row: int) -> bool:
        return row in self._freed[unit]


def _costs(victims: Sequence[Victim]) -> dict[int, int]:
    """Work and units as one number that orders like the pair."""
    weight = len(victims) + 1
    return {victim.unit: victim.work * weight + 1 for victim in victims}


def _leaf_level(gaps: Gaps, part: Part, region: Region) -> int:
    level = region.level
    while True:
        level = gaps.layout.level_of[part.keys[0]] if part.keys else level
        if part.is_leaf:
            return level
        part = part.children[0]


def _climb(slots: Ints, costs: Ints) -> list[_Stairs]:
    """For each row the least cost of 1, 2, … slots more than without any subset, and the subset that has it."""
    base = slots[:, 0]
    gained = slots - base[:, np.newaxis]
    most = int(gained.max(initial=0))
    steps = [np.where(gained >= number, costs, INFINITE) for number in range(1, most + 1)]
    chosen = np.array([step.argmin(axis=1) for step in steps], dtype=np.int64).reshape(most, len(slots)).T
    least = np.array([step.min(axis=1) for step in steps], dtype=np.int64).reshape(most, len(slots)).T
    ends = gained.max(axis=1, initial=0).tolist()
    return [_Stairs(int(base[at]), least[at, :end].tolist(), chosen[at, :end].tolist()) for at, end in enumerate(ends)]


class _Round:
    """One look at the books: prices of split units are fixed, and some of these are gone."""

    def __init__(self, books: Books, prices: Prices, gone: list[int]) -> None:
        self.books = books
        self._gone: dict[int, list[int]] = {}
        for unit in gone:
            for row in books.split[unit]:
                self._gone.setdefault(row, []).append(unit)
        self._priced: dict[int, list[tuple[int, int]]] = {}
        for unit, by_row in prices.items():
            for row, price in by_row.items():
                self._priced.setdefault(row, []).append((unit, price))

    def tree(self, part: Part, level: int, index: int, copies: int) -> dict[int, Offer]:
        """What 0, 1, … copies of a part cost in a domain, as far as they can be had."""
        layout = self.books.gaps.layout
        own = layout.level_of[part.keys[0]] if part.keys else level
        if own == level:
            return self._own(part, level, index, copies)
        low, high = layout.inner(level, index, own)
        named, best = layout.named(own), {0: Offer(0)}
        for inner in range(low, high):
            if named[inner]:
                best = _joined(best, self._own(part, own, inner, copies), copies)
        return best

    def _own(self, part: Part, level: int, index: int, copies: int) -> dict[int, Offer]:
        if part.is_leaf:
            return self._leaf(part.need, level, index, copies)
        below = self.tree(part.children[0], level, index, copies * part.need)
        return {number: below[number * part.need] for number in range(copies + 1) if number * part.need in below}

    def _leaf(self, need: int, level: int, index: int, copies: int) -> dict[int, Offer]:
        """Units of the domain that span its rows go in all ways, the rest is rows put together."""
        rows = self.books.rows_in(level, index)
        most = int(self.books.gaps.most[rows.start : rows.stop].sum())
        copies = min(copies, most // need)
        best: dict[int, Offer] = {0: Offer(0)}
        if not copies:
            return best
        local = self.books.together_in(rows.start)
        for choice in product((False, True), repeat=len(local)):
            gone = [unit for unit, goes in zip(local, choice, strict=True) if goes]
            cost = sum(self.books.cost[unit] for unit in gone)
            pieces = tuple(Piece(unit, -1) for unit in gone)
            for number, offer in self._rows(rows, gone, need, copies).items():
                if number not in best or cost + offer.price < best[number].price:
                    best[number] = Offer(cost + offer.price, pieces + offer.pieces)
        return best

    def _rows(self, rows: range, gone: list[int], need: int, copies: int) -> dict[int, Offer]:
        self.books.looks += len(rows)
        keys = [self._key(row, gone) for row in rows if self.books.gaps.most[row]]
        stairs = self.books.stairs(keys)
        missing = [number * need - sum(stair.base for stair in stairs) for number in range(copies + 1)]
        best, trace = _put_together([stair.prices for stair in stairs], max(0, missing[-1]))
        found = {}
        for number, lack in enumerate(missing):
            price = int(best[max(0, lack)])
            if price < INFINITE:
                found[number] = Offer(price, tuple(_pieces(keys, stairs, trace, max(0, lack))))
        return found

    def _key(self, row: int, gone: list[int]) -> tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]]:
        here = [unit for unit in gone if self.books.touches(unit, row)] + self._gone.get(row, [])
        singles = [(unit, self.books.cost[unit]) for unit in self.books.singles_on(row)]
        return row, tuple(here), (*singles, *self._priced.get(row, ()))


def _joined(one: dict[int, Offer], other: dict[int, Offer], copies: int) -> dict[int, Offer]:
    """Copies from two places."""
    best: dict[int, Offer] = {}
    for here, first in one.items():
        for there, second in other.items():
            number, price = min(copies, here + there), first.price + second.price
            if number not in best or price < best[number].price:
                best[number] = Offer(price, first.pieces + second.pieces)
    return best


def _put_together(options: list[list[int]], missing: int) -> tuple[Ints, list[Ints]]:
    """The least cost of 0, 1, … slots over all rows, and how many each row adds then."""
    best = np.full(missing + 1, INFINITE, dtype=np.int64)
    best[0] = 0
    trace: list[Ints] = []
    for costs in options:
        after, taken = best.copy(), np.zeros(missing + 1, dtype=np.int64)
        for slots, cost in enumerate(costs[:missing], 1):
            # So many slots, or fewer where no more are missing.
            reached = np.concatenate([np.full(slots, best[0]), best[:-slots]]) + cost
            better = reached < after
            after[better], taken[better] = reached[better], slots
        best = after
        trace.append(taken)
    return best, trace


def _pieces(
    keys: list[tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]]],
    stairs: list[_Stairs],
    trace: list[Ints],
    missing: int,
) -> Iterable[Piece]:
    left = missing
    for (row, _, pieces), stair, taken in zip(reversed(keys), reversed(stairs), reversed(trace), strict=True):
        slots = int(taken[left]) if left else 0
        if slots:
            left = max(0, left - slots)
            for bit, (unit, _) in enumerate(pieces):
                if stair.chosen[slots - 1] >> bit & 1:
                    yield Piece(unit, row)
