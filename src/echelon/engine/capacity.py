"""How many pods of a shape each node and each domain still takes; kept per shape and brought up to date from the log.

Equal pods are one class: one array of slots per node and, per topology level, its roll-up.  The cost of catching
up is that of the rows that changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from .company import Company
from .demand import Shape
from .fit import EVERYWHERE, allowed
from .layout import Bools, Ints, Layout, Rows, clip, distinct
from .terms import left_open, one_each

#: Shapes kept, and the rows of all their arrays together: on a large cluster there are fewer of them.
KEPT, KEPT_ROWS = 256, 1 << 23
#: Shapes that are kept on a cluster of any size.
LEAST_KEPT = 16
#: Slots of a node for a shape that asks for nothing.
UNLIMITED = 1 << 31
#: Rows that are brought up to date one by one; more of them at once.
FEW = 12


class Slots:
    """The slots of one shape: per row, and summed per level."""

    def __init__(self, layout: Layout, shape: Shape) -> None:
        self._layout = layout
        self.shape = shape
        self._epoch = -1
        self._seen = 0
        self._judged = 0
        self._fits: Bools = np.zeros(0, dtype=np.bool_)
        self.rows: Ints = np.zeros(0, dtype=np.int64)
        self._rolls: dict[int, Ints] = {}

    def refresh(self) -> None:
        layout = self._layout
        stale = self._epoch != layout.epoch
        behind = len(layout.log) - self._seen
        if not stale and not behind:
            return
        if stale:
            self._fits = allowed(layout, self.shape)
        elif self._judged < len(layout.relabelled):
            renewed = distinct(layout.relabelled[self._judged :])
            self._fits[renewed] = allowed(layout, self.shape, renewed)
        if stale or behind > layout.size // 2 + FEW:
            self.rows = self._count(EVERYWHERE)
            self._rolls.clear()
        elif behind > FEW:
            self._renew(distinct(layout.log[self._seen :]))
        else:
            self._renew_each(dict.fromkeys(layout.log[self._seen :]))
        self._epoch, self._seen, self._judged = layout.epoch, len(layout.log), len(layout.relabelled)

    def roll(self, level: int) -> Ints:
        """Slots per domain of a level; callers copy before they change it."""
        roll = self._rolls.get(level)
        if roll is None:
            roll = self._rolls[level] = roll_up(self._layout, self.rows, level)
        return roll

    def _count(self, rows: Rows) -> Ints:
        return np.where(self._fits[rows], room(self._layout, self._layout.free[:, rows], self.shape), 0)

    def _renew(self, rows: Ints) -> None:
        fresh = self._count(rows)
        change = fresh - self.rows[rows]
        self.rows[rows] = fresh
        for level, roll in self._rolls.items():
            np.add.at(roll, self._layout.domains(level)[rows], change)

    def _renew_each(self, rows: Iterable[int]) -> None:
        """The same row by row, which is quicker for a few."""
        layout, asked = self._layout, self._asked()
        for row in rows:
            fresh = 0
            if asked is not None and self._fits[row]:
                free = layout.free[:, row].tolist()
                fresh = max(0, min([UNLIMITED, *[free[number] // amount for number, amount in asked]]))
            change = fresh - self.rows.item(row)
            if change:
                self.rows[row] = fresh
                for level, roll in self._rolls.items():
                    roll[layout.domains(level)[row]] += change

    def _asked(self) -> list[tuple[int, int]] | None:
        """What a pod takes: numbers of resources and amounts; None if no node has one of them."""
        known = self._layout.resources
        wanted = [(name, amount) for name, amount in self.shape.requests if amount > 0]
        if not all(name in known for name, _ in wanted):
            return None
        return [(known[name], clip(amount)) for name, amount in wanted]


class TiedSlots(Slots):
    """The slots that running pods leave to a shape which minds their company, or whose company they mind."""

    def __init__(self, layout: Layout, shape: Shape, company: Company) -> None:
        super().__init__(layout, shape)
        self._company = company
        self._untied = Slots(layout, replace(shape, affinity=(), anti_affinity=(), spread=(), identity=None))
        self._state: tuple[int, int, int, int] | None = None

    def refresh(self) -> None:
        layout = self._layout
        state = (layout.epoch, len(layout.log), layout.shape, self._company.changes)
        if state == self._state:
            return
        self._untied.refresh()
        open_rows = left_open(layout, self._company, self.shape)
        most = np.where(one_each(layout, self.shape), 1, UNLIMITED)
        self.rows = np.where(open_rows, np.minimum(self._untied.rows, most), 0)
        self._rolls.clear()
        self._state = state


class Capacity:
    """The slots of all shapes that were asked for lately; the least recently used go first."""

    def __init__(self, layout: Layout, company: Company) -> None:
        self._layout = layout
        self._company = company
        self._kept: OrderedDict[Shape, Slots] = OrderedDict()
        #: What was asked for last; a decision asks several times, and shapes are long to hash.
        self._last: Slots | None = None

    def slots(self, shape: Shape) -> Slots:
        last = self._last
        if last is None or (last.shape is not shape and last.shape != shape):
            self._last = last = self._find(shape)
        last.refresh()
        return last

    def _find(self, shape: Shape) -> Slots:
        found = self._kept.get(shape)
        if found is None:
            found = TiedSlots(self._layout, shape, self._company) if shape.tied else Slots(self._layout, shape)
            self._kept[shape] = found
            if len(self._kept) > max(LEAST_KEPT, min(KEPT, KEPT_ROWS // max(1, self._layout.size))):
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(shape)
            found.shape = shape  # equal, and known again by identity
        return found


def room(layout: Layout, free: Ints, shape: Shape) -> Ints:
    """How many pods of the shape fit into each column of `free`, by resources alone."""
    count = np.full(free.shape[1], UNLIMITED, dtype=np.int64)
    for resource, amount in shape.requests:
        if amount <= 0:
            continue
        known = layout.resources.get(resource)
        if known is None:
            return np.zeros(free.shape[1], dtype=np.int64)
        np.minimum(count, free[known] // clip(amount), out=count)
    return np.maximum(count, 0)


def roll_up(layout: Layout, rows: Ints, level: int) -> Ints:
    if not layout.size:
        return np.zeros(len(layout.starts(level)), dtype=np.int64)
    return np.add.reduceat(rows, layout.starts(level))
