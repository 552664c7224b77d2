"""Pods onto nodes, for the solver: how many nodes of a kind are filled with which set of pods.

Nodes are told apart by cell: the narrowest domain that any leaf may have, and the values of unlisted keys.  Within a
cell nodes that are alike are one kind, and for each kind the full sets of pods are written down, so there are
patterns instead of single nodes.  What leaves need in a place is divided among its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .agenda import Put
from .amounts import Measure
from .demand import Shape
from .filling import Amounts, Counts
from .layout import Ints
from .pack import Order, deal
from .parts import Part
from .regions import Region, rows_of
from .room import Packing
from .solver import Solver

#: Ways to fill a node that are written down; nodes that can be filled in more ways are left open.
MOST_FILLS = 2_000

#: A region by what it is: its listed domain, and its rows if it has not all of that.
Place = tuple[int, int, bytes]


class TooLarge(Exception):
    """The question is not worth writing down."""


def place_of(region: Region) -> Place:
    return (region.level, region.index, b"" if region.rows is None else region.rows.tobytes())


class Fills:
    """Variables for nodes; whoever asks for pods adds to what is asked of each cell, and `close` writes it down."""

    def __init__(
        self, room: Packing, cp: Any, integer: Callable[[int], Any], shapes: list[Shape], region: Region,
        places: dict[Place, Region], unlisted: list[str],
    ) -> None:  # fmt: skip
        self.layout, self.shapes, self._cp, self._integer, self._places = room.layout, shapes, cp, integer, places
        level = max((place.level for place in places.values()), default=region.level)
        #: The cell of every row.
        self.cells: Ints = self.layout.domains(level)
        for key in unlisted:
            ids = self.layout.column(key).ids
            _, self.cells = np.unique(self.cells * (int(ids.max(initial=0)) + 2) + ids + 1, return_inverse=True)
        #: By cell: rows of one kind, and the variable for each way to fill one.
        self.ways: dict[int, list[tuple[list[int], list[tuple[Counts, Any]]]]] = {}
        self._write_ways(room, rows_of(self.layout, region))
        self._asked: dict[tuple[Place, int], list[Any]] = {}
        #: Pods of a shape that the leaves of a place have in a cell.
        self._shares: dict[tuple[Place, int], dict[int, Any]] = {}
        #: After solving, the pods of each shape on each row that are dealt to nobody yet, by place.
        self._dealt: dict[Place, Ints] = {}

    def _write_ways(self, room: Packing, rows: Ints) -> None:
        measure = Measure(room, self.shapes)
        takes = [measure.takes(shape) for shape in self.shapes]
        may = np.stack([room.slots_by_row(shape) > 0 for shape in self.shapes]).T.tolist()
        offers, cells = measure.offers.T.tolist(), self.cells.tolist()
        kinds: dict[tuple[int, Amounts, tuple[bool, ...]], list[int]] = {}
        for row in rows.tolist():
            if any(may[row]):
                kinds.setdefault((cells[row], tuple(offers[row]), tuple(may[row])), []).append(row)
        known: dict[object, list[Counts]] = {}
        for (cell, amounts, allowed), alike in kinds.items():
            if (amounts, allowed) not in known:
                known[amounts, allowed] = full_sets(takes, amounts, allowed)
            ways = [(fill, self._integer(len(alike))) for fill in known[amounts, allowed]]
            self._cp.add(sum(variable for _, variable in ways) <= len(alike))
            self.ways.setdefault(cell, []).append((alike, ways))

    def ask(self, place: Place, shape: Shape, pods: Any) -> None:
        """So many more pods of a shape in a place."""
        self._asked.setdefault((place, self.shapes.index(shape)), []).append(pods)

    def close(self) -> None:
        """What is asked of each cell must be there."""
        by_cell: dict[tuple[int, int], list[Any]] = {}
        inside: dict[Place, list[int]] = {}
        for (place, shape), pods in self._asked.items():
            if place not in inside:
                rows = rows_of(self.layout, self._places[place])
                inside[place] = [cell for cell in np.unique(self.cells[rows]).tolist() if cell in self.ways]
            shares = self._shares[place, shape] = self._divided(inside[place], shape, pods)
            for cell, share in shares.items():
                by_cell.setdefault((cell, shape), []).append(share)
        for (cell, shape), asked in by_cell.items():
            offered = sum(fill[shape] * variable for _, ways in self.ways[cell] for fill, variable in ways)
            self._cp.add(sum(asked) <= offered)

    def _divided(self, cells: list[int], shape: int, pods: list[Any]) -> dict[int, Any]:
        if len(cells) == 1:
            return {cells[0]: sum(pods)}
        shares = {}
        for cell in cells:
            most = sum(len(rows) * max(fill[shape] for fill, _ in ways) for rows, ways in self.ways[cell])
            shares[cell] = self._integer(most)
        self._cp.add(sum(shares.values()) == sum(pods))
        return shares

    # ---- the answer

    def settle(self, solver: Solver) -> None:
        """Read off which rows have which pods, and which of them belong to which place."""
        counts = np.zeros((len(self.shapes), self.layout.size), dtype=np.int64)
        for kinds in self.ways.values():
            for rows, ways in kinds:
                filled = [fill for fill, variable in ways for _ in range(solver.value(variable))]
                for row, fill in zip(rows, filled, strict=False):
                    counts[:, row] = fill
        for (place, shape), shares in self._shares.items():
            pods = self._dealt.setdefault(place, np.zeros_like(counts))
            for cell, share in shares.items():
                where = np.flatnonzero(self.cells == cell)
                have = counts[shape, where]
                taken = np.clip(solver.value(share) - (np.cumsum(have) - have), 0, have)
                counts[shape, where] -= taken
                pods[shape, where] += taken

    def deal(self, part: Part, place: Place, shares: Iterable[int]) -> Iterator[Put]:
        """Rows for the pods of a leaf in its place: so many of each ask."""
        rows, pods = rows_of(self.layout, self._places[place]), self._dealt[place]
        for ask, wanted in zip(part.asks, shares, strict=True):
            have = pods[self.shapes.index(ask.shape)]
            for put in deal([Order(part, ask, wanted)], rows, {ask.shape: have[rows]}):
                have[put.rows] -= put.counts
                yield put


def full_sets(takes: list[Amounts], offers: Amounts, may: tuple[bool, ...]) -> list[Counts]:
    """The sets of pods that fill a node so that no other pod could be added."""
    found: list[Counts] = []
    pending: list[tuple[Counts, Amounts]] = [((), offers)]
    if not all(map(any, takes)):
        raise TooLarge  # pods that take nothing: no node is ever full of them
    tried = 0
    while pending:
        chosen, left = pending.pop()
        tried += 1
        if len(chosen) == len(takes):
            open_to = [one for one, allowed in zip(takes, may, strict=True) if allowed]
            if not any(_fits(one, left) for one in open_to):
                found.append(chosen)
            continue
        if len(found) > MOST_FILLS or tried > 20 * MOST_FILLS:
            raise TooLarge
        one, number = takes[len(chosen)], 0
        while True:
            pending.append(((*chosen, number), left))
            if not may[len(chosen)] or not _fits(one, left):
                break
            left = tuple(have - used for have, used in zip(left, one, strict=True))
            number += 1
    return found


def _fits(one: Amounts, left: Amounts) -> bool:
    return all(used <= have for used, have in zip(one, left, strict=True))
