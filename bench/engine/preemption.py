"""Preempting: who goes, at the least loss."""

from __future__ import annotations

from itertools import count
from random import Random

from echelon.engine import Demand

from .harness import Case, World
from .least_loss import of_gangs, of_rack_gangs, of_singles
from .worlds import BLOCK, NOW, RACK, all_of, gang, occupy, shape, tree


def among_gangs() -> World:
    """Five gangs of 100 fill 100 nodes; the newcomer needs as much as one of them holds."""
    view = tree(1, 1, 5, 20, gpus=5)
    names = view.node_names()
    for unit in range(5):
        occupy(view, names, shape(1), unit % 3, NOW - 1_000 * (unit + 1), unit)
    return view, [Demand(gang(100, shape(1)), priority=100)]


def among_singles() -> World:
    """10,000 single pods of unequal size, age and priority fill 1000 nodes."""
    rng = Random(1)
    view = tree(1, 10, 10, 10, gpus=20)
    unit = 0
    for name in view.node_names():
        left = 20
        for part in range(10):
            size = 1 if left <= 10 - part else rng.randint(1, min(4, left - (9 - part)))
            left -= size
            occupy(view, [name], shape(size, 0), rng.randint(1, 4), NOW - rng.randint(60, 90_000), unit)
            unit += 1
    return view, [Demand(gang(100, shape(4, 0)), priority=100)]


def rack_gangs_among_units() -> World:
    """Six rack-gangs of eight under one block, on 1000 nodes held by 1,400 units: gangs and single pods."""
    rng, units = Random(2), count()
    view = tree(1, 10, 10, 10)
    names = view.node_names()

    def unit(nodes: list[str], gpus: int) -> None:
        occupy(view, nodes, shape(gpus), rng.randint(1, 4), NOW - rng.randint(60, 90_000), next(units))

    for start in range(0, len(names), 10):
        unit(names[start : start + 3], 8)
        unit(names[start + 3 : start + 6], 8)
        for name in names[start + 6 : start + 10] * 3:
            unit([name], rng.choice((2, 2, 2, 1)))
    gangs = [gang(8, shape(8), RACK) for _ in range(6)]
    return view, [Demand(all_of(gangs, BLOCK), priority=100)]


CASES = (
    Case("preempt-gangs", "100-pod gang among 5 gangs of 100, 100 nodes", 10, among_gangs, of_gangs),
    Case("preempt-singles", "100-pod gang among 10,000 unequal singles, 1000 nodes", 100, among_singles, of_singles),
    Case("preempt-block", "6 rack-gangs under a block among 1,400 units", 500, rack_gangs_among_units, of_rack_gangs),
)
