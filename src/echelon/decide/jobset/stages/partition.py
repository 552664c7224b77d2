"""A JobSet's replicated jobs as stages: sets that run together, separated by dependencies on completion.

    dependsOn Ready, startupPolicy InOrder     same stage: the dependency still runs when the dependent starts
    dependsOn Complete, executionPolicy        another stage
    equal prerequisites                        same stage: they become startable at the same moment

A stage begins when its first member can start, and ends when all its members are complete.  What has to run between
two members of a stage belongs to it: the stage could not end without it.

Sets of replicated jobs are bit masks over their positions, because a JobSet may have thousands of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from ..model import JobSet, ReplicatedJob

#: Names written out in the title of a stage.
_MOST_NAMES = 3


@dataclass(frozen=True)
class Stage:
    members: tuple[ReplicatedJob, ...]
    #: The positions of replicated jobs that are complete before any member starts.
    after: int = 0

    @property
    def key(self) -> str:
        """The name of its first replicated job: what annotations call the stage."""
        return self.members[0].name

    @property
    def title(self) -> str:
        """What people read; it begins with the key, so it is unique too."""
        names = [rj.name for rj in self.members]
        if len(names) > _MOST_NAMES:
            names = [*names[: _MOST_NAMES - 1], f"{len(names) - _MOST_NAMES + 1} more"]
        return "+".join(names)


def stages_of(js: JobSet) -> tuple[Stage, ...]:
    """In the order of their first members."""
    if js.runs_in_order:
        return tuple(Stage((rj,), (1 << position) - 1) for position, rj in enumerate(js.replicated))
    position = {rj.name: number for number, rj in enumerate(js.replicated)}
    before = _prerequisites(js, position)
    found: dict[tuple[int, int], list[int]] = {}
    for together in _run_together(js, position):
        needed = reduce(lambda mask, one: mask | before[one], together, 0)
        # One that waits for a part of itself is no one else's equal.
        own = any(needed >> one & 1 for one in together)
        found.setdefault((needed, together[0] if own else -1), []).extend(together)
    stages = sorted(sorted(members) for members in found.values())
    return tuple(
        Stage(
            tuple(js.replicated[one] for one in members),
            reduce(lambda mask, one: mask & before[one], members, (1 << len(before)) - 1),
        )
        for members in stages
    )


def _prerequisites(js: JobSet, position: dict[str, int]) -> list[int]:
    """The replicated jobs that are complete before each one starts, near and far.  Dependencies name earlier ones."""
    before: list[int] = []
    for rj in js.replicated:
        needed = 0
        for dependency in rj.depends_on:
            one = position[dependency.name]
            needed |= before[one] | (1 << one if dependency.status == "Complete" else 0)
        before.append(needed)
    return before


def _run_together(js: JobSet, position: dict[str, int]) -> list[list[int]]:
    """Positions connected by Ready dependencies, with what has to run between them.

    These are the strongly connected components of "needs", where a Ready dependency counts in both directions.
    """
    needs: list[list[int]] = [[] for _ in js.replicated]
    for number, rj in enumerate(js.replicated):
        for dependency in rj.depends_on:
            one = position[dependency.name]
            needs[number].append(one)
            if dependency.status == "Ready":
                needs[one].append(number)
    needed_by: list[list[int]] = [[] for _ in needs]
    for number, others in enumerate(needs):
        for one in others:
            needed_by[one].append(number)
    home: dict[int, int] = {}
    for number in reversed(_by_end_of_search(needs)):
        _reach(number, needed_by, home)
    found: dict[int, list[int]] = {}
    for number in range(len(needs)):
        found.setdefault(home[number], []).append(number)
    return list(found.values())


def _by_end_of_search(edges: Sequence[Sequence[int]]) -> list[int]:
    """All elements, in the order in which a depth-first search leaves them."""
    seen: set[int] = set()
    left: list[int] = []
    for start in range(len(edges)):
        path = [(start, iter(edges[start]))] if start not in seen else []
        seen.add(start)
        while path:
            at, following = path[-1]
            step = next((one for one in following if one not in seen), None)
            if step is None:
                left.append(at)
                path.pop()
            else:
                seen.add(step)
                path.append((step, iter(edges[step])))
    return left


def _reach(start: int, edges: Sequence[Sequence[int]], home: dict[int, int]) -> None:
    """Enter the start as the home of everything that can be reached from it and has none."""
    todo = [start] if start not in home else []
    while todo:
        at = todo.pop()
        if at not in home:
            home[at] = start
            todo += edges[at]
