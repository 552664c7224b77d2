"""Random preemption: full clusters, victims of every kind, newcomers of one or many shapes; is the least loss proved?

Every instance is drawn from a seed.  Nodes have 8 GPUs with 96 cores and 800 GiB.  Units hold them: single pods of
unequal size, gangs that go as one (disruption mode `all`), and gangs whose pods go one by one, all of unequal age
and priority, many of them under a disruption budget where a family says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random

from echelon.engine import (
    Budget,
    ClusterView,
    Composite,
    Demand,
    Group,
    Identity,
    Peers,
    PodTerm,
    Requirement,
    Running,
    Shape,
    Unit,
)

from .harness import World
from .worlds import BLOCK, GIB, HOST, NOW, RACK, RUNNING, all_of, gang, mixed_gang, next_id, shape, tree

#: Pods that take little or much of cpu and memory for their GPUs, and one that takes no GPU at all.
UNEVEN = [shape(gpus, slots) for gpus, slots in ((4, 2), (2, 3), (1, 2), (2, 1), (0, 1))]


class Tenants:
    """Fills a cluster with units."""

    def __init__(self, seed: int, view: ClusterView, budgets: int = 0, covered: float = 0.6) -> None:
        self.rng, self.view, self.covered = Random(seed), view, covered
        self.left = {name: [8, 8] for name in view.node_names()}
        self.budgets = [Budget(number + 1, self.rng.randint(0, 3)) for number in range(budgets)]
        for budget in self.budgets:
            view.put_budget(budget)
        self._units = count()

    def unit(self, names: list[str], one: Shape, slots: int, gpus: int) -> None:
        """One unit with a pod on each of these nodes."""
        unit, started = next(self._units), NOW - self.rng.randint(60, 90_000)
        self.view.put_unit(Unit(unit, self.rng.randint(1, 4), f"unit-{unit}"))
        covered = (self.rng.choice(self.budgets).id,) if self.budgets and self.rng.random() < self.covered else ()
        for name in names:
            self.left[name][0] -= gpus
            self.left[name][1] -= slots
            self.view.bind(Running(RUNNING + next_id(), name, one.requests, unit, started, budgets=covered))

    def gangs(self, share: float, sizes: tuple[int, ...], spread: int) -> None:
        """Gangs of whole nodes and half nodes that go as one, on a share of the nodes, each within a run of nodes."""
        names = list(self.left)
        free = [name for name in names if self.rng.random() < share]
        while free:
            size, gpus = self.rng.choice(sizes), self.rng.choice((8, 8, 4))
            start = names.index(free[0])
            near = [name for name in free if names.index(name) < start + spread]
            chosen = near[:1] + self.rng.sample(near[1:], min(size, len(near)) - 1)
            self.unit(chosen, shape(gpus), gpus, gpus)
            free = [name for name in free if self.left[name][0] >= 8]

    def singles(self, kinds: list[tuple[int, int]]) -> None:
        """Pods of these (GPUs, slots) until nothing of the smallest fits."""
        for name, left in self.left.items():
            while True:
                open_kinds = [(gpus, slots) for gpus, slots in kinds if gpus <= left[0] and slots <= left[1]]
                if not open_kinds or self.rng.random() < 0.01:
                    break
                gpus, slots = self.rng.choice(open_kinds)
                self.unit([name], shape(gpus, slots), slots, gpus)

    def small(self, most: int) -> None:
        """Pods of tenths of a slot without GPUs, many on each node."""
        for name in self.left:
            left = 80
            for _ in range(most):
                size = min(left, self.rng.randint(1, 6))
                if size:
                    left -= size
                    one = Shape((("cpu", 1_200 * size), ("memory", 10 * GIB * size), ("pods", 1)))
                    self.unit([name], one, 0, 0)


#: (GPUs, slots) of single pods.
EVEN = [(1, 1), (2, 2), (2, 2), (4, 4), (8, 8)]
ODD = [(1, 2), (2, 1), (2, 3), (4, 2), (0, 1)]


def mixed(racks: int, key: str | None, budgets: int, held: float, seed: int) -> World:
    """A gang of 8-, 4-, 2- and 1-GPU pods; gangs that go as one hold a share of the nodes, single pods the others."""
    view = tree(1, 2, racks // 2, 16)
    tenants = Tenants(seed, view, budgets)
    if held:
        tenants.gangs(held, (2, 3, 4, 8), 40)
    tenants.singles(EVEN)
    most = 3 if key else racks + 2
    numbers = [(shape(gpus), tenants.rng.randint(1, most)) for gpus in (8, 4, 2, 1)]
    return view, [Demand(mixed_gang(numbers, key), priority=100)]


def equal_with_budgets(racks: int, key: str | None, budgets: int, seed: int) -> World:
    """A gang of equal 4-GPU pods among gangs and singles, most of them under budgets."""
    view = tree(1, 2, racks // 2, 16)
    tenants = Tenants(seed, view, budgets)
    tenants.gangs(0.3, (2, 3, 4), 40)
    tenants.singles(EVEN)
    return view, [Demand(gang(6 if key else 6 * racks, shape(4), key), priority=100)]


def uneven(racks: int, key: str | None, budgets: int, seed: int) -> World:
    """Cpu and memory do not go with GPUs, neither for the newcomers nor for those who run."""
    view = tree(1, 2, racks // 2, 16)
    tenants = Tenants(seed, view, budgets)
    tenants.singles(ODD)
    low, high = (2, 6) if key else (2 * racks, 5 * racks)
    numbers = [(one, tenants.rng.randint(low, high)) for one in tenants.rng.sample(UNEVEN, 3)]
    return view, [Demand(mixed_gang(numbers, key), priority=100)]


def all_covered(racks: int, key: str | None, budgets: int, seed: int) -> World:
    """Everyone is under a budget, and budgets allow little: some are violated whoever goes."""
    view = tree(1, 2, racks // 2, 16)
    tenants = Tenants(seed, view, budgets, covered=1.0)
    tenants.gangs(0.3, (2, 3, 4), 40)
    tenants.singles(EVEN)
    numbers = [(shape(gpus), tenants.rng.randint(2, 4) * (1 if key else racks)) for gpus in (8, 2)]
    return view, [Demand(mixed_gang(numbers, key), priority=100)]


def one_each(racks: int, key: str | None, seed: int) -> World:
    """A gang of 2-GPU pods that keep away from one another: one on each node."""
    view = tree(1, 2, racks // 2, 16)
    tenants = Tenants(seed, view)
    tenants.gangs(0.3, (2, 3, 4), 40)
    tenants.singles(EVEN)
    like = PodTerm(HOST, Peers((Requirement("app", "In", ("a",)),), ("ns",)))
    one = replace(shape(2), identity=Identity("ns", (("app", "a"),)), anti_affinity=(like,))
    return view, [Demand(gang(8 if key else 8 * racks, one, key), priority=100)]


def small_pods(racks: int, seed: int) -> World:
    """A gang of 48- and 18-core pods among more than twenty small pods on every node."""
    view = tree(1, 2, racks // 2, 16)
    tenants = Tenants(seed, view)
    tenants.small(40)
    numbers = [(shape(0, slots), tenants.rng.randint(1, 3)) for slots in (4, 2)]
    return view, [
        Demand(mixed_gang([*numbers, (Shape((("cpu", 18_000), ("memory", 50 * GIB), ("pods", 1))), 4)]), priority=100)
    ]


def rack_gangs(racks: int, budgets: int, driver: bool, seed: int) -> World:
    """Four rack-gangs of four 8-GPU pods under a block, each with a driver without GPUs if wanted."""
    view = tree(1, 2, racks // 2, 16)
    tenants = Tenants(seed, view, budgets)
    tenants.gangs(0.5, (2, 3, 4, 8), 40)
    tenants.singles(EVEN)
    classes = [(shape(8), 4), *([(shape(0, 2), 1)] if driver else [])]
    return view, [Demand(all_of([mixed_gang(classes, RACK) for _ in range(4)], BLOCK), priority=100)]


def unequal_children(racks: int, budgets: int, seed: int) -> World:
    """Three of four unequal rack-gangs of mixed pods, anywhere."""
    view = tree(1, 2, racks // 2, 16)
    tenants = Tenants(seed, view, budgets)
    tenants.gangs(0.4, (2, 3, 4), 40)
    tenants.singles(EVEN)
    children: list[Group] = []
    for _ in range(4):
        numbers = [(shape(gpus), tenants.rng.randint(1, 3)) for gpus in tenants.rng.sample((8, 4, 2, 1), 2)]
        children.append(mixed_gang(numbers, RACK))
    return view, [Demand(Composite(next_id(), 3, tuple(children)), priority=100)]


#: Families of random instances: name, what to build from a seed.
FAMILIES: dict[str, Callable[[int], World]] = {
    "mixed gang, ~210 singles on 64 nodes": partial(mixed, 4, None, 0, 0),
    "mixed gang, ~1,700 singles on 512 nodes": partial(mixed, 32, None, 0, 0),
    "mixed gang in a rack, ~430 singles": partial(mixed, 8, RACK, 0, 0),
    "mixed gang, ~130 gangs and singles": partial(mixed, 4, None, 0, 0.5),
    "mixed gang, ~1,100 gangs and singles": partial(mixed, 32, None, 0, 0.5),
    "mixed gang in a rack, ~290 gangs and singles": partial(mixed, 8, RACK, 0, 0.5),
    "mixed gang, ~210 singles, 20 budgets": partial(mixed, 4, None, 20, 0),
    "mixed gang in a rack, ~270 units, 30 budgets": partial(mixed, 8, RACK, 30, 0.5),
    "mixed gang, ~180 units, all under 20 budgets": partial(all_covered, 4, None, 20),
    "mixed gang in a rack, ~340 units, all under 40 budgets": partial(all_covered, 8, RACK, 40),
    "mixed gang, ~1,500 small pods on 64 nodes": partial(small_pods, 4),
    "32 pods that keep apart, ~170 units": partial(one_each, 4, None),
    "8 pods that keep apart in a rack, ~340 units": partial(one_each, 8, RACK),
    "24 equal pods, ~170 units, 15 budgets": partial(equal_with_budgets, 4, None, 15),
    "192 equal pods, ~1,350 units, 100 budgets": partial(equal_with_budgets, 32, None, 100),
    "6 equal pods in a rack, ~340 units, 30 budgets": partial(equal_with_budgets, 8, RACK, 30),
    "two resources, ~310 singles": partial(uneven, 4, None, 0),
    "two resources in a rack, ~620 singles, 30 budgets": partial(uneven, 8, RACK, 30),
    "4 rack-gangs under a block, ~550 units": partial(rack_gangs, 16, 0, False),
    "the same with drivers": partial(rack_gangs, 16, 0, True),
    "4 rack-gangs under a block, ~550 units, 60 budgets": partial(rack_gangs, 16, 60, False),
    "3 of 4 mixed rack-gangs, ~310 units": partial(unequal_children, 8, 0),
    "3 of 4 mixed rack-gangs, ~310 units, 30 budgets": partial(unequal_children, 8, 30),
}
