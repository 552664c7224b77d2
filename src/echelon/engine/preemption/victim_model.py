"""The victim model: which victims to evict, as an integer program for CP-SAT.

Minimised is the cost of the evicted units, or the number of budget violations.  Variables: which eviction option every
node takes (`node_options`), whether each victim that runs on several nodes is evicted, and how many equal groups are
placed in each domain.  Constraints: in every domain the groups placed there get what they need.  Where one resource
decides, its free amounts must hold enough pieces of every request size; otherwise pods are placed node by node.

Every constraint is necessary but together they are not sufficient.  The optimum is therefore a lower bound of the loss
(`ModelAnswer.bound`), and the search must confirm the units that the model names.  If they do not suffice, `forbid`
adds the cut "some other unit is evicted too" and the model is solved again.

Used by `solver_driver` for what `slot_dp` cannot express: mixed pods, budgets, unequal groups.  The solver runs one
worker with a fixed seed and deterministic time, so the same model gets the same answer on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.node_table import NodeTable
from ..cluster.regions import Region, rows_of
from ..models.portions import portions
from ..records.demand import Shape
from ..space.budget import Steps
from ..space.canonical import Part, walk
from ..space.cpsat import Solver
from .node_options import EvictionCosts, EvictionOption, ModelTooLarge, NodeOptions, OptionTable, ResourceUse
from .victim_table import Victim

#: Steps that any answer costs.
ONE_ANSWER = 100
#: Variables beyond which the model is abandoned.
LARGEST_MODEL = 40_000
#: Costs beyond which the model is abandoned: no sum may come near 64 bits.
LARGEST_COST = 1 << 60
NO_CAPS: Mapping[Shape, Ints] = {}


class BudgetLimits(NamedTuple):
    """How many more pods each budget allows to evict, and the total of violations allowed."""

    allowed: Mapping[int, int]
    #: None if violations are what is minimised.
    violations: int | None


@dataclass(slots=True)
class _PartCounts:
    """Equal parts and, by domain of a level, the variable that counts how many of them are placed there."""

    parts: list[Part]
    level: int
    by_domain: dict[int, Any]
    #: Pods by domain and ask, where several mixes of pods meet the need.
    pods: dict[tuple[int, int], Any] = field(default_factory=dict)


class ModelAnswer(NamedTuple):
    """The units that the solver names (None if it found no solution), their cost, and a lower bound of any cost."""

    units: frozenset[int] | None
    cost: int
    bound: int
    #: Whether it is proved that no units suffice.
    impossible: bool = False


class VictimModel:
    """One aim in one region, with victims and their costs; budgets, if any, bind or are what is minimised."""

    def __init__(
        self, table: NodeTable, aim: Part, region: Region, victims: Sequence[Victim], cost: Mapping[int, int],
        budgets: BudgetLimits | None, limit: int | None = None, caps: Mapping[Shape, Ints] = NO_CAPS,
    ) -> None:  # fmt: skip
        """Solutions must cost less than `limit`; `caps` gives the most pods of a shape that a row takes.

        Raises `ModelTooLarge`.
        """
        if sum(cost.values()) > LARGEST_COST:
            raise ModelTooLarge
        self.table, self.aim, self.region, self.budgets = table, aim, region, budgets
        known = budgets.allowed if budgets is not None else {}
        covered = {v.unit: {b: n for b, n in v.budgets.items() if b in known} for v in victims if v.budgets}
        self.costs = EvictionCosts(cost, covered)
        pods: dict[Shape, int] = {}
        for part in walk(aim):
            for ask in part.asks:
                pods[ask.shape] = pods.get(ask.shape, 0) + ask.most
        self.options = OptionTable(table, rows_of(table, region), pods, victims, self.costs, caps)
        self.solver = Solver()
        self.cp = self.solver.cp
        self._variables = 0
        #: For every node one variable for each of its options.
        self.chosen: list[tuple[NodeOptions, list[Any]]] = []
        #: For every unit on several nodes whether it is evicted.
        self.evicted: dict[int, Any] = {}
        self._build(limit)

    def ask(self, steps: int) -> tuple[ModelAnswer, int]:
        """The solver's answer within a number of steps, and the steps that it took."""
        budget = Steps(steps)
        # On these models presolve takes longer than the answer.
        found = self.solver.solve(budget, linearization=2, presolve=False)
        spent = ONE_ANSWER + steps - budget.left
        if found is False:
            return ModelAnswer(None, 0, 0, impossible=True), spent
        if found is None:
            return ModelAnswer(None, 0, self.solver.bound), spent
        units = frozenset(unit for option in self._chosen_options() for unit in option.units)
        return ModelAnswer(units, sum(self.costs.cost[unit] for unit in units), self.solver.bound), spent

    def _chosen_options(self) -> Iterator[EvictionOption]:
        for node, variables in self.chosen:
            for option, variable in zip(node.options, variables, strict=True):
                if self.solver.value(variable):
                    yield option

    def forbid(self, units: frozenset[int]) -> None:
        """These units do not suffice: some other unit must be evicted as well."""
        others = [
            variable
            for node, variables in self.chosen
            for option, variable in zip(node.options, variables, strict=True)
            if not units.issuperset(option.units)
        ]
        self.cp.add(sum(others) >= 1)

    # ---- variables and objective

    def _integer(self, most: int) -> Any:
        self._variables += 1
        if self._variables > LARGEST_MODEL:
            raise ModelTooLarge
        return self.cp.new_int_var(0, most, "")

    def _build(self, limit: int | None) -> None:
        leaves = [counts for counts in self._part_counts() if counts.parts[0].is_leaf and counts.parts[0].need]
        self._add_options()
        sizes = _deciding_sizes(self.options)
        if sizes is not None:
            self._require_pieces(leaves, sizes)
        else:
            self._require_pods(leaves)
        violations = self._add_budgets(self.budgets) if self.budgets is not None else []
        if self.budgets is not None and self.budgets.violations is None:
            self.cp.minimize(sum(violations))
            return
        costs = [self.costs.cost[unit] * variable for unit, variable in self.evicted.items()]
        for node, variables in self.chosen:
            costs += [option.cost * v for option, v in zip(node.options, variables, strict=True) if option.cost]
        self.cp.minimize(sum(costs))
        if limit is not None:
            self.cp.add(sum(costs) < limit)

    def _add_options(self) -> None:
        """Every node takes one option, the first unless another is chosen; a shared unit is evicted everywhere."""
        self.evicted = {unit: self._integer(1) for unit in self.options.shared}
        for node in self.options.nodes:
            others = [self._integer(1) for _ in node.options[1:]]
            if len(others) > 1:
                self.cp.add_at_most_one(others)
            variables = [1 - sum(others), *others]
            self.chosen.append((node, variables))
            for unit in dict.fromkeys(unit for option in node.options for unit in option.units):
                if unit in self.evicted:
                    using = [v for option, v in zip(node.options, variables, strict=True) if unit in option.units]
                    self.cp.add(sum(using) <= self.evicted[unit])

    def _add_budgets(self, budgets: BudgetLimits) -> list[Any]:
        """For every budget a variable for its violations, unless none are allowed."""
        used: dict[int, list[Any]] = {}
        for node, variables in self.chosen:
            for option, variable in zip(node.options, variables, strict=True):
                for budget, pods in option.covered.items():
                    used.setdefault(budget, []).append(pods * variable)
        for unit, variable in self.evicted.items():
            for budget, pods in self.costs.budgets.get(unit, {}).items():
                used.setdefault(budget, []).append(pods * variable)
        violations = []
        for budget, evicted_pods in used.items():
            allowed = budgets.allowed[budget]
            if budgets.violations != 0:
                violations.append(self._integer(1 << 20 if budgets.violations is None else budgets.violations))
                allowed = allowed + violations[-1]
            self.cp.add(sum(evicted_pods) <= allowed)
        if budgets.violations:
            self.cp.add(sum(violations) <= budgets.violations)
        return violations

    # ---- groups in domains

    def _part_counts(self) -> list[_PartCounts]:
        """Counts of equal parts by domain, for the whole tree of the aim."""
        found: list[_PartCounts] = []
        outermost = _PartCounts([self.aim], self.region.level, {self.region.index: 1})
        pending = [self._counts_inside([self.aim], outermost, True, found)]
        while pending:
            counts = pending.pop()
            parent = counts.parts[0]
            if parent.is_leaf:
                continue
            all_needed = parent.need >= len(parent.children)
            inner = [self._counts_inside(parts, counts, all_needed, found) for parts in parent.kinds()]
            if not all_needed:
                total = sum(count for each in inner for count in each.by_domain.values())
                self.cp.add(total >= parent.need * sum(counts.by_domain.values()))
            pending += inner
        return found

    def _counts_inside(
        self, parts: list[Part], outer: _PartCounts, all_needed: bool, found: list[_PartCounts]
    ) -> _PartCounts:
        """Counts of equal parts in domains of their key, inside the domains of the part above them."""
        part, number = parts[0], len(parts)
        own = max((self.table.level_of.get(key, -1) for key in part.keys), default=-1)
        counts = _PartCounts(parts, max(own, outer.level), {})
        for domain, parents in outer.by_domain.items():
            admitted = self._admitted(part, outer.level, domain, counts.level)
            if counts.level == outer.level and all_needed and number == 1 and admitted:
                counts.by_domain[domain] = parents
                continue
            here = [(index, self._integer(number)) for index in admitted]
            counts.by_domain.update(here)
            total = sum(variable for _, variable in here)
            self.cp.add(total == number * parents if all_needed else total <= number * parents)
        found.append(counts)
        if part.is_leaf and part.need and part.need != part.supply and len(part.asks) > 1:
            counts.pods = portions(self.cp, self._integer, parts, counts.by_domain)
        return counts

    def _admitted(self, part: Part, outer_level: int, outer: int, level: int) -> list[int]:
        """Domains of a level inside another one that are named for each key and hold the part's bound members."""
        low, high = self.table.inner(outer_level, outer, level) if level > outer_level else (outer, outer + 1)
        rows = self.table.starts(level)[low:high]
        fine = np.ones(high - low, dtype=np.bool_)
        for key in part.keys:
            if key in self.table.level_of:
                domains = self.table.domains(self.table.level_of[key])
                fine &= self.table.named(self.table.level_of[key])[domains[rows]]
                for pin in part.pins:
                    fine &= domains[rows] == domains[pin]
        return (low + np.flatnonzero(fine)).tolist()

    # ---- what groups need and what is free

    def _require_pieces(self, leaves: list[_PartCounts], sizes: list[tuple[int, int]]) -> None:
        """For every domain and request size: no more pieces are needed than the options leave free there."""
        for resource, size in sizes:
            needs = [request // size for request in self.options.resources[resource].requests]
            offered = [
                (node.row, [(option.free[resource] // size, v) for option, v in zip(node.options, each, strict=True)])
                for node, each in self.chosen
            ]
            self._require_enough(leaves, needs, [(row, _amount(options)) for row, options in offered])

    def _require_pods(self, leaves: list[_PartCounts]) -> None:
        """Pods of each shape on each node: no more than the node's option has room for, and enough in every domain."""
        resources = self.options.resources
        offered: list[list[tuple[int, Any]]] = [[] for _ in self.options.shapes]
        sizes = [(index, size) for index, resource in enumerate(resources) for size in _sizes(resource.requests)]
        for node, variables in self.chosen:
            slots = [[_slots(resources, shape, option) for option in node.options] for shape in range(len(offered))]
            pods = {
                shape: self._integer(max(slots[shape]))
                for shape in range(len(offered))
                if node.admits[shape] and max(slots[shape])
            }
            for shape, number in pods.items():
                offered[shape].append((node.row, number))
                self.cp.add(number <= _amount(list(zip(slots[shape], variables, strict=True))))
            for index, size in sizes:
                requests = resources[index].requests
                used = [requests[shape] // size * number for shape, number in pods.items() if requests[shape] >= size]
                if len(used) > 1:
                    free = [(option.free[index] // size, v) for option, v in zip(node.options, variables, strict=True)]
                    self.cp.add(sum(used) <= _amount(free))
        for shape, by_row in enumerate(offered):
            self._require_enough(leaves, [int(other == shape) for other in range(len(offered))], by_row)

    def _require_enough(self, leaves: list[_PartCounts], needs: list[int], offered: list[tuple[int, Any]]) -> None:
        """In every domain of a level that has leaves: what the leaves inside it need is offered there."""
        for level in sorted({counts.level for counts in leaves}):
            domains = self.table.domains(level) if level >= 0 else np.zeros(self.table.size, dtype=np.int64)
            needed: dict[int, list[Any]] = {}
            for counts in leaves:
                if counts.level >= level:
                    for domain, count in counts.by_domain.items():
                        row = int(self.table.starts(counts.level)[domain])
                        needed.setdefault(int(domains[row]), []).append(self._needed(counts, domain, count, needs))
            free: dict[int, list[Any]] = {}
            for row, amount in offered:
                free.setdefault(int(domains[row]), []).append(amount)
            for domain, amounts in needed.items():
                self.cp.add(sum(amounts) <= sum(free.get(domain, [])))

    def _needed(self, counts: _PartCounts, domain: int, count: Any, needs: list[int]) -> Any:
        """What the leaves in a domain need, given what one pod of each shape needs."""
        part = counts.parts[0]
        total: Any = 0
        for number, ask in enumerate(part.asks):
            need = needs[self.options.shapes.index(ask.shape)]
            if need:
                most = part.need if len(part.asks) == 1 else ask.most
                total += need * counts.pods.get((domain, number), most * count)
        return total


def _amount(options: Sequence[tuple[int, Any]]) -> Any:
    """The amount of the option that is chosen; the first is, unless another variable is 1."""
    (first, _), *others = options
    return first + sum((amount - first) * variable for amount, variable in others if amount != first)


def _slots(resources: Sequence[ResourceUse], shape: int, option: EvictionOption) -> int:
    rooms = [free // r.requests[shape] for free, r in zip(option.free, resources, strict=True) if r.requests[shape]]
    return min(rooms, default=0)


def _sizes(requests: Iterable[int]) -> list[int]:
    return sorted({1, *(request for request in requests if request)})


def _deciding_sizes(options: OptionTable) -> list[tuple[int, int]] | None:
    """The index of the one resource that decides, with each of its request sizes; None if no one resource decides.

    A resource decides if every shape requests it, all nodes admit the same shapes, each size divides the next, and
    pods that have enough of it have enough of all other resources.  Then counting pieces of every size is exact.
    """
    if any(node.admits != options.nodes[0].admits for node in options.nodes):
        return None
    for index, resource in enumerate(options.resources):
        sizes = sorted(set(resource.requests))
        if sizes[0] <= 0 or any(large % small for small, large in pairwise(sizes)):
            continue
        if all(_is_implied(options, other, index) for other in range(len(options.resources)) if other != index):
            return [(index, size) for size in sizes]
    return None


def _is_implied(options: OptionTable, one: int, other: int) -> bool:
    """Whether pods that have enough of the `other` resource on their node have enough of the first."""
    requests, others = options.resources[one].requests, options.resources[other].requests
    pairs = [(o, r) for r, o in zip(requests, others, strict=True) if r]
    over, under = pairs[0]
    for o, r in pairs[1:]:
        if o * under < over * r:
            over, under = o, r
    return all(
        option.free[other] * under <= option.free[one] * over for node in options.nodes for option in node.options
    )
