"""Small trees, exactly: which groups hold, which members, which preferred keys, in which domains.

Placing the minimum first and adding extras one by one can miss the best choice.  Where a cluster and a demand are
small, this search goes through all choices, group by group and node by node, and leaves out those that cannot beat
the best known: what is decided has its cost, and what is open costs at least what it would alone on what is left.
If it comes to its end within the budget, the objective is the optimum.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from ..cluster.regions import CLUSTER, Region
from ..cluster.view import ClusterView
from ..records.demand import Composite, Demand, Group, Leaf
from ..records.verdict import Objective
from ..space.canonical import Part, PartBuilder, walk
from ..space.tasks import Put, Steps
from .objective import DraftPlacement, groups_of, inner_regions, is_measured, keys_of
from .small_cluster import Ground

#: Beyond these sizes the quick answer and its bound have to do.
NODES, PODS, GROUPS = 24, 24, 24
#: Choices looked at, and what each costs of a decision's budget.
CHOICES, PRICE = 20_000, 10

NOTHING: Objective = (0, 0, 0, 0, 0)


@dataclass(slots=True)
class Exact:
    """The best placement, None if none is better than what was known; whether that is certain."""

    draft: DraftPlacement | None
    proved: bool


def is_small(view: ClusterView, demand: Demand) -> bool:
    if view.node_table.size > NODES:
        return False
    pods = sum(len(pods.members) for leaf in demand.leaves() for pods in leaf.classes)
    return pods <= PODS and len(groups_of(demand.root)) <= GROUPS


def improve(view: ClusterView, demand: Demand, known: Objective | None, steps: Steps) -> Exact:
    """A placement that is better than the one known, if there is one."""
    search = _Search(view, demand, min(CHOICES, steps.left // PRICE))
    before = search.left
    if known is None or known[:2] != (0, 0):
        # First which roles and groups: members beyond that only stand in the way.
        search.run(known, frugal=not search.ground.extras_may_help)
        known = search.best
    search.run(known, frugal=False)
    steps.left -= (before - max(0, search.left)) * PRICE
    return Exact(search.draft, search.left > 0)


@dataclass(slots=True)
class _Group:
    """A group on the way through the tree, parents before children."""

    group: Group
    part: Part
    parent: int
    #: Preferred keys missed, with the keys to share a domain of.
    options: list[tuple[int, tuple[str, ...]]]
    #: Pods (leaf) or children (composite) that it cannot do without.
    need: int = 0
    #: Where the tree goes on after it, and what it costs to leave out all of it.
    after: int = 0
    absent: Objective = NOTHING
    # leaf
    shapes: list[int] = field(default_factory=list)
    bound_roles: frozenset[str] = frozenset()
    measured: bool = False
    counts: list[int] = field(default_factory=list)
    # composite
    held: int = 0
    children_left: int = 0
    region: Region = CLUSTER


class _Search:
    def __init__(self, view: ClusterView, demand: Demand, left: int) -> None:
        self.table, self.left = view.node_table, left
        self.best: Objective | None = None
        self.draft: DraftPlacement | None = None
        self.frugal = False
        root = PartBuilder(view).part(demand.root, "everything")
        parts = list(walk(root))
        keys = {key for group in groups_of(demand.root) for key in group.preferred}
        keys |= {key for part in parts for key in part.keys}
        self.ground = Ground(view, root, parts, sorted(keys))
        self.groups: list[_Group] = []
        self._add(demand.root, -1, {part.group: part for part in parts})
        self.waiting = any(part.supply for part in parts)
        self._seats: list[tuple[int, Region]] = []
        self._puts: list[tuple[int, int, int, int]] = []
        self._seen: dict[object, Objective] = {}
        self._homes_of: dict[object, list[tuple[int, Region]]] = {}
        self._alone_in: dict[object, Objective | None] = {}
        self.least = self._least_from_here()
        self.sizes = self._sizes_from_here()

    def run(self, known: Objective | None, frugal: bool) -> None:
        self.best, self.frugal = known, frugal
        self._seen.clear()
        self._enter(0, NOTHING)

    # ---- the tree as a list

    def _add(self, group: Group, parent: int, parts: dict[int, Part]) -> None:
        part, at = parts[group.id], len(self.groups)
        options = [(missed, keys_of(group, key, self.table)) for missed, key in enumerate((*group.preferred, None))]
        node = _Group(group, part, parent, options)
        self.groups.append(node)
        absent = (0, 1, 0, len(group.preferred), 0)
        if isinstance(group, Leaf):
            node.need = max(0, group.min_count - len(group.bound))
            node.shapes = [self.ground.number(ask.shape) for ask in part.asks]
            node.bound_roles = frozenset(bound.role for bound in group.bound)
            node.measured = is_measured(group)
            node.counts = [0] * len(part.asks)
            absent = (_roles_missing(node, node.counts), 1, part.supply, len(group.preferred), 0)
        else:
            node.need = group.min_groups
            for child in group.children:
                below = len(self.groups)
                self._add(child, at, parts)
                absent = _plus(absent, self.groups[below].absent)
        node.after, node.absent = len(self.groups), absent

    def _least_from_here(self) -> list[Objective]:
        """What all groups from each on cost at least, every one alone on the cluster as it is."""
        reach: list[list[Region]] = []
        alone: list[Objective] = []
        for at, node in enumerate(self.groups):
            around = [CLUSTER] if node.parent < 0 else reach[node.parent]
            homes = [home for wide in around for home in self._homes(at, wide)]
            reach.append(list({region.key: region for _, region in homes}.values()))
            if isinstance(node.group, Leaf):
                costs = [_plus(cost, (0, 0, 0, missed, 0)) for missed, home in homes if (cost := self._alone(at, home))]
                alone.append(min(costs if node.parent < 0 else [*costs, node.absent], default=NOTHING))
            else:
                alone.append((0, 0, 0, min((missed for missed, _ in homes), default=0), 0))
        least = [NOTHING]
        for cost in reversed(alone):
            least.append(_plus(cost, least[-1]))
        return least[::-1]

    def _sizes_from_here(self) -> list[list[list[int]]]:
        """Per group and resource: what the n smallest pods from there on ask for together, for every n."""
        found = []
        for at in range(len(self.groups)):
            pods = [(node.shapes, node.part.asks) for node in self.groups[at:]]
            amounts = [
                dict(self.ground.asked[shape])
                for shapes, asks in pods
                for shape, ask in zip(shapes, asks, strict=True)
                for _ in range(ask.most)
            ]
            found.append([list(accumulate(sorted(one.get(r, 0) for one in amounts))) for r in self.ground.resources])
        return found

    def _homes(self, at: int, around: Region) -> list[tuple[int, Region]]:
        """Where a group may be inside a region, with the preferred keys missed; fewest missed, then tightest, first."""
        found = self._homes_of.get((at, around.key))
        if found is None:
            node, found = self.groups[at], []
            for missed, keys in node.options:
                regions = [around]
                for key in keys:
                    regions = [inner for region in regions for inner in inner_regions(self.table, region, key)]
                fitting = [region for region in regions if set(node.part.pins) <= set(self.ground.rows(region))]
                found += [(missed, region) for region in sorted(fitting, key=self.ground.roominess)]
            self._homes_of[at, around.key] = found
        return found

    def _alone(self, at: int, region: Region) -> Objective | None:
        """What a leaf costs in a region at least, by the slots there before anything is placed; None if too few."""
        if (at, region.key) not in self._alone_in:
            node, ground = self.groups[at], self.ground
            room = [min(ask.most, ground.most(s, region)) for s, ask in zip(node.shapes, node.part.asks, strict=True)]
            cost = _price(ground, node, room, region) if sum(room) >= node.need else None
            self._alone_in[at, region.key] = cost
        return self._alone_in[at, region.key]

    # ---- groups

    def _enter(self, at: int, cost: Objective) -> None:
        """Decide everything from a group on."""
        if at == len(self.groups):
            self._finish(cost)
            return
        if not self._beats(self._promise(at, cost)) or self._known(at, -1, cost):
            return
        node = self.groups[at]
        parent = self.groups[node.parent] if node.parent >= 0 else None
        for missed, region in self._homes(at, parent.region if parent else CLUSTER):
            here = _plus(cost, (0, 0, 0, missed, 0))
            alone = self._alone(at, region) if isinstance(node.group, Leaf) else NOTHING
            if alone is None or not self._beats(_plus(_plus(here, alone), self.least[at + 1])):
                continue
            self.left -= 1
            with self.ground.claimed(node.part, region) as mine:
                if mine:
                    self._hold(at, region, here)
        if parent is not None and parent.held + parent.children_left > parent.need:
            parent.children_left -= 1
            self._enter(node.after, _plus(cost, node.absent))
            parent.children_left += 1

    def _hold(self, at: int, region: Region, cost: Objective) -> None:
        node = self.groups[at]
        parent = self.groups[node.parent] if node.parent >= 0 else None
        node.region = region
        self._seats.append((at, region))
        if parent:
            parent.held += 1
            parent.children_left -= 1
        if isinstance(node.group, Composite):
            node.held, node.children_left = 0, len(node.group.children)
            if node.children_left >= node.need:
                self._enter(at + 1, cost)
        else:
            self._fill(at, 0, cost)
        if parent:
            parent.held -= 1
            parent.children_left += 1
        self._seats.pop()

    # ---- pods of a leaf

    def _fill(self, at: int, number: int, cost: Objective) -> None:
        """Decide on a leaf's pods from one class on."""
        node = self.groups[at]
        if number == len(node.shapes):
            if sum(node.counts) >= node.need:
                self._enter(at + 1, _plus(cost, _price(self.ground, node, node.counts, node.region)))
            return
        if self._known(at, number, cost):
            return
        most, before = node.part.asks[number].most, sum(node.counts[:number])
        later = sum(ask.most for ask in node.part.asks[number + 1 :])
        if self.frugal:
            most = min(most, max(1, node.need - before))
        rows = self.ground.rows_for(node.shapes[number], node.region)
        for count in range(most, max(0, node.need - before - later) - 1, -1):
            node.counts[number] = count
            with closing(self._ways(at, number, rows, 0, count)) as ways:
                for _ in ways:
                    self._fill(at, number + 1, cost)
                    if not self._beats(_plus(cost, self._so_far(at, number))):
                        break
        node.counts[number] = 0

    def _so_far(self, at: int, number: int) -> Objective:
        """What a leaf with its classes so far and all after it cost at least."""
        node, rest = self.groups[at], self.least[at + 1]
        waiting = sum(ask.most for ask in node.part.asks[: number + 1]) - sum(node.counts[: number + 1])
        return (rest[0], rest[1], rest[2] + waiting, rest[3], rest[4])

    def _ways(self, at: int, number: int, rows: list[int], spot: int, count: int) -> Generator[None, None, None]:
        """Every way to put so many pods on rows from one on; where nodes are alike the first go first."""
        if not count:
            yield
            return
        if spot == len(rows) or self.left <= 0:
            return
        self.left -= 1
        shape, row = self.groups[at].shapes[number], rows[spot]
        most = min(count, self.ground.room(shape, row))
        least = max(0, count - sum(self.ground.room(shape, other) for other in rows[spot + 1 :]))
        past = self.ground.past_equals(rows, spot)
        for here in range(most, least - 1, -1):
            if not here:
                yield from self._ways(at, number, rows, past, count)
            elif self.ground.put(shape, row, here):
                self._puts.append((at, number, row, here))
                try:
                    yield from self._ways(at, number, rows, spot + 1, count - here)
                finally:
                    self._puts.pop()
                    self.ground.take(shape, row, here)

    # ---- what is not worth a look

    def _beats(self, cost: Objective) -> bool:
        if self.left <= 0:
            return False
        return self.best is None or (cost[:2] < self.best[:2] if self.frugal else cost < self.best)

    def _promise(self, at: int, cost: Objective) -> Objective:
        """The least that can come of it: every group alone, but no more pods than there are amounts for."""
        least = _plus(cost, self.least[at])
        waiting = cost[2]
        for sums, free in zip(self.sizes[at], self.ground.totals(), strict=True):
            waiting = max(waiting, cost[2] + len(sums) - bisect_right(sums, free))
        return least if waiting <= least[2] else (least[0], least[1], waiting, 0, 0)

    def _known(self, at: int, number: int, cost: Objective) -> bool:
        """Whether the same was reached before at no higher cost."""
        state = (at, number, self.ground.signature(), *self._context(at, number))
        known = self._seen.get(state)
        if known is not None and (known[:2] <= cost[:2] if self.frugal else known <= cost):
            return True
        self._seen[state] = cost
        return False

    def _context(self, at: int, number: int) -> Iterator[object]:
        """What earlier choices mean for those from here on."""
        node = self.groups[at]
        if number >= 0:
            yield tuple(node.counts[:number])
            yield self.ground.look(node.region)
        while node.parent >= 0:
            node = self.groups[node.parent]
            yield (self.ground.look(node.region), node.held, node.children_left)
        yield not self._puts

    # ---- the result

    def _finish(self, cost: Objective) -> None:
        if (self.waiting and not self._puts) or not self._beats(cost) or not self.ground.complete():
            return
        self.best, self.draft = cost, DraftPlacement({self.groups[at].group.id: region for at, region in self._seats})
        for at, number, row, count in self._puts:
            part = self.groups[at].part
            rows = np.array([row], dtype=np.int64)
            self.draft.puts.append(Put(part, part.asks[number], rows, np.array([count], dtype=np.int64)))


def _plus(one: Objective, other: Objective) -> Objective:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3], one[4] + other[4])


def _roles_missing(node: _Group, counts: list[int]) -> int:
    asks = node.part.asks
    there = {ask.role for ask, count in zip(asks, counts, strict=True) if count} | node.bound_roles
    return len({ask.role for ask in asks} - there)


def _price(ground: Ground, node: _Group, counts: list[int], region: Region) -> Objective:
    """What a leaf costs with so many pods of each class in a region, preferred keys apart."""
    spare = 0
    if node.measured:
        pods: dict[int, int] = {}
        for shape, count in zip(node.shapes, counts, strict=True):
            pods[shape] = pods.get(shape, 0) + count
        spare = sum(max(0, ground.spare(shape, region) - count) for shape, count in pods.items() if count)
    return (_roles_missing(node, counts), 0, node.part.supply - sum(counts), 0, spare)
