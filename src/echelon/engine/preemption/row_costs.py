"""What 1, 2, … more slots cost on a row, and rows put together: the least cost of so many slots on all of them.

    cheapest_subsets       all subsets of what may go from a row ─► its stairs
    useful_rows  rows that no cheapest choice could use are left out
    together    the rest by dynamic programming, row by row

Read by `knapsack`, which says what may go and at which price.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..cluster.arrays import Ints

#: Costs must stay below this, and none reaches it.
INFINITE = 1 << 60
#: Fewer rows are put together sooner than any of them is left out.
MANY = 64
#: Sums stay below this while rows are compared.
_EXACT = 1 << 58
#: A price of slots is near enough once it is known to one part in so many, as a power of two.
_NEAR = 10


class RowCosts(NamedTuple):
    """The slots of a row as it is, the price of each further one, and the pieces for it as bits."""

    base: int
    prices: list[int]
    chosen: list[int]


def cheapest_subsets(slots: Ints, costs: Ints) -> list[RowCosts]:
    """For each row the least cost of 1, 2, … slots more than without any subset, and the subset that has it."""
    gained = slots - slots[:, :1]
    most = int(gained.max(initial=0))
    steps = [np.where(gained >= number, costs, INFINITE) for number in range(1, most + 1)]
    chosen = np.array([step.argmin(axis=1) for step in steps], dtype=np.int64).reshape(most, len(slots)).T
    least = np.array([step.min(axis=1) for step in steps], dtype=np.int64).reshape(most, len(slots)).T
    ends = gained.max(axis=1, initial=0).tolist()
    each = zip(slots[:, 0].tolist(), least.tolist(), chosen.tolist(), ends, strict=True)
    return [RowCosts(base, prices[:end], subsets[:end]) for base, prices, subsets, end in each]


def useful_rows(options: Sequence[Sequence[int]], missing: int) -> list[int]:
    """The rows of which some cheapest choice of so many slots may use any; only what none uses is left out.

    Say that every slot is paid for at one price: then each row decides for itself what it sells, and what all of
    them lose by it is a lower bound of the cost.  A row that sells otherwise raises the bound by what it loses more.
    If that lifts the bound above a choice that is known, no cheapest choice has it.
    """
    everyone = list(range(len(options)))
    most = max(map(len, options), default=0)
    top = max((prices[-1] for prices in options), default=0)
    if len(options) < MANY or sum(map(len, options)) < missing or top * (missing + len(options) * most) >= _EXACT:
        return everyone
    padding = [INFINITE] * most
    costs = np.array([[0, *prices, *padding[len(prices) :]] for prices in options], dtype=np.int64)
    slots = np.arange(most + 1)
    price = _price(costs, slots, missing, top + 1)
    loss = costs - price * slots
    sold = loss.argmin(axis=1)
    least = loss[everyone, sold]
    known = int(costs[everyone, sold].sum())
    bound = price * missing + int(least.sum())
    may_be_used = (loss[:, 1:] - least[:, np.newaxis] <= known - bound).any(axis=1)
    found: list[int] = np.flatnonzero(may_be_used).tolist()
    return found


def _price(costs: Ints, slots: Ints, missing: int, high: int) -> int:
    """A price of slots at which rows sell enough of them, hardly above the lowest; they do at the highest."""
    low = 0
    while high - low > 1 + (high >> _NEAR):
        middle = (low + high) // 2
        if int((costs - middle * slots).argmin(axis=1).sum()) >= missing:
            high = middle
        else:
            low = middle
    return high


def combine_rows(options: Sequence[Sequence[int]], missing: int) -> tuple[Ints, list[Ints]]:
    """The least cost of 0, 1, … slots over all rows, and how many each row adds then."""
    # In front of them zeros: who lacks fewer slots than a row adds lacks none with it.
    ahead = max(map(len, options), default=0)
    best = np.full(ahead + missing + 1, INFINITE, dtype=np.int64)
    best[: ahead + 1] = 0
    trace: list[Ints] = []
    for costs in options:
        after, taken = best.copy(), np.zeros(missing + 1, dtype=np.int64)
        least = after[ahead:]
        for slots, cost in enumerate(costs[:missing], 1):
            reached = best[ahead - slots : ahead - slots + missing + 1] + cost
            taken[reached < least] = slots
            np.minimum(least, reached, out=least)
        best = after
        trace.append(taken)
    return best[ahead:], trace
