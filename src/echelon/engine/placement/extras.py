"""Extras of trees with rules between pods: minima are raised one by one, and the whole tree is placed anew each time.

One more pod can break a rule that held, so the pods placed so far are not fixed: a larger tree counts only if all of
it can be placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..cluster.regions import CLUSTER
from ..cluster.view import ClusterView
from ..records.demand import Group, Leaf
from ..search.strategy import search
from ..space.budget import Steps
from ..space.canonical import Goal, PartBuilder
from ..space.tasks import Found
from .objective import groups_of

#: A larger leaf may enable another one, so all are tried again, at most this often.
ROUNDS = 3


class ExtrasUnderRules:
    """One tree beyond its minimum.  `proved` says whether it is certain that no more fits."""

    def __init__(
        self, view: ClusterView, builder: PartBuilder, goal: Goal, narrowed: Mapping[int, str], steps: Steps
    ) -> None:
        self.view, self.builder, self.goal, self.narrowed, self.steps = view, builder, goal, narrowed, steps
        self.proved = True

    def beyond(self, root: Group, found: Found) -> Found:
        """A placement of as much of the tree as fits, at least what is found."""
        for _ in range(ROUNDS):
            before = _size(found)
            for group in groups_of(root):
                root, found = self._raise(root, group, found)
            if _size(found) == before:
                break
        leaves = [group for group in groups_of(root) if isinstance(group, Leaf)]
        # Two leaves that need each other nearby can only grow together, which is not tried.
        if any(pods.shape.affinity or pods.shape.spread for leaf in leaves for pods in leaf.classes):
            self.proved = False
        return found

    def _raise(self, root: Group, group: Group, found: Found) -> tuple[Group, Found]:
        """The highest minimum of one group that fits, by bisection."""
        low, high = _least(group), _most(group)
        while low < high:
            middle = (low + high + 1) // 2
            larger = _with(root, group.id, middle)
            part = self.builder.part(larger, self.goal, self.narrowed)
            with self.steps.lend(self.steps.share(16)) as share:
                again = search(self.view, part, CLUSTER, share)
            if isinstance(again, Found) and _size(again) >= _size(found):
                root, found, low = larger, again, middle
            else:
                self.proved = self.proved and (isinstance(again, Found) or again.proved)
                high = middle - 1
        return root, found


def _size(found: Found) -> tuple[int, int]:
    return len(found.seats), sum(int(put.counts.sum()) for put in found.puts)


def _least(group: Group) -> int:
    return max(group.min_count, len(group.bound)) if isinstance(group, Leaf) else group.min_groups


def _most(group: Group) -> int:
    if isinstance(group, Leaf):
        return len(group.bound) + sum(len(pods.members) for pods in group.classes)
    return len(group.children)


def _with(group: Group, group_id: int, minimum: int) -> Group:
    """The tree with another minimum for one group."""
    if isinstance(group, Leaf):
        return replace(group, min_count=minimum) if group.id == group_id else group
    children = tuple(_with(child, group_id, minimum) for child in group.children)
    return replace(group, children=children, min_groups=minimum if group.id == group_id else group.min_groups)
