"""Where a blocked demand will fit soonest, if others end by themselves."""

from __future__ import annotations

from collections.abc import Mapping

from echelon.engine import Demand, Evict, Group, soonest
from echelon.testing.placement import ClusterBuilder, gang, pods


def _ask(cluster: ClusterBuilder, root: Group, costs: Mapping[int, int], *leaving: int) -> Evict | None:
    """The answer for a demand of priority 10; the view must be as before."""
    before = cluster.view.fingerprint()
    gone = [pod for unit in leaving for pod in cluster.view.pods_of(unit)]
    found = soonest(cluster.view, Demand(root, 10), gone, lambda pod: costs.get(pod.unit, 100))
    assert cluster.view.fingerprint() == before
    return found


def test_pods_of_equal_priority_are_waited_for_and_those_that_end_soonest_first() -> None:
    cluster = ClusterBuilder().nodes("n", 3, cpu=1)
    running = [cluster.run(f"n-{index}", cpu=1, priority=10) for index in range(3)]
    found = _ask(cluster, gang(2, pods(2, cpu=1)), {running[1]: 5, running[2]: 7})
    assert found is not None
    assert sorted(found.placement.assignment.values()) == ["n-1", "n-2"]
    assert list(found.units) == sorted(running[1:])


def test_no_reservation_waits_for_pods_of_higher_priority() -> None:
    cluster = ClusterBuilder().nodes("n", 2, cpu=1)
    cluster.run("n-0", cpu=1, priority=11)
    cluster.run("n-1", cpu=1, priority=10)
    assert _ask(cluster, gang(2, pods(2, cpu=1)), {}) is None


def test_the_domain_where_the_least_has_to_end() -> None:
    cluster = ClusterBuilder().nodes("a", 3, cpu=1, rack="r1").nodes("b", 3, cpu=1, rack="r2")
    for index in range(3):
        cluster.run(f"a-{index}", cpu=1, priority=10)
    only = cluster.run("b-0", cpu=1, priority=10)
    found = _ask(cluster, gang(3, pods(3, cpu=1), key="rack"), {})
    assert found is not None
    assert list(found.units) == [only]


def test_room_of_pods_that_leave_already_costs_nothing() -> None:
    cluster = ClusterBuilder().nodes("n", 2, cpu=1)
    leaving = cluster.run("n-0", cpu=1, priority=99)
    cluster.run("n-1", cpu=1, priority=10)
    found = _ask(cluster, gang(1, pods(1, cpu=1)), {}, leaving)
    assert found is not None
    assert (found.units, list(found.placement.assignment.values())) == ((), ["n-0"])
