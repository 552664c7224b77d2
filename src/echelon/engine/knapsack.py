"""The least loss among single pods: which of them make so many slots for equal pods, at the least work.

Every row is a small knapsack: all subsets of its victims are looked at side by side, and for each number of slots
the cheapest remains.  The rows are then put together by dynamic programming over the slots still missing.  The
answer is exact in work and, at equal work, in the number of units.
"""

from __future__ import annotations

import numpy as np

from .gaps import Gaps
from .layout import Ints, clip
from .regions import Region, rows_of
from .victims import Victim

#: Subsets looked at in all, and in one row as a power of two.
SUBSETS = 1 << 18
ON_ONE_ROW = 12
#: Costs must stay below this, and none reaches it.
INFINITE = 1 << 60


def cheapest(gaps: Gaps, region: Region, victims: list[Victim]) -> list[Victim] | None:
    """The victims to evict, or None if these are not single pods without budgets, or too many on a row."""
    on_row = _by_row(gaps, region, victims)
    weight, missing = len(victims) + 1, gaps.lacking(region)
    total = sum(victim.work for victim in victims)
    if on_row is None or missing <= 0 or total * weight >= INFINITE:
        return None
    options: dict[int, tuple[Ints, Ints]] = {}
    sizes = sorted({len(there) for there in on_row.values()})
    for size in sizes:
        rows = [row for row, there in on_row.items() if len(there) == size]
        costs, subsets = _frontiers(gaps, rows, [on_row[row] for row in rows], weight, missing)
        options |= {row: (costs[number], subsets[number]) for number, row in enumerate(rows)}
    picked = _put_together({row: options[row][0] for row in on_row}, missing)
    if picked is None:
        return None
    return [
        victim
        for row, slots in picked
        for bit, victim in enumerate(on_row[row])
        if int(options[row][1][slots - 1]) >> bit & 1
    ]


def _by_row(gaps: Gaps, region: Region, victims: list[Victim]) -> dict[int, list[Victim]] | None:
    """Victims by row, in order; None if the rows are no small knapsacks."""
    found: dict[int, list[Victim]] = {}
    inside = set(rows_of(gaps.layout, region).tolist())
    for victim in victims:
        if len(victim.freed) > 1 or victim.budgets:
            return None
        for row in victim.freed:
            if row in inside:
                found.setdefault(row, []).append(victim)
    if any(len(there) > ON_ONE_ROW for there in found.values()):
        return None
    return dict(sorted(found.items())) if sum(1 << len(there) for there in found.values()) <= SUBSETS else None


def _frontiers(
    gaps: Gaps, rows: list[int], victims: list[list[Victim]], weight: int, missing: int
) -> tuple[Ints, Ints]:
    """For rows with equally many victims: the least cost of 1, 2, … more slots, and the subset that has it."""
    size = len(victims[0])
    subsets = (np.arange(1 << size)[:, np.newaxis] >> np.arange(size)) & 1
    work = np.array([[victim.work for victim in there] for there in victims], dtype=np.int64)
    costs = (work @ subsets.T) * weight + subsets.sum(axis=1)
    gained = np.minimum(_gained(gaps, rows, victims, subsets), missing)
    most = int(gained.max(initial=0))
    least = np.full((len(rows), most), INFINITE, dtype=np.int64)
    chosen = np.zeros((len(rows), most), dtype=np.int64)
    for slots in range(1, most + 1):
        priced = np.where(gained >= slots, costs, INFINITE)
        chosen[:, slots - 1] = priced.argmin(axis=1)
        least[:, slots - 1] = priced.min(axis=1)
    return least, chosen


def _gained(gaps: Gaps, rows: list[int], victims: list[list[Victim]], subsets: Ints) -> Ints:
    """The slots that each subset adds to each row."""
    slots = np.full((len(rows), len(subsets)), 1 << 31, dtype=np.int64)
    for name, known, amount in gaps.requests:
        freed = [
            [clip(victim.freed[row].get(name, 0)) for victim in there] for row, there in zip(rows, victims, strict=True)
        ]
        free = gaps.free[known, rows][:, np.newaxis] + np.array(freed, dtype=np.int64) @ subsets.T
        np.minimum(slots, free // amount, out=slots)
    usable = gaps.most[rows][:, np.newaxis] > 0
    gained: Ints = np.where(usable, np.maximum(slots, 0) - gaps.now[rows][:, np.newaxis], 0)
    return gained


def _put_together(options: dict[int, Ints], missing: int) -> list[tuple[int, int]] | None:
    """How many slots each row adds for the least cost in all; None if there are not enough."""
    best = np.full(missing + 1, INFINITE, dtype=np.int64)
    best[0] = 0
    trace: list[tuple[int, Ints]] = []
    for row, costs in options.items():
        after, taken = best.copy(), np.zeros(missing + 1, dtype=np.int64)
        for slots, cost in enumerate(costs.tolist(), 1):
            if cost >= INFINITE:
                break
            # So many slots, or fewer where no more are missing.
            reached = np.concatenate([np.full(slots, best[0]), best[:-slots]]) + cost
            better = reached < after
            after[better], taken[better] = reached[better], slots
        best = after
        trace.append((row, taken))
    if best[missing] >= INFINITE:
        return None
    picked, left = [], missing
    for row, taken in reversed(trace):
        slots = int(taken[left])
        if slots:
            picked.append((row, slots))
            left = max(0, left - slots)
    return picked
