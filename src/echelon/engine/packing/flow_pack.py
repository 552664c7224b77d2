"""Parts into domains where one number decides, as a flow for CP-SAT: for clusters that are full to the last slot.

What a domain takes is a path from 0 to the sum of its parts, with an arc for every part.  A variable says how many
domains have an arc in their path, so domains of one size are never distinguished, and neither are parts of one size:
filling domain by domain depends on the first choices, the flow is solved at once.

Without it the slowest of 20 clusters with drawn sizes, 100 % full, takes three times as long.
"""

from __future__ import annotations

import math
from typing import Any

from ..space.budget import BudgetEnded, Steps
from ..space.cpsat import Solver
from .bin_fill import Counts, FillProblem, Unsuited

#: Where a part begins in its domain, and its kind.
Arc = tuple[int, int]

#: With more arcs the model takes longer than it saves.
MOST_ARCS = 8_000


def fill_by_flow(asked: FillProblem, steps: Steps) -> list[tuple[int, Counts]] | None:
    """The domains that take parts, with what they take; None if there is no solution."""
    if not asked.exact or len(asked.kinds[0]) > 1 or not all(size for (size,) in asked.kinds):
        raise Unsuited
    unit = math.gcd(*(size for (size,) in asked.kinds))
    sizes, rooms = [size // unit for (size,) in asked.kinds], [room // unit for (room,) in asked.domains]
    flow = _Flow(sizes, asked.numbers, rooms)
    found = flow.solver.solve(steps, linearization=1, probing=False)
    if found is None:
        raise BudgetEnded
    return flow.filled() if found else None


class _Flow:
    def __init__(self, sizes: list[int], numbers: Counts, rooms: list[int]) -> None:
        self.sizes, self.rooms = sizes, rooms
        slack = sum(rooms) - sum(size * number for size, number in zip(sizes, numbers, strict=True))
        ends = {total for room in set(rooms) for total in range(max(0, room - slack), room + 1)}
        arcs = _leading_to(ends, _arcs(sizes, numbers, max(rooms)), sizes)
        self.solver = Solver()
        cp = self.solver.cp
        #: How many paths have an arc, by where it begins and its kind, and how many end at a sum.
        self.arcs = {(start, kind): cp.new_int_var(0, min(numbers[kind], len(rooms)), "") for start, kind in arcs}
        sums = sorted({0, *(start + sizes[kind] for start, kind in arcs)})
        self.ends = {total: cp.new_int_var(0, len(rooms), "") for total in sums if total in ends}
        into: dict[int, list[Any]] = {total: [] for total in sums}
        out: dict[int, list[Any]] = {total: [self.ends[total]] if total in ends else [] for total in sums}
        for (start, kind), variable in self.arcs.items():
            out[start].append(variable)
            into[start + sizes[kind]].append(variable)
        for total in sums:
            cp.add(sum(out[total]) == (sum(into[total]) if total else len(rooms)))
        for kind, number in enumerate(numbers):
            cp.add(sum(variable for (_, each), variable in self.arcs.items() if each == kind) == number)
        # No more paths beyond a sum than domains that hold more: then each finds a domain.
        for room in sorted(set(rooms)):
            beyond = [variable for total, variable in self.ends.items() if total > room]
            if beyond:
                cp.add(sum(beyond) <= sum(other > room for other in rooms))

    def filled(self) -> list[tuple[int, Counts]]:
        """Paths one after the other, those with the largest sums into the largest domains."""
        left = {arc: self.solver.value(variable) for arc, variable in self.arcs.items()}
        out: dict[int, list[Arc]] = {}
        for arc in left:
            out.setdefault(arc[0], []).append(arc)
        paths = sorted((_path(left, out, self.sizes) for _ in self.rooms), key=lambda path: -path[0])
        spots = sorted(range(len(self.rooms)), key=lambda spot: (-self.rooms[spot], spot))
        return [(spot, taken) for spot, (total, taken) in zip(spots, paths, strict=True) if total]


def _path(left: dict[Arc, int], out: dict[int, list[Arc]], sizes: list[int]) -> tuple[int, Counts]:
    """One path that is left, taken away, as its sum and how many parts of each kind it has."""
    total, taken = 0, [0] * len(sizes)
    while arc := next((arc for arc in out.get(total, ()) if left[arc]), None):
        left[arc] -= 1
        taken[arc[1]] += 1
        total += sizes[arc[1]]
    return total, tuple(taken)


def _leading_to(ends: set[int], arcs: list[Arc], sizes: list[int]) -> list[Arc]:
    """Without arcs from which no sum is reached that wastes little enough."""
    kept, alive = [], set(ends)
    for start, kind in sorted(arcs, key=lambda arc: (-arc[0], sizes[arc[1]], arc[1])):
        if start + sizes[kind] in alive:
            alive.add(start)
            kept.append((start, kind))
    kept.reverse()
    return kept


def _arcs(sizes: list[int], numbers: Counts, most: int) -> list[Arc]:
    """Where parts can begin if those of a path are in order, the largest first."""
    found: dict[tuple[int, int], None] = {}
    sums = {0: None}
    for kind in sorted(range(len(sizes)), key=lambda kind: (-sizes[kind], kind)):
        for start in list(sums):
            for place in range(numbers[kind]):
                low = start + place * sizes[kind]
                if low + sizes[kind] > most:
                    break
                found[low, kind] = None
                sums[low + sizes[kind]] = None
        if len(found) > MOST_ARCS:
            raise Unsuited
    return list(found)
