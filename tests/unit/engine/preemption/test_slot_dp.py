"""Among many units the cheapest that make room are found by arithmetic alone: as brute force finds them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from random import Random
from typing import NamedTuple

import pytest

from echelon.engine import Demand, Evict, Group, Limits, decide
from echelon.engine.preemption import slot_dp
from echelon.testing.placement import NOW, ClusterBuilder, composite, fresh_id, gang, pods
from tests.forced_ways import without_branching, without_victim_solver


class Held(NamedTuple):
    """A unit: its size on each of its nodes, and its work."""

    sizes: dict[str, int]
    work: int


def least(units: list[Held], room: dict[str, int], fits: Callable[[dict[str, int]], bool]) -> tuple[int, int] | None:
    """The least (work, units) over all subsets that leave room enough."""
    found = []
    for number in range(len(units) + 1):
        for gone in combinations(units, number):
            free = dict(room)
            for unit in gone:
                for node, size in unit.sizes.items():
                    free[node] += size
            if fits(free):
                found.append((sum(unit.work for unit in gone), number))
    return min(found, default=None)


def occupy(rng: Random, cluster: ClusterBuilder, room: dict[str, int], spans: tuple[int, ...], most: int) -> list[Held]:
    """Fill nodes with units of so many nodes each."""
    units = []
    while len(units) < most:
        open_nodes = [node for node, left in room.items() if left]
        span = min(rng.choice(spans), len(open_nodes))
        if not span:
            break
        age, unit, sizes = rng.randint(1, 9), fresh_id(), dict[str, int]()
        for node in rng.sample(open_nodes, span):
            sizes[node] = rng.randint(1, min(3, room[node]))
            room[node] -= sizes[node]
            cluster.run(node, cpu=sizes[node], priority=1, unit=unit, started=NOW - age)
        units.append(Held(sizes, age * 1000 * len(sizes)))
    return units


@pytest.fixture(autouse=True)
def many_victims(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps for many victims, however few there are."""
    without_branching(monkeypatch)


@pytest.fixture
def no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting slots, and nothing else."""
    without_victim_solver(monkeypatch)


def loses_least(cluster: ClusterBuilder, root: Group, expected: tuple[int, int] | None) -> None:
    verdict = cluster.decide(root, priority=5)
    if expected is None or expected == (0, 0):
        assert not isinstance(verdict, Evict)
        return
    assert isinstance(verdict, Evict), verdict
    assert (verdict.loss.work, verdict.loss.units) == expected
    assert verdict.least


def contested_gang(seed: int, spans: tuple[int, ...]) -> tuple[ClusterBuilder, Group, tuple[int, int] | None]:
    """Four nodes with units of these spans, a gang of equal pods, and the least (work, units) for it."""
    rng, cluster = Random(seed), ClusterBuilder()
    room = dict.fromkeys(["a", "b", "c", "d"], 6)
    for node in room:
        cluster.node(node, cpu=6)
    units = occupy(rng, cluster, room, spans, 10)
    per_pod = rng.choice((2, 3))
    need = rng.randint(1, sum(6 // per_pod for _ in room))
    expected = least(units, room, lambda free: sum(cpus // per_pod for cpus in free.values()) >= need)
    return cluster, gang(need, pods(need, cpu=per_pod)), expected


@pytest.mark.usefixtures("no_solver")
@pytest.mark.parametrize("seed", range(12))
def test_among_units_on_one_node_each_counting_slots_proves_the_least(seed: int) -> None:
    loses_least(*contested_gang(seed, (1,)))


@pytest.mark.parametrize("spans", [(1, 1, 2), (1, 2, 3, 4)])
@pytest.mark.parametrize("seed", range(12))
def test_among_units_that_span_nodes_the_least_is_evicted(seed: int, spans: tuple[int, ...]) -> None:
    loses_least(*contested_gang(seed, spans))


@pytest.mark.usefixtures("no_solver")
def test_where_too_many_units_span_nodes_missing_slots_bound_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_dp, "MOST_SPANNING", 0)
    for seed in range(60):
        cluster, root, expected = contested_gang(seed, (1, 2, 3))
        assert expected is not None
        # Not judged: among few units the judge allows nothing but the least loss.
        verdict = decide(cluster.view, Demand(root, priority=5), NOW, Limits())
        assert isinstance(verdict, Evict)
        found = (verdict.loss.work, verdict.loss.units)
        assert (verdict.bound.work, verdict.bound.units) <= expected <= found
        assert found == expected or not verdict.least


@pytest.mark.parametrize("seed", range(20))
def test_gangs_in_racks_evict_the_least_even_where_units_span_racks(seed: int) -> None:
    rng, cluster = Random(seed), ClusterBuilder()
    racks = {rack: [f"{rack}{number}" for number in range(2)] for rack in "rst"}
    room = {node: 4 for nodes in racks.values() for node in nodes}
    for rack, nodes in racks.items():
        for node in nodes:
            cluster.node(node, cpu=4, rack=rack)
    units = occupy(rng, cluster, room, (1, 1, 2, 3), 10)
    size, gangs = rng.choice((2, 3, 4)), rng.choice((2, 3))

    def fits(free: dict[str, int]) -> bool:
        return sum(sum(free[node] // 2 for node in nodes) // size for nodes in racks.values()) >= gangs

    root = composite(gangs, *(gang(size, pods(size, cpu=2), key="rack") for _ in range(gangs)))
    loses_least(cluster, root, least(units, room, fits))


@pytest.mark.usefixtures("no_solver")
def test_units_that_span_domains_leave_the_loss_unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_dp, "MOST_SPANNING", 0)
    cluster = ClusterBuilder().nodes("a", 2, cpu=2, rack="r").nodes("b", 2, cpu=2, rack="s")
    for first, second, age in (("a-0", "b-0", 5), ("a-0", "b-1", 6), ("a-1", "b-0", 7), ("a-1", "b-1", 9)):
        unit = fresh_id()
        for node in (first, second):
            cluster.run(node, cpu=1, priority=1, unit=unit, started=NOW - age)
    verdict = cluster.decide(gang(1, pods(1, cpu=2)), priority=5)
    assert isinstance(verdict, Evict)
    assert verdict.bound <= (0, 1, verdict.loss.work, verdict.loss.units)
    assert not verdict.least
