"""Slots of one shape: how many an aim lacks in a region, and how many each victim adds at most.

A slot is room for one pod of the shape on a node.  Two uses: the slots that a region lacks, bought at the best rate of
work per slot, bound the loss there from below (`least_cost`); and where the aim is uniform, counting slots decides
whether it fits (`SlotGains.holds`), so that no search is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..cluster.arrays import Bools, Ints
from ..cluster.free_amounts import clip
from ..cluster.node_filters import allowed
from ..cluster.node_table import NodeTable
from ..cluster.regions import Region, rows_of
from ..cluster.slots import count_slots, roll_up
from ..records.demand import LARGEST, Shape
from ..space.canonical import Part, shapes_of
from .loss import EvictionTrial
from .victim_table import Victim, Victims, numbers_of


class SlotGains:
    """Slots of the first shape that an aim needs: now, with victims evicted, and the gain from each victim.

    Arrays have one element for each victim and row, so that thousands of victims are one sum.
    """

    def __init__(self, trial: EvictionTrial, aim: Part, victims: Victims) -> None:
        """`aim` has no pod rules.  `victims` is the whole table."""
        shapes = [shape for shape, least in aim.least.items() if least > 0]
        self.shape: Shape | None = shapes[0] if shapes else None
        self.table: NodeTable = trial.view.node_table
        self.need = aim.least[self.shape] if self.shape else 0
        #: The victim and the row of every entry.
        self.owners, self.rows = victims.table.owners, victims.table.rows
        self._victim_count = len(victims)
        if self.shape is None:
            return
        requests = ((name, clip(amount)) for name, amount in self.shape.requests if amount > 0)
        self.requests = [
            (name, self.table.resources[name], amount) for name, amount in requests if name in self.table.resources
        ]
        trial.remove(())
        self.free = self.table.free.copy()
        self.slots_now = trial.view.slot_cache.slots(self.shape).rows.copy()
        self._usable = allowed(self.table, self.shape) & (len(self.requests) == self._asked())
        #: For each requested resource, the amount that each entry frees.
        self.freed = [
            np.array(_freed_amounts(victims.table.records, name), dtype=np.int64)[victims.table.record_of]
            for name, _, _ in self.requests
        ]
        self.slots_most = self._slots(np.ones(len(self.rows), dtype=np.bool_))
        self._gains = self._gain_by_entry()

    def missing(self, region: Region) -> int:
        """Slots that a region lacks while no victim is evicted."""
        if self.shape is None:
            return 0
        if region.rows is None:
            return self.need - int(roll_up(self.table, self.slots_now, region.level)[region.index])
        return self.need - int(self.slots_now[region.rows].sum())

    def could_suffice(self, region: Region) -> bool:
        """Whether there are enough slots once all victims are evicted."""
        return self.shape is None or int(self.slots_most[rows_of(self.table, region)].sum()) >= self.need

    def holds(self, part: Part, region: Region, victims: Sequence[Victim]) -> bool:
        """Whether a uniform part fits in a region once these are evicted."""
        evicted = np.zeros(self._victim_count, dtype=np.bool_)
        evicted[numbers_of(victims)] = True
        slots = self._slots(evicted[self.owners])
        return bool(_copies(self.table, part, slots, region.level)[region.index])

    def by_victim(self, region: Region) -> Ints:
        """For each victim, by number, the most slots that its eviction adds in a region, whatever else is evicted."""
        sums = np.zeros(self._victim_count, dtype=np.int64)
        if self.shape is None:
            return sums
        inside = np.zeros(self.table.size, dtype=np.bool_)
        inside[rows_of(self.table, region)] = True
        here = inside[self.rows]
        np.add.at(sums, self.owners[here], self._gains[here])
        return sums

    def _asked(self) -> int:
        assert self.shape is not None
        return sum(amount > 0 for _, amount in self.shape.requests)

    def _slots(self, evicted: Bools) -> Ints:
        """Slots of every row once these entries are evicted."""
        amounts: list[tuple[Ints, int]] = []
        rows = self.rows[evicted]
        for (_, known, amount), freed in zip(self.requests, self.freed, strict=True):
            free = self.free[known].copy()
            np.add.at(free, rows, freed[evicted])
            amounts.append((free, amount))
        return np.where(self._usable, count_slots(amounts, self.table.size), 0)

    def _gain_by_entry(self) -> Ints:
        """The most slots that each entry adds.

        Only scarce resources count: those of which a row has too little now for the slots it could have.
        """
        most, best = self.slots_most[self.rows], np.zeros(len(self.rows), dtype=np.int64)
        for (_, known, amount), freed in zip(self.requests, self.freed, strict=True):
            scarce = self.free[known, self.rows] // amount < most
            np.maximum(best, np.where(scarce, -(-freed // amount), 0), out=best)
        gains: Ints = np.minimum(best, most - self.slots_now[self.rows])
        return gains


def _freed_amounts(records: Iterable[Mapping[str, int]], name: str) -> list[int]:
    """How much of a resource each record frees, clipped."""
    return [amount if (amount := record.get(name, 0)) <= LARGEST else LARGEST for record in records]


def is_uniform(table: NodeTable, part: Part, level: int) -> bool:
    """Whether counting slots is exact for a part in a domain of a level: equal pods, equal children, nesting keys."""
    if part.exclusive is not None or not part.need or len(part.keys) > 1:
        return False
    if any(child.pins for child in part.children) or any(shape.has_pod_rules for shape in shapes_of(part)):
        return False
    own = table.level_of.get(part.keys[0], -2) if part.keys else level
    if own < level or len(shapes_of(part)) != 1:
        return False
    if part.is_leaf:
        return part.need <= part.supply
    equal = len({child.type for child in part.children}) == 1 and part.need <= len(part.children)
    first = part.children[0]
    nests = not first.keys or table.level_of.get(first.keys[0], -2) > own
    return equal and nests and is_uniform(table, first, own)


def _copies(table: NodeTable, part: Part, slots: Ints, level: int) -> Ints:
    """How many copies of a uniform part each domain of a level holds, given the slots of every row."""
    own = table.level_of[part.keys[0]] if part.keys else level
    if part.is_leaf:
        counts = roll_up(table, slots, own) // part.need
    else:
        counts = _copies(table, part.children[0], slots, own) // part.need
    if own == level:
        return counts
    summed: Ints = np.add.reduceat(np.where(table.named(own), counts, 0), table.nested(level, own))
    return summed


def least_cost(missing: int, works: Ints, gains: Ints) -> tuple[int, int]:
    """Lower bounds of the work and of the units that add the missing slots, given what each victim costs and adds.

    The work is that of the fractional knapsack: slots bought at the best rates, the last victim in part.
    """
    if missing <= 0:
        return 0, 0
    works, gains = works[gains > 0], gains[gains > 0]
    rates = works / gains
    total, left = 0.0, missing
    for at in np.lexsort((gains, rates)).tolist():
        gain = gains.item(at)
        total += rates.item(at) * min(gain, left)
        left -= gain
        if left <= 0:
            break
    return int(total), -(-missing // int(gains.max())) if len(gains) else 0
