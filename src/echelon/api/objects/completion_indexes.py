"""Sets of completion indexes as text: `1,3-5,7`, ascending, as Jobs write them."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise


def parse(text: str, completions: int) -> list[tuple[int, int]]:
    """The intervals (first, last) of the text; ValueError if it is invalid."""
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


def members(text: str, below: int) -> frozenset[int]:
    """The indexes in a text that the server has accepted, as far as they are smaller than `below`."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), below - 1) + 1))
    return frozenset(found)


def show(indexes: Collection[int]) -> str:
    """Ascending and comma separated, runs of three or more as `a-b`."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(indexes), None]:
        if run and index == run[-1] + 1:
            run.append(index)
            continue
        if len(run) > 2:
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts.extend(map(str, run))
        run = [] if index is None else [index]
    return ",".join(parts)
