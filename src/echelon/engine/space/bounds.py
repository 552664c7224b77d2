"""The roll-up bound: how many copies of a part each domain can hold at most, if it had the domain for itself.

Slots are counted at the leaves' own level, divided by what a leaf needs, summed up to the level of the composite,
divided by the children it needs, and so on.  The number is exact for trees of equal pods whose groups are alike,
and an upper bound for all others; 0 for the root is a proof that nothing fits.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..cluster.arrays import Ints
from .canonical import Part, shapes_of
from .trial_state import AmountState, SlotState

#: No limit.
PLENTY = 1 << 40


def copies(state: SlotState | AmountState, part: Part, level: int, low: int, high: int) -> Ints:
    """For the domains low..high of a level: copies of the part, each in a domain of its own inside."""
    own = own_level(state, part)
    if own <= level:
        return inside(state, part, level, low, high)
    table = state.table
    first = int(table.nested(level, own)[low]) if low < high else 0
    last = table.inner(level, high - 1, own)[1] if low < high else 0
    if first == last:
        return np.zeros(high - low, dtype=np.int64)
    counts = np.where(table.named(own)[first:last], inside(state, part, own, first, last), 0)
    nested = table.nested(level, own)[low:high] - first
    # reduceat needs every run to be non-empty; each domain holds at least one inner domain
    summed: Ints = np.add.reduceat(np.minimum(counts, PLENTY), nested)
    return np.minimum(summed, _by_pods(state, part, level, low, high))


def inside(state: SlotState | AmountState, part: Part, level: int, low: int, high: int) -> Ints:
    """For the domains low..high of a level: copies of the part if the domain is its own."""
    counts = _by_pods(state, part, level, low, high)
    if part.children:
        counts = np.minimum(counts, _by_children(state, part, level, low, high))
    elif part.need > part.supply:
        return np.zeros(high - low, dtype=np.int64)
    elif part.need and len(part.asks) > 1:
        together = sum(
            (state.slots(shape, level)[low:high] for shape in shapes_of(part)), np.zeros(high - low, np.int64)
        )
        counts = np.minimum(counts, together // part.need)
    if part.exclusive is not None and state.table.level_of.get(part.exclusive.key) == level:
        counts = np.where(state.held_domains(part)[low:high], 0, np.minimum(counts, 1))
    return counts


def own_level(state: SlotState | AmountState, part: Part) -> int:
    """The narrowest listed level among a part's keys; -1 if it has none."""
    return max((state.table.level_of.get(key, -1) for key in part.keys), default=-1)


def _by_pods(state: SlotState | AmountState, part: Part, level: int, low: int, high: int) -> Ints:
    counts = np.full(high - low, PLENTY, dtype=np.int64)
    for shape, least in part.least.items():
        if least > 0:
            np.minimum(counts, state.slots(shape, level)[low:high] // least, out=counts)
    if isinstance(state, SlotState) and part.pods:
        np.minimum(counts, state.slots(state.shape, level)[low:high] // part.pods, out=counts)
    return counts


def _by_children(state: SlotState | AmountState, part: Part, level: int, low: int, high: int) -> Ints:
    kinds = Counter(child.type for child in part.children)
    one = {child.type: child for child in part.children}
    each = {kind: copies(state, child, level, low, high) for kind, child in one.items()}
    counts = np.full(high - low, PLENTY, dtype=np.int64)
    if part.need >= len(part.children):
        for kind, number in kinds.items():
            np.minimum(counts, each[kind] // number, out=counts)
        return counts
    if not part.need:
        return counts
    total = np.zeros(high - low, dtype=np.int64)
    once = np.zeros(high - low, dtype=np.int64)
    for kind, found in each.items():
        total += np.minimum(found, PLENTY)
        once += np.minimum(found, kinds[kind])
    return np.where(once >= part.need, np.minimum(counts, total // part.need), 0)
