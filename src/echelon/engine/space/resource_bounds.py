"""Amounts that pods need and nodes have, as a few numbers that bound what fits and, where they can, decide it.

For every resource and every size t that a pod requests of it, a pod of size s uses at least ⌊s/t⌋ pieces of size t and
a node with f free offers at most ⌊f/t⌋ of them; with t = 1 these are the plain sums.  Too few pieces is a proof.
Where one resource decides, its sizes divide one another and nodes are open to all pods alike, enough pieces of each
size mean that the pods fit: largest first, on any node with room.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..cluster.arrays import Bools, Ints
from ..cluster.free_amounts import clip
from ..records.demand import Shape
from .canonical import Part
from .trial_state import AmountState, SlotState

#: Sizes of one resource that are counted as pieces, besides the plain sum.
PIECES = 12
#: Products of amounts beyond this are not compared.
SAFE = 1 << 62


def enough(state: AmountState, part: Part, rows: Ints) -> bool:
    """Whether rows could hold a part by amounts; False is a proof that they cannot."""
    least = {shape: count for shape, count in part.least.items() if count > 0}
    if sum(least.values()) < 2:
        return True
    open_rows = rows[np.logical_or.reduce([state.fits(shape)[rows] for shape in least])]
    for resource, known in state.table.resources.items():
        sizes = {shape: dict(shape.requests).get(resource, 0) for shape in least}
        if any(sizes.values()) and not _enough_pieces(least, sizes, np.maximum(state.free[known, open_rows], 0)):
            return False
    return True


def _enough_pieces(least: dict[Shape, int], sizes: dict[Shape, int], free: Ints) -> bool:
    for size in {1, *sizes.values()}:
        if size > 0:
            need = sum(count * (sizes[shape] // size) for shape, count in least.items())
            if need > _total(free // size):
                return False
    return True


def _total(pieces: Ints) -> int:
    """Their sum, in exact integers where it may exceed 64 bits."""
    if not len(pieces) or int(pieces.max()) < (1 << 62) // len(pieces):
        return int(pieces.sum())
    return sum(pieces.tolist())


@dataclass(frozen=True, slots=True)
class _Amount:
    """One number that bounds: what each shape takes of it, what each node offers."""

    takes: tuple[int, ...]
    offers: Ints

    def implied_by(self, other: _Amount) -> bool:
        """Whether pods that fit by the other amount fit by this one, too."""
        ratios = [(o, t) for t, o in zip(self.takes, other.takes, strict=True) if t]
        if not ratios:
            return True
        # The smallest ratio other : this over all shapes.
        over, under = ratios[0]
        for o, t in ratios[1:]:
            if o * under < over * t:
                over, under = o, t
        common = math.gcd(over, under)
        over, under = over // common, under // common
        largest = max(int(self.offers.max(initial=0)), int(other.offers.max(initial=0)), 1)
        if not over or largest * max(over, under) > SAFE:
            return False
        return bool((other.offers * under <= self.offers * over).all())


class Measure:
    """The amounts that matter for some shapes in a trial state; `exact` where enough of each means that pods fit."""

    def __init__(self, state: SlotState | AmountState, shapes: Sequence[Shape]) -> None:
        self._number = {shape: number for number, shape in enumerate(shapes)}
        if isinstance(state, SlotState):
            self.exact, amounts = True, [_Amount((1,), np.maximum(state.rows, 0))]
        elif len(shapes) == 1:
            self.exact, amounts = True, [_Amount((1,), state.slots_by_row(shapes[0]))]
        else:
            plain = _needed(list(_plain(state, shapes)))
            self.exact = len(plain) == 1 and _divide(plain[0].takes) and _open_alike(state, shapes)
            pieces = [piece for amount in plain for piece in _pieces(amount)]
            amounts = plain if len(pieces) == len(plain) else _needed(pieces)
            amounts = amounts or [_Amount((0,) * len(shapes), np.zeros(state.table.size, dtype=np.int64))]
        #: One row for each amount, one column for each node.
        self.offers: Ints = np.stack([amount.offers for amount in amounts])
        self._takes = [amount.takes for amount in amounts]

    def takes(self, shape: Shape) -> tuple[int, ...]:
        """What one pod takes of each amount."""
        number = self._number[shape]
        return tuple(takes[number] for takes in self._takes)


def _plain(state: AmountState, shapes: Sequence[Shape]) -> Iterator[_Amount]:
    """Resources in their common unit; nodes closed to all shapes offer nothing."""
    open_rows: Bools = np.logical_or.reduce([state.fits(shape) for shape in shapes])
    requests = [dict(shape.requests) for shape in shapes]
    for resource, known in state.table.resources.items():
        takes = [clip(max(0, asked.get(resource, 0))) for asked in requests]
        unit = math.gcd(*takes)
        if unit:
            offers = np.where(open_rows, np.maximum(state.free[known], 0) // unit, 0)
            yield _Amount(tuple(amount // unit for amount in takes), offers)


def _pieces(amount: _Amount) -> Iterator[_Amount]:
    yield amount
    for size in sorted({size for size in amount.takes if size > 1}, reverse=True)[:PIECES]:
        yield _Amount(tuple(one // size for one in amount.takes), amount.offers // size)


def _needed(amounts: list[_Amount]) -> list[_Amount]:
    """Without amounts that others imply."""
    kept: list[_Amount] = []
    for amount in amounts:
        if not any(amount.implied_by(other) for other in kept):
            kept = [other for other in kept if not other.implied_by(amount)]
            kept.append(amount)
    return kept or amounts[:1]


def _divide(sizes: Sequence[int]) -> bool:
    ordered = sorted(set(sizes))
    return ordered[0] > 0 and len(ordered) <= PIECES and all(not large % small for small, large in pairwise(ordered))


def _open_alike(state: AmountState, shapes: Sequence[Shape]) -> bool:
    """Whether every node is open to all shapes or to none, and all requested resources are known."""
    first, known = state.fits(shapes[0]), state.table.resources
    if any(amount > 0 and name not in known for shape in shapes for name, amount in shape.requests):
        return False
    return all(bool((state.fits(shape) == first).all()) for shape in shapes[1:])
