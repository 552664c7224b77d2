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

from ..cluster.arrays import Ints
from ..cluster.regions import Region, rows_of
from ..cluster.slots import count_slots
from ..space.canonical import Part
from .row_costs import INFINITE, RowCosts, cheapest_subsets, combine_rows, useful_rows
from .slot_gains import SlotGains
from .victim_table import Victims

#: Subsets looked at on one row as a power of two, and on all rows together.
ON_ONE_ROW = 12
SUBSETS = 1 << 18
#: So many units of a domain that span its rows are tried in all ways.
TOGETHER = 5

#: Unit -> row -> what giving up the unit costs there.
Prices = Mapping[int, Mapping[int, int]]
#: A row, units that span rows and are gone from it, and split units that may go with their prices.
Spot = tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]]


class Piece(NamedTuple):
    unit: int
    row: int


class Purchase(NamedTuple):
    """A price, and the pieces it is for."""

    price: int
    pieces: tuple[Piece, ...] = ()


class SlotProgram:
    """One uniform aim in one region, with everyone who could go."""

    def __init__(self, gains: SlotGains, aim: Part, region: Region, victims: Victims) -> None:
        self.gains, self.aim, self.region = gains, aim, region
        self.cost = _costs(victims)
        level = _leaf_level(gains, aim, region)
        self._domains = gains.table.domains(level) if level >= 0 else np.zeros(gains.table.size, dtype=np.int64)
        self._together: dict[int, list[int]] = {}
        #: Units that are split, with their rows.
        self.split: dict[int, list[int]] = {}
        #: Rows looked at so far, as a measure of the work.
        self.looks = 0
        #: By unit and row, the entry of a unit that spans rows.
        self._pieces: dict[tuple[int, int], int] = {}
        self._file(victims)
        self._known: dict[Spot, RowCosts] = {}

    def _file(self, victims: Victims) -> None:
        """Tell units that are on one row from those that span several, by what they hold inside the region."""
        gains, goes = self.gains, np.zeros(len(victims.table.units), dtype=np.bool_)
        goes[victims.numbers] = True
        inside = np.zeros(gains.table.size, dtype=np.bool_)
        inside[rows_of(gains.table, self.region)] = True
        entries = np.flatnonzero(goes[gains.owners] & inside[gains.rows])
        owners = gains.owners[entries]
        alone = np.bincount(owners)[owners] == 1
        self._file_singles(entries[alone], victims.table.units[owners[alone]])
        by_unit: dict[int, list[int]] = {}
        spanning = entries[~alone]
        units, rows = victims.table.units[gains.owners[spanning]], gains.rows[spanning]
        for entry, unit, row in zip(spanning.tolist(), units.tolist(), rows.tolist(), strict=True):
            by_unit.setdefault(unit, []).append(row)
            self._pieces[unit, row] = entry
        self._file_spanning({unit: sorted(by_unit[unit]) for unit in sorted(by_unit)})

    def _file_singles(self, entries: Ints, units: Ints) -> None:
        """Units on one row, by row; on each in order."""
        rows = self.gains.rows[entries]
        order = np.lexsort((units, rows))
        self._singles, self._single_entries = units[order], entries[order]
        # What is beyond all bounds is never asked for: then the books are not small.
        costs = [min(self.cost[unit], INFINITE) for unit in self._singles.tolist()]
        self._single_costs = np.array(costs, dtype=np.int64)
        #: Where those of each row begin, and the end.
        self._first = [0, *np.cumsum(np.bincount(rows, minlength=self.gains.table.size)).tolist()]

    def _file_spanning(self, by_unit: dict[int, list[int]]) -> None:
        """Units on several rows: tried in all ways where few of them stay inside one domain, else split."""
        for unit, rows in by_unit.items():
            around = {int(self._domains[row]) for row in rows}
            if len(around) > 1:
                self.split[unit] = rows
            else:
                self._together.setdefault(around.pop(), []).append(unit)
        for domain in [domain for domain, units in self._together.items() if len(units) > TOGETHER]:
            for unit in self._together.pop(domain):
                self.split[unit] = by_unit[unit]

    def is_small(self) -> bool:
        """Whether all subsets can be looked at."""
        on_row = np.diff(self._first)
        for rows in self.split.values():
            on_row[rows] += 1
        small = int(on_row.max(initial=0)) <= ON_ONE_ROW and sum(self.cost.values()) < INFINITE
        return small and int((1 << on_row[on_row > 0]).sum()) <= SUBSETS

    def least(self, prices: Prices, gone: Iterable[int]) -> Purchase | None:
        """The cheapest pieces that let the aim in at such prices of split units, once others are gone."""
        return _Evaluation(self, prices, list(gone)).tree(self.aim, self.region.level, self.region.index, 1).get(1)

    def price(self, wanted: Iterable[Spot]) -> None:
        """Find out what slots cost at spots that are new, side by side."""
        alike: dict[tuple[int, int], list[Spot]] = {}
        for spot in dict.fromkeys(wanted):
            if spot not in self._known:
                singles = self._first[spot[0] + 1] - self._first[spot[0]]
                alike.setdefault((singles, len(spot[2])), []).append(spot)
        for (singles, priced), spots in alike.items():
            self._known.update(zip(spots, self._priced(spots, singles, priced), strict=True))

    def stairs(self, spot: Spot) -> RowCosts:
        return self._known[spot]

    def pieces(self, spot: Spot) -> Sequence[tuple[int, int]]:
        """The units that may go from a spot, with their prices."""
        low, high = self._first[spot[0]], self._first[spot[0] + 1]
        return [*zip(self._singles[low:high].tolist(), self._single_costs[low:high].tolist(), strict=True), *spot[2]]

    def _priced(self, spots: list[Spot], singles: int, split: int) -> list[RowCosts]:
        """Of spots with so many units that are nowhere else, and so many that are split."""
        gains, rows = self.gains, [row for row, _, _ in spots]
        subsets = (np.arange(1 << (singles + split)) >> np.arange(singles + split)[:, np.newaxis]) & 1
        here = np.array([self._first[row] for row in rows])[:, np.newaxis] + np.arange(singles)
        costs, entries = self._single_costs[here], self._single_entries[here]
        if split:
            prices = np.array([[price for _, price in priced] for _, _, priced in spots])
            pieces = np.array([[self._pieces[unit, row] for unit, _ in priced] for row, _, priced in spots])
            costs, entries = np.hstack((costs, prices)), np.hstack((entries, pieces))
        gone = [(spot, self._pieces[unit, row]) for spot, (row, units, _) in enumerate(spots) for unit in units]
        amounts: list[tuple[Ints, int]] = []
        for (_, known, amount), freed in zip(gains.requests, gains.freed, strict=True):
            free = gains.free[known, rows]
            for spot, entry in gone:
                free[spot] += freed[entry]
            amounts.append((free[:, np.newaxis] + freed[entries] @ subsets, amount))
        slots = count_slots(amounts, (len(spots), subsets.shape[1]))
        usable = gains.slots_most[rows][:, np.newaxis] > 0
        return cheapest_subsets(np.where(usable, np.minimum(slots, gains.need), 0), costs @ subsets)

    def together_in(self, row: int) -> list[int]:
        return self._together.get(int(self._domains[row]), [])

    def touches(self, unit: int, row: int) -> bool:
        return (unit, row) in self._pieces


def _costs(victims: Victims) -> dict[int, int]:
    """Work and units as one number that orders like the pair."""
    weight = len(victims) + 1
    return {unit: work * weight + 1 for unit, work in zip(victims.units.tolist(), victims.works.tolist(), strict=True)}


def _leaf_level(gains: SlotGains, part: Part, region: Region) -> int:
    level = region.level
    while True:
        level = gains.table.level_of[part.keys[0]] if part.keys else level
        if part.is_leaf:
            return level
        part = part.children[0]


class _SpanningChoice(NamedTuple):
    """Units of a domain that span its rows and go, and the spots that are left then."""

    gone: tuple[int, ...]
    spots: list[Spot]


class _Evaluation:
    """One look at the books: prices of split units are fixed, and some of these are gone."""

    def __init__(self, books: SlotProgram, prices: Prices, gone: list[int]) -> None:
        self.books = books
        self._gone: dict[int, list[int]] = {}
        for unit in gone:
            for row in books.split[unit]:
                self._gone.setdefault(row, []).append(unit)
        self._priced: dict[int, list[tuple[int, int]]] = {}
        for unit, by_row in prices.items():
            for row, price in by_row.items():
                self._priced.setdefault(row, []).append((unit, price))
        #: By first row of a leaf's domain.
        self._ways: dict[int, list[_SpanningChoice]] = {}

    def tree(self, part: Part, level: int, index: int, copies: int) -> dict[int, Purchase]:
        """What 0, 1, … copies of a part cost in a domain, as far as they can be had."""
        table = self.books.gains.table
        own = table.level_of[part.keys[0]] if part.keys else level
        inside = [index] if own == level else table.named_within(level, index, own).tolist()
        if part.is_leaf:
            self._look(part.need, own, inside)
        if own == level:
            return self._own(part, level, index, copies)
        best = {0: Purchase(0)}
        for inner in inside:
            best = _joined(best, self._own(part, own, inner, copies), copies)
        return best

    def _look(self, need: int, level: int, inside: list[int]) -> None:
        """Price what may go in domains that could hold a leaf, all of them side by side."""
        found: list[_SpanningChoice] = []
        for index in inside:
            low, high = self.books.gains.table.span(level, index)
            if int(self.books.gains.slots_most[low:high].sum()) >= need:
                self._ways[low] = self._choices(low, high)
                found += self._ways[low]
        self.books.price(spot for way in found for spot in way.spots)

    def _choices(self, low: int, high: int) -> list[_SpanningChoice]:
        """The ways in which units of a domain that span its rows go or stay."""
        local = self.books.together_in(low)
        usable = (np.flatnonzero(self.books.gains.slots_most[low:high]) + low).tolist()
        found = []
        for choice in product((False, True), repeat=len(local)):
            gone = tuple(unit for unit, goes in zip(local, choice, strict=True) if goes)
            found.append(_SpanningChoice(gone, [self._spot(row, gone) for row in usable]))
        return found

    def _own(self, part: Part, level: int, index: int, copies: int) -> dict[int, Purchase]:
        if part.is_leaf:
            return self._leaf(part.need, level, index, copies)
        below = self.tree(part.children[0], level, index, copies * part.need)
        return {number: below[number * part.need] for number in range(copies + 1) if number * part.need in below}

    def _leaf(self, need: int, level: int, index: int, copies: int) -> dict[int, Purchase]:
        """Units of the domain that span its rows go in all ways, the rest is rows put together."""
        low, high = self.books.gains.table.span(level, index)
        best: dict[int, Purchase] = {0: Purchase(0)}
        copies = min(copies, int(self.books.gains.slots_most[low:high].sum()) // need)
        for way in self._ways[low] if copies else ():
            self.books.looks += high - low
            cost = sum(self.books.cost[unit] for unit in way.gone)
            if len(best) > copies and cost >= max(offer.price for offer in best.values()):
                continue
            pieces = tuple(Piece(unit, -1) for unit in way.gone)
            for number, offer in self._rows(way.spots, need, copies).items():
                if number not in best or cost + offer.price < best[number].price:
                    best[number] = Purchase(cost + offer.price, pieces + offer.pieces)
        return best

    def _rows(self, spots: list[Spot], need: int, copies: int) -> dict[int, Purchase]:
        every = [(spot, self.books.stairs(spot)) for spot in spots]
        base = sum(stairs.base for _, stairs in every)
        helpful = [(spot, stairs) for spot, stairs in every if stairs.prices]
        missing = [max(0, number * need - base) for number in range(copies + 1)]
        if not any(missing[:-1]):  # otherwise each number has its own cheapest choices
            useful = useful_rows([stairs.prices for _, stairs in helpful], missing[-1])
            helpful = [helpful[at] for at in useful]
        best, trace = combine_rows([stairs.prices for _, stairs in helpful], missing[-1])
        found = {}
        for number, lack in enumerate(missing):
            price = int(best[lack])
            if price < INFINITE:
                found[number] = Purchase(price, tuple(self._wanted(helpful, trace, lack)))
        return found

    def _wanted(self, spots: list[tuple[Spot, RowCosts]], trace: list[Ints], missing: int) -> Iterable[Piece]:
        left = missing
        for (spot, stairs), taken in zip(reversed(spots), reversed(trace), strict=True):
            slots = int(taken[left]) if left else 0
            if slots:
                left = max(0, left - slots)
                for bit, (unit, _) in enumerate(self.books.pieces(spot)):
                    if stairs.chosen[slots - 1] >> bit & 1:
                        yield Piece(unit, spot[0])

    def _spot(self, row: int, gone: tuple[int, ...]) -> Spot:
        here = tuple([unit for unit in gone if self.books.touches(unit, row)])
        return row, (*here, *self._gone.get(row, ())), tuple(self._priced.get(row, ()))


def _joined(one: dict[int, Purchase], other: dict[int, Purchase], copies: int) -> dict[int, Purchase]:
    """Copies from two places."""
    best: dict[int, Purchase] = {}
    for here, first in one.items():
        for there, second in other.items():
            number, price = min(copies, here + there), first.price + second.price
            if number not in best or price < best[number].price:
                best[number] = Purchase(price, first.pieces + second.pieces)
    return best
