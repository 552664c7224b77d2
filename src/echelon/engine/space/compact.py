"""Nodes for equal pods inside their region: as close together as free slots allow.

The tightest sub-domain that holds them all is entered, level by level.  Where none does, the roomiest are filled
completely and the rest goes into the tightest that holds it, so that few domains are touched and large ones stay free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..cluster.arrays import Ints, Rows
from ..cluster.free_amounts import is_device
from ..cluster.node_table import NodeTable
from ..cluster.regions import Region
from ..cluster.slots import NEVER, ROWS, Slots
from ..records.demand import Shape

#: Slots per domain of a level.
Rolls = Callable[[int], Ints]

NOTHING: Ints = np.zeros(0, dtype=np.int64)


def compact(
    table: NodeTable, shape: Shape, slots: Ints, region: Region, count: int, rolls: Rolls | None = None
) -> tuple[Ints, Ints]:
    """Rows in topology order and how many of `count` pods each takes; `slots` per row of the cluster must suffice.

    With `rolls`, the slots per domain of a level, a large region is not read row by row.
    """
    if region.rows is not None:
        own = _sparing_devices(table, shape, slots[region.rows], region.rows, count)
        return _ordered(*_take(region.rows, own, count))
    low, high = table.span(region.level, region.index)
    inside = slots[low:high]
    if rolls is not None and rolls(region.level).item(region.index) == count:
        rows = inside.nonzero()[0]  # all of them
        return rows + low, inside[rows]
    own = _sparing_devices(table, shape, inside, slice(low, high), count)
    rows, counts = _Descent(table, rolls if own is inside else None).fill(own, region.level, region.index, count)
    return (rows, counts) if len(rows) == 1 else _ordered(rows, counts)


def descend(table: NodeTable, slots: Slots, domain: tuple[int, int], count: int) -> tuple[int, tuple[int, int]]:
    """Descend from a domain into the tightest one below that holds all pods, level by level: the row of the node that
    holds them all, -1 if none does, and the last domain that did, by level and index.

    `compact` does the same but compares every box of a level; here the cached answers of `Slots.tightest` are used.
    """
    if _leaves_devices(table, slots.shape):
        return -1, domain
    opened = table.opened(*domain)
    while opened is not None:
        level, first, end = opened
        found = slots.tightest(level, first, end, count)
        if found < 0:
            return -1, domain
        domain = level, found
        opened = table.opened(level, found)
    return slots.tightest(ROWS, *table.span(*domain), count), domain


def _leaves_devices(table: NodeTable, shape: Shape) -> bool:
    """Whether some nodes have devices and the pod requests none."""
    if not table.with_devices:
        return False
    return not any(is_device(name) and amount > 0 for name, amount in shape.requests)


def _sparing_devices(table: NodeTable, shape: Shape, slots: Ints, rows: Rows, count: int) -> Ints:
    """Slots without nodes that have devices, for pods that need none, if there are enough elsewhere."""
    if not _leaves_devices(table, shape):
        return slots
    plain = np.where(table.devices[rows], 0, slots)
    return plain if int(plain.sum()) >= count else slots


@dataclass(frozen=True, slots=True)
class _Descent:
    """Fills a domain through the domains below it."""

    table: NodeTable
    rolls: Rolls | None

    def fill(self, slots: Ints, level: int, index: int, count: int) -> tuple[Ints, Ints]:
        """Fill a domain; `slots` are those of its rows."""
        opened = self.table.opened(level, index)
        if opened is not None:
            level, first, last = opened
            return self._by_domain(slots, level, slice(first, last), count)
        low = self.table.starts(level).item(index)
        whole, rest, last = _choose(slots, count)
        if rest == count:
            return np.array([low + last], dtype=np.int64), np.array([count], dtype=np.int64)
        if not rest:
            return whole + low, slots[whole]
        return np.append(whole + low, low + last), np.append(slots[whole], rest)

    def _by_domain(self, slots: Ints, level: int, inner: slice, count: int) -> tuple[Ints, Ints]:
        """Fill consecutive domains of a level."""
        low = self.table.starts(level).item(inner.start)
        bounds = self.table.starts(level)[inner] - low
        ends = np.append(bounds[1:], len(slots))
        sums = np.add.reduceat(slots, bounds) if self.rolls is None else self.rolls(level)[inner]
        whole, rest, last = _choose(sums, count)
        runs = [slice(*run) for run in zip(bounds[whole].tolist(), ends[whole].tolist(), strict=True)]
        rows = [np.arange(low + run.start, low + run.stop, dtype=np.int64) for run in runs]
        taken = [slots[run] for run in runs]
        if rest:
            start, end = int(bounds[last]), int(ends[last])
            found = self.fill(slots[start:end], level, inner.start + last, rest)
            if not runs:
                return found
            rows.append(found[0])
            taken.append(found[1])
        return np.concatenate(rows), np.concatenate(taken)


def _take(rows: Ints, slots: Ints, count: int) -> tuple[Ints, Ints]:
    whole, rest, last = _choose(slots, count)
    if rest == count:
        return rows[last : last + 1], np.array([count], dtype=np.int64)
    if not rest:
        return rows[whole], slots[whole]
    return np.append(rows[whole], rows[last]), np.append(slots[whole], rest)


def _choose(sums: Ints, count: int) -> tuple[Ints, int, int]:
    """Boxes to fill completely, the pods left after them, and the tightest box that takes the rest."""
    most = sums.item(sums.argmax())
    if most >= count:  # one box holds all: the tightest of these
        return NOTHING, count, int(np.where(sums >= count, sums, NEVER).argmin())
    if sums.item(sums.argmin()) == most:  # all equal, as in an unused rack
        full = count // most
        return np.arange(full, dtype=np.int64), count - full * most, full
    order = (-sums).argsort(kind="stable")
    filled = sums[order].cumsum()
    full = int(filled.searchsorted(count, side="right"))
    rest = count - (int(filled[full - 1]) if full else 0)
    if not rest:
        return order[:full], 0, -1
    left = order[full:]
    holding = left[sums[left] >= rest]
    return order[:full], rest, int(holding[sums[holding].argmin()])


def _ordered(rows: Ints, counts: Ints) -> tuple[Ints, Ints]:
    used = counts > 0
    rows, counts = rows[used], counts[used]
    order = rows.argsort(kind="stable")
    return rows[order], counts[order]
