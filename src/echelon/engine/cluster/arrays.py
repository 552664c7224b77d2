"""Kinds of arrays that the whole engine speaks of, and how lists and arrays of rows are put together.

A row is a node (`layout` says which); nothing here knows more about it than its number.
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

#: Items that are added one by one; more of them at once.
FEW = 8


def distinct(numbers: Iterable[int]) -> Ints:
    """The different numbers in order; `np.unique` would load a masked-array package for it."""
    return np.array(sorted(set(numbers)), dtype=np.int64)


def run(rows: Sequence[int]) -> Rows:
    """Distinct rows in order, as a slice if they lie side by side: arrays are read and written quicker that way."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return slice(rows[0], rows[-1] + 1)
    return np.array(rows, dtype=np.int64)


def merged(old: list[Item], at: Sequence[int], new: Sequence[Item]) -> list[Item]:
    """New items in front of the old ones at these positions, which ascend; the old list is used up."""
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
    """The same for an array, along its last axis; mostly all that is new goes to one place."""
    new = np.asarray(new, dtype=old.dtype)
    if at[0] == at[-1]:
        return np.concatenate((old[..., : at[0]], new, old[..., at[0] :]), axis=-1)
    return np.insert(old, at, new, axis=-1)
