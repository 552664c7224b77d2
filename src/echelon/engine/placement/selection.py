"""The selection that `selection_model` makes: a smaller demand for the search, or a placement as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..cluster.regions import CLUSTER
from ..cluster.view import ClusterView
from ..records.demand import Demand, Group, Leaf, PodClass, Shape
from ..records.verdict import BEST, Objective, Placed
from ..space.canonical import Part, PartBuilder, merge, walk
from ..space.tasks import Put
from .objective import DraftPlacement, find_regions, groups_of

Kind = tuple[Shape, str]
#: How many pods of a leaf and class are on which row.
Pods = dict[int, dict[Kind, dict[int, int]]]


@dataclass(slots=True)
class Selection:
    """Placed pods of every class by leaf; groups that hold, and the preferred keys that they share a domain of."""

    pods: Pods
    holding: frozenset[int]
    keys: dict[int, str]
    #: Nothing is better than this.
    bound: Objective = BEST


def reduced(root: Group, selected: Selection) -> Group | None:
    """The selected part of the tree, all of it required; None if bound members of an unselected group pin others."""
    if isinstance(root, Leaf):
        return _reduced_leaf(root, selected)
    children = []
    for child in root.children:
        if child.id in selected.holding:
            smaller = reduced(child, selected)
            if smaller is None:
                return None
            children.append(smaller)
        elif any(leaf.bound for leaf in Demand(child).leaves()):
            return None
    return replace(root, min_groups=len(children), children=tuple(children))


def _reduced_leaf(leaf: Leaf, selected: Selection) -> Leaf:
    chosen = selected.pods[leaf.id]
    classes = tuple(
        PodClass(shape, tuple(members[: sum(chosen[shape, role].values())]), role)
        for (shape, role), members in merge(leaf.classes).items()
    )
    count = sum(len(pods.members) for pods in classes)
    return replace(leaf, classes=classes, min_count=max(leaf.min_count, count + len(leaf.bound)))


def counted(view: ClusterView, demand: Demand, placed: Placed) -> Pods:
    """The pods of a placement in the form of a selection."""
    found: Pods = {}
    for leaf in demand.leaves():
        classes = found[leaf.id] = {}
        for kind, members in merge(leaf.classes).items():
            rows = (view.node_table.row(placed.assignment[member]) for member in members if member in placed.assignment)
            classes[kind] = dict(Counter(row for row in rows if row is not None))
    return found


def as_draft(view: ClusterView, root: Group, selected: Selection) -> DraftPlacement:
    """A selection as a placement."""
    parts = {part.group: part for part in walk(PartBuilder(view).part(root, "everything"))}
    draft = DraftPlacement({group.id: CLUSTER for group in groups_of(root) if group.id in selected.holding})
    for leaf, classes in selected.pods.items():
        for kind, rows in classes.items():
            if rows:
                draft.puts.append(_put(parts[leaf], kind, rows))
    find_regions(view, root, draft)
    return draft


def _put(part: Part, kind: Kind, rows: Mapping[int, int]) -> Put:
    ask = next(ask for ask in part.asks if (ask.shape, ask.role) == kind)
    return Put(part, ask, np.array(list(rows), dtype=np.int64), np.array(list(rows.values()), dtype=np.int64))
