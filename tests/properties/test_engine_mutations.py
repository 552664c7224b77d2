"""The checker against verdicts that were tampered with: what brute force refuses, it must refuse too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given

from echelon.engine import (
    Blocked,
    ClusterView,
    Composite,
    Demand,
    Evict,
    Group,
    Placed,
    Reason,
    ReasonKind,
    Shortage,
    UnitName,
    Verdict,
    decide,
    judge,
    problems,
)
from echelon.engine.check.facts import Facts, satisfied
from echelon.engine.check.judge import loss_of
from echelon.engine.check.symmetric_search import Allowance, SymmetricSearch
from echelon.engine.explain.diagnose import shortages
from echelon.testing.placement import NOW
from tests.properties.brute_force import accepts, feasible
from tests.properties.hierarchies import Instance, examples, instances
from tests.properties.reached import Reached, reaches


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
    """A member that is not in the demand."""
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


def praised(_: Instance, placed: Placed) -> Iterator[Placed]:
    """The placement is said to be better than it is, number by number."""
    for name, value in placed.objective._asdict().items():
        yield replace(placed, objective=placed.objective._replace(**{name: value - 1}))


def scattered(instance: Instance, placed: Placed) -> Iterator[Placed]:
    """Of equal pods on two nodes, one changes places with the first of the others: their node holds no run of ranks."""
    for leaf in instance.demand.leaves():
        for pods in leaf.classes:
            names = [placed.assignment[m] for m in pods.members if m in placed.assignment]
            if len(names) >= 3 and len({names[0], names[1]}) == 2 and names[1] == names[2]:
                first, second, *_ = pods.members
                yield replace(placed, assignment={**placed.assignment, first: names[1], second: names[0]})


@reaches(placed=21, tampered=2)
@pytest.mark.parametrize("mutation", [moved, lost, invented, dropped, disowned, claimed, relocated, praised, scattered])
@examples(80)
@given(instances())
def test_a_placement_tampered_with_is_caught(
    reached: Reached, mutation: Callable[[Instance, Placed], Iterator[Placed]], instance: Instance
) -> None:
    placed = decide(instance.cluster.view, instance.demand, NOW)
    if isinstance(placed, Placed):
        reached("placed")
        assert accepts(instance.cluster.view, instance.demand, placed)
        for wrong in mutation(instance, placed):
            reached("tampered")
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
    yield replace(evict, loss=evict.loss._replace(work=evict.loss.work - 1))
    yield replace(evict, loss=evict.loss._replace(budget_violations=evict.loss.budget_violations - 1))


def surer(_: Instance, evict: Evict) -> Iterator[Evict]:
    """More is said to be lost by any eviction than this one loses, number by number."""
    for field, value in evict.bound._asdict().items():
        yield replace(evict, bound=evict.bound._replace(**{field: value + 1}))


@reaches(evicted=7, tampered=16)
@pytest.mark.parametrize("mutation", [too_few, too_many, cheaper, surer])
@examples(80)
@given(instances(victims=True))
def test_an_eviction_tampered_with_is_caught(
    reached: Reached, mutation: Callable[[Instance, Evict], Iterator[Evict]], instance: Instance
) -> None:
    evict = decide(instance.cluster.view, instance.demand, NOW)
    if isinstance(evict, Evict):
        reached("evicted")
        assert accepts(instance.cluster.view, instance.demand, evict.placement, frozenset(evict.units))
        for wrong in mutation(instance, evict):
            reached("tampered")
            assert problems(instance.cluster.view, instance.demand, wrong, NOW), wrong


@reaches(tampered=6)
@examples(80)
@given(instances(victims=True, max_nodes=8, max_pods=8))
def test_an_eviction_that_is_said_to_lose_least_but_does_not_is_caught(reached: Reached, instance: Instance) -> None:
    """Every pod that can be evicted is a victim, and that is said to lose least; true if no victim can be spared."""
    view, demand = instance.cluster.view, instance.demand
    least = decide(view, demand, NOW)
    if not isinstance(least, Evict):
        return
    lower = [unit.id for unit in view.units() if unit.priority < demand.priority]
    units = tuple(unit for unit in lower if any(pod.evictable for pod in view.pods_of(unit)))
    loss = loss_of(view, units, NOW)
    if loss > least.loss:
        reached("tampered")
        rank = (loss.budget_violations, loss.highest_priority, loss.work, loss.units)
        assert problems(view, demand, Evict(units, loss, least.placement, rank), NOW)


# ---- proofs


def cordoned(view: ClusterView) -> ClusterView:
    """The same nodes, none of which takes pods."""
    shut = ClusterView(view.levels)
    for node in map(view.node, view.node_names()):
        assert node is not None
        shut.put_node(replace(node, unschedulable=True))
    return shut


@reaches(false_proof=28)
@examples(80)
@given(instances(max_pods=4))
def test_a_proof_about_another_cluster_is_caught(reached: Reached, instance: Instance) -> None:
    """A demand that fits is told to be blocked, with the numbers of a cluster where all nodes are shut."""
    demand = replace(instance.demand, may_preempt=False)
    false: Verdict = decide(cordoned(instance.cluster.view), demand, NOW)
    if isinstance(false, Blocked) and isinstance(decide(instance.cluster.view, demand, NOW), Placed):
        reached("false_proof")
        assert problems(instance.cluster.view, demand, false, NOW)


@reaches(false_proof=41)
@examples(120)
@given(instances(max_nodes=6, max_pods=5))
def test_a_proof_with_the_right_numbers_of_what_can_be_placed_is_caught(reached: Reached, instance: Instance) -> None:
    """The judge's own search contradicts it: the shortages are those of this very cluster."""
    view, demand = instance.cluster.view, replace(instance.demand, may_preempt=False)
    if isinstance(decide(view, demand, NOW), Placed):
        reached("false_proof")
        false = Blocked(True, shortages(view, demand))
        assert "it is said to be impossible, but it can be placed" in problems(view, demand, false, NOW)


@reaches(proved=34)
@examples(150)
@given(instances())
def test_proofs_are_confirmed_on_small_clusters(reached: Reached, instance: Instance) -> None:
    """By counting or by trying everything, composites included; with bound members and in tight cases too."""
    verdict = decide(instance.cluster.view, instance.demand, NOW)
    if isinstance(verdict, Blocked) and verdict.proved:
        reached("proved")
        assert judge(instance.cluster.view, instance.demand, verdict, NOW, steps=100_000).confirmed


@reaches(fits=31, does_not_fit=26)
@examples(150)
@given(instances(max_nodes=8, max_pods=8))
def test_the_search_over_kinds_never_contradicts_brute_force(reached: Reached, instance: Instance) -> None:
    """What is meant for many nodes that are alike, on few that are not."""
    if not satisfied(instance.demand.root):
        found = SymmetricSearch(Facts(instance.cluster.view), instance.demand, Allowance(30_000)).fits()
        if found is not None:
            reached("fits" if found else "does_not_fit")
        assert found is None or found == feasible(instance.cluster.view, instance.demand)


def miscounted(shortage: Shortage) -> Iterator[Shortage]:
    """One number, name or reason of a shortage changed."""
    yield replace(shortage, need=shortage.need + 1)
    yield replace(shortage, need=shortage.need - 1)
    yield replace(shortage, have=shortage.have + 1)
    yield replace(shortage, group=-1)
    yield replace(shortage, present=shortage.present + 1)
    yield replace(shortage, of_groups=not shortage.of_groups)
    yield replace(shortage, within=("nowhere",))
    if shortage.tried:
        first, *others = shortage.tried
        for wrong in (
            replace(first, need=first.need + 1),
            replace(first, have=first.have + 1),
            replace(first, domain=(*first.domain, "nowhere")),
            replace(first, short_of="example.com/nothing"),
            replace(first, held_by=UnitName(-1, "nobody", 0)),
        ):
            yield replace(shortage, tried=(wrong, *others))
        yield replace(shortage, domains_tried=0)
    for reason, nodes in shortage.exclusions.items():
        yield replace(shortage, exclusions={**shortage.exclusions, reason: nodes + 1})
        yield replace(shortage, exclusions={**shortage.exclusions, Reason(ReasonKind.TAINT, ("bad", "luck")): 1})


@reaches(tampered=296)
@examples(100)
@given(instances())
def test_every_number_of_an_explanation_that_is_changed_is_caught(reached: Reached, instance: Instance) -> None:
    view, demand = instance.cluster.view, instance.demand
    blocked = decide(view, demand, NOW)
    if isinstance(blocked, Blocked):
        first, *others = blocked.shortages
        for wrong in miscounted(first):
            reached("tampered")
            assert problems(view, demand, replace(blocked, shortages=(wrong, *others)), NOW), wrong


@reaches(tampered=44)
@examples(100)
@given(instances())
def test_room_told_too_small_or_too_large_is_caught_for_equal_pods(reached: Reached, instance: Instance) -> None:
    """The same wrong number everywhere, so that nothing but counting anew can find it."""
    view, demand = instance.cluster.view, instance.demand
    blocked = decide(view, demand, NOW)
    if not isinstance(blocked, Blocked):
        return
    leaves = {leaf.id: leaf for leaf in demand.leaves()}
    for number, told in enumerate(blocked.shortages):
        leaf = leaves.get(told.group)
        if leaf is None or leaf.exclusive or len({pods.shape for pods in leaf.classes}) > 1 or not told.tried:
            continue
        for by in (-1, 1):
            reached("tampered")
            tried = tuple(replace(count, have=count.have + by) for count in told.tried)
            wrong = replace(told, have=told.have + by, tried=tried)
            shortages_ = (*blocked.shortages[:number], wrong, *blocked.shortages[number + 1 :])
            assert problems(view, demand, replace(blocked, shortages=shortages_), NOW), wrong
