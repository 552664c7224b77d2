"""Sets of completion indexes: as text (`1,3-5,7`, ascending, as Jobs write them) and as intervals.

A set is never spelled out: `0-2147483646` is one interval.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

Interval = tuple[int, int]


class IndexSet:
    """An immutable set of indexes, kept as disjoint intervals (first, last) in ascending order."""

    __slots__ = ("_firsts", "_intervals", "_size")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        merged: list[Interval] = []
        begin, end, size = 0, -2, 0
        for first, last in sorted(intervals):
            if first > end + 1:
                if end >= 0:
                    merged.append((begin, end))
                    size += end - begin + 1
                begin, end = first, last
            elif last > end:
                end = last
        if end >= 0:
            merged.append((begin, end))
            size += end - begin + 1
        self._intervals = merged
        self._firsts = [first for first, _ in merged]
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __contains__(self, index: int) -> bool:
        place = bisect_right(self._firsts, index)
        return place > 0 and index <= self._intervals[place - 1][1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexSet) and self._intervals == other._intervals

    def __hash__(self) -> int:
        return hash(tuple(self._intervals))

    def __repr__(self) -> str:
        return f"IndexSet({self})"

    def __or__(self, other: IndexSet) -> IndexSet:
        if not other or not self:
            return self or other
        return IndexSet([*self._intervals, *other._intervals])

    def __and__(self, other: IndexSet) -> IndexSet:
        found: list[Interval] = []
        mine, theirs = iter(self._intervals), iter(other._intervals)
        left, right = next(mine, None), next(theirs, None)
        while left is not None and right is not None:
            first, last = max(left[0], right[0]), min(left[1], right[1])
            if first <= last:
                found.append((first, last))
            if left[1] < right[1]:
                left = next(mine, None)
            else:
                right = next(theirs, None)
        return IndexSet(found)

    def missing(self, below: int) -> Iterator[int]:
        """The indexes smaller than `below` that are not in the set, in order."""
        begin = 0
        for first, last in self._intervals:
            yield from range(begin, min(first, below))
            begin = last + 1
        yield from range(begin, below)

    def __str__(self) -> str:
        """Ascending and comma separated, runs of three or more as `a-b`."""
        parts: list[str] = []
        for first, last in self._intervals:
            if first == last:
                parts.append(str(first))
            elif last - first > 1:
                parts.append(f"{first}-{last}")
            else:
                parts += str(first), str(last)
        return ",".join(parts)


NO_INDEXES = IndexSet()


def of(indexes: Iterable[int]) -> IndexSet:
    return IndexSet((index, index) for index in indexes)


@lru_cache(maxsize=64)  # a Job is looked at again and again while its text stays the same
def members(text: str, below: int) -> IndexSet:
    """The indexes in a text that the server has accepted, as far as they are smaller than `below`."""
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        first, last = _interval(part)
        if first < below:
            found.append((first, min(last, below - 1)))
    return IndexSet(found)


def parse(text: str, completions: int) -> list[Interval]:
    """The intervals (first, last) of the text; ValueError if it is invalid."""
    intervals: list[Interval] = []
    before = -1
    for part in text.split(",") if text else ():
        first, last = _interval(part)
        if first <= before:
            raise ValueError(f"non-increasing order, previous: {before}, current: {first}")
        if last >= completions:
            raise ValueError(f"too large index: {part!r}, completions is {completions}")
        intervals.append((first, last))
        before = last
    return intervals


def _interval(part: str) -> Interval:
    if part.isdigit() and part.isascii():  # by far the most frequent in a long text
        return (only := int(part)), only
    ends = part.split("-")
    if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
        raise ValueError(f"cannot convert {part!r} to an index or an interval a-b")
    first, last = int(ends[0]), int(ends[-1])
    if len(ends) == 2 and first >= last:
        raise ValueError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def count(intervals: list[Interval]) -> int:
    return sum(last - first + 1 for first, last in intervals)


def overlap(left: list[Interval], right: list[Interval]) -> bool:
    """Whether the two sets share an index."""
    ends = sorted(left + right)
    return any(after[0] <= before[1] for before, after in pairwise(ends))
