"""Sets of completion indexes as text: ascending, comma separated, runs of three or more as `a-b`."""

from __future__ import annotations

from collections.abc import Collection


def parse(text: str, below: int) -> frozenset[int]:
    """The indexes named by `text` that are smaller than `below`."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), below - 1) + 1))
    return frozenset(found)


def show(indexes: Collection[int]) -> str:
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
