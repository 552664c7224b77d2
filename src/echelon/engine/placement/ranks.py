"""Members to nodes: neighbours in rank become neighbours in the topology.

Rows are in topology order, so equal pods of a leaf take their rows in order of rank: at every level the ranks in a
domain are consecutive.  Equal groups of a composite that got the same are exchanged until they follow the topology in
the order of their parent, too.  The objective does not change.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..cluster.view import ClusterView
from ..records.demand import Composite, Demand, Group, Leaf
from ..space.canonical import merge
from ..space.tasks import Put
from .objective import DraftPlacement


def assign_members(view: ClusterView, demand: Demand, draft: DraftPlacement) -> dict[int, str]:
    """The node of every placed member."""
    spots: dict[int, list[Put]] = {}
    for put in draft.puts:
        spots.setdefault(put.part.group, []).append(put)
    assignment: dict[int, str] = {}
    for leaf in demand.leaves():
        if leaf.id in spots:
            assignment.update(_by_rank(view, leaf, spots[leaf.id]))
    return assignment


def _by_rank(view: ClusterView, leaf: Leaf, puts: list[Put]) -> Iterator[tuple[int, str]]:
    table = view.node_table
    for (shape, role), ids in merge(leaf.classes).items():
        rows = [np.repeat(p.rows, p.counts) for p in puts if p.ask.role == role and p.ask.shape == shape]
        if rows:
            names = [table.name(row) for row in np.sort(np.concatenate(rows)).tolist()]
            yield from zip(ids, names, strict=False)


# ---- equal groups


def order_by_topology(view: ClusterView, root: Group, draft: DraftPlacement) -> None:
    """Exchange equal groups until they follow the topology in the order of their parent."""
    if isinstance(root, Composite):
        ordering = _TopologyOrder(view, draft)
        ordering.order(root)
        if ordering.changed:
            draft.puts = [put for puts in ordering.puts.values() for put in puts]


class _TopologyOrder:
    def __init__(self, view: ClusterView, draft: DraftPlacement) -> None:
        self.view, self.seats = view, draft.seats
        self.changed = False
        self.puts: dict[int, list[Put]] = {}
        for put in draft.puts:
            self.puts.setdefault(put.part.group, []).append(put)

    def order(self, group: Composite) -> None:
        for child in group.children:
            if isinstance(child, Composite):
                self.order(child)
        first = [(self._first_row(child), child) for child in group.children]
        there = [(row, child) for row, child in first if row is not None]
        rows = [row for row, _ in there]
        if rows == sorted(rows):
            return
        alike: dict[object, list[tuple[int, Group]]] = {}
        for row, child in there:
            content = self._content(child)
            if content is not None:
                alike.setdefault(content, []).append((row, child))
        for children in alike.values():
            self._exchange(children)

    def _first_row(self, group: Group) -> int | None:
        if isinstance(group, Leaf):
            return min((int(put.rows.min()) for put in self.puts.get(group.id, ())), default=None)
        found = [row for row in map(self._first_row, group.children) if row is not None]
        return min(found, default=None)

    def _content(self, group: Group) -> object:
        """Equal for groups that ask for the same and got as much; None for one that equals no other."""
        if isinstance(group, Composite):
            children = tuple(map(self._content, group.children))
            if None in children:
                return None
            return (group.min_groups, group.topology, group.preferred, group.id in self.seats, children)
        if group.bound or (group.exclusive and self.view.exclusivity.domains_of(group.exclusive, group.id)):
            return None
        asked = tuple((pods.shape, pods.role, len(pods.members)) for pods in group.classes)
        got: dict[object, int] = {}
        for put in self.puts.get(group.id, ()):
            got[put.ask.shape, put.ask.role] = got.get((put.ask.shape, put.ask.role), 0) + int(put.counts.sum())
        keys = (group.min_count, group.topology, group.preferred, group.exclusive, group.final_size)
        return (keys, asked, frozenset(got.items()), group.id in self.seats)

    def _exchange(self, children: list[tuple[int, Group]]) -> None:
        """The first group gets the first rows, and so on."""
        along = sorted(children, key=lambda item: item[0])
        found = [[(self.seats.get(one.id), self.puts.get(one.id, [])) for one in _all(child)] for _, child in along]
        parts = {
            one.id: self.puts[one.id][0].part for _, child in children for one in _all(child) if one.id in self.puts
        }
        for (_, child), got in zip(children, found, strict=True):
            for group, (region, puts) in zip(_all(child), got, strict=True):
                if region is not None:
                    self.seats[group.id] = region
                if puts:
                    self.puts[group.id] = [put._replace(part=parts[group.id]) for put in puts]
        self.changed = True


def _all(group: Group) -> Iterator[Group]:
    yield group
    if isinstance(group, Composite):
        for child in group.children:
            yield from _all(child)
