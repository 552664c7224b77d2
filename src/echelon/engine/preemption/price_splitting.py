"""The least loss where units span more rows than one domain holds together: prices that move, then take or leave.

Each round gives a lower bound of the loss and, with the whole of every unit that was touched, an answer.  Prices of a
unit that was only partly wanted move to the pieces that were; when that leads no further, the unit is decided both
ways.  If the best answer costs what the bound says, it is the least loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .row_costs import INFINITE
from .slot_dp import Purchase, SlotProgram

#: Looks at rows that a region may cost, and rounds of moving prices before a unit is decided.
LOOKS = 30_000
ROUNDS = 8

Prices = dict[int, dict[int, int]]


class SplitResult(NamedTuple):
    """Units whose going suffices, what they cost, and what any others cost at least."""

    units: frozenset[int]
    cost: int
    bound: int


class _Case(NamedTuple):
    """Some split units decided; the bound is that of the case it comes from."""

    bound: int
    gone: tuple[int, ...]
    staying: tuple[int, ...]


class PriceSplitting:
    def __init__(self, books: SlotProgram) -> None:
        self.books = books
        self._units: frozenset[int] = frozenset()
        self._cost = INFINITE

    def solve(self) -> SplitResult | None:
        """None if no units suffice."""
        pending = [_Case(0, (), ())]
        while pending and self.books.looks < LOOKS:
            case = pending.pop()
            if case.bound < self._cost:
                pending += self._decide(case)
        open_bounds = [case.bound for case in pending if case.bound < self._cost]
        if self._cost >= INFINITE:
            return None
        return SplitResult(self._units, self._cost, min([*open_bounds, self._cost]))

    def _decide(self, case: _Case) -> list[_Case]:
        """Nothing if the case is settled, else the same with one unit more decided."""
        prices = {
            unit: _even(self.books.cost[unit], rows)
            for unit, rows in self.books.split.items()
            if unit not in case.gone and unit not in case.staying
        }
        paid, bound = sum(self.books.cost[unit] for unit in case.gone), case.bound
        disputed = 0
        for _ in range(ROUNDS):
            offer = self.books.least(prices, case.gone)
            if offer is None:
                return []
            bound = max(bound, paid + offer.price)
            self._hear(case.gone, offer)
            wanted = _wanted(offer, prices)
            disputed = max(wanted, key=lambda unit: (self._dispute(unit, wanted, prices), -unit), default=0)
            if bound >= self._cost or not wanted:
                return []
            if self.books.looks >= LOOKS:
                break
            _move(prices, wanted)
        leaving = _Case(bound, (*case.gone, disputed), case.staying)
        return [_Case(bound, case.gone, (*case.staying, disputed)), leaving]

    def _hear(self, gone: Iterable[int], offer: Purchase) -> None:
        units = frozenset((*gone, *(piece.unit for piece in offer.pieces)))
        cost = sum(self.books.cost[unit] for unit in units)
        if cost < self._cost:
            self._units, self._cost = units, cost

    def _dispute(self, unit: int, wanted: dict[int, set[int]], prices: Prices) -> int:
        """What was not paid for a unit that was wanted in part."""
        return sum(price for row, price in prices[unit].items() if row not in wanted[unit])


def _even(cost: int, rows: list[int]) -> dict[int, int]:
    share, rest = divmod(cost, len(rows))
    return {row: share + (number < rest) for number, row in enumerate(rows)}


def _wanted(offer: Purchase, prices: Prices) -> dict[int, set[int]]:
    """The rows on which units that are split were wanted, of those that were not wanted everywhere."""
    rows: dict[int, set[int]] = {}
    for unit, row in offer.pieces:
        if unit in prices:
            rows.setdefault(unit, set()).add(row)
    return {unit: there for unit, there in sorted(rows.items()) if len(there) < len(prices[unit])}


def _move(prices: Prices, wanted: dict[int, set[int]]) -> None:
    """Half of what the unwanted pieces cost goes to the wanted ones."""
    for unit, there in wanted.items():
        moved = 0
        for row in prices[unit]:
            if row not in there:
                moved += prices[unit][row] // 2
                prices[unit][row] -= prices[unit][row] // 2
        for row, more in _even(moved, sorted(there)).items():
            prices[unit][row] += more
