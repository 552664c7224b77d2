"""The best objective on clusters too large for brute force: the definitions as one integer program for CP-SAT.

A variable for every class of pods on every node, none of the engine's counting, nesting or patterns.  The numbers of
the objective are minimised one after the other, each with the ones before it held fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import assume
from ortools.sat.python import cp_model

from echelon.engine import ClusterView, Composite, Demand, Group, Leaf, Objective, Shape, Verdict
from echelon.testing.placement import judged
from tests.properties.best_objective import measured
from tests.properties.brute_force import PlacementState
from tests.properties.hierarchies import Instance
from tests.properties.solver_pod_terms import Neighbours

Sum = cp_model.LinearExprT
Domain = tuple[str, ...]

#: Deterministic seconds for each number of the objective.
EFFORT = 20.0


class Undecided(Exception):
    """The solver was not done within its effort."""


def best_objective(view: ClusterView, demand: Demand) -> Objective | None:
    """The least objective over all placements; None if there is none."""
    model = _Model(view, demand)
    found: list[int] = []
    for number in model.objective():
        least = model.least(number)
        if least is None:
            return None
        found.append(least)
        model.add(number == least)
    return Objective(*found)


def verdict_beside_best(instance: Instance) -> tuple[Verdict, Objective | None]:
    """The engine's verdict, judged, and the least objective; what the solver cannot decide is passed over."""
    try:
        best = best_objective(instance.cluster.view, instance.demand)
    except Undecided:
        assume(False)
    return judged(instance.cluster.view, instance.demand), best


@dataclass
class _Home:
    """Terms of which each is 0 for a node inside a group's domain and 1 or more for a node outside."""

    outside: list[dict[str, Sum]] = field(default_factory=list)


class _Model(cp_model.CpModel):
    """One demand on one cluster."""

    def __init__(self, view: ClusterView, demand: Demand) -> None:
        super().__init__()
        self.world = PlacementState(view, demand, list(view.all_running()))
        self.names = list(self.world.free)
        self.root = demand.root
        self.groups = list(_walk(demand.root))
        self.leaves = [group for group in self.groups if isinstance(group, Leaf)]
        self.slots = {
            shape: self.world.slots(shape)
            for shape in dict.fromkeys(c.shape for leaf in self.leaves for c in leaf.classes)
        }
        self.holds = {group.id: self.new_bool_var("") for group in self.groups}
        self.pods: dict[tuple[int, int], dict[str, cp_model.IntVar]] = {}
        self.missed: list[Sum] = []
        self._place_pods()
        self._hold_groups()
        self._share_nodes()
        homes = _Home()
        self.spare: list[Sum] = []
        self._keep_domains(demand.root, homes)
        self._keep_alone()
        self._mind_others(view)
        if any(c.members for leaf in self.leaves for c in leaf.classes):
            self.add(sum(self._all_pods()) >= 1)

    # ---- what is a placement

    def _place_pods(self) -> None:
        for leaf in self.leaves:
            for number, pods in enumerate(leaf.classes):
                slots = self.slots[pods.shape]
                self.pods[leaf.id, number] = {
                    name: self.new_int_var(0, min(len(pods.members), slots[name]), "")
                    for name in self.names
                    if slots[name] > 0
                }
                placed = sum(self.pods[leaf.id, number].values())
                self.add(placed <= len(pods.members) * self.holds[leaf.id])

    def _hold_groups(self) -> None:
        """A group that is left out leaves all below it out."""
        self.add(self.holds[self.root.id] == 1)
        for group in self.groups:
            holds = self.holds[group.id]
            if isinstance(group, Leaf):
                self.add(sum(self._pods_of(group)) + len(group.bound) >= group.min_count * holds)
            else:
                children = [self.holds[child.id] for child in group.children]
                self.add(sum(children) >= group.min_groups * holds)
                for child in children:
                    self.add_implication(child, holds)

    def _share_nodes(self) -> None:
        for name in self.names:
            used: dict[str, list[Sum]] = {}
            for leaf in self.leaves:
                for number, pods in enumerate(leaf.classes):
                    count = self.pods[leaf.id, number].get(name)
                    for resource, amount in pods.shape.requests if count is not None else ():
                        used.setdefault(resource, []).append(amount * count)
            for resource, amounts in used.items():
                self.add(sum(amounts) <= self.world.free[name].get(resource, 0))

    def _keep_domains(self, group: Group, above: _Home) -> None:
        """Pods of a group share a domain of its key; of the narrowest preferred key, if they do."""
        home = _Home(list(above.outside))
        holds = self.holds[group.id]
        alone = group.exclusive.key if isinstance(group, Leaf) and group.exclusive else None
        for key in dict.fromkeys(key for key in (group.topology, alone) if key):
            home.outside.append(self._in_one_domain(group, key, holds))
        honoured = [self.new_bool_var("") for _ in group.preferred]
        for key, wished in zip(group.preferred, honoured, strict=True):
            self.add_implication(wished, holds)
            home.outside.append(self._in_one_domain(group, key, wished))
        self.add(sum(honoured) <= 1)
        length = len(group.preferred)
        self.missed.append(length - sum((length - number) * wished for number, wished in enumerate(honoured)))
        if isinstance(group, Composite):
            for child in group.children:
                self._keep_domains(child, home)
        elif measured(group):
            self._measure(group, home)

    def _in_one_domain(self, group: Group, key: str, wanted: cp_model.IntVar) -> dict[str, Sum]:
        """If wanted, all pods of a group are in one domain of a key.  For every node: whether it is outside then."""
        domains = {name: self.world.domain(name, key) for name in self.names}
        chosen = {domain: self.new_bool_var("") for domain in domains.values() if domain is not None}
        self.add(sum(chosen.values()) == wanted)
        inside: dict[str, Sum] = {name: chosen.get(domain, 0) if domain else 0 for name, domain in domains.items()}
        for leaf in Demand(group).leaves():
            for bound in leaf.bound:
                self.add(inside[bound.node] >= wanted)
            for number, pods in enumerate(leaf.classes):
                for name, count in self.pods[leaf.id, number].items():
                    self.add(count <= len(pods.members) * (1 - wanted + inside[name]))
        return {name: wanted - inside[name] for name in self.names}

    def _keep_alone(self) -> None:
        """An exclusive domain has one group of a rank; groups that run there have it already."""
        users: dict[tuple[object, Domain], dict[int, Sum]] = {}
        for pod in self.world.running:
            domain = self.world.domain(pod.node, pod.exclusive.key) if pod.exclusive else None
            if domain is not None:
                users.setdefault((pod.exclusive, domain), {})[pod.group] = 1
        for leaf in self.leaves:
            if leaf.exclusive is None:
                continue
            domains = {name: self.world.domain(name, leaf.exclusive.key) for name in self.names}
            for domain in dict.fromkeys(filter(None, domains.values())):
                uses = self.new_bool_var("")
                for number, pods in enumerate(leaf.classes):
                    for name, count in self.pods[leaf.id, number].items():
                        if domains[name] == domain:
                            self.add(count <= len(pods.members) * uses)
                for bound in leaf.bound:
                    if domains[bound.node] == domain:
                        self.add_implication(self.holds[leaf.id], uses)
                users.setdefault((leaf.exclusive, domain), {}).setdefault(leaf.id, uses)
        for groups in users.values():
            if len(groups) > 1:
                self.add(sum(groups.values()) <= max(1, sum(1 for use in groups.values() if isinstance(use, int))))

    def _mind_others(self, view: ClusterView) -> None:
        """Terms of pods about one another and about those that run."""
        pods: dict[Shape, dict[str, Sum]] = {shape: {} for shape in self.slots}
        for leaf in self.leaves:
            for number, each in enumerate(leaf.classes):
                rows = pods[each.shape]
                for name, count in self.pods[leaf.id, number].items():
                    rows[name] = rows.get(name, 0) + count
        Neighbours(self, view, self.world.running, pods)

    # ---- what it is worth

    def _measure(self, leaf: Leaf, home: _Home) -> None:
        """Slots of each shape in the leaf's domain, less its pods there."""
        for shape in dict.fromkeys(pods.shape for pods in leaf.classes if not pods.shape.has_pod_rules):
            counts = [
                count
                for number, pods in enumerate(leaf.classes)
                for count in self.pods[leaf.id, number].values()
                if pods.shape == shape
            ]
            used = self.new_bool_var("")
            members = sum(len(pods.members) for pods in leaf.classes if pods.shape == shape)
            self.add(sum(counts) <= members * used)
            self.add(sum(counts) >= used)
            for name in self.names:
                slots = self.slots[shape][name]
                if slots:
                    inside = self.new_bool_var("")
                    self.add(inside >= used - sum(outside[name] for outside in home.outside))
                    self.spare.append(slots * inside)
            self.spare += [-1 * count for count in counts]

    def objective(self) -> Iterator[Sum]:
        members = sum(len(pods.members) for leaf in self.leaves for pods in leaf.classes)
        yield sum(self._roles_missing(leaf) for leaf in self.leaves)
        yield len(self.groups) - sum(self.holds.values())
        yield members - sum(self._all_pods())
        yield sum(self.missed)
        yield sum(self.spare)

    def _roles_missing(self, leaf: Leaf) -> Sum:
        missing: Sum = 0
        for role in sorted({pods.role for pods in leaf.classes if pods.members} - {bound.role for bound in leaf.bound}):
            absent = self.new_bool_var("")
            counts = [
                count
                for number, pods in enumerate(leaf.classes)
                for count in self.pods[leaf.id, number].values()
                if pods.role == role
            ]
            self.add(absent + sum(counts) >= 1)
            missing = missing + absent
        return missing

    def least(self, number: Sum) -> int | None:
        if isinstance(number, int):
            number = number + 0 * self.holds[self.root.id]
        self.minimize(number)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.max_deterministic_time = EFFORT
        status = solver.solve(self)
        if status == cp_model.OPTIMAL:
            return round(solver.objective_value)
        if status == cp_model.INFEASIBLE:
            return None
        raise Undecided

    def _pods_of(self, leaf: Leaf) -> Iterator[Sum]:
        for number in range(len(leaf.classes)):
            yield from self.pods[leaf.id, number].values()

    def _all_pods(self) -> Iterator[Sum]:
        for leaf in self.leaves:
            yield from self._pods_of(leaf)


def _walk(group: Group) -> Iterator[Group]:
    yield group
    for child in group.children if isinstance(group, Composite) else ():
        yield from _walk(child)
