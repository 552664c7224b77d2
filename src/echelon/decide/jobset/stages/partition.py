"""A JobSet's replicated jobs as stages: sets that run together, separated by dependencies on completion.

    dependsOn Ready, startupPolicy InOrder     same stage: the dependency still runs when the dependent starts
    dependsOn Complete, executionPolicy        another stage
    equal prerequisites                        same stage: they become startable at the same moment

A stage begins when its first member can start, and ends when all its members are complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..model import JobSet, ReplicatedJob

#: Names written out in the title of a stage.
_MOST_NAMES = 3


@dataclass(frozen=True)
class Stage:
    members: tuple[ReplicatedJob, ...]
    #: Replicated jobs that are complete before any member starts.
    after: frozenset[str]

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
    if js.starts_in_order or not js.sequenced:
        return (Stage(js.replicated, frozenset()),) if js.replicated else ()
    before = prerequisites(js)
    found: dict[object, list[ReplicatedJob]] = {}
    for component in _ready_components(js.replicated):
        needed = frozenset[str]().union(*(before[rj.name] for rj in component))
        # One that waits for a part of itself is no one else's equal.
        own = any(rj.name in needed for rj in component)
        found.setdefault(component[0].name if own else needed, []).extend(component)
    order = {rj.name: index for index, rj in enumerate(js.replicated)}
    merged = [sorted(members, key=lambda rj: order[rj.name]) for members in found.values()]
    merged.sort(key=lambda members: order[members[0].name])
    return tuple(Stage(tuple(members), _common(before[rj.name] for rj in members)) for members in merged)


def prerequisites(js: JobSet) -> Mapping[str, frozenset[str]]:
    """The replicated jobs that are complete before each one starts, near and far."""
    before: dict[str, frozenset[str]] = {}
    for rj in js.replicated:
        needed: set[str] = set()
        for dependency in reversed(rj.depends_on):
            if dependency.name in needed:
                continue
            needed |= before.get(dependency.name, frozenset())
            if dependency.status == "Complete":
                needed.add(dependency.name)
        before[rj.name] = frozenset(needed)
    return before


def _common(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    first, *rest = sets
    return first.intersection(*rest)


def _ready_components(replicated: Sequence[ReplicatedJob]) -> list[list[ReplicatedJob]]:
    """Sets that Ready dependencies connect, in list order."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            name = root[name]
        return name

    for rj in replicated:
        for dependency in rj.depends_on:
            if dependency.status == "Ready":
                root[find(rj.name)] = find(dependency.name)
    found: dict[str, list[ReplicatedJob]] = {}
    for rj in replicated:
        found.setdefault(find(rj.name), []).append(rj)
    return list(found.values())
