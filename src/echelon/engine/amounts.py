"""Bounds for mixed shapes: what pods of different sizes need together against what the nodes of a region have.

For every resource and every size t that a pod asks of it, a pod of size s uses at least ⌊s/t⌋ pieces of size t and
a node with f free offers at most ⌊f/t⌋ of them; with t = 1 these are the plain sums.  Too few pieces is a proof.
Where sizes divide one another and nodes are open to all pods, enough pieces of each size mean that they fit.
"""

from __future__ import annotations

import numpy as np

from .demand import Shape
from .layout import Ints
from .parts import Part
from .room import Packing


def enough(room: Packing, part: Part, rows: Ints) -> bool:
    """Whether rows could hold a part by amounts; False is a proof that they cannot."""
    least = {shape: count for shape, count in part.least.items() if count > 0}
    if sum(least.values()) < 2:
        return True
    open_rows = rows[np.logical_or.reduce([room.fits(shape)[rows] for shape in least])]
    for resource, known in room.layout.resources.items():
        sizes = {shape: dict(shape.requests).get(resource, 0) for shape in least}
        free = np.maximum(room.free[known, open_rows], 0)
        if not _enough_pieces(least, sizes, free):
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
    """Their sum; where that may leave 64 bits, something no smaller."""
    if not len(pieces) or int(pieces.max()) < (1 << 62) // len(pieces):
        return int(pieces.sum())
    return sum(pieces.tolist())
