"""What to leave out when not everything fits, and which groups get a preferred domain, as a CP-SAT model.

The quick answer places the minimum, adds what still fits and tries preferred keys one by one; a different beginning
may end better.  Where it does not meet its bound, this model says which groups hold, how many pods of which role they
get and which groups share a domain of which preferred key; on small clusters also in which domains the fewest slots
stay free around them.  Where exactly they go is then searched as usual, with that as the demand.

    pods per class and node ─┐
    groups that hold ────────┼─► least (roles, groups, members) left out ─► least preferred keys missed
    domains per keyed group ─┘   ─► fewest spare slots; each with a bound if the budget ends first

Without it, 6 of 34 random trees on 25 to 60 nodes leave out more than need be, and of 3,400 small placements 81 leave
more slots spare than need be and 701 do not know whether theirs are the fewest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.node_table import NodeTable
from ..cluster.regions import CLUSTER
from ..cluster.view import ClusterView
from ..models.pod_rule_constraints import PodCount, add_rules, row_marks
from ..records.demand import Composite, Demand, Exclusive, Group, Leaf, Shape
from ..records.verdict import BEST, Objective, Placed
from ..space.budget import Steps
from ..space.canonical import PartBuilder, keys_of, merge, walk
from ..space.cpsat import Solver
from ..space.rule_state import RuleState, has_pod_rules, is_counted
from ..space.tasks import NotFound
from .objective import groups_of, is_measured
from .selection import Kind, Selection, counted

#: Classes of pods times places for them.
LARGEST_MODEL = 5_000
#: Spare slots are settled on clusters and for demands up to these sizes; beyond them their bound has to do.
NODES, PODS, GROUPS = 24, 24, 24


def is_small(view: ClusterView, demand: Demand) -> bool:
    """Whether spare slots are settled too."""
    if view.node_table.size > NODES:
        return False
    pods = sum(len(pods.members) for leaf in demand.leaves() for pods in leaf.classes)
    return pods <= PODS and len(groups_of(demand.root)) <= GROUPS


def select(view: ClusterView, demand: Demand, known: Placed | None, steps: Steps) -> Selection | NotFound:
    """Which groups and members to place; nothing if that is proved, or the solver cannot be asked or is not done."""
    if steps.left <= 0:
        return NotFound(proved=False)
    state = _rule_state(view, demand)
    places = _places(view, demand, state)
    if len(places) * sum(len(leaf.classes) for leaf in demand.leaves()) > LARGEST_MODEL:
        return NotFound(proved=False)
    model = _Model(view, demand, state, places)
    if known is not None:
        model.begin_with(known)
    return _number_by_number(model, known, steps, is_small(view, demand))


class _Stage(NamedTuple):
    """One number to minimise, after those of the stages before it."""

    #: Writes it down.
    expression: Callable[[], Any]
    #: The numbers of an objective up to and with this one.
    numbers: Callable[[Objective], tuple[int, ...]]
    #: What the expression is for an objective, and the objective for what the expression is.
    value: Callable[[Objective], int]
    settle: Callable[[Objective, int], Objective]


def _number_by_number(model: _Model, known: Placed | None, steps: Steps, spare: bool) -> Selection | NotFound:
    """The least left out, then the fewest preferred keys missed, then, if wanted, the fewest spare slots.

    Numbers in which the known placement meets its bound are taken from it.
    """
    selected: Selection | None = None
    settled = BEST
    for stage in model.stages(spare):
        least = stage.expression()
        if known is not None and stage.numbers(known.objective) <= stage.numbers(known.bound):
            settled = Objective(*stage.numbers(known.objective))
            model.cp.add(least == stage.value(settled))
            continue
        if not model.solve(least, steps):
            return selected or NotFound(proved=model.solver.ended)
        settled = stage.settle(settled, model.solver.bound)
        selected = model.selection(settled)
        if not model.solver.ended:
            break
        model.cp.add(least == model.solver.bound)
        model.begin_here()
    return selected or NotFound(proved=False)


def _rule_state(view: ClusterView, demand: Demand) -> RuleState | None:
    """The trial state with its rules, if there are rules between pods."""
    part = PartBuilder(view).part(demand.root, "everything")
    if not has_pod_rules(part) or is_counted(view, part, CLUSTER):
        return None
    return RuleState(view, list(walk(part)), (), CLUSTER.level)


class _Model:
    def __init__(self, view: ClusterView, demand: Demand, state: RuleState | None, places: dict[int, Ints]) -> None:
        self.view, self.table, self.demand, self.state, self.places = view, view.node_table, demand, state, places
        self.solver = Solver()
        self.cp, self.sum, self.weighted = self.solver.cp, self.solver.sum, self.solver.weighted
        self.groups = groups_of(demand.root)
        self.leaves = [group for group in self.groups if isinstance(group, Leaf)]
        #: Every group with those above it.
        self._above: dict[int, tuple[int, ...]] = {demand.root.id: (demand.root.id,)}
        for group in self.groups:
            for child in group.children if isinstance(group, Composite) else ():
                self._above[child.id] = (*self._above[group.id], child.id)
        #: By group the domains of its keys: of every row, chosen by it, or any if the flag is set.
        self._held_to: dict[int, list[tuple[Ints, dict[int, Any], Any]]] = {}
        self.holds = {group.id: self._flag() for group in self.groups}
        self.pods: dict[int, dict[Kind, dict[int, Any]]] = {}
        for leaf in self.leaves:
            self.pods[leaf.id] = {kind: self._class(kind, members) for kind, members in merge(leaf.classes).items()}
        self._hold()
        self._fit()
        for group in self.groups:
            for key in keys_of(self.table, group):
                self._together(group, key, self.holds[group.id], 0)
        self._alone()
        if state is not None:
            add_rules(self.cp, state.rules, self._numbers())
        self.preferring = [group for group in self.groups if group.preferred]
        self._honoured: dict[int, dict[str, Any]] = {}
        self._roles = [flag for leaf in self.leaves for flag in self._missing_roles(leaf)]
        self._members = [variable for rows in self._classes() for variable in rows.values()]
        self.cp.add(self.sum(self._members) >= 1)

    # ---- what is a placement

    def _class(self, kind: Kind, members: list[int]) -> dict[int, Any]:
        slots = self._slots(kind[0])
        most = {first: min(int(slots[rows].sum()), len(members)) for first, rows in self.places.items()}
        return {first: self.cp.new_int_var(0, number, "") for first, number in most.items() if number > 0}

    def _slots(self, shape: Shape) -> Ints:
        return self.view.slot_cache.slots(shape).rows if self.state is None else self.state.slots_by_row(shape)

    def _numbers(self) -> dict[Shape, dict[int, PodCount]]:
        """Pods of every shape by place."""
        variables: dict[Shape, dict[int, list[Any]]] = {}
        for classes in self.pods.values():
            for (shape, _), places in classes.items():
                for first, variable in places.items():
                    variables.setdefault(shape, {}).setdefault(first, []).append(variable)
        return {
            shape: {
                first: PodCount(self.sum(pods), int(self._slots(shape)[self.places[first]].sum()))
                for first, pods in places.items()
            }
            for shape, places in variables.items()
        }

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
            all_placed = []
            for kind, members in merge(group.classes).items():
                placed = list(self.pods[group.id][kind].values())
                self.cp.add(self.sum(placed) <= len(members) * holds)
                all_placed += placed
            self.cp.add(self.sum(all_placed) + len(group.bound) >= group.min_count * holds)

    def _fit(self) -> None:
        """No place gives more than it has."""
        shapes = {shape: self._slots(shape) for shape in _shapes(self.demand)}
        if len(shapes) == 1:
            (slots,) = shapes.values()
            for first, rows in self.places.items():
                pods = [classes[first] for classes in self._classes() if first in classes]
                self.cp.add(self.sum(pods) <= int(slots[rows].sum()))
            return
        used: dict[tuple[int, int], tuple[list[Any], list[int]]] = {}
        for classes in self.pods.values():
            for (shape, _), places in classes.items():
                for name, amount in shape.requests:
                    for row, variable in places.items() if amount > 0 else ():
                        variables, amounts = used.setdefault((self.table.resources[name], row), ([], []))
                        variables.append(variable)
                        amounts.append(amount)
        for (resource, row), (variables, amounts) in used.items():
            self.cp.add(self.weighted(variables, amounts) <= self.table.free.item(resource, row))

    def _together(self, group: Group, key: str, wanted: Any, otherwise: Any) -> None:
        """All pods of a group share a domain of a key if that is wanted, those that run included."""
        domains, chosen = _domains(self.table, key), dict[int, Any]()
        for leaf in Demand(group).leaves():
            most = sum(len(pods.members) for pods in leaf.classes)
            for rows in self.pods[leaf.id].values():
                for domain, variables in _by_domain(rows, domains).items():
                    if domain >= 0 and domain not in chosen:
                        chosen[domain] = self._flag()
                    self.cp.add(self.sum(variables) <= most * (chosen.get(domain, 0) + otherwise))
        pinned = sorted({domains.item(row) for row in self._pins(group)})
        for domain in pinned:
            if domain < 0 or len(pinned) > 1:
                self.cp.add(wanted == 0)
            else:
                self.cp.add_implication(wanted, chosen.setdefault(domain, self._flag()))
        self.cp.add_at_most_one(chosen.values())
        self._held_to.setdefault(group.id, []).append((domains, chosen, otherwise))

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
        domains, exclusivity = _domains(self.table, exclusive.key), self.view.exclusivity
        others = {held for held, groups in exclusivity.holders(exclusive).items() if groups.keys() - {leaf.id}}
        taken = {
            domains.item(row) for row in range(self.table.size) if exclusivity.domain(exclusive.key, row) in others
        }
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
            if domain in taken:
                self.cp.add(uses == 0)
            yield domain, uses

    def _pins(self, group: Group) -> list[int]:
        rows = (self.table.row(bound.node) for leaf in Demand(group).leaves() for bound in leaf.bound)
        return [row for row in rows if row is not None]

    def _flag(self) -> Any:
        return self.cp.new_bool_var("")

    # ---- what it is worth

    def left_out(self) -> Any:
        """Roles, groups and members left out, as one number."""
        asked = sum(len(pods.members) for leaf in self.leaves for pods in leaf.classes)
        #: What one group and one role weigh: more than all members, more than all groups.
        self._group = asked + 1
        self._role = (len(self.groups) + 1) * self._group
        absent = len(self.groups) - self.sum(list(self.holds.values()))
        return self._role * self.sum(self._roles) + self._group * absent + asked - self.sum(self._members)

    def stages(self, spare: bool) -> Iterator[_Stage]:
        yield _Stage(self.left_out, lambda found: found.left_out, self._weight, self._from_weight)
        if self.preferring:
            yield _Stage(
                self.missed,
                lambda found: found.without_spare,
                lambda found: found.preferred_missed,
                lambda found, missed: found._replace(preferred_missed=missed),
            )
        if spare:
            yield _Stage(
                self.spare,
                lambda found: found,
                lambda found: found.spare_slots,
                lambda found, slots: found._replace(spare_slots=slots),
            )

    def _weight(self, found: Objective) -> int:
        """Roles, groups and members left out, as one number."""
        return self._role * found.roles_missing + self._group * found.groups_left_out + found.members_left_out

    def _from_weight(self, _: Objective, weight: int) -> Objective:
        roles, rest = divmod(weight, self._role)
        return Objective(roles, *divmod(rest, self._group))

    def missed(self) -> Any:
        """Preferred keys missed; the rules that go with them are written down now."""
        weights, flags, all_of_them = list[int](), list[Any](), 0
        for group in self.preferring:
            length = len(group.preferred)
            honoured = {key: self._flag() for key in group.preferred}
            for number, (key, flag) in enumerate(honoured.items()):
                self.cp.add_implication(flag, self.holds[group.id])
                self._together(group, key, flag, 1 - flag)
                weights.append(length - number)
            self.cp.add_at_most_one(honoured.values())
            flags += honoured.values()
            all_of_them += length
            self._honoured[group.id] = honoured
        return all_of_them - self.weighted(flags, weights)

    def spare(self) -> Any:
        """Slots of a shape in the region that a leaf is held to, less its pods there, for all that are measured."""
        total = []
        for leaf in self.leaves:
            inside = self._region(leaf) if is_measured(leaf) else {}
            by_shape: dict[Shape, list[Any]] = {}
            for (shape, _), places in self.pods[leaf.id].items() if inside else ():
                by_shape.setdefault(shape, []).extend(places.values())
            for shape, pods in by_shape.items():
                if pods and not shape.has_pod_rules:
                    slots = self.view.slot_cache.slots(shape).rows
                    room = {first: int(slots[self.places[first]].sum()) for first in inside}
                    most = sum(room.values())
                    around, none = self.cp.new_int_var(0, most, ""), self._flag()
                    self.cp.add(self.sum(pods) <= sum(len(pods.members) for pods in leaf.classes) * (1 - none))
                    there = self.weighted(list(inside.values()), list(room.values()))
                    self.cp.add(around >= there - most * none)
                    total += [around, *(-variable for variable in pods)]
        return self.sum(total)

    def _region(self, leaf: Leaf) -> dict[int, Any]:
        """By place whether it is in the domains that a leaf and the groups above it are held to."""
        inside = {}
        conditions = [condition for group in self._above[leaf.id] for condition in self._held_to.get(group, ())]
        for first in self.places:
            inside[first] = self._flag()
            within = [chosen.get(domains.item(first), 0) + otherwise for domains, chosen, otherwise in conditions]
            self.cp.add(inside[first] >= self.sum(within) - (len(within) - 1))
        return inside

    def _missing_roles(self, leaf: Leaf) -> Iterator[Any]:
        """For every role of a leaf without a bound member, whether it is missing."""
        by_role: dict[str, list[Any]] = {}
        for (_, role), rows in self.pods[leaf.id].items():
            by_role.setdefault(role, []).extend(rows.values())
        present = {bound.role for bound in leaf.bound}
        for role, variables in by_role.items():
            if role not in present:
                missing = self._flag()
                self.cp.add(missing + self.sum(variables) >= 1)
                yield missing

    def _classes(self) -> Iterator[dict[int, Any]]:
        for classes in self.pods.values():
            yield from classes.values()

    # ---- the beginning and the end

    def begin_with(self, known: Placed) -> None:
        for group, holds in self.holds.items():
            self.cp.add_hint(holds, group in known.groups)
        for leaf, classes in counted(self.view, self.demand, known).items():
            for kind, rows in classes.items():
                for first, variable in self.pods[leaf][kind].items():
                    self.cp.add_hint(variable, sum(rows.get(row, 0) for row in self.places[first].tolist()))

    def solve(self, least: Any, steps: Steps) -> bool | None:
        self.cp.minimize(least)
        return self.solver.solve(steps, linearization=2)

    def begin_here(self) -> None:
        """Go on from the last solution."""
        self.cp.clear_hints()
        for variable in (*self.holds.values(), *self._members):
            self.cp.add_hint(variable, self.solver.value(variable))

    def selection(self, bound: Objective) -> Selection:
        """The last solution; nothing is better than the bound."""
        used: dict[tuple[int, Shape], int] = {}
        pods = {
            leaf: {(shape, role): dict(self._spread(shape, places, used)) for (shape, role), places in classes.items()}
            for leaf, classes in self.pods.items()
        }
        holding = frozenset(group for group, holds in self.holds.items() if self.solver.value(holds))
        honoured = ((group, key, flag) for group, flags in self._honoured.items() for key, flag in flags.items())
        keys = {group: key for group, key, flag in honoured if self.solver.value(flag)}
        return Selection(pods, holding, keys, bound)

    def _spread(
        self, shape: Shape, places: Mapping[int, Any], used: dict[tuple[int, Shape], int]
    ) -> Iterator[tuple[int, int]]:
        """Pods of a class onto the rows of their places, after those that others have used."""
        slots = self._slots(shape)
        for first, variable in places.items():
            left = self.solver.value(variable)
            for row in self.places[first].tolist() if left else ():
                free = slots.item(row) - used.get((row, shape), 0) if len(self.places[first]) > 1 else left
                if left and free:
                    count = min(left, free)
                    used[row, shape] = used.get((row, shape), 0) + count
                    left -= count
                    yield row, count


def _places(view: ClusterView, demand: Demand, state: RuleState | None) -> dict[int, Ints]:
    """Rows that need not be distinguished, by the first of them: where pods are equal, those of the same domains."""
    table, groups = view.node_table, groups_of(demand.root)
    rows = np.arange(table.size, dtype=np.int64)
    keys = {key for group in groups for key in (*keys_of(table, group), *group.preferred)}
    columns = [*(_domains(table, key) for key in sorted(keys)), *row_marks(state.rules if state else ())]
    if len(_shapes(demand)) > 1:
        kinds = rows
    elif columns:
        kinds = np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)
    else:
        kinds = np.zeros_like(rows)
    order = np.argsort(kinds, kind="stable")
    found = np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1)
    return {alike.item(0): alike for alike in found}


def _shapes(demand: Demand) -> list[Shape]:
    return list(dict.fromkeys(pods.shape for leaf in demand.leaves() for pods in leaf.classes))


def _domains(table: NodeTable, key: str) -> Ints:
    """The domain of every row, below 0 for those without one."""
    level = table.level_of.get(key)
    if level is None:
        return table.column(key).ids
    domains = table.domains(level)
    return np.where(table.named(level)[domains], domains, -1)


def _by_domain(rows: Mapping[int, Any], domains: Ints) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for row, variable in rows.items():
        found.setdefault(domains.item(row), []).append(variable)
    return found
