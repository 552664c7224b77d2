"""Trials for fixes: whether a changed demand fits, and in which domains and nodes a fix is most likely."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..cluster.node_filters import allowed
from ..cluster.regions import CLUSTER, Region, rows_of
from ..cluster.slots import slots_in
from ..cluster.view import ClusterView, Running
from ..placement.objective import groups_of
from ..records.demand import Demand, Group, Shape
from ..records.verdict import Shortage
from ..search.strategy import search
from ..space.budget import Steps
from ..space.canonical import PartBuilder, weight
from ..space.tasks import Found

#: Steps for one trial and for all of them; an undecided trial counts as "does not fit".
TRIAL_STEPS = 1_000
ALL_STEPS = 10_000
#: Units that are tried for eviction together.
FEW_UNITS = 3
#: Domains in which fixes are looked for.
REGIONS = 3
#: What a trial costs before its search begins.
STEPS_PER_GROUP = 3


class Trials:
    """One blocked demand, its causes, and a budget for all that is tried."""

    def __init__(self, view: ClusterView, demand: Demand, causes: list[list[Shortage]]) -> None:
        """`causes` holds equal shortages together, innermost first; a fix is tried for all of them."""
        self.view, self.demand, self.causes = view, demand, causes
        self.groups = {group.id: group for group in groups_of(demand.root)}
        self.steps = Steps(ALL_STEPS)
        self._regions: dict[int, list[Region]] = {}
        self._nodes: dict[tuple[Shape, int, int], list[str]] = {}
        self.own = {bound.member for leaf in demand.leaves() for bound in leaf.bound}

    def fits(self, root: Group, view: ClusterView | None = None) -> bool:
        """Whether the tree advances, in this view or a changed one: it comes to hold, or holds more than now."""
        view = view or self.view
        for aim in PartBuilder(view).aims(root):
            self.steps.left -= STEPS_PER_GROUP * len(self.groups)
            if self.steps.left <= 0:
                return False
            with self.steps.lend(TRIAL_STEPS) as trial:
                found = search(view, aim, CLUSTER, trial)
            if isinstance(found, Found):
                return True
        return False

    def largest(self, shortage: Shortage) -> Shape | None:
        leaves = Demand(self.groups[shortage.group]).leaves()
        shapes = [pods.shape for leaf in leaves for pods in leaf.classes]
        return max(shapes, key=weight) if shapes else None

    def best_regions(self, shortage: Shortage) -> list[Region]:
        """The best domains that were tried, if their key is a listed level; the very best may have no fix."""
        if shortage.group not in self._regions:
            self._regions[shortage.group] = list(self._find_regions(shortage))
        return self._regions[shortage.group]

    def _find_regions(self, shortage: Shortage) -> Iterator[Region]:
        table = self.view.node_table
        level = table.level_of.get(shortage.key) if shortage.key else -1
        if level is None:
            return
        for count in shortage.tried[:REGIONS]:
            index = table.domain_called(level, count.domain)
            if index is not None:
                yield Region(level, index)

    def by_use(self, shape: Shape, region: Region) -> list[str]:
        """Nodes of a region that the shape may use, emptiest first."""
        key = (shape, region.level, region.index)
        if key not in self._nodes:
            self._nodes[key] = self._find_nodes(shape, region)
        return self._nodes[key]

    def _find_nodes(self, shape: Shape, region: Region) -> list[str]:
        table = self.view.node_table
        rows = rows_of(table, region)
        rows = rows[allowed(table, shape, rows)]
        slots = slots_in(table, table.free[:, rows], shape)
        order = np.lexsort((rows, -slots))
        names = [table.name(row) for row in rows[order].tolist()]
        return sorted(names, key=self.view.number_on)

    def strangers(self, name: str) -> list[Running]:
        """Pods on a node that do not belong to the demand; nominated and reserved places do not count."""
        here = (pod for pod in self.view.pods_on(name) if pod.pod not in self.own)
        return [pod for pod in here if pod.evictable or not pod.coming]


def fewest(most: int, enough: Callable[[int], bool], guess: int, least: int = 1) -> int:
    """The smallest number from `least` to `most` that is enough, 0 if none is; a good guess saves trials."""
    high = max(least, min(guess, most))
    low = high - 1
    if low >= least and enough(low):
        low, high = least - 1, low
    while high <= most and not enough(high):
        low, high = high, min(high * 2, most) if high < most else most + 1
    if high > most:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
