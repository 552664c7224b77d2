"""Neighbours in rank are neighbours in the network."""

from __future__ import annotations

from itertools import groupby

import pytest

from echelon.engine import Bound, Leaf, Placed, PodClass
from echelon.testing.placement import LEVELS, ClusterBuilder, composite, exclusive, gang, pods

KEYS = ("zone", "block", "rack", "host")


def cluster(cpu: int = 2, holes: tuple[str, ...] = ()) -> ClusterBuilder:
    """2 zones × 2 blocks × 2 racks × 2 nodes; on nodes with holes one cpu is taken."""
    made = ClusterBuilder()
    for number in range(16):
        path = {"zone": f"z{number // 8}", "block": f"b{number // 4}", "rack": f"r{number // 2}"}
        made.node(f"n{number:02d}", cpu, 0, None, (), False, **path)
    for name in holes:
        made.run(name, cpu=1, priority=100)
    return made


def in_blocks(where: ClusterBuilder, verdict: Placed, ranks: PodClass) -> bool:
    """Whether at every level the ranks in a domain are one block."""
    nodes = [verdict.assignment[member] for member in ranks.members if member in verdict.assignment]
    for level in KEYS:
        runs = [domain for domain, _ in groupby(where.view.domain_of(node, LEVELS[level]) for node in nodes)]
        if len(runs) != len(set(runs)):
            return False
    return True


@pytest.mark.parametrize(
    "holes", [(), ("n01", "n06", "n07", "n12"), tuple(f"n{number:02d}" for number in range(0, 16, 3))]
)
@pytest.mark.parametrize("size", [3, 7, 18])
def test_ranks_of_a_gang_are_one_block_per_domain(size: int, holes: tuple[str, ...]) -> None:
    where, ranks = cluster(holes=holes), pods(size, cpu=1)
    assert in_blocks(where, where.place(gang(size, ranks)), ranks)


@pytest.mark.parametrize("key", [None, "zone"])
def test_ranks_of_every_shape_are_one_block_per_domain(key: str | None) -> None:
    where, big, small = cluster(holes=("n03", "n10")), pods(3, cpu=2), pods(5, cpu=1)
    verdict = where.place(gang(8, big, small, key=key))
    assert in_blocks(where, verdict, big)
    assert in_blocks(where, verdict, small)


def test_roles_of_one_shape_are_laid_one_after_the_other() -> None:
    where, drivers, workers = cluster(), pods(3, cpu=1, role="driver"), pods(9, cpu=1, role="worker")
    verdict = where.place(gang(12, drivers, workers))
    everyone = PodClass(drivers.shape, drivers.members + workers.members)
    assert in_blocks(where, verdict, everyone)


def test_members_that_run_keep_their_nodes_and_the_others_follow_in_order() -> None:
    where = cluster()
    for member, name in ((1, "n04"), (2, "n06")):
        where.run(name, cpu=2, priority=100, pod=member)
    ranks = pods(4, cpu=1)
    leaf = gang(6, ranks, key="block", bound=(Bound(1, "n04"), Bound(2, "n06")))
    verdict = where.place(leaf)
    assert [verdict.assignment[member] for member in ranks.members] == ["n05", "n05", "n07", "n07"]


def leaves(number: int, key: str | None, alone: bool = False) -> list[Leaf]:
    own = exclusive("rack", 7) if alone else None
    return [gang(2, pods(2, cpu=2), key=key, exclusive=own) for _ in range(number)]


def nodes_of(verdict: Placed, leaf: Leaf) -> list[str]:
    return [verdict.assignment[member] for pods in leaf.classes for member in pods.members]


@pytest.mark.parametrize("alone", [False, True])
def test_groups_that_are_alike_follow_the_topology_in_their_order(alone: bool) -> None:
    # The tightest racks come last, and would be taken first.
    where, children = cluster(cpu=4, holes=tuple(f"n{number:02d}" for number in range(8, 16))), leaves(6, "rack", alone)
    verdict = where.place(composite(6, *children))
    order = [name for child in children for name in nodes_of(verdict, child)]
    assert order == sorted(order)


def test_composites_that_are_alike_follow_the_topology_with_all_below_them() -> None:
    where = cluster(cpu=4, holes=tuple(f"n{number:02d}" for number in range(8, 16)))
    blocks = [leaves(2, "rack") for _ in range(3)]
    verdict = where.place(composite(3, *(composite(2, *children, key="block") for children in blocks)))
    order = [name for children in blocks for child in children for name in nodes_of(verdict, child)]
    assert order == sorted(order)


def test_a_group_with_running_members_is_not_exchanged() -> None:
    where = cluster(cpu=4)
    where.run("n15", cpu=2, priority=100, pod=1)
    first = gang(3, pods(2, cpu=2), key="rack", bound=(Bound(1, "n15"),))
    second = gang(2, pods(2, cpu=2), key="rack")
    verdict = where.place(composite(2, first, second))
    assert set(nodes_of(verdict, first)) <= {"n14", "n15"}
