"""What 1, 2, … further slots cost on a row, and the least cost of a number of slots over many rows.

    cheapest_subsets   all subsets of a row's victims ─► the cost of each number of slots
    useful_rows        drops rows that no cheapest choice can use
    combine_rows       the rest by dynamic programming, row by row

Used by `slot_dp`, which says which victims a row has and at what price.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..cluster.arrays import Ints

#: All costs stay below this.
INFINITE = 1 << 60
#: With fewer rows dropping some takes longer than it saves.
FEWEST_ROWS = 64
#: Sums stay below this while rows are compared, so that they are exact in 64 bits.
_EXACT = 1 << 58
#: The price of a slot is determined up to one part in 2 to this power.
_PRECISION = 10


class RowCosts(NamedTuple):
    """The slots that a row has already, the price of 1, 2, … further ones, and the subset (as bits) for each."""

    free: int
    prices: list[int]
    chosen: list[int]


def cheapest_subsets(slots: Ints, costs: Ints) -> list[RowCosts]:
    """For each row the cheapest subset for each number of further slots, given slots and cost of every subset.

    The first subset is empty.
    """
    gained = slots - slots[:, :1]
    most = int(gained.max(initial=0))
    steps = [np.where(gained >= number, costs, INFINITE) for number in range(1, most + 1)]
    chosen = np.array([step.argmin(axis=1) for step in steps], dtype=np.int64).reshape(most, len(slots)).T
    least = np.array([step.min(axis=1) for step in steps], dtype=np.int64).reshape(most, len(slots)).T
    ends = gained.max(axis=1, initial=0).tolist()
    each = zip(slots[:, 0].tolist(), least.tolist(), chosen.tolist(), ends, strict=True)
    return [RowCosts(free, prices[:end], subsets[:end]) for free, prices, subsets, end in each]


def useful_rows(options: Sequence[Sequence[int]], missing: int) -> list[int]:
    """The rows that some cheapest choice of the missing slots may use, by Lagrangian relaxation.

    If every slot is paid at one price, each row decides alone how many slots it sells, and the sum of what the rows
    lose by that bounds the cost from below.  Forcing a row to sell otherwise raises the bound by what the row loses
    more.  If that lifts the bound above the cost of a known choice, no cheapest choice uses the row in that way.
    """
    all_rows = list(range(len(options)))
    most = max(map(len, options), default=0)
    top = max((prices[-1] for prices in options), default=0)
    if (
        len(options) < FEWEST_ROWS
        or sum(map(len, options)) < missing
        or top * (missing + len(options) * most) >= _EXACT
    ):
        return all_rows
    padding = [INFINITE] * most
    costs = np.array([[0, *prices, *padding[len(prices) :]] for prices in options], dtype=np.int64)
    slots = np.arange(most + 1)
    price = _slot_price(costs, slots, missing, top + 1)
    loss = costs - price * slots
    sold = loss.argmin(axis=1)
    least = loss[all_rows, sold]
    known = int(costs[all_rows, sold].sum())
    bound = price * missing + int(least.sum())
    may_be_used = (loss[:, 1:] - least[:, np.newaxis] <= known - bound).any(axis=1)
    found: list[int] = np.flatnonzero(may_be_used).tolist()
    return found


def _slot_price(costs: Ints, slots: Ints, missing: int, high: int) -> int:
    """Nearly the lowest price at which rows sell enough slots, by bisection; at `high` they do."""
    low = 0
    while high - low > 1 + (high >> _PRECISION):
        middle = (low + high) // 2
        if int((costs - middle * slots).argmin(axis=1).sum()) >= missing:
            high = middle
        else:
            low = middle
    return high


def combine_rows(options: Sequence[Sequence[int]], missing: int) -> tuple[Ints, list[Ints]]:
    """The least cost of 0, 1, … slots over all rows, and for each row the slots that it adds then."""
    # Zeros in front: if fewer slots are missing than a row adds, none are missing with it.
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
