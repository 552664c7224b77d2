"""What each node would have free if some of its tenants were gone: for every node the few ways that are worth their cost.

A way is a set of victims on one node.  Of two ways the better one frees no less, costs no more and takes no one whom
the other leaves; only those are kept that no other way beats, which is a handful where there are hundreds of sets.
Amounts count as far as the newcomers can use them: no more than they could take there, and only sums of their sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .demand import Shape
from .fit import allowed
from .layout import Bools, Ints, Layout, clip
from .victims import Victim

#: So many victims of a node are put together in all ways at once; further ones are added one by one.
AT_ONCE = 6
#: Ways of a node, and victims on it, beyond which nothing is said.
MOST_WAYS = 600
MOST_VICTIMS = 60
#: Sums of sizes that are told apart.
MOST_SUMS = 4_096


class TooMany(Exception):
    """There are more ways than anyone wants to look at."""


class Resource(NamedTuple):
    """What one pod of each shape takes of it, in its unit."""

    known: int
    unit: int
    takes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """Free amounts by resource, who goes, and what those cost who are on this node alone."""

    free: tuple[int, ...]
    units: tuple[int, ...]
    cost: int
    #: By budget: pods under it of those who are on this node alone.
    covered: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A node that newcomers can use; its first way costs nothing."""

    row: int
    #: By shape, whether it may be here at all.
    open_to: tuple[bool, ...]
    ways: tuple[Way, ...]


class Terms(NamedTuple):
    """What evicting a victim costs, and how many of its pods each budget that could be violated covers."""

    cost: Mapping[int, int]
    budgets: Mapping[int, Mapping[int, int]]


class Nodes:
    """The nodes of some rows that newcomers of these shapes (and most numbers) can use, with their ways."""

    def __init__(
        self, layout: Layout, rows: Ints, shapes: Mapping[Shape, int], victims: Sequence[Victim], terms: Terms
    ) -> None:
        """The layout is that of a view in which nobody is gone."""
        self.shapes, self._numbers = list(shapes), list(shapes.values())
        self.resources = _resources(layout, self.shapes)
        self._layout, self._terms = layout, terms
        self._open: Bools = np.stack([allowed(layout, shape)[rows] for shape in self.shapes], axis=1)
        tenants = self._tenants(rows, victims)
        homes: dict[int, int] = {}
        for there in tenants.values():
            for unit, _ in there:
                homes[unit] = homes.get(unit, 0) + 1
        #: Victims on several nodes.
        self.shared = {unit: number for unit, number in sorted(homes.items()) if number > 1}
        self._sums = [self._reachable(resource) for resource in range(len(self.resources))]
        self.nodes = [
            node
            for spot, row in enumerate(rows.tolist())
            if (node := self._node(row, self._open[spot], tenants.get(row, ()))) is not None
        ]

    def _tenants(self, rows: Ints, victims: Sequence[Victim]) -> dict[int, list[tuple[int, list[int]]]]:
        """By row, who gives back something that is asked for, and how much of each resource."""
        inside = {row for row, here in zip(rows.tolist(), self._open.any(axis=1).tolist(), strict=True) if here}
        names = {known: name for name, known in self._layout.resources.items()}
        asked = [names[resource.known] for resource in self.resources]
        found: dict[int, list[tuple[int, list[int]]]] = {}
        for victim in victims:
            for row, freed in victim.freed.items():
                if row in inside:
                    given = [clip(freed.get(name, 0)) for name in asked]
                    if any(given):
                        found.setdefault(row, []).append((victim.unit, given))
        return found

    def _reachable(self, number: int) -> Ints | None:
        """The sums that pods can make of a resource, if they are few enough to be told apart."""
        sums = np.zeros(1, dtype=np.int64)
        for take, most in zip(self.resources[number].takes, self._numbers, strict=True):
            for _ in range(most if take else 0):
                more = np.union1d(sums, sums + take)
                if len(more) > MOST_SUMS:
                    return None
                if len(more) == len(sums):
                    break
                sums = more
        return sums

    # ---- one node

    def _node(self, row: int, open_to: Bools, tenants: Sequence[tuple[int, list[int]]]) -> Node | None:
        base = self._layout.free[[resource.known for resource in self.resources], row]
        given = np.array([amounts for _, amounts in tenants], dtype=np.int64).reshape(len(tenants), len(base))
        most = self._usable(base + given.sum(axis=0), open_to)
        if not most.any():
            return None
        if len(tenants) > MOST_VICTIMS:
            raise TooMany
        states = self._states(base, given, [unit for unit, _ in tenants], most)
        ways = [self._way(tenants, free, chosen) for free, chosen in states]
        return Node(row, tuple(open_to.tolist()), tuple(ways))

    def _usable(self, free: Ints, open_to: Bools) -> Ints:
        """No more of each resource than this can be used on a node with so much free."""
        total = np.zeros(len(self.resources), dtype=np.int64)
        takes = np.array([resource.takes for resource in self.resources], dtype=np.int64).T
        units = np.array([resource.unit for resource in self.resources], dtype=np.int64)
        for shape, (one, number) in enumerate(zip(takes, self._numbers, strict=True)):
            asked = one > 0
            if open_to[shape] and number:
                slots = int(np.min((free // units)[asked] // one[asked], initial=number))
                total += one * max(0, slots)
        return total * units

    def _states(self, base: Ints, given: Ints, units: list[int], most: Ints) -> list[tuple[tuple[int, ...], int]]:
        """Free amounts and chosen victims (as bits) of all ways worth having, the cheapest first."""
        cost = np.array([0 if unit in self.shared else self._terms.cost[unit] for unit in units], dtype=np.int64)
        marks = self._marks(units)
        free, chosen = base[np.newaxis, :], np.zeros(1, dtype=np.int64)
        start = 0
        while start < len(units):
            stop = AT_ONCE if not start else start + 1
            width = min(stop, len(units)) - start
            bits = (np.arange(1 << width)[:, np.newaxis] >> np.arange(width)) & 1
            more = bits @ given[start : start + width]
            free = (free[:, np.newaxis, :] + more[np.newaxis, :, :]).reshape(-1, len(base))
            subsets = np.arange(1 << width, dtype=np.int64) << start
            chosen = (chosen[:, np.newaxis] | subsets[np.newaxis, :]).reshape(-1)
            start += width
            last = start >= len(units)
            useful = self._floored(np.clip(free, 0, most)) if last else np.minimum(free, most)
            kept = _unbeaten(useful, _sums(chosen, cost), _sums(chosen, marks))
            free, chosen = free[kept], chosen[kept]
            if len(kept) > MOST_WAYS:
                raise TooMany
        useful = self._floored(np.clip(free, 0, most))
        return list(zip(map(tuple, useful.tolist()), chosen.tolist(), strict=True))

    def _floored(self, free: Ints) -> Ints:
        """In units of each resource, down to what pods can make of it."""
        found = free // np.array([resource.unit for resource in self.resources], dtype=np.int64)
        for number, sums in enumerate(self._sums):
            if sums is not None:
                found[:, number] = sums[np.searchsorted(sums, found[:, number], side="right") - 1]
        return found

    def _marks(self, units: list[int]) -> Ints:
        """For each victim what no cost can make up for: that it is shared, and the pods under each budget."""
        columns: list[list[int]] = []
        for unit in units:
            if unit in self.shared:
                columns.append([int(other == unit) for other in units])
        budgets = dict.fromkeys(budget for unit in units for budget in self._terms.budgets.get(unit, ()))
        for budget in budgets:
            columns.append([0 if u in self.shared else self._terms.budgets.get(u, {}).get(budget, 0) for u in units])
        return np.array(columns, dtype=np.int64).reshape(len(columns), len(units)).T

    def _way(self, tenants: Sequence[tuple[int, list[int]]], free: tuple[int, ...], chosen: int) -> Way:
        units = tuple(unit for bit, (unit, _) in enumerate(tenants) if chosen >> bit & 1)
        own = [unit for unit in units if unit not in self.shared]
        covered: dict[int, int] = {}
        for unit in own:
            for budget, number in self._terms.budgets.get(unit, {}).items():
                covered[budget] = covered.get(budget, 0) + number
        return Way(free, units, sum(self._terms.cost[unit] for unit in own), tuple(covered.items()))


def _resources(layout: Layout, shapes: Sequence[Shape]) -> list[Resource]:
    requests = [dict(shape.requests) for shape in shapes]
    found = []
    for name, known in layout.resources.items():
        takes = [clip(max(0, asked.get(name, 0))) for asked in requests]
        unit = math.gcd(*takes)
        if unit:
            found.append(Resource(known, unit, tuple(take // unit for take in takes)))
    return found


def _sums(chosen: Ints, values: Ints) -> Ints:
    """For each set of bits the sum of the values of its members."""
    bits = (chosen[:, np.newaxis] >> np.arange(len(values))) & 1
    found: Ints = bits @ values
    return found


def _unbeaten(free: Ints, cost: Ints, marks: Ints) -> Ints:
    """The ways that no other beats: one that frees no less at no higher cost and marks."""
    left = np.lexsort((-free.sum(axis=1), marks.sum(axis=1), cost))
    kept = []
    while len(left):
        best = left[0]
        kept.append(best)
        beaten = (free[left] <= free[best]).all(axis=1) & (marks[left] >= marks[best]).all(axis=1)
        left = left[~beaten]
    return np.array(kept, dtype=np.int64)
