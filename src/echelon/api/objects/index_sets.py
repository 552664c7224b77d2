"""Sets of completion indexes as text: `1,3-5,7`, ascending, as Jobs write them."""

from __future__ import annotations

from itertools import pairwise


def parse(text: str, completions: int) -> list[tuple[int, int]]:
    """The intervals (first, last) in the text; ValueError says what is wrong with it."""
    intervals: list[tuple[int, int]] = []
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


def _interval(part: str) -> tuple[int, int]:
    ends = part.split("-")
    if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
        raise ValueError(f"cannot convert {part!r} to an index or an interval a-b")
    first, last = int(ends[0]), int(ends[-1])
    if len(ends) == 2 and first >= last:
        raise ValueError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def count(intervals: list[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in intervals)


def overlap(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> bool:
    """Whether the two sets share an index."""
    ends = sorted(left + right)
    return any(after[0] <= before[1] for before, after in pairwise(ends))
