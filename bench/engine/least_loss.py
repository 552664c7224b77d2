"""The least loss of the preemption cases, by methods that know their regular shape: what the engine is held against."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from echelon.engine import ClusterView, Running

from .worlds import GPU, NOW

#: Highest priority, work in milliseconds, units.
Loss = tuple[int, int, int]

#: Work and units as one number that orders like the pair.
ONE_WORK = 1 << 20


def of_gangs(view: ClusterView) -> Loss:
    """Five gangs that each hold a slot of every node: the one of lowest priority and least work."""
    return min((unit.priority, _work(view.pods_of(unit.id)), 1) for unit in view.units())


def of_singles(view: ClusterView, pods: int = 100, gpus: int = 4) -> Loss:
    """Single victims: all subsets on each node, then the best division of the slots among nodes."""
    for highest in sorted({unit.priority for unit in view.units()}):
        total = np.full(pods + 1, 1 << 60, dtype=np.int64)
        total[0] = 0
        for name in view.node_names():
            costs = _cheapest_slots(view, name, highest, gpus)
            options = [np.append(np.full(k, 1 << 60), total[: pods + 1 - k]) + cost for k, cost in enumerate(costs)]
            total = np.min(options, axis=0)
        if total[pods] < 1 << 59:
            return highest, int(total[pods]) // ONE_WORK, int(total[pods]) % ONE_WORK
    raise ValueError("no victims suffice")


def _cheapest_slots(view: ClusterView, name: str, highest: int, gpus: int) -> list[int]:
    """What 0, 1, 2, … slots of a node cost, as far as victims up to a priority go."""
    node, victims = view.node(name), view.pods_on(name)
    assert node is not None
    free = node.allocatable[GPU] - sum(dict(pod.requests)[GPU] for pod in victims)
    freed, cost = np.full(1, free, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for pod in victims:
        unit = view.unit(pod.unit)
        if unit is not None and unit.priority <= highest:
            freed = np.append(freed, freed + dict(pod.requests)[GPU])
            cost = np.append(cost, cost + _work([pod]) * ONE_WORK + 1)
    most = int(freed.max()) // gpus
    return [int(cost[freed >= k * gpus].min()) for k in range(most + 1)]


def of_rack_gangs(view: ClusterView, racks: int = 6, nodes: int = 8) -> Loss:
    """Whole nodes in racks of one block, units inside racks: the cheapest nodes of each rack, the cheapest racks."""
    names = view.node_names()
    for highest in sorted({unit.priority for unit in view.units()}):
        costs = [_cheapest_nodes(view, names[at : at + 10], nodes, highest) for at in range(0, len(names), 10)]
        blocks = [sorted(costs[at : at + 10])[:racks] for at in range(0, len(costs), 10)]
        best = min(sum(block) for block in blocks)
        if best < 1 << 59:
            return highest, best // ONE_WORK, best % ONE_WORK
    raise ValueError("no victims suffice")


def _cheapest_nodes(view: ClusterView, rack: list[str], nodes: int, highest: int) -> int:
    units = {name: {pod.unit for pod in view.pods_on(name)} for name in rack}
    prices = {}
    for unit in map(view.unit, set[int]().union(*units.values())):
        assert unit is not None
        prices[unit.id] = _work(view.pods_of(unit.id)) * ONE_WORK + 1 if unit.priority <= highest else 1 << 60
    freed = (set[int]().union(*(units[name] for name in chosen)) for chosen in combinations(rack, nodes))
    return min(sum(prices[unit] for unit in gone) for gone in freed)


def _work(pods: Iterable[Running]) -> int:
    return sum(int((NOW - pod.started) * 1000) for pod in pods)
