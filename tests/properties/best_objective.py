"""The best objective there is, by brute force from its definition; nothing is shared with the engine but its records.

Which members of which leaves are placed is enumerated from the best choice down; for each choice pods are put on
nodes one by one, and a start that already misses more preferred keys or leaves more slots than the best is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, product

from echelon.engine import ClusterView, Composite, Demand, Group, Leaf, Objective, Shape
from tests.properties.brute_force import PlacementState
from tests.properties.pod_terms import apart, right

Counts = tuple[int, ...]
Choice = tuple[Counts | None, ...]
Pod = tuple[Leaf, Shape]


def optimum(view: ClusterView, demand: Demand) -> Objective | None:
    """The least objective over all placements; None if there is none."""
    ground = _Ground(view, demand)
    choices = sorted(_choices(demand), key=lambda found: found[0])
    for worth, alike in groupby(choices, key=lambda found: found[0]):
        best: tuple[int, int] | None = None
        for _, choice in alike:
            best = _Packing(ground, choice, best).best
        if best is not None:
            return Objective(*worth, *best)
    return None


def _choices(demand: Demand) -> Iterator[tuple[tuple[int, int, int], Choice]]:
    """How many pods of each class every leaf gets, None for a leaf that is left out, with what that is worth."""
    leaves = list(demand.leaves())
    members = sum(len(pods.members) for leaf in leaves for pods in leaf.classes)
    for choice in product(*map(_options, leaves)):
        placed = sum(sum(counts or ()) for counts in choice)
        if members and not placed:
            continue
        holding = holding_groups(demand, choice)
        if demand.root.id not in holding:
            continue
        if any(sum(counts or ()) and leaf.id not in holding for leaf, counts in zip(leaves, choice, strict=True)):
            continue
        roles = sum(_roles_missing(leaf, counts) for leaf, counts in zip(leaves, choice, strict=True))
        yield (roles, len(_groups(demand.root)) - len(holding), members - placed), choice


def _options(leaf: Leaf) -> Iterator[Counts | None]:
    yield None
    for counts in product(*(range(len(pods.members) + 1) for pods in leaf.classes)):
        if sum(counts) + len(leaf.bound) >= leaf.min_count:
            yield counts


def holding_groups(demand: Demand, choice: Choice) -> set[int]:
    """Groups that hold, with all above them."""
    chosen = {leaf.id for leaf, counts in zip(demand.leaves(), choice, strict=True) if counts is not None}

    def holds(group: Group) -> bool:
        if isinstance(group, Leaf):
            return group.id in chosen
        return sum(map(holds, group.children)) >= group.min_groups

    def below(group: Group) -> Iterator[int]:
        if holds(group):
            yield group.id
            for child in group.children if isinstance(group, Composite) else ():
                yield from below(child)

    return set(below(demand.root))


def _groups(group: Group) -> list[Group]:
    below = group.children if isinstance(group, Composite) else ()
    return [group, *(each for child in below for each in _groups(child))]


def _roles_missing(leaf: Leaf, counts: Counts | None) -> int:
    asked = {pods.role for pods in leaf.classes if pods.members}
    placed = {pods.role for pods, count in zip(leaf.classes, counts or (), strict=False) if count}
    return len(asked - placed - {bound.role for bound in leaf.bound})


class _Ground:
    """What holds for all choices: nodes, slots, the groups above each leaf."""

    def __init__(self, view: ClusterView, demand: Demand) -> None:
        self.view, self.demand = view, demand
        self.world = PlacementState(view, demand, list(view.all_running()))
        self.names = list(self.world.free)
        self.groups = _groups(demand.root)
        self.above = _ancestry(demand.root, ())
        shapes = dict.fromkeys(pods.shape for leaf in demand.leaves() for pods in leaf.classes)
        self.slots = {shape: self.world.slots(shape) for shape in shapes}
        self.first = {name: self.world.look(name, []) for name in self.names}
        self._homes: dict[int, list[list[str]]] = {}

    def home(self, leaf: Leaf, done: list[tuple[Leaf, str]], honoured: dict[int, int]) -> list[str]:
        """The nodes that share every domain with the leaf's pods which it and the groups above are held to."""
        home = self.names
        for group in self.above[leaf.id]:
            alone = group.exclusive.key if isinstance(group, Leaf) and group.exclusive else None
            wished = group.preferred[honoured[group.id] :][:1]
            keys = [key for key in (group.topology, alone, *wished) if key]
            names = self.world.names_below(group, done) if keys else []
            for key in keys if names else ():
                here = self.world.domain(names[0], key)
                home = [name for name in home if self.world.domain(name, key) == here]
        return home

    def homes(self, leaf: Leaf) -> list[list[str]]:
        """Every home that a leaf could have, and some that it could not."""
        if leaf.id not in self._homes:
            groups = self.above[leaf.id]
            wishes = list(product(*(range(len(group.preferred) + 1) for group in groups)))
            self._homes[leaf.id] = [
                self.home(leaf, [(leaf, name)], {group.id: n for group, n in zip(groups, wished, strict=True)})
                for name in self.names
                for wished in wishes
            ]
        return self._homes[leaf.id]


class _Packing:
    """The fewest (preferred keys missed, spare slots) for one choice of pods, if that beats what is known."""

    def __init__(self, ground: _Ground, choice: Choice, best: tuple[int, int] | None) -> None:
        self.best, self.ground, self.world = best, ground, ground.world
        self.holding = holding_groups(ground.demand, choice)
        self.absent = sum(len(group.preferred) for group in ground.groups if group.id not in self.holding)
        self.wishing = [group for group in ground.groups if group.preferred and group.id in self.holding]
        self.pods: list[Pod] = []
        self.amount: dict[tuple[int, Shape], int] = {}
        self.world.sizes = {}
        for leaf, counts in zip(ground.demand.leaves(), choice, strict=True):
            if leaf.id in self.holding:
                self.world.sizes[leaf.id] = sum(counts or ())
            for pods, count in zip(leaf.classes, counts or (), strict=False):
                self.pods += [(leaf, pods.shape)] * count
                if count:
                    self.amount[leaf.id, pods.shape] = self.amount.get((leaf.id, pods.shape), 0) + count
        self.with_terms = any(shape.has_pod_rules for _, shape in self.pods)
        self.least = {(leaf.id, shape): self._least(leaf, shape) for leaf, shape in self.pods}
        if self._enough() and all(least is not None for least in self.least.values()):
            self._put([])

    def _enough(self) -> bool:
        """Whether there are slots and amounts for all pods, each by itself."""
        wanted: dict[str, int] = {}
        for _, shape in self.pods:
            for resource, amount in shape.requests:
                wanted[resource] = wanted.get(resource, 0) + amount
        free = self.world.free.values()
        return all(sum(max(0, has.get(name, 0)) for has in free) >= amount for name, amount in wanted.items())

    def _put(self, done: list[tuple[Leaf, str]]) -> None:
        """Put the next pod everywhere it may be."""
        at = len(done)
        if self._bound(done) is None:
            return
        if at == len(self.pods):
            new = [(shape, name) for (_, shape), (_, name) in zip(self.pods, done, strict=True)]
            if self.world.stands(done) and right(self.ground.view, self.world.running, new):
                self.best = self._bound(done)
            return
        leaf, shape = self.pods[at]
        start = self.ground.names.index(done[-1][1]) if at and self.pods[at - 1] == self.pods[at] else 0
        looks = set[object]()
        for name in self.ground.names[start:]:
            look = name if self.with_terms else (self.world.look(name, done), self.ground.first[name])
            if look in looks or not self.world.fits(shape, name):
                continue
            looks.add(look)
            now = [*done, (leaf, name)]
            self.world.charge(shape, name, 1)
            if all(self.world.in_domain(group, now) for group in self.ground.above[leaf.id]) and self._apart(now):
                self._put(now)
            self.world.charge(shape, name, -1)

    def _apart(self, done: list[tuple[Leaf, str]]) -> bool:
        new = [(shape, name) for (_, shape), (_, name) in zip(self.pods, done, strict=False)]
        return not self.with_terms or apart(self.ground.view, self.world.running, new)

    # ---- preferred keys and spare slots

    def _bound(self, done: list[tuple[Leaf, str]]) -> tuple[int, int] | None:
        """What the pods so far cost, and the others at least; None if that is no better than the best."""
        honoured = dict.fromkeys((group.id for group in self.ground.groups), 0)
        honoured |= {group.id: self._honoured(group, done) for group in self.wishing}
        missed = self.absent + sum(honoured.values())
        if self.best is not None and missed > self.best[0]:
            return None
        spare, started = 0, dict[tuple[int, Shape], Leaf]()
        for leaf, shape in self.pods[: len(done)]:
            started[leaf.id, shape] = leaf
        for (leaf_id, shape), leaf in started.items():
            if measured(leaf) and not shape.has_pod_rules:
                home = self.ground.home(leaf, done, honoured)
                spare += sum(self.ground.slots[shape][name] for name in home) - self.amount[leaf_id, shape]
        spare += sum(least or 0 for where, least in self.least.items() if where not in started)
        found = (missed, spare)
        return found if self.best is None or found < self.best else None

    def _honoured(self, group: Group, done: list[tuple[Leaf, str]]) -> int:
        names = self.world.names_below(group, done)
        for number, key in enumerate(group.preferred):
            domains = {self.world.domain(name, key) for name in names}
            if len(domains) <= 1 and None not in domains:
                return number
        return len(group.preferred)

    def _least(self, leaf: Leaf, shape: Shape) -> int | None:
        """The fewest spare slots of a leaf that has the cluster for itself; None if it fits nowhere."""
        slots, count = self.ground.slots[shape], self.amount[leaf.id, shape]
        found = (sum(slots[name] for name in home) - count for home in self.ground.homes(leaf))
        fitting = [spare for spare in found if spare >= 0]
        if shape.has_pod_rules or not measured(leaf):
            return 0 if fitting else None
        return min(fitting, default=None)


def measured(leaf: Leaf) -> bool:
    """Whether spare slots around a leaf count: not around those that will grow."""
    if leaf.final_size is not None:
        return leaf.final_size <= len(leaf.bound) + sum(len(pods.members) for pods in leaf.classes)
    return leaf.min_count > 1 or leaf.topology is None


def _ancestry(group: Group, above: tuple[Group, ...]) -> dict[int, tuple[Group, ...]]:
    """Every leaf with the groups above it, itself included."""
    if isinstance(group, Leaf):
        return {group.id: (*above, group)}
    return {leaf: path for child in group.children for leaf, path in _ancestry(child, (*above, group)).items()}
