"""The checker catches every kind of spoiled verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelon.engine import Blocked, Bound, Composite, Demand, Evict, Leaf, Placed, ReasonKind, Taint, problems
from echelon.testing.placement import NOW, ClusterBuilder, composite, exclusive, fresh_id, gang, pods


def scene() -> tuple[ClusterBuilder, Demand, Placed]:
    """Two rack gangs under a block, placed; each rack has one node too many, one of them tainted by a label."""
    cluster = ClusterBuilder()
    for rack in ("r1", "r2"):
        cluster.nodes(rack, 2, gpu=8, block="b1", rack=rack)
    cluster.node("far", gpu=64, block="b2", rack="r1")
    children = [gang(2, pods(2, gpu=8), key="rack", exclusive=exclusive("rack", 3)) for _ in range(2)]
    demand = Demand(composite(2, *children, key="block"), priority=5)
    verdict = cluster.decide(demand.root, demand.priority)
    assert isinstance(verdict, Placed)
    assert problems(cluster.view, demand, verdict, NOW) == []
    return cluster, demand, verdict


def members(demand: Demand) -> list[list[int]]:
    return [list(leaf.classes[0].members) for leaf in demand.leaves()]


def test_a_member_on_an_occupied_node_is_over_committed() -> None:
    cluster, demand, placed = scene()
    (first, second), _ = members(demand)
    moved = {**placed.assignment, first: placed.assignment[second]}
    assert any(
        "over-committed" in text for text in problems(cluster.view, demand, replace(placed, assignment=moved), NOW)
    )


def test_a_member_outside_its_domain_is_seen_at_every_level() -> None:
    cluster, demand, placed = scene()
    moved = {**placed.assignment, members(demand)[0][0]: "far"}
    found = problems(cluster.view, demand, replace(placed, assignment=moved), NOW)
    assert sum("domains of" in text for text in found) == 2


def test_a_missing_member_breaks_the_minimum() -> None:
    cluster, demand, placed = scene()
    fewer = dict(list(placed.assignment.items())[1:])
    assert any("1 of 2 pods" in text for text in problems(cluster.view, demand, replace(placed, assignment=fewer), NOW))


def test_two_exclusive_groups_in_one_rack_are_seen() -> None:
    cluster, demand, placed = scene()
    first, second = members(demand)
    swapped = {**placed.assignment, first[0]: placed.assignment[second[0]], second[0]: placed.assignment[first[0]]}
    assert any(
        "shares the domain" in text for text in problems(cluster.view, demand, replace(placed, assignment=swapped), NOW)
    )


@pytest.mark.parametrize("left_out", ["root", "child"])
def test_a_group_that_does_not_hold_is_seen(left_out: str) -> None:
    cluster, demand, placed = scene()
    assert isinstance(demand.root, Composite)
    gone = demand.root.id if left_out == "root" else demand.root.children[0].id
    assert problems(cluster.view, demand, replace(placed, groups=placed.groups - {gone}), NOW)


def test_unknown_members_and_nodes_are_seen() -> None:
    cluster, demand, placed = scene()
    moved = {**placed.assignment, members(demand)[0][0]: "nowhere", 999_999: "far"}
    found = problems(cluster.view, demand, replace(placed, assignment=moved), NOW)
    assert any("unknown node" in text for text in found)
    assert any("not asked for" in text for text in found)


def contested() -> tuple[ClusterBuilder, Demand, Evict, int]:
    cluster = ClusterBuilder().nodes("n", 3, cpu=1)
    low = [cluster.run(f"n-{index}", cpu=1, priority=1) for index in range(3)]
    demand = Demand(gang(2, pods(2, cpu=1)), priority=5)
    verdict = cluster.decide(demand.root, demand.priority)
    assert isinstance(verdict, Evict)
    spared = next(unit for unit in low if unit not in verdict.units)
    return cluster, demand, verdict, spared


def test_a_victim_too_few_is_seen() -> None:
    cluster, demand, evict, _ = contested()
    fewer = replace(evict, units=evict.units[1:])
    assert any("over-committed" in text for text in problems(cluster.view, demand, fewer, NOW))


def test_a_victim_too_many_is_seen() -> None:
    cluster, demand, evict, spared = contested()
    more = replace(evict, units=(*evict.units, spared))
    assert f"unit {spared} could be spared" in problems(cluster.view, demand, more, NOW)


def test_victims_of_equal_priority_are_seen() -> None:
    cluster, demand, evict, _ = contested()
    assert any("not below" in text for text in problems(cluster.view, replace(demand, priority=1), evict, NOW))


def test_a_blocked_verdict_speaks_of_every_group() -> None:
    cluster = ClusterBuilder().node("n", cpu=1)
    demand = Demand(composite(2, gang(1, pods(1, cpu=1)), gang(1, pods(1, cpu=1))))
    verdict = cluster.decide(demand.root)
    assert isinstance(verdict, Blocked)
    assert problems(cluster.view, demand, verdict, NOW) == []
    assert problems(cluster.view, demand, replace(verdict, shortages=verdict.shortages[1:]), NOW)
    assert isinstance(demand.root, Composite)
    assert isinstance(demand.root.children[0], Leaf)


def test_groups_that_run_in_one_exclusive_rack_are_not_said_to_fit() -> None:
    """Both hold, neither has its rack to itself, and an advance of one needs the other to go on holding."""
    cluster = ClusterBuilder().node("n0", cpu=1, rack="r").node("n1", rack="r")
    leaves = []
    for _ in range(2):
        member, wanted = fresh_id(), exclusive("rack", 7)
        leaf = gang(1, pods(1, cpu=1), bound=(Bound(member, "n1"),), exclusive=wanted)
        cluster.run("n1", priority=100, pod=member, group=leaf.id, exclusive=wanted)
        leaves.append(leaf)
    verdict = cluster.decide(composite(2, leaves[0], composite(1, leaves[1])), may_preempt=False)
    assert isinstance(verdict, Blocked)
    assert verdict.proved


@pytest.mark.parametrize("cordoned", [True, False])
def test_the_taint_of_a_cordon_counts_with_and_without_the_cordon(cordoned: bool) -> None:
    cluster = ClusterBuilder()
    taint = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    cluster.node("n", gpu=8, taints=(taint,), cordoned=cordoned)
    demand = Demand(gang(1, pods(1, gpu=1)))
    verdict = cluster.decide(demand.root, demand.priority)
    assert isinstance(verdict, Blocked)
    (shortage,) = verdict.shortages
    kind = ReasonKind.CORDONED if cordoned else ReasonKind.TAINT
    assert {reason.kind: number for reason, number in shortage.exclusions.items()} == {kind: 1}
    assert problems(cluster.view, demand, verdict, NOW) == []
