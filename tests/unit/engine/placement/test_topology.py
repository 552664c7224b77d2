"""Required, preferred, nested, unlisted and exclusive domains."""

from __future__ import annotations

import pytest

from echelon.engine import Blocked, Bound
from echelon.testing.placement import LEVELS, ClusterBuilder, basic, composite, exclusive, gang, pods


def racks(*sizes: int, zone: str = "z") -> ClusterBuilder:
    """Racks of two-cpu nodes."""
    cluster = ClusterBuilder()
    for number, size in enumerate(sizes, 1):
        cluster.nodes(f"{zone}r{number}", size, cpu=2, zone=zone, rack=f"r{number}")
    return cluster


@pytest.mark.conformance("SCH-67", "SCH-79")
def test_a_gang_goes_to_the_tightest_rack_that_holds_all_of_it() -> None:
    leaf = gang(2, pods(3, cpu=1), key="rack")
    verdict = racks(3, 2, 1).place(leaf)
    assert verdict.domains[leaf.id] == ("z", "r2")
    assert len(verdict.assignment) == 3


@pytest.mark.conformance("SCH-68", "SCH-86")
def test_a_gang_that_no_rack_holds_is_blocked() -> None:
    assert isinstance(racks(2, 1, 1).decide(gang(3, pods(3, cpu=2), key="rack")), Blocked)


@pytest.mark.conformance("SCH-96")
def test_a_root_key_holds_for_all_children() -> None:
    cluster = racks(2, 2)
    cluster.run("zr2-0", cpu=2)
    root = composite(2, *(gang(2, pods(2, cpu=1)) for _ in range(2)), key="rack")
    assert cluster.place(root).domains[root.id] == ("z", "r1")


@pytest.mark.conformance("SCH-97", "SCH-101")
def test_a_running_member_pins_the_domains_above_it() -> None:
    cluster = racks(2, 2)
    first = gang(2, pods(1, cpu=1), bound=(Bound(1, "zr2-0"),))
    cluster.run("zr2-0", cpu=1, pod=1, group=first.id)
    root = composite(2, first, gang(2, pods(2, cpu=1)), key="rack")
    assert set(cluster.place(root).assignment.values()) <= {"zr2-0", "zr2-1"}


@pytest.mark.conformance("SCH-102")
def test_members_in_two_domains_can_never_hold() -> None:
    cluster = racks(2, 2)
    leaf = gang(3, pods(1, cpu=1), key="rack", bound=(Bound(1, "zr1-0"), Bound(2, "zr2-0")))
    verdict = cluster.decide(leaf)
    assert isinstance(verdict, Blocked)
    assert verdict.proved


@pytest.mark.conformance("SCH-99", "SCH-103")
def test_keys_nest_over_four_levels() -> None:
    cluster = ClusterBuilder()
    for zone in ("z1", "z2"):
        for block in ("b1", "b2"):
            for rack in ("r1", "r2"):
                nodes = 2 if zone == "z2" or (block, rack) != ("b2", "r2") else 1
                cluster.nodes(f"{zone}{block}{rack}", nodes, gpu=8, zone=zone, block=block, rack=rack)
    leaves = [[gang(2, pods(2, gpu=8), key="rack") for _ in range(2)] for _ in range(2)]
    subs = [composite(2, *pair, key="block") for pair in leaves]
    root = composite(1, composite(2, *subs, key="zone"))
    verdict = cluster.place(root)
    assert {verdict.domains[sub.id][0] for sub in subs} == {"z2"}
    assert len({verdict.domains[leaf.id] for pair in leaves for leaf in pair}) == 4


@pytest.mark.conformance("SCH-105")
def test_an_unkeyed_root_lets_each_part_have_its_own_zone() -> None:
    cluster = racks(1, 1, zone="z1")
    for rack in ("r1", "r2"):
        cluster.nodes(f"z2{rack}", 1, cpu=2, zone="z2", rack=rack)
    subs = [composite(2, *(gang(2, pods(2, cpu=1), key="rack") for _ in range(2)), key="zone") for _ in range(2)]
    verdict = cluster.place(composite(2, *subs))
    assert {verdict.domains[sub.id] for sub in subs} == {("z1",), ("z2",)}


def test_nodes_without_the_label_belong_to_no_domain() -> None:
    cluster = ClusterBuilder().nodes("bare", 4, cpu=2).nodes("n", 1, cpu=2, rack="r")
    leaf = gang(2, pods(2, cpu=1), key="rack")
    assert set(cluster.place(leaf).assignment.values()) == {"n-0"}


def test_an_unlisted_key_is_a_value_within_the_enclosing_domain() -> None:
    cluster = ClusterBuilder()
    for zone in ("z1", "z2"):
        for index in range(4):
            cluster.node(f"{zone}-{index}", cpu=1, zone=zone, labels={"island": f"i{index // 2}"})
    inner = gang(2, pods(2, cpu=1), key="island")
    root = composite(1, inner, key="zone")
    assert cluster.place(root).domains[inner.id] == ("z1", "i0")
    assert isinstance(cluster.decide(composite(1, gang(3, pods(3, cpu=1), key="island"), key="zone")), Blocked)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_block_whose_nodes_have_no_rack_is_not_taken_for_one_whose_nodes_have(mixed: bool) -> None:
    """Three blocks of equal nodes; only in the last are all nodes in racks, and two unequal gangs need two racks."""
    cluster = ClusterBuilder()
    for block, first in (("b1", None), ("b2", None), ("b3", "r1")):
        cluster.nodes(f"{block}-x", 2, cpu=4, block=block, **({"rack": first} if first else {}))
        cluster.nodes(f"{block}-y", 2, cpu=4, block=block, rack="r2")
    sizes = ((1, 2, 2), (2, 2, 2)) if mixed else ((1,) * 5, (1,) * 6)
    gangs = [gang(len(cores), *(pods(1, cpu=core) for core in cores), key="rack") for cores in sizes]
    assert cluster.place(composite(1, composite(2, *gangs, key="block"))).domains[gangs[0].id][0] == "b3"


def test_keys_that_do_not_nest_still_work() -> None:
    cluster = ClusterBuilder().node("a", cpu=1, rack="r1", labels={"rail": "x"}).node("b", cpu=1, rack="r1")
    cluster.node("c", cpu=1, rack="r2", labels={"rail": "x"})
    by_rail, by_rack = gang(2, pods(2, cpu=1), key="rail"), gang(1, pods(1, cpu=1), key="rack")
    verdict = cluster.place(composite(2, by_rail, by_rack))
    assert {verdict.assignment[m] for m in by_rail.classes[0].members} == {"a", "c"}


@pytest.mark.parametrize(("size", "domain"), [(2, ("z", "b1", "r1")), (3, ("z", "b1")), (7, ("z",)), (9, ())])
def test_the_narrowest_preferred_key_that_works_is_honoured(size: int, domain: tuple[str, ...]) -> None:
    cluster = ClusterBuilder()
    for block in ("b1", "b2"):
        for rack in ("r1", "r2"):
            cluster.nodes(f"{block}{rack}", 2, cpu=1, zone="z", block=block, rack=rack)
    cluster.nodes("far", 2, cpu=1, zone="y")
    leaf = gang(size, pods(size, cpu=1), preferred=("rack", "block", "zone"))
    verdict = cluster.place(leaf)
    assert verdict.domains[leaf.id] == domain


def test_a_preference_costs_no_member() -> None:
    cluster = ClusterBuilder().nodes("a", 2, cpu=1, rack="r1").nodes("b", 2, cpu=1, rack="r2")
    leaf = gang(2, pods(3, cpu=1), preferred=("rack",))
    assert len(cluster.place(leaf).assignment) == 3


def test_siblings_honour_preferences_each_as_far_as_it_can() -> None:
    cluster = ClusterBuilder().nodes("a", 2, cpu=1, rack="r1").node("b", cpu=1, rack="r2").node("c", cpu=1, rack="r3")
    first = gang(2, pods(2, cpu=1), preferred=("rack",))
    second = gang(2, pods(2, cpu=1), preferred=("rack",))
    verdict = cluster.place(composite(2, first, second))
    assert sorted(len(verdict.domains[leaf.id]) for leaf in (first, second)) == [0, 1]


def test_exclusive_groups_take_a_domain_each() -> None:
    cluster = racks(2, 2, 2)
    leaves = [gang(1, pods(1, cpu=1), exclusive=exclusive("rack", 5)) for _ in range(3)]
    verdict = cluster.place(composite(3, *leaves))
    assert len({verdict.domains[leaf.id] for leaf in leaves}) == 3
    one_too_many = [gang(1, pods(1, cpu=1), exclusive=exclusive("rack", 5)) for _ in range(4)]
    verdict = cluster.decide(composite(4, *one_too_many))
    assert isinstance(verdict, Blocked)
    assert verdict.proved


def test_exclusive_groups_take_the_tightest_domains_that_no_group_of_their_rank_holds() -> None:
    cluster = racks(3, 2, 1, 2, 2)
    cluster.run("zr2-0", cpu=0.1, group=7, exclusive=exclusive("rack", 5))
    cluster.run("zr4-0", cpu=0.1, group=8, exclusive=exclusive("rack", 6))
    leaves = [gang(3, pods(3, cpu=1), exclusive=exclusive("rack", 5)) for _ in range(3)]
    verdict = cluster.place(composite(3, *leaves))
    assert [verdict.domains[leaf.id][-1] for leaf in leaves] == ["r1", "r4", "r5"]
    assert verdict.objective == verdict.bound == (0, 0, 0, 0, 4)


def test_an_exclusive_group_grows_in_the_domain_it_holds() -> None:
    cluster = racks(2, 2)
    alone = exclusive("rack", 5)
    leaf = gang(1, pods(1, cpu=1), exclusive=alone, bound=(Bound(1, "zr2-0"),))
    cluster.run("zr2-0", cpu=1, pod=1, group=leaf.id, exclusive=alone)
    assert cluster.place(leaf).domains[leaf.id] == ("z", "r2")


def test_ranks_are_laid_along_the_topology() -> None:
    cluster = racks(2, 2)
    leaf = gang(8, pods(8, cpu=1))
    verdict = cluster.place(leaf)
    order = [verdict.assignment[member] for member in leaf.classes[0].members]
    assert order == sorted(order)


def test_an_unkeyed_gang_stays_in_one_rack_if_one_holds_it() -> None:
    leaf = gang(4, pods(4, cpu=1))
    names = set(racks(3, 2, 4).place(leaf).assignment.values())
    assert names == {"zr2-0", "zr2-1"}


def test_levels_can_be_configured() -> None:
    cluster = ClusterBuilder(levels=("dc", "row"))
    cluster.node("a", cpu=1, labels={"dc": "1", "row": "x"}).node("b", cpu=1, labels={"dc": "2", "row": "x"})
    assert isinstance(cluster.decide(gang(2, pods(2, cpu=1), key="row")), Blocked)
    assert cluster.view.domain_of("a", "row") == ("1", "x")
    assert cluster.view.domain_of("a", LEVELS["rack"]) is None


def test_empty_cluster_and_empty_tree_are_blocked_not_broken() -> None:
    assert isinstance(ClusterBuilder().decide(gang(1, pods(1, cpu=1), key="rack")), Blocked)
    assert isinstance(ClusterBuilder().node("n", cpu=1).decide(composite(1)), Blocked)
    assert isinstance(ClusterBuilder().node("n", cpu=1).decide(gang(5, pods(1, cpu=1))), Blocked)


@pytest.mark.conformance("SCH-85", "SCH-87")
def test_a_basic_group_places_what_fits() -> None:
    leaf = basic(pods(3, cpu=1), key="rack")
    verdict = racks(1, 1).place(leaf)
    assert len(verdict.assignment) == 2
    small, big = pods(1, cpu=1), pods(1, cpu=3)
    assert list(racks(1, 1).place(basic(big, small, key="rack")).assignment) == [small.members[0]]


def test_pods_without_devices_leave_device_nodes_alone() -> None:
    cluster = ClusterBuilder().node("gpu", cpu=2, gpu=8, rack="r1").node("cpu", cpu=8, rack="r1")
    leaf = gang(2, pods(2, cpu=1), key="rack")
    assert set(cluster.place(leaf).assignment.values()) == {"cpu"}
    crowd = gang(10, pods(10, cpu=1), key="rack")
    assert set(cluster.place(crowd).assignment.values()) == {"cpu", "gpu"}


def test_the_tightest_domain_has_no_gap() -> None:
    leaf = gang(3, pods(3, cpu=1), key="rack")
    verdict = racks(3, 2, 1).place(leaf)
    assert verdict.objective == verdict.bound == (0, 0, 0, 0, 1)


def test_holders_in_racks_that_joined_later_are_respected() -> None:
    cluster = racks(1)
    alone = exclusive("rack")
    cluster.place(gang(1, pods(1, cpu=1), exclusive=alone))
    cluster.nodes("late", 1, cpu=2, zone="z", rack="r2").nodes("last", 1, cpu=2, zone="z", rack="r3")
    cluster.place(basic(pods(1, cpu=1)))
    cluster.run("last-0", cpu=1, group=7, exclusive=alone)
    cluster.run("zr1-0", cpu=1, group=8, exclusive=alone)
    verdict = cluster.place(gang(1, pods(1, cpu=1), exclusive=alone))
    assert list(verdict.assignment.values()) == ["late-0"]
