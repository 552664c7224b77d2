"""Mixed pods and budgets among more units than can be tried: the solver names those whose eviction loses least."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest

from echelon.engine import Demand, Evict, Identity, Peers, PodTerm, Requirement
from echelon.engine.preemption.loss import EvictionTrial
from echelon.engine.preemption.node_options import EvictionCosts, OptionTable
from echelon.testing.placement import GPU, LEVELS, NOW, ClusterBuilder, composite, fresh_id, gang, judged, pods, shape
from tests.forced_ways import without_victim_solver

Cost = tuple[int, int, int]
NEVER: Cost = (1 << 60, 0, 0)


def tenants(rng: Random, cluster: ClusterBuilder, nodes: int, covered: float) -> dict[str, list[tuple[int, Cost]]]:
    """Full nodes of 8 GPUs; by node the size of every pod and what its eviction costs: violations, work, units."""
    found: dict[str, list[tuple[int, Cost]]] = {}
    for number in range(nodes):
        name, left = f"n{number}", 8
        cluster.node(name, gpu=8)
        while left:
            size, age, violates = min(left, rng.choice((1, 2, 4))), rng.randint(1, 500), rng.random() < covered
            budgets = (cluster.budget(0),) if violates else ()
            cluster.run(name, gpu=size, priority=1, started=NOW - age, budgets=budgets)
            found.setdefault(name, []).append((size, (int(violates), age * 1000, 1)))
            left -= size
    return found


def least_for(held: dict[str, list[tuple[int, Cost]]], large: int, small: int) -> Cost:
    """The least cost of so many 4-GPU and 1-GPU pods, node by node."""
    best = {(0, 0): (0, 0, 0)}
    for there in held.values():
        after = dict(best)
        for number in range(1, len(there) + 1):
            for gone in combinations(there, number):
                cost = added(*(each for _, each in gone))
                free = sum(size for size, _ in gone)
                for fours in range(free // 4 + 1):
                    for (had, ones), before in best.items():
                        key = (min(large, had + fours), min(small, ones + free - 4 * fours))
                        after[key] = min(after.get(key, NEVER), added(before, cost))
        best = after
    return best[large, small]


def added(*costs: Cost) -> Cost:
    violations, work, units = (sum(numbers) for numbers in zip(*costs, strict=True))
    return violations, work, units


@pytest.mark.parametrize("covered", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_mixed_pods_among_many_units_evict_what_loses_least(seed: int, covered: float) -> None:
    rng, cluster = Random(seed), ClusterBuilder()
    held = tenants(rng, cluster, 24, covered)
    assert sum(map(len, held.values())) > 64
    large, small = rng.randint(2, 6), rng.randint(2, 6)
    verdict = cluster.decide(gang(large + small, pods(large, gpu=4), pods(small, gpu=1)), priority=9)
    assert isinstance(verdict, Evict)
    loss = verdict.loss
    assert (loss.budget_violations, loss.work, loss.units) == least_for(held, large, small)
    assert verdict.least


@pytest.mark.parametrize("seed", range(4))
def test_pods_that_keep_apart_evict_on_the_nodes_where_room_for_one_is_cheapest(seed: int) -> None:
    rng, cluster = Random(seed), ClusterBuilder()
    held = tenants(rng, cluster, 30, 0.0)
    mine = Identity("ns", (("app", "a"),))
    like = PodTerm(LEVELS["host"], Peers((Requirement("app", "In", ("a",)),), ("ns",)))
    number = rng.randint(4, 12)
    root = gang(number, pods(number, gpu=2, identity=mine, anti_affinity=(like,)))
    verdict = cluster.decide(root, priority=9)
    assert isinstance(verdict, Evict)
    by_node = [least_for({name: there}, 0, 2) for name, there in held.items()]
    assert (0, verdict.loss.work, verdict.loss.units) == added(*sorted(by_node)[:number])
    assert verdict.least


def contested(seed: int) -> tuple[ClusterBuilder, Demand]:
    """Three racks held by gangs that go as one and by single pods, some under budgets; rack-gangs of mixed pods."""
    rng, cluster = Random(seed), ClusterBuilder()
    names = [f"{rack}{number}" for rack in "rst" for number in range(6)]
    for name in names:
        cluster.node(name, cpu=18, gpu=12, rack=name[0])
    budgets = [cluster.budget(rng.randint(0, 2)) for _ in range(6)]
    for _ in range(6):
        unit, age, priority = fresh_id(), rng.randint(1, 900), rng.choice((1, 2))
        for name in rng.sample(names, 3):
            cluster.run(name, cpu=2, gpu=2, priority=priority, unit=unit, started=NOW - age)
    for name in names:
        for _ in range(3):
            covered = (rng.choice(budgets),) if rng.random() < 0.5 else ()
            age, priority = rng.randint(1, 900), rng.choice((1, 2, 3))
            cluster.run(name, cpu=4, gpu=2, priority=priority, started=NOW - age, budgets=covered)
    children = [gang(4, pods(2, cpu=6, gpu=6), pods(2, cpu=5, gpu=1), key="rack") for _ in range(2)]
    return cluster, Demand(composite(2, *children), priority=9)


@pytest.mark.parametrize("seed", range(3))
def test_the_same_question_gets_the_same_answer_and_its_loss_is_proved(seed: int) -> None:
    cluster, demand = contested(seed)
    first, second = (judged(cluster.view, demand) for _ in range(2))
    assert isinstance(first, Evict)
    assert first == second
    assert first.least


@pytest.mark.parametrize("seed", range(3))
def test_without_the_solver_the_loss_is_no_less_and_no_more_is_promised(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, demand = contested(seed)
    least = judged(cluster.view, demand)
    without_victim_solver(monkeypatch)
    verdict = judged(cluster.view, demand)
    assert isinstance(least, Evict)
    assert isinstance(verdict, Evict)
    assert verdict.bound <= least.loss.as_bound <= verdict.loss.as_bound


@pytest.mark.parametrize("seed", range(6))
def test_every_set_of_tenants_is_matched_by_a_way_that_is_no_worse(seed: int) -> None:
    """Free amounts count in pieces that the newcomers can use: 2 GPUs with 3 cores, 3 GPUs with 1 core."""
    rng, cluster = Random(seed), ClusterBuilder()
    cluster.node("n", cpu=12, gpu=12).node("m", cpu=4, gpu=4)
    both = cluster.run("n", cpu=1, gpu=1)
    cluster.run("m", cpu=4, gpu=4, unit=both)
    for _ in range(6):
        cluster.run("n", cpu=rng.randint(0, 2), gpu=rng.randint(1, 2), started=NOW - rng.randint(1, 20))
    wanted = {shape(cpu=3, gpu=2): 3, shape(cpu=1, gpu=3): 2}
    victims = EvictionTrial(cluster.view, NOW).victims(9)
    cost = {victim.unit: victim.work for victim in victims}
    table = cluster.view.node_table
    found = OptionTable(table, np.arange(table.size), wanted, victims, EvictionCosts(cost, {}), {})
    row = table.row("n")
    (node,) = [node for node in found.nodes if node.row == row]
    free = {name: int(table.free[table.resources[name], row]) for name in ("cpu", GPU)}
    here = [victim for victim in victims if row in victim.freed]
    for number in range(len(here) + 1):
        for gone in combinations(here, number):
            given = {name: free[name] + sum(v.freed[row].get(name, 0) for v in gone) for name in free}  # type: ignore[index]
            price = sum(cost[victim.unit] for victim in gone if victim.unit != both)
            units = {victim.unit for victim in gone}
            fills = [(a, b) for a in range(4) for b in range(3) if _holds(given, a, b)]
            assert any(
                option.cost <= price
                and (both not in option.units or both in units)
                and all(_holds(_of(found, option.free), *fill) for fill in fills)
                for option in node.options
            )


def _holds(given: dict[str, int], first: int, second: int) -> bool:
    return given["cpu"] >= 3000 * first + 1000 * second and given[GPU] >= 2 * first + 3 * second


def _of(found: OptionTable, free: tuple[int, ...]) -> dict[str, int]:
    return {r.name: amount * r.unit for r, amount in zip(found.resources, free, strict=True)}
