"""Which groups and members to leave out on clusters of more than a handful of nodes, and who gets a preferred rack."""

from __future__ import annotations

from echelon.engine import Blocked, Bound, Leaf, Placed
from echelon.testing.placement import LEVELS, ClusterBuilder, composite, fresh_id, gang, pods

RACK = LEVELS["rack"]


def leaf(size: int, minimum: int | None = None, **fields: object) -> Leaf:
    return gang(size if minimum is None else minimum, pods(size, gpu=1), **fields)


def test_of_gangs_that_do_not_all_fit_the_larger_sum_is_taken() -> None:
    """12 and 12 fit first, 12 and 18 fill the cluster."""
    cluster = ClusterBuilder().nodes("n", 30, gpu=1)
    verdict = cluster.decide(composite(1, leaf(12), leaf(12), leaf(18)))
    assert isinstance(verdict, Placed)
    assert len(verdict.assignment) == 30
    assert verdict.gap.left_out == (0, 0, 0)


def test_a_minimum_that_stands_in_the_way_of_a_sibling_goes_elsewhere() -> None:
    """The gang of 8 is at home in either rack; in the smaller one it leaves the larger to the gang of 22."""
    cluster = ClusterBuilder().nodes("a", 22, gpu=1, rack="a").nodes("b", 9, gpu=1, rack="b")
    verdict = cluster.decide(composite(1, leaf(10, 8, key="rack"), leaf(22, key="rack")))
    assert isinstance(verdict, Placed)
    assert verdict.objective.left_out == (0, 0, 1)
    assert verdict.bound.left_out == (0, 0, 1)


def test_as_many_gangs_as_can_be_get_their_preferred_rack() -> None:
    """Racks of 10, 10 and 12: one gang of 12 and two of 10, if the first does not settle where two others could."""
    cluster = ClusterBuilder()
    for rack, size in (("a", 10), ("b", 10), ("c", 12)):
        cluster.nodes(rack, size, gpu=1, rack=rack)
    preference = {"preferred": (RACK,)}
    verdict = cluster.decide(composite(3, leaf(10, **preference), leaf(10, **preference), leaf(12, **preference)))
    assert isinstance(verdict, Placed)
    assert verdict.objective.without_spare == (0, 0, 0, 0)


def test_members_that_run_in_a_group_left_out_still_hold_their_parent() -> None:
    """The parent's zone is where a lost gang's only member runs, however much room there is elsewhere."""
    cluster = ClusterBuilder().nodes("a", 12, gpu=1, zone="a").nodes("b", 20, gpu=1, zone="b")
    member = fresh_id()
    cluster.run("a-0", gpu=1, pod=member)
    lost = gang(15, pods(14, gpu=1), bound=(Bound(member, "a-0"),))
    verdict = cluster.decide(composite(1, lost, leaf(6), leaf(7), leaf(5), key="zone"))
    assert isinstance(verdict, Placed)
    assert {name[0] for name in verdict.assignment.values()} == {"a"}
    assert len(verdict.assignment) == 11


def test_what_the_search_leaves_open_may_still_be_proved() -> None:
    """Racks by a label that is no level, and exclusive: neither counting nor the search has much to go by."""
    cluster = ClusterBuilder()
    for rack in range(5):
        for number in range(6):
            cluster.node(f"n{rack}-{number}", gpu=1, labels={"pool": f"p{rack}"})
    children = [gang(4, pods(4, gpu=1), key="pool") for _ in range(6)]
    verdict = cluster.decide(composite(6, *children))
    assert isinstance(verdict, Blocked)
    assert verdict.proved
