"""Fixes: each makes the demand fit, the cheapest of each kind is told, cheapest first."""

from __future__ import annotations

import pytest

from echelon.engine import Blocked, Bound, Cost, Fix, Limits, UnitName, sentence
from echelon.engine.explain.fix_trials import fewest
from echelon.testing.placement import LEVELS, ClusterBuilder, blocked, composite, exclusive, gang, gpu_racks, pods


def test_fixes_come_cheapest_first_own_fields_before_nodes_before_evictions() -> None:
    cluster = gpu_racks(4, 4)
    one, other, *_ = (cluster.run(node, gpu=8, priority=9) for node in ("r1-0", "r1-1", "r2-0", "r2-1"))
    leaf = gang(4, pods(4, gpu=8), key="rack")
    verdict = blocked(cluster.decide(leaf, priority=5))
    rack, block, r1 = LEVELS["rack"], LEVELS["block"], ("b1", "r1")
    victims = (UnitName(one, f"unit-{one}", 9), UnitName(other, f"unit-{other}", 9))
    assert verdict.fixes == (
        Fix("widen", leaf.id, groups=(leaf.id,), key=rack, wider=block, cost=Cost(levels=1)),
        Fix("lower", leaf.id, 2, groups=(leaf.id,), key=rack, cost=Cost(members=2)),
        Fix("add", leaf.id, 2, r1, nodes=("r1-2",), cost=Cost(nodes_added=2)),
        Fix("free", leaf.id, 2, r1, nodes=("r1-0", "r1-1"), cost=Cost(evicted=2)),
        Fix("evict", amount=2, units=(one, other), victims=victims, cost=Cost(evicted=2)),
    )
    assert sentence(verdict, {leaf.id: "PodGroup/train"}).partition("fix: ")[2].split(", or ") == [
        "set spec.schedulingConstraints.topology[0].key to topology.kubernetes.io/block",
        "lower spec.schedulingPolicy.gang.minCount from 4 to 2 (only 2 pods fit in one rack)",
        "add 2 nodes like r1-2 to b1/r1",
        "free 2 nodes in b1/r1 (r1-0, r1-1; 2 pods)",
        f"evict unit-{one} (priority 9), unit-{other} (priority 9)",
    ]
    whole = gang(8, pods(8, gpu=8), key="block")
    assert [fix.kind for fix in blocked(cluster.decide(whole, priority=5)).fixes] == ["lower", "add", "free"]


def test_a_unit_that_priority_protects_is_named_with_its_priority() -> None:
    cluster = gpu_racks(2)
    unit = cluster.run("r1-0", gpu=8, priority=9)
    cluster.run("r1-1", gpu=8, priority=9, unit=unit)
    verdict = blocked(cluster.decide(gang(2, pods(2, gpu=8), key="rack"), priority=5))
    fix = next(fix for fix in verdict.fixes if fix.kind == "evict")
    assert (fix.victims, fix.units, fix.cost) == ((UnitName(unit, f"unit-{unit}", 9),), (unit,), Cost(evicted=2))


def test_the_smallest_unit_that_will_do_is_named() -> None:
    cluster = gpu_racks(3)
    large = cluster.run("r1-0", gpu=8, priority=9)
    cluster.run("r1-1", gpu=8, priority=9, unit=large)
    small = cluster.run("r1-2", gpu=8, priority=99)
    verdict = blocked(cluster.decide(gang(1, pods(1, gpu=8)), priority=5))
    assert [fix.units for fix in verdict.fixes if fix.kind == "evict"] == [(small,)]


def test_two_units_are_named_if_neither_will_do_alone() -> None:
    cluster = gpu_racks(2)
    units = [cluster.run(f"r1-{node}", gpu=8, priority=9 + node) for node in (0, 1)]
    verdict = blocked(cluster.decide(gang(2, pods(2, gpu=8)), priority=5))
    (fix,) = (fix for fix in verdict.fixes if fix.kind == "evict")
    assert [(unit.name, unit.priority) for unit in fix.victims] == [(f"unit-{units[0]}", 9), (f"unit-{units[1]}", 10)]


def test_the_holder_of_an_exclusive_domain_is_named() -> None:
    cluster = gpu_racks(2)
    unit = cluster.run("r1-0", gpu=1, priority=5, group=77, exclusive=exclusive("rack", 5))
    verdict = blocked(cluster.decide(gang(1, pods(1, gpu=1), exclusive=exclusive("rack", 5)), priority=5))
    named = [fix.victims for fix in verdict.fixes if fix.kind == "evict"]
    assert named == [(UnitName(unit, f"unit-{unit}", 5),)]


def test_what_preemption_could_do_is_proposed_to_a_demand_that_may_not_preempt() -> None:
    cluster = ClusterBuilder().node("n", cpu=2)
    unit = cluster.run("n", cpu=2, priority=1)
    verdict = blocked(cluster.decide(gang(1, pods(1, cpu=2)), priority=5, may_preempt=False))
    assert verdict.fixes[-1].victims == (UnitName(unit, f"unit-{unit}", 1),)


def test_a_minimum_is_lowered_to_what_the_others_leave() -> None:
    """Alone the second gang would find two nodes; the first takes one of them."""
    first, second = gang(1, pods(1, gpu=8)), gang(3, pods(3, gpu=8))
    verdict = blocked(gpu_racks(2).decide(composite(2, first, second)))
    fix = next(fix for fix in verdict.fixes if fix.kind == "lower")
    assert (fix.amount, fix.group, fix.cost) == (1, second.id, Cost(members=2))
    assert "minCount from 3 to 1 (only 1 pod fits in the cluster beside the other groups)" in sentence(verdict, {})


@pytest.mark.conformance("SCH-E17")
def test_releasing_the_survivor_is_the_first_fix() -> None:
    cluster = ClusterBuilder().nodes("a", 3, cpu=1, rack="r1").nodes("b", 8, cpu=1, rack="r2")
    leaf = gang(4, pods(3, cpu=1), key="rack", bound=(Bound(1, "a-0"),))
    cluster.run("a-0", cpu=1, pod=1, group=leaf.id)
    fix = blocked(cluster.decide(leaf)).fixes[0]
    assert (fix.kind, fix.group, fix.amount) == ("release", leaf.id, 1)


def test_freeing_the_named_number_of_nodes_makes_it_fit() -> None:
    cluster = gpu_racks(4)
    busy = [cluster.run(f"r1-{index}", gpu=1) for index in range(3)]
    leaf = gang(3, pods(3, gpu=8), key="rack")
    fix = next(fix for fix in blocked(cluster.decide(leaf)).fixes if fix.kind == "free")
    assert (fix.amount, fix.domain) == (2, ("b1", "r1"))
    for unit in busy[: fix.amount]:
        for pod in cluster.view.pods_of(unit):
            cluster.view.unbind(pod.pod)
    assert not isinstance(cluster.decide(leaf), Blocked)


def test_adding_the_named_number_of_nodes_makes_it_fit() -> None:
    cluster = gpu_racks(2)
    leaf = gang(5, pods(5, gpu=8), key="rack")
    fix = next(fix for fix in blocked(cluster.decide(leaf)).fixes if fix.kind == "add")
    assert fix.amount == 3
    cluster.nodes("more", fix.amount - 1, gpu=8, block="b1", rack="r1")
    assert isinstance(cluster.decide(leaf), Blocked)
    cluster.node("last", gpu=8, block="b1", rack="r1")
    assert not isinstance(cluster.decide(leaf), Blocked)


def test_no_more_fixes_are_looked_for_than_asked() -> None:
    leaf = gang(5, pods(5, gpu=8), key="rack")
    cluster = ClusterBuilder(limits=Limits(fixes=1)).nodes("n", 4, gpu=8, rack="r")
    assert len(blocked(cluster.decide(leaf)).fixes) == 1
    none = ClusterBuilder(limits=Limits(fixes=0)).nodes("n", 4, gpu=8, rack="r")
    assert blocked(none.decide(leaf)).fixes == ()


def test_nodes_that_the_pods_could_not_use_are_not_proposed() -> None:
    """A node like the only one that they may use would have another name."""
    cluster = gpu_racks(2)
    leaf = gang(3, pods(3, gpu=8, node_selector=((LEVELS["host"], "r1-0"),)))
    assert "add" not in {fix.kind for fix in blocked(cluster.decide(leaf)).fixes}


def test_nodes_are_not_added_to_a_domain_that_each_of_them_would_have_for_itself() -> None:
    cluster = gpu_racks(2)
    assert "add" not in {fix.kind for fix in blocked(cluster.decide(gang(2, pods(2, gpu=8), key="host"))).fixes}


@pytest.mark.parametrize("guess", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("least", [1, 4])
def test_the_fewest_that_are_enough_are_found_whatever_the_guess(guess: int, least: int) -> None:
    asked: list[int] = []

    def enough(number: int) -> bool:
        asked.append(number)
        return number >= 4

    assert fewest(9, enough, guess, least) == 4
    assert fewest(3, enough, guess, least) == 0
    assert min(asked, default=least) >= least
