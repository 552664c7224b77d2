"""Trees of groups changed as a fix would change them; `fixes` then tries whether the changed demand fits."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ..records.demand import Bound, Composite, Group, Leaf, PodClass, Shape

Change = Callable[[Group], Group]


def rebuilt(group: Group, change: Change) -> Group:
    """The same tree with every group passed through `change`."""
    if isinstance(group, Composite):
        group = replace(group, children=tuple(rebuilt(child, change) for child in group.children))
    return change(group)


def supported(group: Group) -> Group:
    """Without the pod fields that placement cannot honour."""
    if isinstance(group, Composite):
        return group
    return replace(
        group, classes=tuple(replace(pods, shape=replace(pods.shape, unsupported=())) for pods in group.classes)
    )


def releasing(leaf_id: int) -> Change:
    """Bound members of one leaf become pending again, with the shape of their role's pods."""

    def change(group: Group) -> Group:
        if group.id != leaf_id or not isinstance(group, Leaf):
            return group
        shapes = {pods.role: pods.shape for pods in reversed(group.classes)}
        again = tuple(_waiting(bound, shapes.get(bound.role, group.classes[0].shape)) for bound in group.bound)
        return replace(group, classes=group.classes + again, bound=())

    return change


def _waiting(bound: Bound, shape: Shape) -> PodClass:
    return PodClass(shape, (bound.member,), bound.role)


def with_minimum(groups: Collection[int], minimum: int) -> Change:
    def change(group: Group) -> Group:
        if group.id not in groups:
            return group
        if isinstance(group, Leaf):
            return replace(group, min_count=minimum)
        return replace(group, min_groups=minimum)

    return change


def with_topology(groups: Collection[int], key: str | None) -> Change:
    return lambda group: replace(group, topology=key) if group.id in groups else group
