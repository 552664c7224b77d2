"""Exclusive groups and the pods of other Jobs: which pods they are, and when a waiting group must ask for them.

    pod ─► labels_of ─► Identity             it belongs to a Job of this priority
    demand ─► with_ownership ─► engine       exclusive groups stay away from domains with such pods

What runs keeps others out through `Holdings`, which gives the pods of exclusive groups their term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...api.scheme import JOBS
from ...api.views.pod_views import PodView
from ...engine import (
    Composite,
    Demand,
    Exclusive,
    PodIndex,
    PodQuery,
    Shape,
    means,
    ownership_labels,
    ownership_term,
)
from ...engine import Group as Wanted
from .group_tree import GroupNode, Member


def labels_of(pod: PodView, group: GroupNode | None) -> tuple[tuple[str, str], ...]:
    """What exclusive groups know a pod by: nothing, if it belongs neither to a Job nor to such a group."""
    exclusive = group.exclusive if group is not None else None
    owner = pod.controller
    if exclusive is None and (owner is None or owner.kind != JOBS.kind):
        return ()
    return ownership_labels(pod.spec.priority, exclusive)


def with_ownership(demand: Demand, members: Mapping[int, Member], pod_index: PodIndex) -> Demand:
    """The demand with the term of every exclusive group that some pod, running or in the demand, could break."""
    wanted = dict.fromkeys(leaf.exclusive for leaf in demand.leaves() if leaf.exclusive is not None)
    needed = [one for one in wanted if _has_others(one, demand, members, pod_index)]
    return replace(demand, root=_Terms(needed).group(demand.root)) if needed else demand


def _has_others(exclusive: Exclusive, demand: Demand, members: Mapping[int, Member], pod_index: PodIndex) -> bool:
    peers = ownership_term(exclusive).peers
    if any(pod_index.of(PodQuery((peers,))).values()):
        return True
    others = (leaf for leaf in demand.leaves() if leaf.exclusive != exclusive)
    return any(means(peers, members[pod].identity) for leaf in others for one in leaf.classes for pod in one.members)


class _Terms:
    """Shapes with the term of their group; equal shapes stay one object."""

    def __init__(self, needed: list[Exclusive]) -> None:
        self._needed = needed
        self._shapes: dict[tuple[int, Exclusive], Shape] = {}

    def group(self, group: Wanted) -> Wanted:
        if isinstance(group, Composite):
            return replace(group, children=tuple(map(self.group, group.children)))
        exclusive = group.exclusive
        if exclusive is None or exclusive not in self._needed:
            return group
        return replace(
            group, classes=tuple(replace(one, shape=self._apart(one.shape, exclusive)) for one in group.classes)
        )

    def _apart(self, shape: Shape, exclusive: Exclusive) -> Shape:
        known = self._shapes.get((id(shape), exclusive))
        if known is None:
            terms = (*shape.anti_affinity, ownership_term(exclusive))
            known = self._shapes[id(shape), exclusive] = replace(shape, anti_affinity=terms)
        return known
