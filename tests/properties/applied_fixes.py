"""Fixes applied to the cluster or to the demand, as their records say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from echelon.engine import ClusterView, Composite, Demand, Fix, Group, Leaf, Node, PodClass, Running
from echelon.testing.placement import copied

Case = tuple[ClusterView, Demand]


def repaired(view: ClusterView, demand: Demand, fix: Fix) -> Case:
    """The cluster and the demand with a fix applied."""
    match fix.kind:
        case "free":
            own = {bound.member for leaf in demand.leaves() for bound in leaf.bound}
            assert len(fix.nodes) == fix.amount
            return copied(view, _standing_on(set(fix.nodes), own)), demand
        case "add":
            (model,) = fix.nodes
            return _with_clones(view, model, fix.amount), demand
        case "evict":
            return _evicted(view, demand, fix)
        case "release":
            return _released(view, demand, fix)
        case "widen":
            return view, _changed(demand, fix.groups, lambda group: replace(group, topology=fix.wider or None))
        case "lower":
            return view, _changed(demand, fix.groups, lambda group: _with_minimum(group, fix.amount))
        case "field":
            raise AssertionError("no instance has unsupported fields")


def _standing_on(nodes: set[str], own: set[int]) -> Callable[[Running], bool]:
    return lambda pod: pod.node in nodes and pod.pod not in own


def _with_clones(view: ClusterView, model: str, count: int) -> ClusterView:
    fresh, node = copied(view), view.node(model)
    assert node is not None
    for number in range(count):
        name = f"{model}-copy-{number}"
        labels = {key: name if value == model else value for key, value in node.labels.items()}
        fresh.put_node(Node(name, labels, node.allocatable, node.taints, node.unschedulable))
    return fresh


def _evicted(view: ClusterView, demand: Demand, fix: Fix) -> Case:
    named = [unit.name for unit in map(view.unit, fix.units) if unit is not None]
    assert len(named) == fix.amount
    assert [unit.name for unit in fix.victims] == named
    gone = {pod.pod for unit in fix.units for pod in view.pods_of(unit) if pod.evictable}
    return copied(view, lambda pod: pod.pod in gone), demand


def _released(view: ClusterView, demand: Demand, fix: Fix) -> Case:
    """The bound members run no more and wait again, in the shape of their role's pods."""
    leaf = next(leaf for leaf in demand.leaves() if leaf.id == fix.group)
    members = {bound.member for bound in leaf.bound}
    shapes = {pods.role: pods.shape for pods in reversed(leaf.classes)}
    again = tuple(
        PodClass(shapes.get(bound.role, leaf.classes[0].shape), (bound.member,), bound.role) for bound in leaf.bound
    )
    waiting = replace(leaf, bound=(), classes=leaf.classes + again)
    return copied(view, lambda pod: pod.pod in members), _changed(demand, (leaf.id,), lambda _: waiting)


def _with_minimum(group: Group, minimum: int) -> Group:
    if isinstance(group, Leaf):
        return replace(group, min_count=minimum)
    return replace(group, min_groups=minimum)


def _changed(demand: Demand, groups: tuple[int, ...], change: Callable[[Group], Group]) -> Demand:
    def rebuilt(group: Group) -> Group:
        if isinstance(group, Composite):
            group = replace(group, children=tuple(map(rebuilt, group.children)))
        return change(group) if group.id in groups else group

    return replace(demand, root=rebuilt(demand.root))
