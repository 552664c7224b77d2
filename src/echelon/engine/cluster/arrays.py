"""Array types of the whole engine, and how lists and arrays of rows are built and merged.

A row is a node (`node_table` says which); here it is only a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Rows = slice | Ints
Item = TypeVar("Item")
Array = TypeVar("Array", Ints, Small, Bools)

#: Up to this many items are inserted one by one, more of them in one pass.
FEW = 8


def distinct(numbers: Iterable[int]) -> Ints:
    """The different numbers in order; `np.unique` would load the masked-array package for it."""
    return np.array(sorted(set(numbers)), dtype=np.int64)


def run(rows: Sequence[int]) -> Rows:
    """Distinct ordered rows, as a slice if they are consecutive: slices are read and written faster."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return slice(rows[0], rows[-1] + 1)
    return np.array(rows, dtype=np.int64)


def merged(old: list[Item], at: Sequence[int], new: Sequence[Item]) -> list[Item]:
    """Insert new items in front of the old ones at these ascending positions; the old list is consumed."""
    if len(new) <= FEW:
        for place, item in reversed(list(zip(at, new, strict=True))):
            old.insert(place, item)
        return old
    found: list[Item] = []
    start = 0
    for place, item in zip(at, new, strict=True):
        found += old[start:place]
        found.append(item)
        start = place
    return found + old[start:]


def spliced(old: Array, at: Sequence[int], new: Any) -> Array:
    """The same for an array, along its last axis; most often all new items go to one position."""
    new = np.asarray(new, dtype=old.dtype)
    if at[0] == at[-1]:
        return np.concatenate((old[..., : at[0]], new, old[..., at[0] :]), axis=-1)
    return np.insert(old, at, new, axis=-1)
