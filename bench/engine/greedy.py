"""The baseline: one pod after the other, in a fixed order, as kube-scheduler's group cycle works.

For every pod all nodes of the placement are filtered and scored, the best is taken and assumed.  A group with a
topology key is tried in every domain of it and undone again; the fullest domain in which it held is assumed anew.
An exclusive group follows its first pod, as leader and followers do.  Preemption takes every lower unit away,
places greedily, and gives units back one by one where nothing breaks.

It is kinder to greedy than the original: scores are arrays, node affinity is judged once per shape, and a gang is
given up as soon as it cannot reach its minimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from time import process_time

import numpy as np
import numpy.typing as npt

from echelon.engine import ClusterView, Demand, Exclusive, Group, Leaf, Running, Shape
from echelon.engine.cluster.node_filters import allowed

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
#: member, row, what it asks for
Put = tuple[int, int, Ints]
SCORED = ("cpu", "memory")


class OutOfTime(Exception):
    """The baseline was given up; it takes longer than its limit."""


class Greedy:
    """Places demands one after the other on a copy of the view's free amounts."""

    def __init__(self, view: ClusterView, seconds: float) -> None:
        self.view, self.table = view, view.node_table
        self.free = self.table.free.copy()
        self._ends, self._turns = process_time() + seconds, 0
        nodes = [view.node(name) for name in view.node_names()]
        offered = [[node.allocatable.get(name, 0) for node in nodes if node] for name in SCORED]
        self._offered: Floats = np.maximum(np.array(offered, dtype=np.float64), 1)
        self._scored = [self.table.resources[name] for name in SCORED]
        self._shapes: dict[Shape, tuple[Ints, Bools]] = {}
        #: Rows in domains that someone holds exclusively.
        self._held: dict[Exclusive, Bools] = {}
        self.victims: list[int] = []

    def decide(self, demand: Demand) -> dict[int, int] | None:
        """Members to rows, or None; what was placed stays assumed."""
        placed = self._placements(demand.root, 0, self.table.size)
        if placed is None and demand.may_preempt:
            placed = self._preempt(demand)
        return None if placed is None else {member: row for member, row, _ in placed}

    # ---- groups

    def _placements(self, group: Group, low: int, high: int) -> list[Put] | None:
        """Try every domain of the group's key inside rows low..high; assume the fullest one where it holds."""
        if group.topology is None or (isinstance(group, Leaf) and group.exclusive is not None):
            return self._default(group, low, high)
        best: tuple[float, list[Put]] | None = None
        for start, end in self._domains(group.topology, low, high):
            placed = self._default(group, start, end)
            if placed is not None:
                score = self._fullness(start, end)
                self._assume(placed, -1)
                if best is None or score > best[0]:
                    best = (score, placed)
        if best is None:
            return None
        self._assume(best[1], 1)
        return best[1]

    def _default(self, group: Group, low: int, high: int) -> list[Put] | None:
        if isinstance(group, Leaf):
            return self._leaf(group, low, high)
        placed: list[Put] = []
        holding = 0
        for child in group.children:
            found = self._placements(child, low, high)
            if found is not None:
                holding += 1
                placed += found
        if holding < group.min_groups:
            self._assume(placed, -1)
            return None
        return placed

    def _leaf(self, leaf: Leaf, low: int, high: int) -> list[Put] | None:
        placed: list[Put] = []
        spare = sum(len(pods.members) for pods in leaf.classes) + len(leaf.bound) - leaf.min_count
        for pods in leaf.classes:
            ask, rows = self._known(pods.shape)
            if leaf.exclusive is not None:
                rows = rows & ~self._holders(leaf.exclusive)
            for member in pods.members:
                row = self._pod(ask, rows, low, high)
                if row >= 0:
                    placed.append((member, row, ask))
                    if leaf.exclusive is not None and len(placed) == 1:
                        rows = rows & self._same_domain(leaf.exclusive.key, row)
                else:
                    spare -= 1
                if spare < 0:
                    self._assume(placed, -1)
                    return None
        if leaf.exclusive is not None and placed:
            self._holders(leaf.exclusive)[self._same_domain(leaf.exclusive.key, placed[0][1])] = True
        return placed

    def _pod(self, ask: Ints, rows: Bools, low: int, high: int) -> int:
        """Filter, score, pick, assume."""
        self._look_at_the_clock()
        free = self.free[:, low:high]
        fits = rows[low:high] & (free >= ask[:, None]).all(axis=0)
        if not fits.any():
            return -1
        left = (free[self._scored] - ask[self._scored][:, None]) / self._offered[:, low:high]
        row = low + int(np.where(fits, left.sum(axis=0), -1.0).argmax())
        self.free[:, row] -= ask
        return row

    # ---- preemption

    def _preempt(self, demand: Demand) -> list[Put] | None:
        """Everything lower goes, the demand is placed, and units come back where no node overflows."""
        units = [unit for unit in self.view.units() if unit.priority < demand.priority]
        pods = {unit.id: self.view.pods_of(unit.id) for unit in units}
        for unit in units:
            self._charge(pods[unit.id], -1)
        placed = self._placements(demand.root, 0, self.table.size)
        for unit in sorted(units, key=lambda unit: (-unit.priority, min(pod.started for pod in pods[unit.id]))):
            self._look_at_the_clock()
            self._charge(pods[unit.id], 1)
            if placed is not None and (self.free[:, self._rows(pods[unit.id])] < 0).any():
                self._charge(pods[unit.id], -1)
                self.victims.append(unit.id)
        return placed

    def _rows(self, pods: list[Running]) -> list[int]:
        return [row for pod in pods if (row := self.table.row(pod.node)) is not None]

    def _charge(self, pods: list[Running], times: int) -> None:
        for pod in pods:
            row = self.table.row(pod.node)
            for name, amount in pod.requests:
                self.free[self.table.resources[name], row] -= amount * times

    # ---- arithmetic

    def _look_at_the_clock(self) -> None:
        """Now and then: the clock costs about a tenth of a pod."""
        self._turns += 1
        if self._turns % 64 == 0 and process_time() > self._ends:
            raise OutOfTime

    def _known(self, shape: Shape) -> tuple[Ints, Bools]:
        """What a shape asks of each resource, and on which rows it may be."""
        found = self._shapes.get(shape)
        if found is None:
            ask = np.zeros(len(self.table.resources), dtype=np.int64)
            for name, amount in shape.requests:
                ask[self.table.resources[name]] = amount
            found = self._shapes[shape] = (ask, allowed(self.table, shape))
        return found

    def _holders(self, exclusive: Exclusive) -> Bools:
        return self._held.setdefault(exclusive, np.zeros(self.table.size, dtype=np.bool_))

    def _assume(self, placed: list[Put], times: int) -> None:
        for _, row, ask in placed:
            self.free[:, row] -= ask * times

    def _fullness(self, low: int, high: int) -> float:
        free = self.free[self._scored, low:high].sum(axis=1)
        return float((1 - free / self._offered[:, low:high].sum(axis=1)).sum())

    def _domains(self, key: str, low: int, high: int) -> Iterator[tuple[int, int]]:
        starts = self.table.starts(self.table.level_of[key])
        first, last = np.searchsorted(starts, (low, high)).tolist()
        bounds = [*starts[first:last].tolist(), high]
        yield from pairwise(bounds)

    def _same_domain(self, key: str, row: int) -> Bools:
        domains = self.table.domains(self.table.level_of[key])
        same: Bools = domains == domains[row]
        return same
