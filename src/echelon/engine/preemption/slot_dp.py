"""The slot program: the cheapest victims for equal pods, by dynamic programming over slots.

Minimised is the work, then the units, of victims whose eviction gives a uniform part its slots in a region:

    row       all subsets of the victims on it: the least cost of 1, 2, … further slots (`row_costs`)
    domain    its rows combined; victims on several rows of it are evicted or kept in all ways, if they are few
    tree      domains combined likewise, for copies of a uniform part

Victims on rows of several domains, or too many that span rows of one, are left to the solver.

Asked first where there are many victims (`region_search`).  Without it single-pod victims are left to the solver:
the bench case `preempt-singles` takes 13 times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

#: The most victims on one row, and the most subsets on all rows together.
MOST_ON_ROW = 12
MOST_SUBSETS = 1 << 18
#: The most victims on several rows of one domain that are tried in all ways.
MOST_SPANNING = 5

#: A row, and the spanning victims that are evicted from it.
RowCase = tuple[int, tuple[int, ...]]


class Purchase(NamedTuple):
    """Units whose eviction gives slots, and what they cost."""

    price: int
    units: tuple[int, ...] = ()


class _DomainCase(NamedTuple):
    """Spanning victims of a domain that are evicted, and the cases of its rows."""

    evicted: tuple[int, ...]
    rows: list[RowCase]


class SlotProgram:
    """One uniform aim in one region, with its victims."""

    def __init__(self, gains: SlotGains, aim: Part, region: Region, victims: Victims) -> None:
        self.gains, self.aim, self.region = gains, aim, region
        self.cost = _costs(victims)
        level = _leaf_level(gains, aim, region)
        self._domain_of = gains.table.domains(level) if level >= 0 else np.zeros(gains.table.size, dtype=np.int64)
        #: By domain, the victims on several of its rows that are tried in all ways.
        self._spanning: dict[int, list[int]] = {}
        #: Whether some victims cannot be tried in all ways.
        self._has_others = False
        #: The entry of a spanning victim on a row.
        self._entries: dict[tuple[int, int], int] = {}
        self._index(victims)
        #: By the first row of a leaf's domain.
        self._domain_cases: dict[int, list[_DomainCase]] = {}
        self._row_costs: dict[RowCase, RowCosts] = {}

    def is_small(self) -> bool:
        """Whether all subsets can be looked at; otherwise the program must not be solved."""
        on_row = np.diff(self._first_single)
        small = int(on_row.max(initial=0)) <= MOST_ON_ROW and sum(self.cost.values()) < INFINITE
        return small and not self._has_others and int((1 << on_row[on_row > 0]).sum()) <= MOST_SUBSETS

    def solve(self) -> Purchase | None:
        """The cheapest purchase of the aim's slots; None if no victims suffice."""
        return self._tree(self.aim, self.region.level, self.region.index, 1).get(1)

    # ---- victims by row

    def _index(self, victims: Victims) -> None:
        """Tell victims on one row of the region from those on several."""
        gains, chosen = self.gains, np.zeros(len(victims.table.units), dtype=np.bool_)
        chosen[victims.numbers] = True
        inside = np.zeros(gains.table.size, dtype=np.bool_)
        inside[rows_of(gains.table, self.region)] = True
        entries = np.flatnonzero(chosen[gains.owners] & inside[gains.rows])
        owners = gains.owners[entries]
        single = np.bincount(owners)[owners] == 1
        self._index_singles(entries[single], victims.table.units[owners[single]])
        rows_by_unit: dict[int, list[int]] = {}
        others = entries[~single]
        units, rows = victims.table.units[gains.owners[others]], gains.rows[others]
        for entry, unit, row in zip(others.tolist(), units.tolist(), rows.tolist(), strict=True):
            rows_by_unit.setdefault(unit, []).append(row)
            self._entries[unit, row] = entry
        self._index_spanning({unit: rows_by_unit[unit] for unit in sorted(rows_by_unit)})

    def _index_singles(self, entries: Ints, units: Ints) -> None:
        """Victims on one row, by row, on each in order of their units."""
        rows = self.gains.rows[entries]
        order = np.lexsort((units, rows))
        self._singles, self._single_entries = units[order], entries[order]
        # Costs beyond all bounds are clipped; `is_small` refuses the program then.
        costs = [min(self.cost[unit], INFINITE) for unit in self._singles.tolist()]
        self._single_costs = np.array(costs, dtype=np.int64)
        #: Where those of each row begin, and the end.
        self._first_single = [0, *np.cumsum(np.bincount(rows, minlength=self.gains.table.size)).tolist()]

    def _index_spanning(self, rows_by_unit: dict[int, list[int]]) -> None:
        """Victims on several rows, by the domain that they stay inside."""
        for unit, rows in rows_by_unit.items():
            domains = {int(self._domain_of[row]) for row in rows}
            self._spanning.setdefault(domains.pop(), []).append(unit)
            self._has_others |= bool(domains)
        self._has_others |= any(len(units) > MOST_SPANNING for units in self._spanning.values())

    # ---- the tree

    def _tree(self, part: Part, level: int, index: int, copies: int) -> dict[int, Purchase]:
        """The cheapest purchase for 0, 1, … copies of a part in a domain, as far as they can be had."""
        table = self.gains.table
        own = table.level_of[part.keys[0]] if part.keys else level
        inside = [index] if own == level else table.named_within(level, index, own).tolist()
        if part.is_leaf:
            self._price_domains(part.need, own, inside)
        if own == level:
            return self._domain(part, level, index, copies)
        best = {0: Purchase(0)}
        for inner in inside:
            best = _joined(best, self._domain(part, own, inner, copies), copies)
        return best

    def _domain(self, part: Part, level: int, index: int, copies: int) -> dict[int, Purchase]:
        """The same for a domain of the part's own key."""
        if part.is_leaf:
            return self._leaf(part.need, level, index, copies)
        below = self._tree(part.children[0], level, index, copies * part.need)
        return {number: below[number * part.need] for number in range(copies + 1) if number * part.need in below}

    def _leaf(self, need: int, level: int, index: int, copies: int) -> dict[int, Purchase]:
        """The best over all cases of the domain's spanning victims."""
        low, high = self.gains.table.span(level, index)
        best: dict[int, Purchase] = {0: Purchase(0)}
        copies = min(copies, int(self.gains.slots_most[low:high].sum()) // need)
        for case in self._domain_cases[low] if copies else ():
            cost = sum(self.cost[unit] for unit in case.evicted)
            if len(best) > copies and cost >= max(bought.price for bought in best.values()):
                continue
            for number, bought in self._combined(case.rows, need, copies).items():
                if number not in best or cost + bought.price < best[number].price:
                    best[number] = Purchase(cost + bought.price, case.evicted + bought.units)
        return best

    # ---- domains and rows

    def _price_domains(self, need: int, level: int, inside: list[int]) -> None:
        """Price the rows of all domains that could hold a leaf, side by side."""
        wanted: list[RowCase] = []
        for index in inside:
            low, high = self.gains.table.span(level, index)
            if int(self.gains.slots_most[low:high].sum()) >= need:
                self._domain_cases[low] = list(self._cases(low, high))
                wanted += (row for case in self._domain_cases[low] for row in case.rows)
        by_size: dict[int, list[RowCase]] = {}
        for case in dict.fromkeys(wanted):
            by_size.setdefault(self._first_single[case[0] + 1] - self._first_single[case[0]], []).append(case)
        for singles, cases in by_size.items():
            self._row_costs.update(zip(cases, self._priced(cases, singles), strict=True))

    def _cases(self, low: int, high: int) -> Iterator[_DomainCase]:
        """All ways to evict or keep the spanning victims of a domain."""
        spanning = self._spanning.get(int(self._domain_of[low]), [])
        usable = (np.flatnonzero(self.gains.slots_most[low:high]) + low).tolist()
        for choice in product((False, True), repeat=len(spanning)):
            evicted = tuple(unit for unit, goes in zip(spanning, choice, strict=True) if goes)
            rows = [(row, tuple([unit for unit in evicted if (unit, row) in self._entries])) for row in usable]
            yield _DomainCase(evicted, rows)

    def _priced(self, cases: list[RowCase], singles: int) -> list[RowCosts]:
        """Row costs of cases whose rows have `singles` victims each that are on no other row."""
        gains, rows = self.gains, [row for row, _ in cases]
        subsets = (np.arange(1 << singles) >> np.arange(singles)[:, np.newaxis]) & 1
        here = np.array([self._first_single[row] for row in rows])[:, np.newaxis] + np.arange(singles)
        costs, entries = self._single_costs[here], self._single_entries[here]
        evicted = [(at, self._entries[unit, row]) for at, (row, units) in enumerate(cases) for unit in units]
        amounts: list[tuple[Ints, int]] = []
        for (_, resource, amount), freed in zip(gains.requests, gains.freed, strict=True):
            free = gains.free[resource, rows]
            for at, entry in evicted:
                free[at] += freed[entry]
            amounts.append((free[:, np.newaxis] + freed[entries] @ subsets, amount))
        slots = count_slots(amounts, (len(cases), subsets.shape[1]))
        usable = gains.slots_most[rows][:, np.newaxis] > 0
        return cheapest_subsets(np.where(usable, np.minimum(slots, gains.need), 0), costs @ subsets)

    def _combined(self, cases: list[RowCase], need: int, copies: int) -> dict[int, Purchase]:
        """The cheapest purchase of the slots for 0, 1, … copies of a leaf on these rows."""
        every = [(case, self._row_costs[case]) for case in cases]
        free = sum(costs.free for _, costs in every)
        helpful = [(case, costs) for case, costs in every if costs.prices]
        missing = [max(0, number * need - free) for number in range(copies + 1)]
        if not any(missing[:-1]):  # otherwise each number of copies has its own useful rows
            useful = useful_rows([costs.prices for _, costs in helpful], missing[-1])
            helpful = [helpful[at] for at in useful]
        best, trace = combine_rows([costs.prices for _, costs in helpful], missing[-1])
        found = {}
        for number, lack in enumerate(missing):
            price = int(best[lack])
            if price < INFINITE:
                found[number] = Purchase(price, tuple(self._bought(helpful, trace, lack)))
        return found

    def _bought(self, rows: list[tuple[RowCase, RowCosts]], trace: list[Ints], missing: int) -> Iterable[int]:
        """The units bought for the missing slots, read back from the trace of `combine_rows`."""
        left = missing
        for ((row, _), costs), taken in zip(reversed(rows), reversed(trace), strict=True):
            slots = int(taken[left]) if left else 0
            if slots:
                left = max(0, left - slots)
                low, high = self._first_single[row], self._first_single[row + 1]
                for bit, unit in enumerate(self._singles[low:high].tolist()):
                    if costs.chosen[slots - 1] >> bit & 1:
                        yield unit


def _costs(victims: Victims) -> dict[int, int]:
    """Work and units as one number that orders like the pair."""
    weight = len(victims) + 1
    return {unit: work * weight + 1 for unit, work in zip(victims.units.tolist(), victims.works.tolist(), strict=True)}


def _leaf_level(gains: SlotGains, part: Part, region: Region) -> int:
    """The level at which the leaves of a uniform part have their domains."""
    level = region.level
    while True:
        level = gains.table.level_of[part.keys[0]] if part.keys else level
        if part.is_leaf:
            return level
        part = part.children[0]


def _joined(one: dict[int, Purchase], other: dict[int, Purchase], copies: int) -> dict[int, Purchase]:
    """The cheapest purchases of copies from two domains."""
    best: dict[int, Purchase] = {}
    for here, first in one.items():
        for there, second in other.items():
            number, price = min(copies, here + there), first.price + second.price
            if number not in best or price < best[number].price:
                best[number] = Purchase(price, first.units + second.units)
    return best
