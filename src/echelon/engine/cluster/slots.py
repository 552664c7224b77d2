"""Slots: how many pods of a shape each node and each domain can still take.

Kept per shape as one array over nodes and one roll-up per topology level, and brought up to date from the log of
free amounts at the cost of the rows that changed.  `count_slots` is the one place where amounts become slots.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..records.demand import Shape
from .arrays import Bools, Ints, Rows, distinct, run
from .free_amounts import clip
from .node_filters import EVERYWHERE, allowed
from .node_table import NodeTable
from .pod_index import PodIndex
from .running_terms import left_open, one_each

#: The most shapes kept, and the most rows of all their arrays together.
KEPT, KEPT_ROWS = 256, 1 << 23
#: Shapes that are kept on a cluster of any size.
LEAST_KEPT = 16
#: Slots of a node for a shape without requests.
UNLIMITED = 1 << 31
#: Up to this many changed rows are updated with plain numbers, more of them with arrays.
FEW = 24
#: With fewer boxes, or after more changes, `tightest` compares all boxes instead of those that changed.
FEW_BOXES, FEW_CHANGES = 64, 8
#: More slots than any box has.
NEVER = 1 << 62
#: A level whose domains are the rows.
ROWS = -2

#: What a pod requests: (number of the resource, amount).
Asked = list[tuple[int, int]]


class Slots:
    """The slots of one shape: per row, and summed per level."""

    def __init__(self, table: NodeTable, shape: Shape) -> None:
        self._table = table
        self.shape = shape
        self._epoch = -1
        self._seen = 0
        self._judged = 0
        self._fits: Bools = np.zeros(0, dtype=np.bool_)
        self.rows: Ints = np.zeros(0, dtype=np.int64)
        #: No row has more.
        self.most = 0
        self._rolls: dict[int, Ints] = {}
        #: Answers of `tightest`: box, its slots, and the length of the log at that time.
        self._tightest: dict[tuple[int, int, int, int], tuple[int, int, int]] = {}
        #: What a pod requests, valid for this number of resources.
        self._resources = -1
        self._amounts: Asked | None = None

    def refresh(self) -> None:
        table = self._table
        stale = self._epoch != table.epoch
        behind = len(table.log) - self._seen
        if not stale and not behind:
            return
        if stale:
            self._fits = allowed(table, self.shape)
            self._resources = -1  # they may have other numbers
            self._tightest.clear()
        elif self._judged < len(table.relabelled):
            renewed = distinct(table.relabelled[self._judged :])
            self._fits[renewed] = allowed(table, self.shape, renewed)
        asked = self._asked()
        if stale or asked is None or behind > table.size // 2 + FEW:
            self._put(self._count(EVERYWHERE))
        elif behind == 1:
            self._renew_one(table.log[-1], asked)
        elif behind > FEW:
            self._renew(distinct(table.log[self._seen :]))
        else:
            self._renew_few(sorted(set(table.log[self._seen :])), asked)
        self._epoch, self._seen, self._judged = table.epoch, len(table.log), len(table.relabelled)

    def roll(self, level: int) -> Ints:
        """Slots per domain of a level; callers copy before they change it."""
        roll = self._rolls.get(level)
        if roll is None:
            roll = self._rolls[level] = roll_up(self._table, self.rows, level)
        return roll

    def tightest(self, level: int, first: int, end: int, count: int) -> int:
        """The first of the tightest boxes with at least `count` slots among consecutive ones; -1 if none has.

        Boxes are domains of a level, or rows at the level `ROWS`.  Gangs often repeat the same question and change
        few boxes: where there are many, the last answer is compared with those that changed.
        """
        boxes = self.rows if level == ROWS else self.roll(level)
        if end - first <= FEW_BOXES:
            few = boxes[first:end].tolist()
            enough = [slots for slots in few if slots >= count]
            return first + few.index(min(enough)) if enough else -1
        key, now = (level, first, end, count), len(self._table.log)
        known = self._tightest.get(key)
        if known is None or now - known[2] > FEW_CHANGES or not (found := self._corrected(boxes, key, *known)):
            found = _tightest(boxes, first, end, count)
        if len(self._tightest) >= KEPT:
            self._tightest.clear()
        self._tightest[key] = *found, now
        return found[0]

    def _corrected(
        self, boxes: Ints, key: tuple[int, int, int, int], best: int, have: int, seen: int
    ) -> tuple[int, int] | None:
        """An answer of `tightest` corrected by the log; None if its box changed for the worse."""
        level, first, end, count = key
        if best >= 0 and not count <= boxes.item(best) <= have:
            return None
        for row in self._table.log[seen:]:
            box = row if level == ROWS else self._table.domains(level).item(row)
            if first <= box < end:
                slots = boxes.item(box)
                if slots >= count and (slots, box) < (have, best):
                    best, have = box, slots
        return best, have

    def _put(self, rows: Ints) -> None:
        """Replace all rows."""
        self.rows = rows
        self.most = int(rows.max(initial=0))
        self._rolls.clear()

    def _count(self, rows: Rows) -> Ints:
        return np.where(self._fits[rows], slots_in(self._table, self._table.free[:, rows], self.shape), 0)

    def _renew(self, rows: Ints) -> None:
        fresh = self._count(rows)
        self.most = max(self.most, int(fresh.max(initial=0)))
        change = fresh - self.rows[rows]
        self.rows[rows] = fresh
        for level, roll in self._rolls.items():
            np.add.at(roll, self._table.domains(level)[rows], change)

    def _renew_few(self, rows: list[int], asked: Asked) -> None:
        """The same for a few rows with plain numbers, where array calls would cost more."""
        where, table = run(rows), self._table
        free = table.free[:, where].tolist()
        fresh = [UNLIMITED if fits else 0 for fits in self._fits[where].tolist()]
        for number, amount in asked:
            fresh = [
                slots if slots * amount <= left else left // amount
                for slots, left in zip(fresh, free[number], strict=True)
            ]
        if min(fresh) < 0:  # a node that holds more than it has
            fresh = [max(slots, 0) for slots in fresh]
        before = self.rows[where].tolist()
        if fresh == before:
            return
        self.rows[where] = fresh
        self.most = max(self.most, *fresh)
        for level, roll in self._rolls.items():
            domains = table.domains(level)
            first, last = domains.item(rows[0]), domains.item(rows[-1])
            if first == last:
                roll[first] += sum(fresh) - sum(before)
                continue
            for domain, new, old in zip(domains[where].tolist(), fresh, before, strict=True):
                roll[domain] += new - old

    def _renew_one(self, row: int, asked: Asked) -> None:
        table, fresh = self._table, 0
        if self._fits.item(row):
            free = table.free[:, row].tolist()
            fresh = max(0, min([UNLIMITED, *[free[number] // amount for number, amount in asked]]))
        change = fresh - self.rows.item(row)
        if change:
            self.rows[row] = fresh
            self.most = max(self.most, fresh)
            for level, roll in self._rolls.items():
                roll[0 if level < 0 else table.domains(level).item(row)] += change

    def _asked(self) -> Asked | None:
        """What a pod requests; None if the table has no array for one of the resources."""
        table = self._table
        if self._resources != len(table.resources):
            self._resources, self._amounts = len(table.resources), None
            if table.knows(self.shape.requests):
                numbers = table.resources
                self._amounts = [(numbers[name], clip(amount)) for name, amount in self.shape.requests if amount > 0]
        return self._amounts


class RuleSlots(Slots):
    """The slots that running pods leave to a shape, where terms about pods concern it."""

    def __init__(self, table: NodeTable, shape: Shape, pod_index: PodIndex) -> None:
        super().__init__(table, shape)
        self._pod_index = pod_index
        self._free_of_rules = Slots(table, replace(shape, affinity=(), anti_affinity=(), spread=(), identity=None))
        self._state: tuple[int, int, int, int] | None = None

    def refresh(self) -> None:
        table = self._table
        state = (table.epoch, len(table.log), table.shape, self._pod_index.changes)
        if state == self._state:
            return
        self._free_of_rules.refresh()
        open_rows = left_open(table, self._pod_index, self.shape)
        most = np.where(one_each(table, self.shape), 1, UNLIMITED)
        self._put(np.where(open_rows, np.minimum(self._free_of_rules.rows, most), 0))
        self._tightest.clear()
        self._state = state


class SlotCache:
    """The slots of recently used shapes; the least recently used are dropped first."""

    def __init__(self, table: NodeTable, pod_index: PodIndex) -> None:
        self._table = table
        self._pod_index = pod_index
        self._kept: OrderedDict[Shape, Slots] = OrderedDict()
        #: The last answer; a decision asks several times, and shapes are slow to hash.
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
            found = RuleSlots(self._table, shape, self._pod_index) if shape.has_pod_rules else Slots(self._table, shape)
            self._kept[shape] = found
            if len(self._kept) > max(LEAST_KEPT, min(KEPT, KEPT_ROWS // max(1, self._table.size))):
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(shape)
            found.shape = shape  # equal; from now on found by identity
        return found


def _tightest(boxes: Ints, first: int, end: int, count: int) -> tuple[int, int]:
    """The first of the tightest boxes with at least `count` slots, and its slots."""
    inside = boxes[first:end]
    enough = np.where(inside >= count, inside, NEVER)
    best = int(enough.argmin())
    have = enough.item(best)
    return (-1, NEVER) if have == NEVER else (first + best, have)


def slots_in(table: NodeTable, free: Ints, shape: Shape) -> Ints:
    """How many pods of the shape fit into each column of `free`, by resources alone."""
    amounts: list[tuple[Ints, int]] = []
    for resource, amount in shape.requests:
        if amount > 0:
            known = table.resources.get(resource)
            if known is None:
                return np.zeros(free.shape[1], dtype=np.int64)
            amounts.append((free[known], clip(amount)))
    return count_slots(amounts, free.shape[1])


def count_slots(resources: Iterable[tuple[Ints, int]], size: int | tuple[int, int]) -> Ints:
    """How many pods fit by resources: what is free of each, as an array of the size, and what one pod takes of it."""
    count = np.full(size, UNLIMITED, dtype=np.int64)
    for free, amount in resources:
        np.minimum(count, free // amount, out=count)
    return np.maximum(count, 0)


def count_slots_of_one(resources: Iterable[tuple[int, int]]) -> int:
    """The same for one node, in plain numbers."""
    return max(0, min([UNLIMITED, *[free // amount for free, amount in resources]]))


def roll_up(table: NodeTable, rows: Ints, level: int) -> Ints:
    if not table.size:
        return np.zeros(len(table.starts(level)), dtype=np.int64)
    return np.add.reduceat(rows, table.starts(level))
