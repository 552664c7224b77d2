"""Eviction options of each node: the sets of victims on it that are worth considering, and what each leaves free.

An option is a set of victims on one node.  Option A dominates option B if A frees no less, costs no more, covers no
more pods of any budget, and evicts no victim that B keeps and that also runs on other nodes.  Only undominated options
are kept: a handful where a node has hundreds of subsets.  Free amounts are cut down to what the pods to place can use:
no more than they could take on the node, and only sums of their requests.  Both keep every optimum of `victim_model`.

The subsets are built victim by victim, and dominated ones are dropped after each.  The model is abandoned
(`ModelTooLarge`) where a node keeps too many.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import add, ge, le
from typing import NamedTuple

import numpy as np

from ..cluster.arrays import Bools, Ints
from ..cluster.free_amounts import clip
from ..cluster.node_filters import allowed
from ..cluster.node_table import NodeTable
from ..records.demand import Shape
from .victim_table import Victim

#: Options of a node, and victims on it, beyond which the model is abandoned.
MOST_OPTIONS = 400
MOST_VICTIMS = 120
#: Distinct sums of requests beyond which free amounts are not rounded down to them.
MOST_SUMS = 2_000


class ModelTooLarge(Exception):
    """The model would have too many options or variables."""


class ResourceUse(NamedTuple):
    """A resource and what one pod of each shape requests of it, as multiples of `unit`."""

    name: str
    #: Its row in the free amounts of the node table.
    position: int
    unit: int
    requests: tuple[int, ...]


class EvictionOption(NamedTuple):
    """Victims to evict from one node, and the amounts that are free then, in units of each resource."""

    free: tuple[int, ...]
    units: tuple[int, ...]
    #: The cost of the victims that run on this node alone.
    cost: int
    #: Pods of these victims under each budget.
    covered: Mapping[int, int]


class NodeOptions(NamedTuple):
    """A node that the pods to place can use, with its options; the first evicts nothing."""

    row: int
    #: By shape, whether its pods may run here at all.
    admits: tuple[bool, ...]
    options: tuple[EvictionOption, ...]


class EvictionCosts(NamedTuple):
    """What evicting each unit costs, and how many of its pods each budget that could be violated covers."""

    cost: Mapping[int, int]
    budgets: Mapping[int, Mapping[int, int]]


class _LocalVictim(NamedTuple):
    """A victim on one node and what it frees there of each resource."""

    unit: int
    freed: tuple[int, ...]


class _Subset(NamedTuple):
    """Some victims of one node; `shared` and `evicted` are bit sets."""

    cost: int
    covered: tuple[int, ...]
    #: Those that run on other nodes too.
    shared: int
    free: tuple[int, ...]
    evicted: int

    def dominates(self, other: _Subset) -> bool:
        """Whether this is no worse, given that it costs no more."""
        return (
            all(map(ge, self.free, other.free))
            and not self.shared & ~other.shared
            and all(map(le, self.covered, other.covered))
        )


class OptionTable:
    """The nodes among some rows that pods of these shapes can use, with their options."""

    def __init__(
        self, table: NodeTable, rows: Ints, shapes: Mapping[Shape, int], victims: Sequence[Victim],
        costs: EvictionCosts, caps: Mapping[Shape, Ints],
    ) -> None:  # fmt: skip
        """`table` has no victim removed.  `shapes` gives the most pods of each shape; `caps` the most that a row takes.

        Raises `ModelTooLarge`.
        """
        self.shapes, self._costs = list(shapes), costs
        self.resources = _resources(table, self.shapes)
        admits: Bools = np.stack([allowed(table, shape)[rows] for shape in self.shapes])
        local = self._local_victims(rows[admits.any(axis=0)].tolist(), victims)
        node_count: dict[int, int] = {}
        for on_row in local.values():
            for victim in on_row:
                node_count[victim.unit] = node_count.get(victim.unit, 0) + 1
        #: Units with victims on several nodes.
        self.shared = [unit for unit, count in node_count.items() if count > 1]
        self._shared_bit = {unit: 1 << number for number, unit in enumerate(self.shared)}
        free = table.free[[resource.position for resource in self.resources]][:, rows]
        slots = self._slots_without_victims(free, rows, local) * admits
        np.minimum(slots, np.array(list(shapes.values()))[:, np.newaxis], out=slots)
        for number, shape in enumerate(self.shapes):
            if shape in caps:
                np.minimum(slots[number], caps[shape][rows], out=slots[number])
        requests = np.array([resource.requests for resource in self.resources], dtype=np.int64)
        units = np.array([resource.unit for resource in self.resources], dtype=np.int64)
        #: The most of each resource that the pods to place can use on a row.
        usable = (requests @ slots) * units[:, np.newaxis]
        self._sums = [_reachable_sums(resource.requests, slots.max(axis=1).tolist()) for resource in self.resources]
        self.nodes = [
            self._node_options(int(rows[at]), admits[:, at], local.get(int(rows[at]), []), free[:, at], usable[:, at])
            for at in np.flatnonzero(usable.any(axis=0)).tolist()
        ]

    def _local_victims(self, rows: list[int], victims: Sequence[Victim]) -> dict[int, list[_LocalVictim]]:
        """By row, the victims that free a requested resource there."""
        inside = frozenset(rows)
        names = [resource.name for resource in self.resources]
        found: dict[int, list[_LocalVictim]] = {}
        for victim in victims:
            for row, amounts in victim.freed.items():
                if row in inside:
                    freed = tuple(clip(amounts.get(name, 0)) for name in names)
                    if any(freed):
                        found.setdefault(row, []).append(_LocalVictim(victim.unit, freed))
        return found

    def _slots_without_victims(self, free: Ints, rows: Ints, local: Mapping[int, list[_LocalVictim]]) -> Ints:
        """By shape and row, the slots once every victim is evicted."""
        free = free.copy()
        for at, row in enumerate(rows.tolist()):
            for victim in local.get(row, ()):
                free[:, at] += victim.freed
        slots = np.full((len(self.shapes), len(rows)), 1 << 31, dtype=np.int64)
        for number, resource in enumerate(self.resources):
            for shape, request in enumerate(resource.requests):
                if request:
                    np.minimum(slots[shape], free[number] // (request * resource.unit), out=slots[shape])
        return np.maximum(slots, 0)

    # ---- one node

    def _node_options(
        self, row: int, admits: Bools, victims: list[_LocalVictim], free: Ints, usable: Ints
    ) -> NodeOptions:
        """Add one victim after the other to every subset so far, dropping dominated ones."""
        if len(victims) > MOST_VICTIMS:
            raise ModelTooLarge
        limits: tuple[int, ...] = tuple(usable.tolist())
        budgets = list(dict.fromkeys(b for victim in victims for b in self._costs.budgets.get(victim.unit, ())))
        start = tuple(map(min, free.tolist(), limits))
        subsets = [_Subset(0, (0,) * len(budgets), 0, start, 0)]
        for number, victim in enumerate(victims):
            subsets = _undominated(
                subsets + [self._with(subset, victim, 1 << number, limits, budgets) for subset in subsets]
            )
        subsets = _undominated([subset._replace(free=self._rounded_down(subset.free)) for subset in subsets])
        return NodeOptions(row, tuple(admits.tolist()), tuple(_option(subset, victims, budgets) for subset in subsets))

    def _with(
        self, subset: _Subset, victim: _LocalVictim, bit: int, limits: tuple[int, ...], budgets: list[int]
    ) -> _Subset:
        """The subset with one victim more; a shared victim is charged by the model, not here."""
        free = tuple(map(min, map(add, subset.free, victim.freed), limits))
        shared = self._shared_bit.get(victim.unit, 0)
        if shared:
            return _Subset(subset.cost, subset.covered, subset.shared | shared, free, subset.evicted | bit)
        covered, own = subset.covered, self._costs.budgets.get(victim.unit)
        if own:
            covered = tuple(pods + own.get(budget, 0) for pods, budget in zip(covered, budgets, strict=True))
        cost = subset.cost + self._costs.cost[victim.unit]
        return _Subset(cost, covered, subset.shared, free, subset.evicted | bit)

    def _rounded_down(self, free: Iterable[int]) -> tuple[int, ...]:
        """Amounts in units of each resource, rounded down to a sum of requests."""
        found = []
        for amount, resource, sums in zip(free, self.resources, self._sums, strict=True):
            units = max(0, amount) // resource.unit
            found.append(units if sums is None else sums[bisect_right(sums, units) - 1])
        return tuple(found)


def _option(subset: _Subset, victims: list[_LocalVictim], budgets: list[int]) -> EvictionOption:
    units = tuple(victim.unit for number, victim in enumerate(victims) if subset.evicted >> number & 1)
    covered = {budget: pods for budget, pods in zip(budgets, subset.covered, strict=True) if pods}
    return EvictionOption(subset.free, units, subset.cost, covered)


def _undominated(subsets: list[_Subset]) -> list[_Subset]:
    """The subsets that no other dominates, the cheapest first."""
    subsets.sort(key=lambda each: (each.cost, each.shared.bit_count(), sum(each.covered), -sum(each.free)))
    kept: list[_Subset] = []
    for subset in subsets:
        if not any(other.dominates(subset) for other in kept):
            kept.append(subset)
    if len(kept) > MOST_OPTIONS:
        raise ModelTooLarge
    return kept


def _resources(table: NodeTable, shapes: Sequence[Shape]) -> list[ResourceUse]:
    """The resources that any shape requests, each in units of the greatest common divisor of the requests."""
    amounts = [dict(shape.requests) for shape in shapes]
    found = []
    for name, index in table.resources.items():
        requests = [clip(max(0, asked.get(name, 0))) for asked in amounts]
        unit = math.gcd(*requests)
        if unit:
            found.append(ResourceUse(name, index, unit, tuple(request // unit for request in requests)))
    return found


def _reachable_sums(requests: Sequence[int], pods: Sequence[int]) -> list[int] | None:
    """All sums of requests of at most `pods` pods of each shape, ascending; None if they are too many."""
    sums = {0}
    for request, number in zip(requests, pods, strict=True):
        for _ in range(number if request else 0):
            sums |= {each + request for each in sums}
            if len(sums) > MOST_SUMS:
                return None
    return sorted(sums)
