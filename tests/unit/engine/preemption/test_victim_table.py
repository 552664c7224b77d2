"""Everyone who could be evicted, as columns: they say what the view says, and so does each victim made of them."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

import numpy as np
import pytest

from echelon.engine import ClusterView
from echelon.engine.preemption.loss import EvictionTrial
from echelon.engine.preemption.victim_table import Victim, Victims
from echelon.testing.placement import NOW, ClusterBuilder, fresh_id

BELOW = 4
#: A budget that pods name and the view does not know.
UNKNOWN = -1


class Told(NamedTuple):
    """A victim in plain records."""

    unit: int
    priority: int
    work: int
    pods: frozenset[int]
    budgets: Counter[int]
    freed: dict[int, dict[str, int]]


def occupied(seed: int, others: int) -> ClusterBuilder:
    """Units of one to four pods, some under budgets, some being evicted, some on a node that is gone."""
    rng, cluster = Random(seed), ClusterBuilder()
    for number in range(6):
        cluster.node(f"n{number}", cpu=9, rack=f"r{number // 2}")
    one, two = cluster.budget(1), cluster.budget(0)
    nodes = [*(f"n{number}" for number in range(6)), "gone"]
    for _ in range(rng.randint(1, 20)):
        unit, priority = fresh_id(), rng.randint(0, 6)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            budgets = rng.choice(((), (), (one,), (two, UNKNOWN), (UNKNOWN,)))
            started, evictable = NOW - rng.randint(-2, 3) - rng.random(), rng.random() < 0.9
            cluster.run(
                rng.choice(nodes), rng.randint(0, 2), priority=priority, unit=unit, started=started,
                budgets=budgets, evictable=evictable,
            )  # fmt: skip
    crowded = fresh_id()
    for _ in range(others):  # so that units are asked for their pods, and not all pods looked at
        cluster.run("n0", priority=BELOW, unit=crowded)
    return cluster


def expected(view: ClusterView) -> list[Told]:
    found = []
    for unit in view.units():
        pods = [pod for pod in view.pods_of(unit.id) if pod.evictable]
        if unit.priority >= BELOW or not pods:
            continue
        work = sum(max(0, int((NOW - pod.started) * 1000)) for pod in pods)
        budgets = Counter(budget for pod in pods for budget in pod.budgets if budget != UNKNOWN)
        freed: dict[int, dict[str, int]] = {}
        for pod in pods:
            row = view.node_table.row(pod.node)
            if row is not None:
                sums = freed.setdefault(row, {})
                for name, amount in pod.requests:
                    sums[name] = sums.get(name, 0) + amount
        found.append(Told(unit.id, unit.priority, work, frozenset(pod.pod for pod in pods), budgets, freed))
    return sorted(found, key=lambda told: (told.priority, told.work, told.unit))


def told(victim: Victim) -> Told:
    freed = {row: dict(record) for row, record in victim.freed.items()}
    pods = frozenset(pod.pod for pod in victim.pods)
    return Told(victim.unit, victim.priority, victim.work, pods, victim.budgets, freed)


@pytest.mark.parametrize("others", [0, 200])
@pytest.mark.parametrize("seed", range(20))
def test_victims_are_what_the_view_says_the_cheapest_first(seed: int, others: int) -> None:
    view = occupied(seed, others).view
    victims, plain = EvictionTrial(view, NOW).victims(BELOW), expected(view)
    assert list(map(told, victims)) == plain
    assert victims.units.tolist() == [each.unit for each in plain]
    assert victims.works.tolist() == [each.work for each in plain]
    assert victims.any_under_budget == any(each.budgets for each in plain)


@pytest.mark.parametrize("seed", range(20))
def test_those_of_each_domain_are_told_once_and_in_order(seed: int) -> None:
    view = occupied(seed, 0).view
    victims, plain = EvictionTrial(view, NOW).victims(BELOW), expected(view)
    racks = np.arange(view.node_table.size) // 2
    by_rack = {rack: inside.units.tolist() for rack, inside in victims.by_domain(racks)}
    touched = {rack: [each.unit for each in plain if {2 * rack, 2 * rack + 1} & set(each.freed)] for rack in range(3)}
    assert by_rack == {rack: units for rack, units in touched.items() if units}
    assert list(by_rack) == sorted(by_rack)


@pytest.mark.parametrize("seed", range(5))
def test_a_subset_knows_its_priorities(seed: int) -> None:
    victims = EvictionTrial(occupied(seed, 0).view, NOW).victims(BELOW)
    for end in range(1, len(victims) + 1):
        some = victims[:end]
        assert isinstance(some, Victims)
        assert (some.lowest, some.highest) == (victims[0].priority, victims[end - 1].priority)
        assert [victim.unit for victim in some.below(some.highest)] == [
            victim.unit for victim in some if victim.priority < some.highest
        ]


def test_no_pod_to_evict_is_an_empty_table() -> None:
    victims = EvictionTrial(ClusterBuilder().node("n", cpu=1).view, NOW).victims(BELOW)
    assert not victims
    assert victims.by_domain(np.zeros(1, dtype=np.int64)) == []
