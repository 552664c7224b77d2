"""Observations counted by size, as plain numbers: what metrics of the server and of the scheduler are made of."""

from __future__ import annotations

from bisect import bisect_left


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        #: The upper bounds of the buckets.
        self.bounds = bounds
        #: One more than there are bounds: the last is for values above all of them.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
