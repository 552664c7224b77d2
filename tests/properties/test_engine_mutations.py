"""The checker against verdicts that were tampered with: what brute force refuses, it must refuse too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hierarchies import Instance, examples, instances
from hypothesis import given
from oracle import accepts

from echelon.engine.check import problems
from echelon.engine.cycle import decide
from echelon.engine.demand import Composite, Demand, Group
from echelon.engine.verdict import Blocked, Evict, Placed, Verdict
from echelon.engine.view import ClusterView
from echelon.testing.placement import NOW

pytestmark = pytest.mark.timeout(3600)


def groups_of(group: Group) -> Iterator[Group]:
    yield group
    if isinstance(group, Composite):
        for child in group.children:
            yield from groups_of(child)


# ---- placements


def moved(instance: Instance, placed: Placed) -> Iterator[Placed]:
    """One pod on any other node, where brute force says that it may not be."""
    for member in placed.assignment:
        for name in instance.cluster.view.node_names():
            other = replace(placed, assignment={**placed.assignment, member: name})
            if not accepts(instance.cluster.view, instance.demand, other):
                yield other


def lost(_: Instance, placed: Placed) -> Iterator[Placed]:
    """A pod on a node that does not exist."""
    for member in placed.assignment:
        yield replace(placed, assignment={**placed.assignment, member: "nowhere"})


def invented(instance: Instance, placed: Placed) -> Iterator[Placed]:
    """A member that nobody asked for."""
    yield replace(placed, assignment={**placed.assignment, -7: instance.cluster.view.node_names()[0]})


def dropped(instance: Instance, placed: Placed) -> Iterator[Placed]:
    """A pod that its group's minimum needs."""
    for leaf in instance.demand.leaves():
        new = [m for pods in leaf.classes for m in pods.members if m in placed.assignment]
        if new and len(new) + len(leaf.bound) == leaf.min_count:
            yield replace(placed, assignment={m: name for m, name in placed.assignment.items() if m != new[0]})


def disowned(instance: Instance, placed: Placed) -> Iterator[Placed]:
    """A group with pods is said not to hold."""
    for leaf in instance.demand.leaves():
        if any(m in placed.assignment for pods in leaf.classes for m in pods.members):
            yield replace(placed, groups=placed.groups - {leaf.id})


def claimed(instance: Instance, placed: Placed) -> Iterator[Placed]:
    """A group without its pods is said to hold."""
    for leaf in instance.demand.leaves():
        if leaf.id not in placed.groups and len(leaf.bound) < leaf.min_count:
            yield replace(placed, groups=placed.groups | {leaf.id})


def relocated(instance: Instance, placed: Placed) -> Iterator[Placed]:
    """A group is said to be in a domain where it is not."""
    for group in groups_of(instance.demand.root):
        if group.topology is not None and placed.domains.get(group.id):
            elsewhere = (*placed.domains[group.id][:-1], "elsewhere")
            if _has_pods(group, placed):
                yield replace(placed, domains={**placed.domains, group.id: elsewhere})


def _has_pods(group: Group, placed: Placed) -> bool:
    return any(m in placed.assignment for leaf in Demand(group).leaves() for pods in leaf.classes for m in pods.members)


@pytest.mark.parametrize("mutation", [moved, lost, invented, dropped, disowned, claimed, relocated])
@examples(80)
@given(instances())
def test_a_placement_tampered_with_is_caught(
    mutation: Callable[[Instance, Placed], Iterator[Placed]], instance: Instance
) -> None:
    placed = decide(instance.cluster.view, instance.demand, NOW)
    if isinstance(placed, Placed):
        assert accepts(instance.cluster.view, instance.demand, placed)
        for wrong in mutation(instance, placed):
            assert problems(instance.cluster.view, instance.demand, wrong, NOW), wrong


# ---- evictions


def too_few(_: Instance, evict: Evict) -> Iterator[Evict]:
    for unit in evict.units:
        units = tuple(other for other in evict.units if other != unit)
        yield replace(evict, units=units)


def too_many(instance: Instance, evict: Evict) -> Iterator[Evict]:
    for unit in instance.cluster.view.units():
        if unit.id not in evict.units:
            yield replace(evict, units=(*evict.units, unit.id))


def cheaper(_: Instance, evict: Evict) -> Iterator[Evict]:
    yield replace(evict, loss=replace(evict.loss, work=evict.loss.work - 1))
    yield replace(evict, loss=replace(evict.loss, budget_violations=evict.loss.budget_violations - 1))


@pytest.mark.parametrize("mutation", [too_few, too_many, cheaper])
@examples(80)
@given(instances(victims=True))
def test_an_eviction_tampered_with_is_caught(
    mutation: Callable[[Instance, Evict], Iterator[Evict]], instance: Instance
) -> None:
    evict = decide(instance.cluster.view, instance.demand, NOW)
    if isinstance(evict, Evict):
        assert accepts(instance.cluster.view, instance.demand, evict.placement, frozenset(evict.units))
        for wrong in mutation(instance, evict):
            assert problems(instance.cluster.view, instance.demand, wrong, NOW), wrong


# ---- proofs


def cordoned(view: ClusterView) -> ClusterView:
    """The same nodes, none of which takes pods."""
    shut = ClusterView(view.options)
    for node in map(view.node, view.node_names()):
        assert node is not None
        shut.put_node(replace(node, unschedulable=True))
    return shut


@examples(80)
@given(instances(max_pods=4))
def test_a_proof_about_another_cluster_is_caught(instance: Instance) -> None:
    """A leaf of one shape that fits is told to be blocked, with the numbers of a cluster where all nodes are shut."""
    leaf = next(iter(instance.demand.leaves()))
    shape = leaf.classes[0].shape
    root = replace(leaf, exclusive=None, bound=(), classes=tuple(replace(p, shape=shape) for p in leaf.classes[:1]))
    demand = Demand(replace(root, min_count=len(root.classes[0].members)), may_preempt=False)
    false: Verdict = decide(cordoned(instance.cluster.view), demand, NOW)
    assert isinstance(false, Blocked)
    assert false.proved
    if isinstance(decide(instance.cluster.view, demand, NOW), Placed):
        assert problems(instance.cluster.view, demand, false, NOW)


@examples(80)
@given(instances())
def test_false_sums_are_caught(instance: Instance) -> None:
    blocked = decide(instance.cluster.view, instance.demand, NOW)
    if isinstance(blocked, Blocked):
        first, *others = blocked.shortages
        boasting = tuple(replace(count, have=first.have + 1) for count in first.tried)
        for wrong in (replace(first, need=-1), replace(first, group=-1), replace(first, tried=boasting)):
            if wrong != first:
                assert problems(
                    instance.cluster.view, instance.demand, replace(blocked, shortages=(wrong, *others)), NOW
                )
