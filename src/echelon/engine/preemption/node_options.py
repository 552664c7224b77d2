"""What each node would have free if some of its tenants were gone: the few ways that are worth their cost.

A way is a set of victims on one node.  Of two ways the better one frees no less, costs no more and takes no one whom
the other leaves; only those are kept that no other way beats, which is a handful where there are hundreds of sets.
Amounts count as far as the newcomers can use them: no more than they could take there, and only sums of their sizes.
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

#: Ways of a node, and victims on it, beyond which nothing is said.
MOST_OPTIONS = 400
MOST_VICTIMS = 120
#: Sums of sizes that are told apart.
MOST_SUMS = 2_000


class ModelTooLarge(Exception):
    """There are more ways than anyone wants to look at."""


class ResourceUse(NamedTuple):
    """A resource and what one pod of each shape takes of it, in its unit."""

    name: str
    known: int
    unit: int
    takes: tuple[int, ...]


class EvictionOption(NamedTuple):
    """Free amounts by resource, who goes, and what those cost who are on this node alone."""

    free: tuple[int, ...]
    units: tuple[int, ...]
    cost: int
    #: By budget: pods under it of those who are on this node alone.
    covered: Mapping[int, int]


class NodeOptions(NamedTuple):
    """A node that newcomers can use; its first way costs nothing."""

    row: int
    #: By shape, whether it may be here at all.
    open_to: tuple[bool, ...]
    ways: tuple[EvictionOption, ...]


class EvictionCosts(NamedTuple):
    """What evicting a victim costs, and how many of its pods each budget that could be violated covers."""

    cost: Mapping[int, int]
    budgets: Mapping[int, Mapping[int, int]]


class _LocalVictim(NamedTuple):
    unit: int
    #: What it gives back of each resource.
    given: tuple[int, ...]


class _PartialOption(NamedTuple):
    """A set of tenants gone: cost, pods under budgets, victims who are on other nodes too, free amounts, who."""

    cost: int
    covered: tuple[int, ...]
    elsewhere: int
    free: tuple[int, ...]
    gone: int

    def beats(self, other: _PartialOption) -> bool:
        """Of two states of which this is no dearer."""
        return (
            all(map(ge, self.free, other.free))
            and not self.elsewhere & ~other.elsewhere
            and all(map(le, self.covered, other.covered))
        )


class OptionTable:
    """The nodes of some rows that newcomers of these shapes (and most numbers) can use, with their ways."""

    def __init__(
        self, table: NodeTable, rows: Ints, shapes: Mapping[Shape, int], victims: Sequence[Victim],
        terms: EvictionCosts, caps: Mapping[Shape, Ints],
    ) -> None:  # fmt: skip
        """The layout is that of a view in which nobody is gone; caps are pods of a shape that a row takes at most.

        Raises `ModelTooLarge`.
        """
        self.shapes, self._terms = list(shapes), terms
        self.resources = _resources(table, self.shapes)
        open_to: Bools = np.stack([allowed(table, shape)[rows] for shape in self.shapes])
        tenants = self._tenants(rows[open_to.any(axis=0)].tolist(), victims)
        homes: dict[int, int] = {}
        for there in tenants.values():
            for tenant in there:
                homes[tenant.unit] = homes.get(tenant.unit, 0) + 1
        #: Victims on several nodes.
        self.shared = [unit for unit, number in homes.items() if number > 1]
        self._elsewhere = {unit: 1 << number for number, unit in enumerate(self.shared)}
        base = table.free[[resource.known for resource in self.resources]][:, rows]
        slots = self._slots(base, rows, tenants) * open_to
        np.minimum(slots, np.array(list(shapes.values()))[:, np.newaxis], out=slots)
        for number, shape in enumerate(self.shapes):
            if shape in caps:
                np.minimum(slots[number], caps[shape][rows], out=slots[number])
        takes = np.array([resource.takes for resource in self.resources], dtype=np.int64)
        units = np.array([resource.unit for resource in self.resources], dtype=np.int64)
        #: No more of each resource than this can be used on a row.
        most = (takes @ slots) * units[:, np.newaxis]
        self._sums = [_reachable(resource.takes, slots.max(axis=1).tolist()) for resource in self.resources]
        self.nodes = [
            self._node(
                int(rows[spot]), open_to[:, spot], tenants.get(int(rows[spot]), []), base[:, spot], most[:, spot]
            )
            for spot in np.flatnonzero(most.any(axis=0)).tolist()
        ]

    def _tenants(self, rows: list[int], victims: Sequence[Victim]) -> dict[int, list[_LocalVictim]]:
        """By row, who gives back something that is asked for, and how much of each resource."""
        inside = frozenset(rows)
        names = [resource.name for resource in self.resources]
        found: dict[int, list[_LocalVictim]] = {}
        for victim in victims:
            for row, freed in victim.freed.items():
                if row in inside:
                    given = tuple(clip(freed.get(name, 0)) for name in names)
                    if any(given):
                        found.setdefault(row, []).append(_LocalVictim(victim.unit, given))
        return found

    def _slots(self, base: Ints, rows: Ints, tenants: Mapping[int, list[_LocalVictim]]) -> Ints:
        """By shape and row, the slots once everyone is gone."""
        free = base.copy()
        for spot, row in enumerate(rows.tolist()):
            for tenant in tenants.get(row, ()):
                free[:, spot] += tenant.given
        slots = np.full((len(self.shapes), len(rows)), 1 << 31, dtype=np.int64)
        for number, resource in enumerate(self.resources):
            for shape, take in enumerate(resource.takes):
                if take:
                    np.minimum(slots[shape], free[number] // (take * resource.unit), out=slots[shape])
        return np.maximum(slots, 0)

    # ---- one node

    def _node(self, row: int, open_to: Bools, tenants: list[_LocalVictim], base: Ints, most: Ints) -> NodeOptions:
        if len(tenants) > MOST_VICTIMS:
            raise ModelTooLarge
        limits: tuple[int, ...] = tuple(most.tolist())
        budgets = list(dict.fromkeys(b for tenant in tenants for b in self._terms.budgets.get(tenant.unit, ())))
        start = tuple(map(min, base.tolist(), limits))
        states = [_PartialOption(0, (0,) * len(budgets), 0, start, 0)]
        for number, tenant in enumerate(tenants):
            states = _unbeaten(
                states + [self._without(state, tenant, 1 << number, limits, budgets) for state in states]
            )
        states = _unbeaten([state._replace(free=self._floored(state.free)) for state in states])
        return NodeOptions(row, tuple(open_to.tolist()), tuple(self._way(state, tenants, budgets) for state in states))

    def _without(
        self, state: _PartialOption, tenant: _LocalVictim, bit: int, limits: tuple[int, ...], budgets: list[int]
    ) -> _PartialOption:
        free = tuple(map(min, map(add, state.free, tenant.given), limits))
        elsewhere = self._elsewhere.get(tenant.unit, 0)
        if elsewhere:
            return _PartialOption(state.cost, state.covered, state.elsewhere | elsewhere, free, state.gone | bit)
        covered, own = state.covered, self._terms.budgets.get(tenant.unit)
        if own:
            covered = tuple(number + own.get(budget, 0) for number, budget in zip(covered, budgets, strict=True))
        return _PartialOption(
            state.cost + self._terms.cost[tenant.unit], covered, state.elsewhere, free, state.gone | bit
        )

    def _floored(self, free: Iterable[int]) -> tuple[int, ...]:
        """In units of each resource, down to what pods can make of it."""
        found = []
        for amount, resource, sums in zip(free, self.resources, self._sums, strict=True):
            units = max(0, amount) // resource.unit
            found.append(units if sums is None else sums[bisect_right(sums, units) - 1])
        return tuple(found)

    def _way(self, state: _PartialOption, tenants: list[_LocalVictim], budgets: list[int]) -> EvictionOption:
        units = tuple(tenant.unit for number, tenant in enumerate(tenants) if state.gone >> number & 1)
        covered = {budget: pods for budget, pods in zip(budgets, state.covered, strict=True) if pods}
        return EvictionOption(state.free, units, state.cost, covered)


def _unbeaten(states: list[_PartialOption]) -> list[_PartialOption]:
    """The states that no other beats, the cheapest first."""
    states.sort(key=lambda state: (state.cost, state.elsewhere.bit_count(), sum(state.covered), -sum(state.free)))
    kept: list[_PartialOption] = []
    for state in states:
        if not any(other.beats(state) for other in kept):
            kept.append(state)
    if len(kept) > MOST_OPTIONS:
        raise ModelTooLarge
    return kept


def _resources(table: NodeTable, shapes: Sequence[Shape]) -> list[ResourceUse]:
    requests = [dict(shape.requests) for shape in shapes]
    found = []
    for name, known in table.resources.items():
        takes = [clip(max(0, asked.get(name, 0))) for asked in requests]
        unit = math.gcd(*takes)
        if unit:
            found.append(ResourceUse(name, known, unit, tuple(take // unit for take in takes)))
    return found


def _reachable(takes: Sequence[int], numbers: Sequence[int]) -> list[int] | None:
    """The sums that so many pods can make on a node, if they are few enough to be told apart."""
    sums = {0}
    for take, number in zip(takes, numbers, strict=True):
        for _ in range(number if take else 0):
            sums |= {each + take for each in sums}
            if len(sums) > MOST_SUMS:
                return None
    return sorted(sums)
