"""Pods onto nodes in a CP-SAT model: how many nodes of a kind are filled with which set of pods (pattern).

Nodes are grouped by cell: the narrowest domain that any leaf may have, the values of unlisted keys, the domains of
terms between pods.  Equal nodes of a cell are one kind, and the full patterns are listed for each kind, so the model
has patterns instead of single nodes.  Shapes that are equal for every node are one size in a pattern, whatever their
other terms: 13 apps of five sizes have 18 full patterns, not 1,126.  What leaves need in a place is divided among its
cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.regions import Region, rows_of
from ..packing.bin_fill import Amounts, Counts
from ..packing.node_pack import PodOrder, divide_among
from ..records.demand import Shape
from ..space.canonical import Part
from ..space.cpsat import Solver
from ..space.resource_bounds import Measure
from ..space.tasks import Put
from ..space.trial_state import AmountState
from .pod_rule_constraints import PodCount, on_nodes

#: The most full patterns of a node; with more the model is not built.
MOST_FILLS = 2_000

#: A region by what it is: its listed domain, and its rows if it has not all of that.
Place = tuple[int, int, bytes]


class TooManyPatterns(Exception):
    """The model would be too large."""


def place_of(region: Region) -> Place:
    return (region.level, region.index, b"" if region.rows is None else region.rows.tobytes())


class Cells:
    """Nodes of a region by the narrowest domain that any leaf may have and by all else that distinguishes them."""

    def __init__(self, state: AmountState, region: Region, places: dict[Place, Region], marks: list[Ints]) -> None:
        table = state.table
        self.rows = rows_of(table, region)
        self.rows_of = {place: rows_of(table, inner) for place, inner in places.items()}
        level = max((place.level for place in places.values()), default=region.level)
        #: The cell of every row.
        self.cell: Ints = table.domains(level)
        for ids in marks:
            _, self.cell = np.unique(self.cell * (int(ids.max(initial=0)) + 2) + ids + 1, return_inverse=True)

    def inside(self, place: Place) -> list[int]:
        found: list[int] = np.unique(self.cell[self.rows_of[place]]).tolist()
        return found


class NodePatterns:
    """Variables for nodes; `ask` collects the pods that leaves need in each cell, `close` adds the constraints."""

    def __init__(
        self, state: AmountState, cp: Any, integer: Callable[[int], Any], shapes: list[Shape], cells: Cells
    ) -> None:
        self.table, self.shapes, self.cells, self._cp, self._integer = state.table, shapes, cells, cp, integer
        #: The size of each shape.
        self._size: list[int] = []
        #: By cell: rows of one kind, and the variable for each pattern.
        self.ways: dict[int, list[tuple[list[int], list[tuple[Counts, Any]]]]] = {}
        self._write_ways(state)
        self._asked: dict[tuple[Place, int], list[Any]] = {}
        #: Pods of a shape that the leaves of a place have in a cell.
        self._shares: dict[tuple[Place, int], dict[int, Any]] = {}
        #: After solving: pods of each shape on each row that are not yet assigned to a leaf, by place.
        self._dealt: dict[Place, Ints] = {}

    def _write_ways(self, state: AmountState) -> None:
        measure = Measure(state, self.shapes)
        sizes = self._sizes(state, measure)
        takes, apart = [measure.takes(shape) for shape in sizes], _apart(state, sizes, self.cells.rows)
        may = np.stack([state.slots_by_row(shape) > 0 for shape in sizes]).T.tolist()
        offers, cells = measure.offers.T.tolist(), self.cells.cell.tolist()
        kinds: dict[tuple[int, Amounts, tuple[bool, ...]], list[int]] = {}
        for row in self.cells.rows.tolist():
            if any(may[row]):
                kinds.setdefault((cells[row], tuple(offers[row]), tuple(may[row])), []).append(row)
        known: dict[object, list[Counts]] = {}
        for (cell, amounts, allowed), alike in kinds.items():
            if (amounts, allowed) not in known:
                known[amounts, allowed] = full_patterns(takes, amounts, allowed, apart)
            ways = [(fill, self._integer(len(alike))) for fill in known[amounts, allowed]]
            self._cp.add(sum(variable for _, variable in ways) <= len(alike))
            self.ways.setdefault(cell, []).append((alike, ways))

    def _sizes(self, state: AmountState, measure: Measure) -> list[Shape]:
        """One shape of each size: pods of a size take the same, use the same nodes, and have no term on one node."""
        apart, found = _apart(state, self.shapes, self.cells.rows), dict[object, Shape]()
        for number, shape in enumerate(self.shapes):
            has_terms = any(having[number] or meant[number] for having, meant in apart)
            may = (state.slots_by_row(shape)[self.cells.rows] > 0).tobytes()
            size = (measure.takes(shape), may, number if has_terms else -1)
            found.setdefault(size, shape)
            self._size.append(list(found).index(size))
        return list(found.values())

    def ask(self, place: Place, shape: Shape, pods: Any) -> None:
        """Ask for more pods of a shape in a place."""
        self._asked.setdefault((place, self.shapes.index(shape)), []).append(pods)

    def close(self) -> None:
        """Each cell must hold what is asked of it."""
        by_cell: dict[tuple[int, int], list[Any]] = {}
        inside: dict[Place, list[int]] = {}
        for (place, shape), pods in self._asked.items():
            if place not in inside:
                inside[place] = [cell for cell in self.cells.inside(place) if cell in self.ways]
            shares = self._shares[place, shape] = self._divided(inside[place], shape, pods)
            for cell, share in shares.items():
                by_cell.setdefault((cell, self._size[shape]), []).append(share)
        for (cell, size), asked in by_cell.items():
            sets = [(fill[size], variable) for _, ways in self.ways[cell] for fill, variable in ways if fill[size]]
            self._cp.add(sum(asked) <= sum(number * variable for number, variable in sets))

    def numbers(self) -> dict[Shape, dict[int, PodCount]]:
        """Pods of each shape in each cell, by a row of it."""
        found: dict[Shape, dict[int, PodCount]] = {shape: {} for shape in self.shapes}
        asked: dict[tuple[int, int], list[Any]] = {}
        for (_, shape), shares in self._shares.items():
            for cell, share in shares.items():
                asked.setdefault((cell, shape), []).append(share)
        for (cell, shape), pods in asked.items():
            row = self.ways[cell][0][0][0]
            found[self.shapes[shape]][row] = PodCount(sum(pods), self._most(cell, shape))
        return found

    def _most(self, cell: int, shape: int) -> int:
        size = self._size[shape]
        return sum(len(rows) * max(fill[size] for fill, _ in ways) for rows, ways in self.ways[cell])

    def _divided(self, cells: list[int], shape: int, pods: list[Any]) -> dict[int, Any]:
        if len(cells) == 1:
            return {cells[0]: sum(pods)}
        shares = {}
        for cell in cells:
            shares[cell] = self._integer(self._most(cell, shape))
        self._cp.add(sum(shares.values()) == sum(pods))
        return shares

    # ---- the answer

    def settle(self, solver: Solver) -> None:
        """Read from the solution which rows have which pods, and to which place they belong."""
        counts = np.zeros((max(self._size) + 1, self.table.size), dtype=np.int64)
        for kinds in self.ways.values():
            for rows, ways in kinds:
                filled = [fill for fill, variable in ways for _ in range(solver.value(variable))]
                for row, fill in zip(rows, filled, strict=False):
                    counts[:, row] = fill
        for (place, shape), shares in self._shares.items():
            pods = self._dealt.setdefault(place, np.zeros((len(self.shapes), self.table.size), dtype=np.int64))
            for cell, share in shares.items():
                where = np.flatnonzero(self.cells.cell == cell)
                have = counts[self._size[shape], where]
                taken = np.clip(solver.value(share) - (np.cumsum(have) - have), 0, have)
                counts[self._size[shape], where] -= taken
                pods[shape, where] += taken

    def deal(self, part: Part, place: Place, shares: Iterable[int]) -> Iterator[Put]:
        """Rows for the pods of a leaf in its place: `shares` of its asks."""
        rows, pods = self.cells.rows_of[place], self._dealt[place]
        for ask, wanted in zip(part.asks, shares, strict=True):
            have = pods[self.shapes.index(ask.shape)]
            for put in divide_among([PodOrder(part, ask, wanted)], rows, {ask.shape: have[rows]}):
                have[put.rows] -= put.counts
                yield put


#: Which shapes have a term of anti-affinity, and which match it.
_Apart = list[tuple[list[bool], list[bool]]]


def _apart(state: AmountState, shapes: list[Shape], rows: Ints) -> _Apart:
    """The terms by which pods of the demand exclude one another from a node."""
    rules = on_nodes(state, rows)
    return [([shape in rule.having for shape in shapes], [shape in rule.meant for shape in shapes]) for rule in rules]


def full_patterns(takes: list[Amounts], offers: Amounts, may: tuple[bool, ...], apart: _Apart) -> list[Counts]:
    """The sets of pods that fill a node so that no other pod could be added."""
    found: list[Counts] = []
    pending: list[tuple[Counts, Amounts]] = [((), offers)]
    if not all(map(any, takes)):
        raise TooManyPatterns  # pods that take nothing never fill a node
    tried = 0
    while pending:
        chosen, left = pending.pop()
        tried += 1
        if len(chosen) == len(takes):
            if not any(may[kind] and _fits(takes[kind], left) and _agree(_one_more(chosen, kind), apart)
                       for kind in range(len(takes))):  # fmt: skip
                found.append(chosen)
            continue
        if len(found) > MOST_FILLS or tried > 20 * MOST_FILLS:
            raise TooManyPatterns
        one, number = takes[len(chosen)], 0
        while _agree((*chosen, number), apart):
            pending.append(((*chosen, number), left))
            if not may[len(chosen)] or not _fits(one, left):
                break
            left = tuple(have - used for have, used in zip(left, one, strict=True))
            number += 1
    return found


def _one_more(chosen: Counts, kind: int) -> Counts:
    return tuple(number + (each == kind) for each, number in enumerate(chosen))


def _agree(chosen: Counts, apart: _Apart) -> bool:
    """Whether no pod of a set has a term that another matches."""
    for having, meant in apart:
        have = sum(number for number, has in zip(chosen, having, strict=False) if has)
        mean = sum(number for number, is_meant in zip(chosen, meant, strict=False) if is_meant)
        both = sum(number for number, *each in zip(chosen, having, meant, strict=False) if all(each))
        if have * mean > both:
            return False
    return True


def _fits(one: Amounts, left: Amounts) -> bool:
    return all(used <= have for used, have in zip(one, left, strict=True))
