"""Bin completion: pods of several shapes onto nodes, node by node, when nothing else competes for them.

A node is filled with a set to which no waiting pod could be added; lesser fills need not be tried, since a pod can
always move from a later node to an earlier one that has room.  What all nodes may waste together is known from the
start, so a fill that wastes more than is left of that is none.  What waits after so many nodes is all that matters
for the rest: a state seen to be dead is not entered again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .agenda import Put, Steps
from .demand import Shape
from .layout import Ints, clip
from .parts import Ask, Part, weight
from .room import Packing

Counts = tuple[int, ...]
Amounts = tuple[int, ...]

#: Fills of one node that are looked at; beyond, the answer is open.
FILLS = 400


class Order(NamedTuple):
    """So many pods of one ask of a leaf."""

    part: Part
    ask: Ask
    pods: int


@dataclass(slots=True)
class Packed:
    """How many pods of each shape each row takes; None with `proved` false if the budget ended first."""

    counts: dict[Shape, Ints] | None
    proved: bool = True


def pack(room: Packing, wanted: Mapping[Shape, int], rows: Ints, steps: Steps) -> Packed:
    """Put so many pods of each shape on the rows."""
    for shape, pods in wanted.items():
        if pods > int(room.slots_by_row(shape)[rows].sum()):
            return Packed(None)
    return _Packer(room, wanted, rows, steps).run()


def deal(orders: Iterable[Order], rows: Ints, counts: Mapping[Shape, Ints]) -> Iterator[Put]:
    """Divide packed pods among those who asked for them, in order."""
    left = {shape: taken.copy() for shape, taken in counts.items()}
    for order in orders:
        have = left[order.ask.shape]
        share = np.clip(order.pods - (np.cumsum(have) - have), 0, have)
        have -= share
        used = np.flatnonzero(share)
        if len(used):
            yield Put(order.part, order.ask, rows[used], share[used])


class _Packer:
    def __init__(self, room: Packing, wanted: Mapping[Shape, int], rows: Ints, steps: Steps) -> None:
        #: Large pods first.
        self.shapes = sorted(wanted, key=lambda shape: (*(-amount for amount in weight(shape)), repr(shape)))
        self.steps, self.wanted = steps, tuple(wanted[shape] for shape in self.shapes)
        names = {name for shape in self.shapes for name, amount in shape.requests if amount > 0}
        known = [(name, room.layout.resources[name]) for name in sorted(names) if name in room.layout.resources]
        self.sizes: list[Amounts] = [_sizes(dict(shape.requests), known) for shape in self.shapes]
        free = room.free[[number for _, number in known]][:, rows] if known else np.zeros((1, len(rows)), np.int64)
        slots = np.stack([room.slots_by_row(shape)[rows] for shape in self.shapes])
        self.main = self._scarcest(free)
        order = np.lexsort((rows, np.maximum(free[self.main], 0)))
        self.all_rows = len(rows)
        self.rows = order[(slots[:, order] > 0).any(axis=0)]
        self.free: list[Amounts] = [tuple(column) for column in np.maximum(free[:, self.rows], 0).T.tolist()]
        slots = slots[:, self.rows]
        self.may: list[tuple[bool, ...]] = [tuple(column) for column in (slots > 0).T.tolist()]
        self.after = [*np.flip(np.cumsum(np.flip(slots, axis=1), axis=1), axis=1).T.tolist(), [0] * len(self.shapes)]
        self.open = False

    def run(self) -> Packed:
        need = sum(size[self.main] * count for size, count in zip(self.sizes, self.wanted, strict=True))
        slack = sum(amounts[self.main] for amounts in self.free) - need
        if slack < 0:
            return Packed(None)
        dead: set[tuple[int, Counts]] = set()
        stack = [(self._fills(0, self.wanted, slack), self.wanted, slack)]
        taken: list[Counts] = []
        while stack:
            fills, left, spare = stack[-1]
            fill, waste = next(fills, ((), 0))
            if not fill:
                stack.pop()
                dead.add((len(stack), left))
                if taken:
                    taken.pop()
                continue
            self.steps.left -= 1
            if self.steps.left <= 0:
                return Packed(None, proved=False)
            rest = tuple(have - used for have, used in zip(left, fill, strict=True))
            at = len(stack)
            if not any(rest):
                return Packed(self._counts([*taken, fill]))
            if at < len(self.rows) and (at, rest) not in dead and self._reachable(at, rest):
                taken.append(fill)
                stack.append((self._fills(at, rest, spare - waste), rest, spare - waste))
        return Packed(None, proved=not self.open)

    def _scarcest(self, free: Ints) -> int:
        """The resource that is asked for most, compared with what there is."""
        have = np.maximum(free, 0).sum(axis=1).tolist()
        need = [sum(size[r] * n for size, n in zip(self.sizes, self.wanted, strict=True)) for r in range(len(have))]
        return max(range(len(have)), key=lambda r: (need[r] / max(1, have[r]), -r))

    def _reachable(self, at: int, left: Counts) -> bool:
        return all(count <= slots for count, slots in zip(left, self.after[at], strict=True))

    def _fills(self, at: int, left: Counts, slack: int) -> Iterator[tuple[Counts, int]]:
        """Maximal fills of a node within the slack, least waste first; an empty node is a fill if nothing fits."""
        found: list[tuple[int, Counts]] = []
        for fill, free in self._grow(at, 0, left, self.free[at]):
            waste = free[self.main]
            if waste <= slack:
                found.append((waste, fill))
            if len(found) >= FILLS:
                self.open = True
                break
        found.sort(key=lambda item: (item[0], [-count for count in item[1]]))
        yield from ((fill, waste) for waste, fill in found)

    def _grow(self, at: int, ask: int, left: Counts, free: Amounts) -> Iterator[tuple[Counts, Amounts]]:
        if ask == len(self.sizes):
            yield (), free
            return
        size, most = self.sizes[ask], 0
        if self.may[at][ask]:
            most = min([left[ask], *(have // one for have, one in zip(free, size, strict=True) if one)])
        for count in range(most, -1, -1):
            rest = tuple(have - one * count for have, one in zip(free, size, strict=True))
            for fill, final in self._grow(at, ask + 1, left, rest):
                if count == most or not _fits(size, final):
                    yield (count, *fill), final

    def _counts(self, fills: list[Counts]) -> dict[Shape, Ints]:
        found = np.zeros((len(self.shapes), self.all_rows), dtype=np.int64)
        found[:, self.rows[: len(fills)]] = np.array(fills, dtype=np.int64).T
        return dict(zip(self.shapes, found, strict=True))


def _sizes(requests: dict[str, int], known: list[tuple[str, int]]) -> Amounts:
    return tuple(clip(max(0, requests.get(name, 0))) for name, _ in known) or (0,)


def _fits(size: Amounts, free: Amounts) -> bool:
    return all(one <= have for one, have in zip(size, free, strict=True))
