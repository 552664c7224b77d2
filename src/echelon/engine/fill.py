"""Which nodes equal pods take inside their region: as close together as the room allows.

The tightest sub-domain that holds them all is entered, level by level.  Where none does, the roomiest are filled
whole and the rest goes into the tightest that holds it, so that few domains are touched and large ones stay whole.
"""

from __future__ import annotations

import numpy as np

from .demand import Shape
from .layout import Ints, Layout, is_device
from .regions import Region, rows_of


def compact(layout: Layout, shape: Shape, slots: Ints, region: Region, count: int) -> tuple[Ints, Ints]:
    """Rows in topology order and how many of `count` pods each takes; `slots` per row of the cluster must suffice."""
    slots = _sparing_devices(layout, shape, slots, region, count)
    if region.rows is not None:
        return _ordered(*_take(region.rows, slots[region.rows], count))
    low, high = layout.span(region.level, region.index)
    return _ordered(*_descend(layout, slots, low, high, region.level + 1, count))


def _sparing_devices(layout: Layout, shape: Shape, slots: Ints, region: Region, count: int) -> Ints:
    """Pods that need no device leave nodes that have some to those that do, if there is room elsewhere."""
    if not layout.with_devices or any(is_device(name) and amount > 0 for name, amount in shape.requests):
        return slots
    plain = np.where(layout.devices, 0, slots)
    return plain if int(plain[rows_of(layout, region)].sum()) >= count else slots


def _descend(layout: Layout, slots: Ints, low: int, high: int, level: int, count: int) -> tuple[Ints, Ints]:
    """Fill inside rows low..high, which are one domain of the level above `level`."""
    while level < len(layout.levels):
        starts = layout.starts(level)
        first, last = np.searchsorted(starts, (low, high)).tolist()
        if last - first == high - low:
            break  # one node each, as at the host level: rows will do
        if last - first > 1:
            bounds = starts[first:last]
            sums = np.add.reduceat(slots[low:high], bounds - low)
            return _by_domain(layout, slots, (bounds, high), sums, level, count)
        level += 1
    rows = np.arange(low, high, dtype=np.int64)
    return _take(rows, slots[low:high], count)


def _by_domain(
    layout: Layout, slots: Ints, limits: tuple[Ints, int], sums: Ints, level: int, count: int
) -> tuple[Ints, Ints]:
    bounds, high = limits
    ends = np.append(bounds[1:], high)
    whole, rest, last = _choose(sums, count)
    rows = [np.arange(bounds[domain], ends[domain], dtype=np.int64) for domain in whole.tolist()]
    taken = [slots[run] for run in rows]
    if rest:
        inner = _descend(layout, slots, int(bounds[last]), int(ends[last]), level + 1, rest)
        rows.append(inner[0])
        taken.append(inner[1])
    return np.concatenate(rows), np.concatenate(taken)


def _take(rows: Ints, slots: Ints, count: int) -> tuple[Ints, Ints]:
    whole, rest, last = _choose(slots, count)
    if not rest:
        return rows[whole], slots[whole]
    return np.append(rows[whole], rows[last]), np.append(slots[whole], rest)


def _choose(sums: Ints, count: int) -> tuple[Ints, int, int]:
    """Boxes to fill whole, what is left after them, and the tightest box that takes the rest."""
    order = np.argsort(-sums, kind="stable")
    filled = np.cumsum(sums[order])
    full = int(np.searchsorted(filled, count, side="right"))
    rest = count - (int(filled[full - 1]) if full else 0)
    if not rest:
        return order[:full], 0, -1
    left = order[full:]
    holding = left[sums[left] >= rest]
    return order[:full], rest, int(holding[np.argmin(sums[holding])])


def _ordered(rows: Ints, counts: Ints) -> tuple[Ints, Ints]:
    used = counts > 0
    rows, counts = rows[used], counts[used]
    order = np.argsort(rows, kind="stable")
    return rows[order], counts[order]
