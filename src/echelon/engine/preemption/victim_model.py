"""Which victims go, as a question to CP-SAT: for what arithmetic leaves open, that is mixed pods, budgets, mixed trees.

Every node goes one of its `ways`; a variable says which, another for every victim on several nodes whether it goes,
others in which domains groups are seated.  What groups need in a domain must be there: pieces of every size where one
resource decides, else pods placed node by node.  Everything said is necessary, so no eviction costs less than the
optimum; whether the victims it names suffice is for the search to say.  If they do not, others must go as well, and
the question is asked again.

One worker, a fixed seed, deterministic time: the same question gets the same answer on every machine.
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
from ..space.canonical import Part, walk
from ..space.cpsat import Solver
from ..space.tasks import Steps
from .node_options import EvictionCosts, EvictionOption, ModelTooLarge, NodeOptions, OptionTable, ResourceUse
from .victim_table import Victim

#: Steps that any answer costs.
ONE_ANSWER = 100
#: Variables beyond this are not even written down.
LARGEST_MODEL = 40_000
#: No total may come near what 64 bits hold.
LARGEST_COST = 1 << 60
NO_CAPS: Mapping[Shape, Ints] = {}


class BudgetLimits(NamedTuple):
    """What budgets still allow, and how often all of them together may be violated."""

    allowed: Mapping[int, int]
    #: None if that is the question.
    over: int | None


@dataclass(slots=True)
class _PartCounts:
    """Equal parts and, by domain of a level, the variable that says how many of them are seated there."""

    parts: list[Part]
    level: int
    where: dict[int, Any]
    #: Pods by domain and ask, where the need can be met in several ways.
    pods: dict[tuple[int, int], Any] = field(default_factory=dict)


class ModelAnswer(NamedTuple):
    """Units that the solver names, if it names any, what they cost, and what any others cost at least."""

    units: frozenset[int] | None
    cost: int
    bound: int
    #: Whether no units suffice.
    impossible: bool = False


class VictimModel:
    """One aim in one region, and victims with their costs; budgets, if there are any, bind or are the question."""

    def __init__(
        self, table: NodeTable, aim: Part, region: Region, victims: Sequence[Victim], cost: Mapping[int, int],
        budgets: BudgetLimits | None, limit: int | None = None, caps: Mapping[Shape, Ints] = NO_CAPS,
    ) -> None:  # fmt: skip
        """Only what costs less than the limit counts; caps say how many pods of a shape a row takes at most.

        Raises `ModelTooLarge` if the question is too large.
        """
        if sum(cost.values()) > LARGEST_COST:
            raise ModelTooLarge
        self.table, self.aim, self.region, self.budgets = table, aim, region, budgets
        live = budgets.allowed if budgets is not None else {}
        covered = {v.unit: {b: n for b, n in v.budgets.items() if b in live} for v in victims if v.budgets}
        self.terms = EvictionCosts(cost, covered)
        numbers: dict[Shape, int] = {}
        for part in walk(aim):
            for ask in part.asks:
                numbers[ask.shape] = numbers.get(ask.shape, 0) + ask.most
        self.ground = OptionTable(table, rows_of(table, region), numbers, victims, self.terms, caps)
        self.solver = Solver()
        self.cp = self.solver.cp
        self._size = 0
        #: For every node the variables of its ways.
        self.chosen: list[tuple[NodeOptions, list[Any]]] = []
        #: For every victim on several nodes whether it goes.
        self.goes: dict[int, Any] = {}
        self._write(limit)

    def ask(self, steps: int) -> tuple[ModelAnswer, int]:
        """The best that can be told within so many steps, and the steps it took."""
        budget = Steps(steps)
        # On these models presolve takes longer than the answer.
        found = self.solver.solve(budget, linearization=2, presolve=False)
        spent = ONE_ANSWER + steps - budget.left
        if found is False:
            return ModelAnswer(None, 0, 0, impossible=True), spent
        if found is None:
            return ModelAnswer(None, 0, self.solver.bound), spent
        units = frozenset(unit for way in self._ways_gone() for unit in way.units)
        return ModelAnswer(units, sum(self.terms.cost[unit] for unit in units), self.solver.bound), spent

    def _ways_gone(self) -> Iterator[EvictionOption]:
        for node, variables in self.chosen:
            for way, variable in zip(node.ways, variables, strict=True):
                if self.solver.value(variable):
                    yield way

    def object_to(self, units: frozenset[int]) -> None:
        """These alone do not suffice: someone else must go."""
        others = [
            variable
            for node, variables in self.chosen
            for way, variable in zip(node.ways, variables, strict=True)
            if not units.issuperset(way.units)
        ]
        self.cp.add(sum(others) >= 1)

    # ---- writing it down

    def _integer(self, most: int) -> Any:
        self._size += 1
        if self._size > LARGEST_MODEL:
            raise ModelTooLarge
        return self.cp.new_int_var(0, most, "")

    def _write(self, limit: int | None) -> None:
        leaves = [seat for seat in self._seats() if seat.parts[0].is_leaf and seat.parts[0].need]
        self._write_ways()
        sizes = _deciding(self.ground)
        if sizes is not None:
            self._by_pieces(leaves, sizes)
        else:
            self._by_pods(leaves)
        beyond = self._beyond(self.budgets) if self.budgets is not None else []
        if self.budgets is not None and self.budgets.over is None:
            self.cp.minimize(sum(beyond))
            return
        costs = [self.terms.cost[unit] * goes for unit, goes in self.goes.items()]
        for node, variables in self.chosen:
            costs += [way.cost * v for way, v in zip(node.ways, variables, strict=True) if way.cost]
        self.cp.minimize(sum(costs))
        if limit is not None:
            self.cp.add(sum(costs) < limit)

    def _write_ways(self) -> None:
        """Every node goes one of its ways, the first if no other; who is on several nodes goes from all or none."""
        self.goes = {unit: self._integer(1) for unit in self.ground.shared}
        for node in self.ground.nodes:
            others = [self._integer(1) for _ in node.ways[1:]]
            if len(others) > 1:
                self.cp.add_at_most_one(others)
            variables = [1 - sum(others), *others]
            self.chosen.append((node, variables))
            for unit in dict.fromkeys(unit for way in node.ways for unit in way.units):
                if unit in self.goes:
                    using = [v for way, v in zip(node.ways, variables, strict=True) if unit in way.units]
                    self.cp.add(sum(using) <= self.goes[unit])

    def _beyond(self, budgets: BudgetLimits) -> list[Any]:
        """For every budget how many pods go beyond what it allows."""
        used: dict[int, list[Any]] = {}
        for node, variables in self.chosen:
            for way, variable in zip(node.ways, variables, strict=True):
                for budget, number in way.covered.items():
                    used.setdefault(budget, []).append(number * variable)
        for unit, goes in self.goes.items():
            for budget, number in self.terms.budgets.get(unit, {}).items():
                used.setdefault(budget, []).append(number * goes)
        beyond = []
        for budget, pods in used.items():
            allowed = budgets.allowed[budget]
            if budgets.over != 0:
                beyond.append(self._integer(1 << 20 if budgets.over is None else budgets.over))
                allowed = allowed + beyond[-1]
            self.cp.add(sum(pods) <= allowed)
        if budgets.over:
            self.cp.add(sum(beyond) <= budgets.over)
        return beyond

    # ---- groups

    def _seats(self) -> list[_PartCounts]:
        seats: list[_PartCounts] = []
        around = _PartCounts([self.aim], self.region.level, {self.region.index: 1})
        pending = [self._within([self.aim], around, True, seats)]
        while pending:
            seat = pending.pop()
            parent = seat.parts[0]
            if parent.is_leaf:
                continue
            must = parent.need >= len(parent.children)
            inner = [self._within(parts, seat, must, seats) for parts in parent.kinds()]
            if not must:
                total = sum(there for each in inner for there in each.where.values())
                self.cp.add(total >= parent.need * sum(seat.where.values()))
            pending += inner
        return seats

    def _within(self, parts: list[Part], around: _PartCounts, must: bool, seats: list[_PartCounts]) -> _PartCounts:
        """Equal parts in domains of their key, each inside a domain in which the part above them is seated."""
        part, number = parts[0], len(parts)
        own = max((self.table.level_of.get(key, -1) for key in part.keys), default=-1)
        seat = _PartCounts(parts, max(own, around.level), {})
        for outer, there in around.where.items():
            admitted = self._admitted(part, around.level, outer, seat.level)
            if seat.level == around.level and must and number == 1 and admitted:
                seat.where[outer] = there
                continue
            here = [(index, self._integer(number)) for index in admitted]
            seat.where.update(here)
            total = sum(variable for _, variable in here)
            self.cp.add(total == number * there if must else total <= number * there)
        seats.append(seat)
        if part.is_leaf and part.need and part.need != part.supply and len(part.asks) > 1:
            seat.pods = portions(self.cp, self._integer, parts, seat.where)
        return seat

    def _admitted(self, part: Part, outer_level: int, outer: int, level: int) -> list[int]:
        """Domains inside another one that have a name for each key, those of bound members if there are any."""
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

    # ---- what they need and what there is

    def _by_pieces(self, leaves: list[_PartCounts], sizes: list[tuple[int, int]]) -> None:
        """For every domain and every size: no more pieces are needed than ways leave free there."""
        for resource, size in sizes:
            takes = [take // size for take in self.ground.resources[resource].takes]
            offered = [
                (node.row, [(way.free[resource] // size, v) for way, v in zip(node.ways, variables, strict=True)])
                for node, variables in self.chosen
            ]
            self._enough(leaves, takes, [(row, _line(ways)) for row, ways in offered])

    def _by_pods(self, leaves: list[_PartCounts]) -> None:
        """How many pods of each shape a node takes: no more than its way has room for, and enough in every domain."""
        offered: list[list[tuple[int, Any]]] = [[] for _ in self.ground.shapes]
        sizes = [
            (number, size) for number, resource in enumerate(self.ground.resources) for size in _sizes(resource.takes)
        ]
        for node, variables in self.chosen:
            slots = [[_slots(self.ground.resources, shape, way) for way in node.ways] for shape in range(len(offered))]
            pods = {
                shape: self._integer(max(slots[shape]))
                for shape in range(len(offered))
                if node.open_to[shape] and max(slots[shape])
            }
            for shape, number in pods.items():
                offered[shape].append((node.row, number))
                self.cp.add(number <= _line(list(zip(slots[shape], variables, strict=True))))
            for resource, size in sizes:
                takes = self.ground.resources[resource].takes
                used = [takes[shape] // size * number for shape, number in pods.items() if takes[shape] >= size]
                if len(used) > 1:
                    free = [(way.free[resource] // size, v) for way, v in zip(node.ways, variables, strict=True)]
                    self.cp.add(sum(used) <= _line(free))
        for shape, there in enumerate(offered):
            self._enough(leaves, [int(other == shape) for other in range(len(offered))], there)

    def _enough(self, leaves: list[_PartCounts], takes: list[int], offered: list[tuple[int, Any]]) -> None:
        """In every domain of a level at which leaves are seated: what those in it take is offered there."""
        for level in sorted({seat.level for seat in leaves}):
            domains = self.table.domains(level) if level >= 0 else np.zeros(self.table.size, dtype=np.int64)
            asked: dict[int, list[Any]] = {}
            for seat in leaves:
                if seat.level >= level:
                    for domain, there in seat.where.items():
                        row = int(self.table.starts(seat.level)[domain])
                        asked.setdefault(int(domains[row]), []).append(self._taken(seat, domain, there, takes))
            free: dict[int, list[Any]] = {}
            for row, amount in offered:
                free.setdefault(int(domains[row]), []).append(amount)
            for domain, amounts in asked.items():
                self.cp.add(sum(amounts) <= sum(free.get(domain, [])))

    def _taken(self, seat: _PartCounts, domain: int, there: Any, takes: list[int]) -> Any:
        shapes = self.ground.shapes
        part = seat.parts[0]
        total: Any = 0
        for number, ask in enumerate(part.asks):
            take = takes[shapes.index(ask.shape)]
            if take:
                most = part.need if len(part.asks) == 1 else ask.most
                total += take * seat.pods.get((domain, number), most * there)
        return total


def _line(ways: Sequence[tuple[int, Any]]) -> Any:
    """The amount of whichever way is gone; the first is gone if no other is."""
    (first, _), *others = ways
    return first + sum((amount - first) * variable for amount, variable in others if amount != first)


def _slots(resources: Sequence[ResourceUse], shape: int, way: EvictionOption) -> int:
    rooms = [free // r.takes[shape] for free, r in zip(way.free, resources, strict=True) if r.takes[shape]]
    return min(rooms, default=0)


def _sizes(takes: Iterable[int]) -> list[int]:
    return sorted({1, *(take for take in takes if take)})


def _deciding(ground: OptionTable) -> list[tuple[int, int]] | None:
    """The one resource that decides and the sizes of its pieces, if enough of these mean that pods fit."""
    if any(node.open_to != ground.nodes[0].open_to for node in ground.nodes):
        return None
    for number, resource in enumerate(ground.resources):
        sizes = sorted(set(resource.takes))
        if sizes[0] <= 0 or any(large % small for small, large in pairwise(sizes)):
            continue
        if all(_implied(ground, other, number) for other in range(len(ground.resources)) if other != number):
            return [(number, size) for size in sizes]
    return None


def _implied(ground: OptionTable, one: int, other: int) -> bool:
    """Whether pods that have enough of the other resource on their node have enough of this one."""
    takes, others = ground.resources[one].takes, ground.resources[other].takes
    pairs = [(o, t) for t, o in zip(takes, others, strict=True) if t]
    over, under = pairs[0]
    for o, t in pairs[1:]:
        if o * under < over * t:
            over, under = o, t
    return all(way.free[other] * under <= way.free[one] * over for node in ground.nodes for way in node.ways)
