"""Fixes applied as a person would: read from the sentence, done to the cluster or to the demand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

from echelon.engine import ClusterView, Composite, Demand, Fix, Group, Leaf, Node, PodClass, Running
from echelon.testing.placement import LEVELS, copied

Case = tuple[ClusterView, Demand]


def repaired(view: ClusterView, demand: Demand, fix: Fix) -> Iterator[Case]:
    """The worlds that a fix may mean: one, unless the sentence leaves a choice of nodes open."""
    match fix.kind:
        case "free":
            yield from _freed(view, demand, fix)
        case "add":
            model = _word(r"like (\S+)", fix)
            yield _with_clones(view, model, fix.amount), demand
        case "evict":
            yield _evicted(view, demand, fix)
        case "release":
            yield _released(view, demand, fix)
        case "widen":
            wider = re.search(r"widen \S+ to (\S+)", fix.text)
            key = {name.rsplit("/", 1)[-1]: name for name in LEVELS.values()}[wider[1]] if wider else None
            yield view, _changed(demand, fix.groups, lambda group: replace(group, topology=key))
        case "lower":
            yield view, _changed(demand, fix.groups, lambda group: _with_minimum(group, fix.amount))
        case "field":
            raise AssertionError("no instance has unsupported fields")


def _word(pattern: str, fix: Fix) -> str:
    found = re.search(pattern, fix.text)
    assert found is not None, fix.text
    return found[1]


def _freed(view: ClusterView, demand: Demand, fix: Fix) -> Iterator[Case]:
    """The nodes it names are empty but for the demand's own pods; others of the domain make up the number."""
    own = {bound.member for leaf in demand.leaves() for bound in leaf.bound}
    named = _word(r"\((.*?)(?: …)?\)$", fix).split(", ")
    inside = [name for name in view.node_names() if _path(view, name)[: len(fix.domain)] == fix.domain]
    others = [name for name in inside if name not in named]
    for more in combinations(others, fix.amount - len(named)):
        chosen = {*named, *more}
        yield copied(view, _standing_on(chosen, own)), demand


def _standing_on(nodes: set[str], own: set[int]) -> Callable[[Running], bool]:
    return lambda pod: pod.node in nodes and pod.pod not in own


def _path(view: ClusterView, name: str) -> tuple[str, ...]:
    node = view.node(name)
    assert node is not None
    return tuple(node.labels[key] for key in view.levels if key in node.labels)


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
    assert all(name in fix.text for name in named[:3])
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
