"""Brute force over small instances: does a placement exist, and which eviction loses least?

Everything is enumerated from the definitions and nothing is shared with the engine but its input records.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from echelon.engine import ClusterView, Demand, Group, Leaf, Placed, Running, Shape
from tests.properties.pod_terms import right

Loss = tuple[int, int, int, int, tuple[int, ...]]
Assignment = list[tuple[Leaf, str]]


def feasible(view: ClusterView, demand: Demand, gone: frozenset[int] = frozenset()) -> bool:
    """Whether the demand can be placed once the units in `gone` are evicted."""
    running = [pod for pod in view.all_running() if not (pod.unit in gone and pod.evictable)]
    world = PlacementState(view, demand, running)
    leaves = list(demand.leaves())
    waiting = any(pods.members for leaf in leaves for pods in leaf.classes)
    for sizes in product(*(_sizes(leaf) for leaf in leaves)):
        if waiting and not any(sizes):
            continue
        world.sizes = {leaf.id: size for leaf, size in zip(leaves, sizes, strict=True) if size is not None}
        if not world.holds(demand.root) or not world.others_idle(demand.root):
            continue
        chosen = [(leaf, size or 0) for leaf, size in zip(leaves, sizes, strict=True)]
        for pods in product(*(list(_compositions(leaf, size)) for leaf, size in chosen)):
            flat = [(leaf, shape) for (leaf, _), shapes in zip(chosen, pods, strict=True) for shape in shapes]
            if world.packs(flat, []):
                return True
    return False


def accepts(view: ClusterView, demand: Demand, placed: Placed, gone: frozenset[int] = frozenset()) -> bool:
    """Whether a placement is one: from the definitions, pod by pod."""
    running = [pod for pod in view.all_running() if not (pod.unit in gone and pod.evictable)]
    world, done = PlacementState(view, demand, running), list[tuple[Leaf, str]]()
    for leaf in demand.leaves():
        asked = [(member, pods.shape) for pods in leaf.classes for member in pods.members]
        new = [(shape, placed.assignment[member]) for member, shape in asked if member in placed.assignment]
        if leaf.id in placed.groups and len(new) + len(leaf.bound) >= leaf.min_count:
            world.sizes[leaf.id] = len(new)
        elif new:
            return False
        for shape, name in new:
            if not world.puts(shape, name):
                return False
            done.append((leaf, name))
    return world.holds(demand.root) and world.stands(done)


def least_loss(view: ClusterView, demand: Demand, now: float) -> Loss | None:
    """The least loss over all sets of units, None if no set helps."""
    lower = [unit.id for unit in view.units() if unit.priority < demand.priority]
    units = [unit for unit in lower if any(pod.evictable for pod in view.pods_of(unit))]
    sets = [chosen for size in range(1, len(units) + 1) for chosen in combinations(units, size)]
    for loss, chosen in sorted((_loss(view, chosen, now), chosen) for chosen in sets):
        if feasible(view, demand, frozenset(chosen)):
            return loss
    return None


def _loss(view: ClusterView, units: tuple[int, ...], now: float) -> Loss:
    pods = [pod for pod in view.all_running() if pod.unit in units and pod.evictable]
    over = 0
    for budget_id in sorted({budget for pod in pods for budget in pod.budgets}):
        budget = view.budget(budget_id)
        if budget is not None:
            over += max(0, sum(budget_id in pod.budgets for pod in pods) - max(0, budget.allowed))
    highest = max(unit.priority for unit in view.units() if unit.id in units)
    work = sum(max(0, int((now - pod.started) * 1000)) for pod in pods)
    return (over, highest, work, len(units), tuple(sorted(units)))


def _free(view: ClusterView, running: list[Running]) -> dict[str, dict[str, int]]:
    free = {}
    for name in view.node_names():
        node = view.node(name)
        assert node is not None
        free[name] = dict(node.allocatable)
    for pod in running:
        if pod.node in free:
            for resource, amount in pod.requests:
                free[pod.node][resource] = free[pod.node].get(resource, 0) - amount
    return free


def _sizes(leaf: Leaf) -> list[int | None]:
    """New pods of a leaf: None if it is left out, else just what it needs, or one more than a satisfied one has.

    Where others may want their company, any number from what it needs.
    """
    members = sum(len(pods.members) for pods in leaf.classes)
    need = leaf.min_count - len(leaf.bound)
    if any(pods.shape.has_pod_rules for pods in leaf.classes):
        return [None, *range(max(0, need), members + 1)]
    if need > 0:
        return [None, need] if need <= members else [None]
    return [None, 0, 1] if members else [None, 0]


def _compositions(leaf: Leaf, count: int) -> Iterator[tuple[Shape, ...]]:
    shapes = [pods.shape for pods in leaf.classes for _ in pods.members]
    yield from {tuple(chosen): None for chosen in combinations(shapes, count)}


class PlacementState:
    """One demand, one cluster, and a choice of how many new pods each leaf gets."""

    def __init__(self, view: ClusterView, demand: Demand, running: list[Running]) -> None:
        self.view, self.demand, self.running = view, demand, running
        self.free = _free(view, running)
        self.sizes: dict[int, int] = {}
        self._leaves: dict[int, frozenset[int]] = {}
        self._bound_below: dict[int, list[str]] = {}
        self._domains: dict[tuple[str, str], tuple[str, ...] | None] = {}
        #: Nodes of bound members and of exclusive holders are like no other.
        self._special = {bound.node for leaf in demand.leaves() for bound in leaf.bound}
        self._special |= {pod.node for pod in running if pod.exclusive is not None}

    def holds(self, group: Group) -> bool:
        if isinstance(group, Leaf):
            return group.id in self.sizes
        return sum(self.holds(child) for child in group.children) >= group.min_groups

    def others_idle(self, group: Group) -> bool:
        """Pods below a group that does not hold are not allowed."""
        if not self.holds(group):
            return not any(self.sizes.get(leaf.id) for leaf in Demand(group).leaves())
        return isinstance(group, Leaf) or all(self.others_idle(child) for child in group.children)

    def packs(self, flat: list[tuple[Leaf, Shape]], done: Assignment) -> bool:
        """Whether the rest of the pods can be put somewhere, with all constraints met in the end."""
        at = len(done)
        if not self._in_domains(self.demand.root, done):
            return False  # what is apart stays apart
        if at == len(flat):
            new = [(shape, name) for (_, shape), (_, name) in zip(flat, done, strict=True)]
            return self._alone(done) and right(self.view, self.running, new)
        leaf, shape = flat[at]
        names = list(self.free)
        # equal pods of one leaf go to nodes in order, and of nodes that look alike the first will do
        start = names.index(done[-1][1]) if at and flat[at - 1] == flat[at] else 0
        looks: set[object] = set()
        with_terms = any(shape.has_pod_rules for _, shape in flat)
        for name in names[start:]:
            look = name if with_terms else self.look(name, done)
            if look in looks or not self.fits(shape, name):
                continue
            looks.add(look)
            self.charge(shape, name, 1)
            fits = self.packs(flat, [*done, (leaf, name)])
            self.charge(shape, name, -1)
            if fits:
                return True
        return False

    def puts(self, shape: Shape, name: str) -> bool:
        """Put one pod on a node; False if it may not be there."""
        fits = self.fits(shape, name)
        self.charge(shape, name, 1)
        return fits

    def stands(self, done: Assignment) -> bool:
        return self.others_idle(self.demand.root) and self._in_domains(self.demand.root, done) and self._alone(done)

    def look(self, name: str, done: Assignment) -> object:
        """Everything that tells one node from another: its labels but for its own name, what is free, who is there."""
        node = self.view.node(name)
        assert node is not None
        labels = tuple(sorted((key, value) for key, value in node.labels.items() if value != name))
        here = tuple(sorted(leaf.id for leaf, where in done if where == name))
        own = name if name in self._special else ""
        return (labels, node.unschedulable, tuple(sorted(self.free[name].items())), here, own)

    def fits(self, shape: Shape, name: str) -> bool:
        node = self.view.node(name)
        assert node is not None
        if node.unschedulable:
            return False
        selected = all(node.labels.get(key) == value for key, value in shape.node_selector)
        return selected and all(self.free[name].get(resource, 0) >= amount for resource, amount in shape.requests)

    def charge(self, shape: Shape, name: str, times: int) -> None:
        for resource, amount in shape.requests:
            self.free[name][resource] = self.free[name].get(resource, 0) - amount * times

    def domain(self, name: str, key: str) -> tuple[str, ...] | None:
        if (name, key) not in self._domains:
            self._domains[name, key] = self._domain(name, key)
        return self._domains[name, key]

    def _domain(self, name: str, key: str) -> tuple[str, ...] | None:
        node = self.view.node(name)
        assert node is not None
        if key not in node.labels:
            return None
        levels = self.view.levels
        wider = levels[: levels.index(key) + 1] if key in levels else (key,)
        return tuple(node.labels.get(level, "") for level in wider)

    def _in_domains(self, group: Group, done: Assignment) -> bool:
        if not self.holds(group):
            return True
        if not self.in_domain(group, done):
            return False
        return isinstance(group, Leaf) or all(self._in_domains(child, done) for child in group.children)

    def in_domain(self, group: Group, done: Assignment) -> bool:
        """Whether all pods of a group share a domain of its key, the others aside."""
        if group.topology is None:
            return True
        domains = {self.domain(name, group.topology) for name in self.names_below(group, done)}
        return len(domains) <= 1 and None not in domains

    def names_below(self, group: Group, done: Assignment) -> list[str]:
        """The nodes of all pods of a group, new and bound."""
        if group.id not in self._leaves:
            self._leaves[group.id] = frozenset(leaf.id for leaf in Demand(group).leaves())
            self._bound_below[group.id] = [bound.node for leaf in Demand(group).leaves() for bound in leaf.bound]
        leaves = self._leaves[group.id]
        return [name for leaf, name in done if leaf.id in leaves] + self._bound_below[group.id]

    def slots(self, shape: Shape) -> dict[str, int]:
        """Pods of a shape that each node takes now."""
        found = {}
        for name, free in self.free.items():
            room = [free.get(resource, 0) // amount for resource, amount in shape.requests if amount > 0]
            found[name] = min(room) if self.fits(shape, name) else 0
        return found

    def _alone(self, done: Assignment) -> bool:
        """Every group that holds has its exclusive domain to itself, bound members included."""
        holders: dict[object, set[int]] = {}
        for pod in self.running:
            if pod.exclusive is not None:
                domain = self.domain(pod.node, pod.exclusive.key)
                holders.setdefault((pod.exclusive, domain), set()).add(pod.group)
        for leaf in self._holding_leaves(self.demand.root):
            if leaf.exclusive is None:
                continue
            names = [name for other, name in done if other is leaf] + [bound.node for bound in leaf.bound]
            domains = {self.domain(name, leaf.exclusive.key) for name in names}
            if len(domains) != 1 or None in domains:
                return False
            groups = holders.setdefault((leaf.exclusive, domains.pop()), set())
            groups.add(leaf.id)
            if len(groups) > 1:
                return False
        return True

    def _holding_leaves(self, group: Group) -> list[Leaf]:
        if not self.holds(group):
            return []
        if isinstance(group, Leaf):
            return [group]
        return [leaf for child in group.children for leaf in self._holding_leaves(child)]
