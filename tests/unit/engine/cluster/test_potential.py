"""Slots as they could be, and thresholds of many shapes."""

from __future__ import annotations

import pytest

from echelon.engine.cluster.potential import Potential, Thresholds
from echelon.testing.placement import ClusterBuilder, fresh_id, shape
from tests.forced_ways import with_wide_domains_from


def _cluster() -> tuple[ClusterBuilder, dict[str, int]]:
    """Two zones of two nodes of four cores, a pod on each."""
    cluster, there = ClusterBuilder(), {}
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")):
        cluster.node(name, cpu=4, labels={"pool": name}, zone=zone)
        there[name] = fresh_id()
        cluster.run(name, cpu=4, priority=5, pod=there[name])
    return cluster, there


def _row(cluster: ClusterBuilder, name: str) -> int:
    row = cluster.view.node_table.row(name)
    assert row is not None
    return row


def test_pods_below_the_priority_and_places_that_are_kept_are_thought_away() -> None:
    cluster, _ = _cluster()
    one, row = shape(cpu=2), _row(cluster, "a1")
    assert Potential(cluster.view, 5).total(one, -1, row) == 0
    assert Potential(cluster.view, 6).total(one, -1, row) == 8
    assert Potential(cluster.view, 6).total(one, 1, row) == 4
    cluster.node("c", cpu=4, zone="a")
    cluster.run("c", cpu=4, priority=9, coming=True)
    assert Potential(cluster.view, None).total(one, -1, row) == 2


def test_it_keeps_up_with_what_starts_and_ends() -> None:
    cluster, there = _cluster()
    own = Potential(cluster.view, 6)
    cluster.view.stirred()
    cluster.view.unbind(there["a1"])
    cluster.run("a1", cpu=4, priority=7)
    own.catch_up(cluster.view.stirred())
    assert own.total(shape(cpu=2), -1, _row(cluster, "a1")) == 6


@pytest.mark.parametrize("wide", [0, 256])
def test_of_many_shapes_those_are_reached_of_which_there_is_enough(monkeypatch: pytest.MonkeyPatch, wide: int) -> None:
    with_wide_domains_from(monkeypatch, wide)
    cluster, there = _cluster()
    own = Potential(cluster.view, None)
    thresholds = Thresholds(own, cluster.view.node_table.level_of["topology.kubernetes.io/zone"])
    shapes = [shape(cpu=number / 10) for number in range(1, 41)]
    for one in shapes:
        thresholds.set(one, 3)
    cluster.view.unbind(there["a1"])
    own.catch_up(cluster.view.stirred())
    reached = {found.shape: found.slots for found in thresholds.reached([_row(cluster, "a1")])}
    assert reached == {one: 40 // number for number, one in enumerate(shapes, 1) if 40 // number >= 3}
    assert not list(thresholds.reached([_row(cluster, "b1")])), "nothing is free there"


def test_constraints_that_are_no_longer_asked_about_are_forgotten() -> None:
    cluster, there = _cluster()
    own = Potential(cluster.view, None)
    thresholds = Thresholds(own, -1)
    kept = shape(cpu=1, node_selector=(("pool", "a1"),))
    thresholds.set(kept, 1)
    for number in range(1000):
        passing = shape(cpu=1, node_selector=(("pool", str(number)),))
        thresholds.set(passing, 1)
        thresholds.drop(passing)
    cluster.view.unbind(there["a1"])
    own.catch_up(cluster.view.stirred())
    assert [found.shape for found in thresholds.reached([_row(cluster, "a1")])] == [kept]
    assert len(thresholds) == 1
    assert thresholds.kinds < 100
