"""Preemption: whole units of strictly lower priority, the least loss, nothing that could be spared."""

from __future__ import annotations

import pytest

from echelon.engine import Blocked, Bound, Demand, Evict, Group, Identity, Peers, Placed, PodTerm, Requirement, problems
from echelon.testing.placement import LEVELS, NOW, ClusterBuilder, composite, exclusive, fresh_id, gang, pods


def evicted(cluster: ClusterBuilder, root: Group, priority: int = 100) -> list[int]:
    verdict = cluster.decide(root, priority)
    assert isinstance(verdict, Evict), verdict
    assert problems(cluster.view, Demand(root, priority), verdict, NOW) == []
    return list(verdict.units)


@pytest.mark.conformance("SCH-E16")
def test_the_rack_with_one_victim_is_taken_not_the_one_with_four() -> None:
    cluster = ClusterBuilder().nodes("a", 4, cpu=1, rack="r1").nodes("b", 6, cpu=1, rack="r2")
    for index in range(4):
        cluster.run(f"a-{index}", cpu=1, priority=10)
    low = [cluster.run(f"b-{index}", cpu=1, priority=10) for index in range(3)]
    units = evicted(cluster, gang(4, pods(4, cpu=1), key="rack"))
    assert len(units) == 1
    assert units[0] in low


@pytest.mark.conformance("SCH-E14")
def test_a_packing_that_greedy_misses_is_found_behind_victims() -> None:
    cluster = ClusterBuilder().node("n1", cpu=10).node("n2", cpu=10)
    low = [cluster.run(name, cpu=10, priority=10) for name in ("n1", "n2")]
    root = gang(5, pods(1, cpu=6), pods(2, cpu=4), pods(2, cpu=3))
    assert evicted(cluster, root) == sorted(low)


def test_equal_priority_is_never_preempted() -> None:
    cluster = ClusterBuilder().node("n", cpu=1)
    cluster.run("n", cpu=1, priority=100)
    verdict = cluster.decide(gang(1, pods(1, cpu=1)), priority=100)
    assert isinstance(verdict, Blocked)
    assert verdict.proved
    assert verdict.preemption_tried


def test_a_demand_that_may_not_preempt_does_not() -> None:
    cluster = ClusterBuilder().node("n", cpu=1)
    cluster.run("n", cpu=1, priority=1)
    verdict = cluster.decide(gang(1, pods(1, cpu=1)), priority=100, may_preempt=False)
    assert isinstance(verdict, Blocked)
    assert not verdict.preemption_tried


def test_nothing_is_evicted_if_it_would_not_help() -> None:
    cluster = ClusterBuilder().node("n", cpu=4)
    cluster.run("n", cpu=2, priority=100)
    cluster.run("n", cpu=2, priority=1)
    assert isinstance(cluster.decide(gang(1, pods(1, cpu=3)), priority=50), Blocked)


@pytest.mark.conformance("SCH-13", "SCH-128")
def test_the_lowest_priority_goes_first() -> None:
    cluster = ClusterBuilder().node("n", cpu=4)
    low = [cluster.run("n", cpu=1, priority=5) for _ in range(2)]
    for _ in range(2):
        cluster.run("n", cpu=1, priority=10)
    assert evicted(cluster, gang(2, pods(2, cpu=1)), priority=50) == sorted(low)


@pytest.mark.conformance("SCH-129", "SCH-179")
def test_a_unit_goes_as_a_whole() -> None:
    cluster = ClusterBuilder().nodes("n", 3, cpu=1)
    unit = fresh_id()
    for index in range(3):
        cluster.run(f"n-{index}", cpu=1, priority=1, unit=unit)
    assert evicted(cluster, gang(1, pods(1, cpu=1))) == [unit]


@pytest.mark.conformance("SCH-125")
def test_budgets_are_kept_where_others_can_go() -> None:
    cluster = ClusterBuilder().node("n", cpu=3)
    budget = cluster.budget(0)
    for _ in range(2):
        cluster.run("n", cpu=1, priority=1, budgets=(budget,))
    free_to_go = cluster.run("n", cpu=1, priority=2)
    assert evicted(cluster, gang(1, pods(1, cpu=1))) == [free_to_go]


def test_budgets_are_no_veto() -> None:
    cluster = ClusterBuilder().node("n", cpu=1)
    unit = cluster.run("n", cpu=1, priority=1, budgets=(cluster.budget(0),))
    verdict = cluster.decide(gang(1, pods(1, cpu=1)), priority=9)
    assert isinstance(verdict, Evict)
    assert (verdict.units, verdict.loss.budget_violations) == ((unit,), 1)


def test_the_younger_work_goes_first() -> None:
    cluster = ClusterBuilder().node("n", cpu=2)
    cluster.run("n", cpu=1, priority=1, started=NOW - 500)
    young = cluster.run("n", cpu=1, priority=1, started=NOW - 5)
    assert evicted(cluster, gang(1, pods(1, cpu=1))) == [young]


def test_a_pod_that_is_leaving_already_is_no_victim() -> None:
    cluster = ClusterBuilder().node("n", cpu=1)
    cluster.run("n", cpu=1, priority=1, evictable=False)
    assert isinstance(cluster.decide(gang(1, pods(1, cpu=1)), priority=9), Blocked)


def test_rack_gangs_under_a_block_take_the_block_that_loses_least() -> None:
    cluster = ClusterBuilder()
    low: dict[str, int] = {}
    for block in ("b1", "b2"):
        for rack in ("r1", "r2"):
            name = f"{block}{rack}"
            cluster.nodes(name, 2, gpu=8, block=block, rack=rack)
            if name != "b2r1":
                low[name] = fresh_id()
                for index in range(2):
                    cluster.run(f"{name}-{index}", gpu=8, priority=1, unit=low[name])
    children = [gang(2, pods(2, gpu=8), key="rack") for _ in range(2)]
    assert evicted(cluster, composite(2, *children, key="block")) == [low["b2r2"]]


def test_exclusive_holders_of_lower_rank_do_not_stand_in_the_way() -> None:
    cluster = ClusterBuilder().nodes("n", 2, gpu=8, rack="r1")
    cluster.run("n-0", gpu=8, priority=1, group=5, exclusive=exclusive("rack", 1))
    leaf = gang(1, pods(1, gpu=8), exclusive=exclusive("rack", 9))
    assert isinstance(cluster.decide(leaf, priority=9), Placed)


@pytest.mark.conformance("SCH-81")
def test_an_extra_member_preempts_inside_its_rack_only() -> None:
    cluster = ClusterBuilder().node("a", cpu=2, rack="r1").node("b", cpu=2, rack="r2")
    low = cluster.run("a", cpu=1, priority=1)
    leaf_id_pod = 4242
    leaf = gang(1, pods(1, cpu=1), key="rack", bound=(Bound(leaf_id_pod, "a"),))
    cluster.run("a", cpu=1, priority=100, pod=leaf_id_pod, group=leaf.id)
    assert evicted(cluster, leaf) == [low]


@pytest.mark.conformance("SCH-131")
def test_as_many_are_evicted_as_the_minimum_needs() -> None:
    cluster = ClusterBuilder().nodes("n", 4, cpu=1)
    low = [cluster.run(f"n-{index}", cpu=1, priority=10) for index in range(2)]
    for index in (2, 3):
        cluster.run(f"n-{index}", cpu=1, priority=200)
    assert evicted(cluster, gang(1, pods(3, cpu=1))) == [min(low)]


def test_roles_of_one_shape_need_their_slots_together() -> None:
    cluster = ClusterBuilder().node("n", cpu=3)
    low = [cluster.run("n", cpu=1, priority=10) for _ in range(3)]
    root = gang(3, pods(2, cpu=1, role="driver"), pods(2, cpu=1, role="worker"))
    assert sorted(evicted(cluster, root)) == sorted(low)


NEAR_A = PodTerm(LEVELS["host"], Peers((Requirement("app", "In", ("a",)),), ("ns",)))


@pytest.mark.parametrize("anchors", [2, 5, 9])
def test_of_many_wanted_neighbours_the_cheapest_go_and_one_stays(anchors: int) -> None:
    cluster = ClusterBuilder().node("n", cpu=anchors)
    ages = [500 - 10 * number for number in range(anchors)]
    units = [
        cluster.run("n", cpu=1, priority=1, started=NOW - age, identity=Identity("ns", (("app", "a"),))) for age in ages
    ]
    needed = anchors - 1
    root = gang(1, pods(1, cpu=needed, affinity=(NEAR_A,), identity=Identity("ns", (("app", "b"),))))
    verdict = cluster.decide(root, 100)
    assert isinstance(verdict, Evict), verdict
    assert verdict.units == tuple(units[1:])
    assert verdict.least


def test_a_neighbour_is_evicted_where_another_serves_as_well() -> None:
    """Either company can go, but not both, and only the old one's room is enough."""
    cluster = ClusterBuilder().node("n", cpu=3)
    mine = Identity("ns", (("app", "a"),))
    old = cluster.run("n", cpu=2, priority=1, started=NOW - 500, identity=mine)
    cluster.run("n", cpu=1, priority=1, started=NOW - 5, identity=mine)
    assert evicted(cluster, gang(1, pods(1, cpu=2, affinity=(NEAR_A,)))) == [old]


def test_the_verdict_says_whether_its_loss_is_proved_to_be_the_least() -> None:
    cluster = ClusterBuilder().node("n", cpu=2)
    for age in (5, 500):
        cluster.run("n", cpu=1, priority=1, started=NOW - age)
    verdict = cluster.decide(gang(1, pods(1, cpu=1)), priority=9)
    assert isinstance(verdict, Evict)
    assert verdict.bound == (0, 1, 5_000, 1)
    assert verdict.least
