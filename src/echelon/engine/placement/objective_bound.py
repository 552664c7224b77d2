"""What no placement can avoid, by slots alone: the bound of the objective where nothing was searched to its end.

A group has at best a domain of its key to itself, with all the slots that are free there now.  What does not fit
even so must be left out, and a preferred key of which no domain holds the whole group must be missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.view import ClusterView
from ..records.demand import Demand, Group, Leaf, Shape


class LeftOutBound:
    """Slots of one view, as far as they were asked for."""

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self._most: dict[tuple[int, str | None], int] = {}

    def left_out(self, demand: Demand) -> tuple[int, int, int]:
        """Roles, groups and members that no placement covers."""
        leaves = list(demand.leaves())
        roles, groups, members = (sum(numbers) for numbers in zip(*map(self._leaf, leaves), strict=True))
        return roles, groups, max(members, self._beyond_all_slots(leaves))

    def _leaf(self, leaf: Leaf) -> tuple[int, int, int]:
        room = [min(len(pods.members), self._best(pods.shape, leaf.topology)) for pods in leaf.classes]
        placed = {pods.role for pods, count in zip(leaf.classes, room, strict=True) if count}
        roles = {pods.role for pods in leaf.classes if pods.members} - placed - {bound.role for bound in leaf.bound}
        members = sum(len(pods.members) for pods in leaf.classes)
        if sum(room) + len(leaf.bound) < leaf.min_count:
            return len(roles), 1, members
        return len(roles), 0, members - sum(room)

    def _best(self, shape: Shape, key: str | None) -> int:
        """The most slots in a domain of a key; any number for pods whose slots depend on others."""
        if shape.has_pod_rules:
            return 1 << 40
        known = (id(shape), key)
        if known not in self._most:
            level = -1 if key is None else self.view.node_table.level_of.get(key, -1)
            self._most[known] = int(self.view.slot_cache.slots(shape).roll(level).max(initial=0))
        return self._most[known]

    def _beyond_all_slots(self, leaves: Iterable[Leaf]) -> int:
        """Members for which there are no slots in the whole cluster, shape by shape."""
        waiting = _pods(leaves)
        return sum(max(0, count - self._best(shape, None)) for shape, count in waiting.items())

    def missed(self, groups: Iterable[Group]) -> int:
        """Preferred keys that are missed wherever all members of these groups are placed."""
        return sum(self._missed(group) for group in groups)

    def _missed(self, group: Group) -> int:
        pods = _pods(Demand(group).leaves())
        return next((n for n, key in enumerate(group.preferred) if self._holds(pods, key)), len(group.preferred))

    def _holds(self, pods: Mapping[Shape, int], key: str) -> bool:
        """Whether some domain of a key has slots for so many pods, each shape by itself."""
        table = self.view.node_table
        level = table.level_of.get(key)
        if level is None:
            return True
        fitting = table.named(level).copy()
        for shape, count in pods.items():
            if not shape.has_pod_rules:
                slots: Ints = self.view.slot_cache.slots(shape).roll(level)
                fitting &= slots >= count
        return bool(np.any(fitting))


def _pods(leaves: Iterable[Leaf]) -> dict[Shape, int]:
    found: dict[Shape, int] = {}
    for leaf in leaves:
        for pods in leaf.classes:
            found[pods.shape] = found.get(pods.shape, 0) + len(pods.members)
    return found
