"""What to leave out when not everything fits, as a question to CP-SAT: roles, then groups, then members.

The quick answer places the minimum and adds what still fits; a different minimum may leave room for more.  Where the
quick answer does not meet its bound, and the tree is too large for `optimum`, this model says which groups hold and
how many pods of which role they get.  Where exactly they go is then searched as usual, with that as the demand.

    domains per keyed group ─┐
    groups that hold ────────┼─► least (roles, groups, members) left out, and a bound if the budget ends first
    pods per class and node ─┘
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .agenda import NotFound, Put, Steps
from .demand import Composite, Demand, Exclusive, Group, Leaf, PodClass, Shape
from .layout import Ints
from .parts import Canon, Part, merge, walk
from .regions import CLUSTER
from .verdict import Objective, Placed
from .view import ClusterView
from .worth import Draft, find_homes, groups_of, keys_of

#: Steps that are worth one unit of the solver's deterministic time.
STEPS_PER_UNIT = 100_000
#: Classes of pods times nodes that are open to them.
LARGEST_MODEL = 20_000

_Kind = tuple[Shape, str]
#: How many pods of a leaf and class are on which row.
_Pods = dict[int, dict[_Kind, dict[int, int]]]


@dataclass(slots=True)
class Choice:
    """Pods of every class that are placed, by leaf; groups that hold; nothing leaves less out than `bound`."""

    pods: _Pods
    holding: frozenset[int]
    bound: Objective


def choose(view: ClusterView, demand: Demand, known: Placed | None, steps: Steps) -> Choice | NotFound:
    """Which groups and members to place; nothing if that is proved, or the solver cannot be asked or is not done."""
    if steps.left <= 0 or not _can_be_told(view, demand):
        return NotFound(proved=False)
    from ortools.sat.python import cp_model  # half a second and 60 MB

    model = _Model(view, demand, cp_model)
    if known is not None:
        model.begin_with(known)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = steps.left / STEPS_PER_UNIT
    status = solver.solve(model.cp)
    steps.left -= 1 + int(solver.response_proto.deterministic_time * STEPS_PER_UNIT)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return NotFound(proved=status == cp_model.INFEASIBLE)
    return model.choice(solver)


def reduced(root: Group, choice: Choice) -> Group | None:
    """The tree as far as it was chosen, all of it needed; None if what runs in a group left out pins those above."""
    if isinstance(root, Leaf):
        return _reduced_leaf(root, choice)
    children = []
    for child in root.children:
        if child.id in choice.holding:
            smaller = reduced(child, choice)
            if smaller is None:
                return None
            children.append(smaller)
        elif any(leaf.bound for leaf in Demand(child).leaves()):
            return None
    return replace(root, min_groups=len(children), children=tuple(children))


def _reduced_leaf(leaf: Leaf, choice: Choice) -> Leaf:
    chosen = choice.pods[leaf.id]
    classes = tuple(
        PodClass(shape, tuple(members[: sum(chosen[shape, role].values())]), role)
        for (shape, role), members in merge(leaf.classes).items()
    )
    count = sum(len(pods.members) for pods in classes)
    return replace(leaf, classes=classes, min_count=max(leaf.min_count, count + len(leaf.bound)))


def counted(view: ClusterView, demand: Demand, placed: Placed) -> _Pods:
    """The pods of a placement as a choice has them."""
    found: _Pods = {}
    for leaf in demand.leaves():
        classes = found[leaf.id] = {}
        for kind, members in merge(leaf.classes).items():
            rows = (view.layout.row(placed.assignment[member]) for member in members if member in placed.assignment)
            classes[kind] = dict(Counter(row for row in rows if row is not None))
    return found


def as_chosen(view: ClusterView, root: Group, choice: Choice) -> Draft:
    """A choice as a placement."""
    parts = {part.group: part for part in walk(Canon(view).part(root, "everything"))}
    draft = Draft({group.id: CLUSTER for group in groups_of(root) if group.id in choice.holding})
    for leaf, classes in choice.pods.items():
        for kind, rows in classes.items():
            if rows:
                draft.puts.append(_put(parts[leaf], kind, rows))
    find_homes(view, root, draft)
    return draft


def _put(part: Part, kind: _Kind, rows: Mapping[int, int]) -> Put:
    ask = next(ask for ask in part.asks if (ask.shape, ask.role) == kind)
    return Put(part, ask, np.array(list(rows), dtype=np.int64), np.array(list(rows.values()), dtype=np.int64))


def _can_be_told(view: ClusterView, demand: Demand) -> bool:
    """Whether nobody minds who is near, exclusive domains are listed levels, and the model is not too large."""
    size = 0
    for leaf in demand.leaves():
        if leaf.exclusive is not None and leaf.exclusive.key not in view.layout.level_of:
            return False
        for pods in leaf.classes:
            if pods.shape.tied:
                return False
            size += int(np.count_nonzero(view.capacity.slots(pods.shape).rows))
    return size <= LARGEST_MODEL


class _Model:
    def __init__(self, view: ClusterView, demand: Demand, library: Any) -> None:
        self.view, self.layout, self.demand = view, view.layout, demand
        self.cp, self.sum, self.weighted = library.CpModel(), library.LinearExpr.sum, library.LinearExpr.weighted_sum
        self.groups = groups_of(demand.root)
        self.leaves = [group for group in self.groups if isinstance(group, Leaf)]
        self.holds = {group.id: self._flag() for group in self.groups}
        self.pods: dict[int, dict[_Kind, dict[int, Any]]] = {}
        for leaf in self.leaves:
            self.pods[leaf.id] = {kind: self._class(kind, members) for kind, members in merge(leaf.classes).items()}
        self._hold()
        self._fit()
        for group in self.groups:
            for key in keys_of(group, None, self.layout):
                self._together(group, key)
        self._alone()
        self._weigh()

    # ---- what is a placement

    def _class(self, kind: _Kind, members: list[int]) -> dict[int, Any]:
        slots = self.view.capacity.slots(kind[0]).rows
        most = np.minimum(slots, len(members))
        return {row: self.cp.new_int_var(0, most.item(row), "") for row in np.flatnonzero(most > 0).tolist()}

    def _hold(self) -> None:
        """What is left out leaves all below it out; the root is not."""
        self.cp.add(self.holds[self.demand.root.id] == 1)
        for group in self.groups:
            holds = self.holds[group.id]
            if isinstance(group, Composite):
                children = [self.holds[child.id] for child in group.children]
                self.cp.add(self.sum(children) >= group.min_groups * holds)
                for child in children:
                    self.cp.add_implication(child, holds)
                continue
            everyone = []
            for kind, members in merge(group.classes).items():
                placed = list(self.pods[group.id][kind].values())
                self.cp.add(self.sum(placed) <= len(members) * holds)
                everyone += placed
            self.cp.add(self.sum(everyone) + len(group.bound) >= group.min_count * holds)

    def _fit(self) -> None:
        """No node gives more than it has."""
        used: dict[tuple[int, int], tuple[list[Any], list[int]]] = {}
        known = self.layout.resources
        for classes in self.pods.values():
            for (shape, _), rows in classes.items():
                for name, amount in shape.requests:
                    for row, variable in rows.items() if amount > 0 else ():
                        variables, amounts = used.setdefault((known[name], row), ([], []))
                        variables.append(variable)
                        amounts.append(amount)
        for (resource, row), (variables, amounts) in used.items():
            self.cp.add(self.weighted(variables, amounts) <= self.layout.free.item(resource, row))

    def _together(self, group: Group, key: str) -> None:
        """All pods of a group that holds share a domain of a key, those that run included."""
        domains, chosen = self._domains(key), dict[int, Any]()
        for leaf in Demand(group).leaves():
            for rows in self.pods[leaf.id].values():
                for domain, variables in _by_domain(rows, domains).items():
                    if domain not in chosen:
                        chosen[domain] = self._flag()
                    most = sum(len(pods.members) for pods in leaf.classes)
                    self.cp.add(self.sum(variables) <= (most * chosen[domain] if domain >= 0 else 0))
        pinned = sorted({domains.item(row) for row in self._pins(group)})
        for domain in pinned:
            chosen.setdefault(domain, self._flag())
            self.cp.add(chosen[domain] == 1 if domain >= 0 and len(pinned) == 1 else self.holds[group.id] == 0)
        self.cp.add(self.sum(list(chosen.values())) <= 1)

    def _alone(self) -> None:
        """One group of a rank per exclusive domain."""
        users: dict[object, list[Any]] = {}
        for leaf in self.leaves:
            if leaf.exclusive is not None:
                for domain, uses in self._used(leaf, leaf.exclusive):
                    users.setdefault((leaf.exclusive, domain), []).append(uses)
        for uses in users.values():
            self.cp.add_at_most_one(uses)

    def _used(self, leaf: Leaf, exclusive: Exclusive) -> Iterator[tuple[int, Any]]:
        """Domains that a leaf may have for itself, with whether it does."""
        domains, holders = self._domains(exclusive.key), self.view.occupancy.holders(exclusive)
        most = sum(len(pods.members) for pods in leaf.classes)
        inside: dict[int, list[Any]] = {domains.item(row): [] for row in self._pins(leaf)}
        pinned = list(inside)
        for rows in self.pods[leaf.id].values():
            for domain, variables in _by_domain(rows, domains).items():
                inside.setdefault(domain, []).extend(variables)
        for domain, variables in inside.items():
            uses = self._flag()
            self.cp.add(self.sum(variables) <= most * uses)
            if domain in pinned:
                self.cp.add_implication(self.holds[leaf.id], uses)
            if any(group != leaf.id for group in holders.get(domain, ())):
                self.cp.add(uses == 0)
            yield domain, uses

    def _domains(self, key: str) -> Ints:
        """The domain of every row, below 0 for those without one."""
        level = self.layout.level_of.get(key)
        if level is None:
            return self.layout.column(key).ids
        domains = self.layout.domains(level)
        return np.where(self.layout.named(level)[domains], domains, -1)

    def _pins(self, group: Group) -> list[int]:
        rows = (self.layout.row(bound.node) for leaf in Demand(group).leaves() for bound in leaf.bound)
        return [row for row in rows if row is not None]

    def _flag(self) -> Any:
        return self.cp.new_bool_var("")

    # ---- what it is worth

    def _weigh(self) -> None:
        members = [variable for variables in self._pods() for variable in variables]
        asked = sum(len(pods.members) for leaf in self.leaves for pods in leaf.classes)
        self.cp.add(self.sum(members) >= 1)
        roles = [flag for leaf in self.leaves for flag in self._roles(leaf)]
        groups = list(self.holds.values())
        #: What one group and one role weigh: more than all members, more than all groups.
        self.group = asked + 1
        self.role = (len(groups) + 1) * self.group
        self.cp.minimize(
            self.role * self.sum(roles) + self.group * (len(groups) - self.sum(groups)) + asked - self.sum(members)
        )

    def _roles(self, leaf: Leaf) -> Iterator[Any]:
        """For every role of a leaf that nobody plays yet, whether it is missing."""
        by_role: dict[str, list[Any]] = {}
        for (_, role), rows in self.pods[leaf.id].items():
            by_role.setdefault(role, []).extend(rows.values())
        present = {bound.role for bound in leaf.bound}
        for role, variables in by_role.items():
            if role not in present:
                missing = self._flag()
                self.cp.add(missing + self.sum(variables) >= 1)
                yield missing

    def _pods(self) -> Iterator[list[Any]]:
        for classes in self.pods.values():
            for rows in classes.values():
                yield list(rows.values())

    # ---- the beginning and the end

    def begin_with(self, known: Placed) -> None:
        for group, holds in self.holds.items():
            self.cp.add_hint(holds, group in known.groups)
        for leaf, classes in counted(self.view, self.demand, known).items():
            for kind, rows in classes.items():
                for row, variable in self.pods[leaf][kind].items():
                    self.cp.add_hint(variable, rows.get(row, 0))

    def choice(self, solver: Any) -> Choice:
        pods = {
            leaf: {
                kind: {row: solver.value(variable) for row, variable in rows.items() if solver.value(variable)}
                for kind, rows in classes.items()
            }
            for leaf, classes in self.pods.items()
        }
        holding = frozenset(group for group, holds in self.holds.items() if solver.value(holds))
        least = max(0, round(np.ceil(solver.best_objective_bound - 1e-6)))
        roles, rest = divmod(least, self.role)
        groups, members = divmod(rest, self.group)
        return Choice(pods, holding, (roles, groups, members, 0, 0))


def _by_domain(rows: Mapping[int, Any], domains: Ints) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for row, variable in rows.items():
        found.setdefault(domains.item(row), []).append(variable)
    return found
