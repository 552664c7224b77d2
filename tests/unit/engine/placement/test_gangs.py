"""Gangs and hierarchies that a greedy scheduler gets wrong, by their ids in the conformance list."""

from __future__ import annotations

import pytest

from echelon.engine import Blocked, Bound, Group
from echelon.testing.placement import ClusterBuilder, basic, composite, gang, pods


def two_nodes(cpu: int) -> ClusterBuilder:
    return ClusterBuilder().node("n1", cpu=cpu).node("n2", cpu=cpu)


@pytest.mark.conformance("SCH-E1")
def test_big_pod_is_not_shut_out_by_spreading_small_ones() -> None:
    verdict = two_nodes(4).place(gang(3, pods(2, cpu=2), pods(1, cpu=4)))
    assert len(verdict.assignment) == 3


@pytest.mark.conformance("SCH-E2")
def test_largest_first_alone_is_not_enough() -> None:
    root = gang(5, pods(1, cpu=6), pods(2, cpu=4), pods(2, cpu=3))
    assert len(two_nodes(10).place(root).assignment) == 5


@pytest.mark.conformance("SCH-E3")
def test_flexible_pod_leaves_the_picky_pod_its_node() -> None:
    cluster = ClusterBuilder().node("n1", cpu=5, labels={"name": "n1"}).node("n2", cpu=8)
    cluster.run("n2", cpu=4)
    flexible, picky = pods(1, cpu=4), pods(1, cpu=4, node_selector=(("name", "n1"),))
    verdict = cluster.place(gang(2, flexible, picky))
    assert verdict.assignment == {flexible.members[0]: "n2", picky.members[0]: "n1"}


@pytest.mark.conformance("SCH-E4")
def test_devices_count_before_cpu() -> None:
    cluster = ClusterBuilder().node("a", cpu=96, gpu=8).node("b", cpu=96, gpu=8)
    cluster.run("a", cpu=48, gpu=4)
    small, big = pods(4, cpu=1, gpu=1), pods(1, cpu=8, gpu=8)
    verdict = cluster.place(gang(5, small, big))
    assert verdict.assignment[big.members[0]] == "b"
    assert {verdict.assignment[member] for member in small.members} == {"a"}


@pytest.mark.conformance("SCH-E5")
def test_extras_do_not_take_a_sibling_s_minimum() -> None:
    greedy, modest = gang(2, pods(4, cpu=1)), gang(2, pods(2, cpu=1))
    verdict = ClusterBuilder().node("n", cpu=4).place(composite(2, greedy, modest))
    assert len(verdict.assignment) == 4
    assert {greedy.id, modest.id} <= verdict.groups


@pytest.mark.conformance("SCH-E6")
@pytest.mark.parametrize("swapped", [False, True])
def test_sibling_shapes_share_nodes_in_any_order(swapped: bool) -> None:
    children: list[Group] = [gang(2, pods(2, cpu=2)), gang(1, pods(1, cpu=4))]
    verdict = two_nodes(4).place(composite(2, *(reversed(children) if swapped else children)))
    assert len(verdict.assignment) == 3


@pytest.mark.conformance("SCH-E7")
def test_the_children_that_fit_together_are_chosen() -> None:
    large, first, second = gang(5, pods(5, cpu=1)), gang(3, pods(3, cpu=1)), gang(3, pods(3, cpu=1))
    root = composite(2, large, first, second)
    assert ClusterBuilder().node("n", cpu=6).place(root).groups == {root.id, first.id, second.id}


@pytest.mark.conformance("SCH-E8")
def test_a_basic_middle_layer_takes_no_more_than_its_share() -> None:
    a, b, c = (gang(2, pods(2, cpu=1)) for _ in range(3))
    first, second = composite(1, a, b), composite(1, c)
    verdict = ClusterBuilder().node("n", cpu=4).place(composite(2, first, second))
    assert {first.id, second.id, c.id} <= verdict.groups


def free_racks(cluster: ClusterBuilder, rack: str, nodes: int, free: int, **domains: str) -> None:
    """One-cpu nodes of which all but `free` are full."""
    cluster.nodes(rack, nodes, cpu=1, rack=rack, **domains)
    for index in range(nodes - free):
        cluster.run(f"{rack}-{index}", cpu=1, priority=10)


@pytest.mark.conformance("SCH-E9")
def test_small_gang_takes_the_tight_rack() -> None:
    cluster = ClusterBuilder()
    free_racks(cluster, "a", 100, 6, zone="z")
    free_racks(cluster, "b", 10, 5, zone="z")
    small, large = gang(4, pods(4, cpu=1), key="rack"), gang(6, pods(6, cpu=1), key="rack")
    verdict = cluster.place(composite(2, small, large, key="zone"))
    assert (verdict.domains[small.id], verdict.domains[large.id]) == (("z", "b"), ("z", "a"))


@pytest.mark.conformance("SCH-E10")
def test_sub_tree_takes_the_block_that_leaves_the_other_one_room() -> None:
    cluster = ClusterBuilder()
    for block, rack, nodes, free in [("1", "r1", 4, 2), ("1", "r2", 4, 2), ("1", "r5", 4, 1)]:
        free_racks(cluster, rack, nodes, free, zone="z", block=block)
    for rack, free in [("r3", 2), ("r4", 3)]:
        free_racks(cluster, rack, 10, free, zone="z", block="2")
    g1, g2 = (gang(2, pods(2, cpu=1), key="rack") for _ in range(2))
    g3 = gang(3, pods(3, cpu=1), key="rack")
    first, second = composite(2, g1, g2, key="block"), composite(1, g3, key="block")
    verdict = cluster.place(composite(2, first, second, key="zone"))
    assert verdict.domains[first.id] == ("z", "1")
    assert verdict.domains[g3.id] == ("z", "2", "r4")


@pytest.mark.conformance("SCH-E11")
def test_order_inside_a_sub_tree_does_not_matter() -> None:
    cluster = ClusterBuilder()
    free_racks(cluster, "x", 40, 4, zone="z", block="b")
    free_racks(cluster, "y", 4, 3, zone="z", block="b")
    small, large = gang(2, pods(2, cpu=1), key="rack"), gang(4, pods(4, cpu=1), key="rack")
    root = composite(1, composite(2, small, large, key="block"), key="zone")
    verdict = cluster.place(root)
    assert verdict.domains[large.id][-1] == "x"
    assert verdict.domains[small.id][-1] == "y"


@pytest.mark.conformance("SCH-E12")
def test_mixed_shapes_three_levels_down() -> None:
    workers, leader = gang(2, pods(1, cpu=2), pods(1, cpu=1)), gang(1, pods(1, cpu=1))
    root = composite(2, composite(2, workers, leader), composite(1, gang(1, pods(1, cpu=4))))
    assert len(two_nodes(4).place(root).assignment) == 4


@pytest.mark.conformance("SCH-E17")
def test_survivor_pins_its_rack_and_the_fix_is_to_release_it() -> None:
    cluster = ClusterBuilder().nodes("a", 3, cpu=1, rack="r1").nodes("b", 8, cpu=1, rack="r2")
    survivor = 1
    leaf = gang(4, pods(3, cpu=1), key="rack", bound=(Bound(survivor, "a-0"),))
    cluster.run("a-0", cpu=1, pod=survivor, group=leaf.id)
    verdict = cluster.decide(leaf)
    assert isinstance(verdict, Blocked)
    assert verdict.proved
    assert verdict.shortages[0].have == 3
    assert verdict.shortages[0].need == 4


@pytest.mark.conformance("SCH-E18")
@pytest.mark.parametrize(("final_size", "rack"), [(None, "r1"), (2, "r2"), (3, "r1")])
def test_basic_group_goes_where_it_can_grow(final_size: int | None, rack: str) -> None:
    cluster = ClusterBuilder().node("n1", cpu=8, rack="r1").node("n2", cpu=2, rack="r2")
    cluster.run("n1", cpu=2)
    leaf = basic(pods(1, cpu=1), key="rack", final_size=final_size)
    assert cluster.place(leaf).domains[leaf.id] == (rack,)


@pytest.mark.parametrize(("final_size", "rack"), [(None, "r1"), (2, "r2")])
def test_a_basic_group_of_unlike_pods_goes_where_it_can_grow(final_size: int | None, rack: str) -> None:
    cluster = ClusterBuilder().node("n1", cpu=8, rack="r1").node("n2", cpu=3, rack="r2")
    leaf = basic(pods(1, cpu=1), pods(1, cpu=2), key="rack", final_size=final_size)
    assert cluster.place(leaf).domains[leaf.id] == (rack,)
    assert cluster.place(composite(1, leaf)).domains[leaf.id] == (rack,)


@pytest.mark.conformance("SCH-E19")
def test_equal_rack_names_in_two_zones_are_two_racks() -> None:
    cluster = ClusterBuilder().node("n1", cpu=2, zone="z1", rack="r1").node("n2", cpu=2, zone="z2", rack="r1")
    verdict = cluster.decide(gang(4, pods(4, cpu=1), key="rack"))
    assert isinstance(verdict, Blocked)
    assert verdict.proved
    assert verdict.shortages[0].have == 2


@pytest.mark.conformance("SCH-E22")
def test_every_role_is_covered_before_members_are_counted() -> None:
    workers, driver = pods(4, cpu=2, role="worker"), pods(1, cpu=2, role="driver")
    verdict = ClusterBuilder().node("n", cpu=8).place(gang(4, workers, driver))
    assert driver.members[0] in verdict.assignment
    assert len(verdict.assignment) == 4
