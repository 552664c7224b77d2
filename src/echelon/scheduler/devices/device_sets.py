"""Devices as amounts per node, so that the engine counts them like any other resource.

Requests of different kinds may want the same device.  By Hall's theorem a node has devices for `c[k]` of each kind `k`
if and only if every set of kinds together has enough: the sum of `c[k]` is at most the number of devices that one of
them selects.  So every set of kinds whose devices overlap is a resource of its own, and a request takes from every set
that its kind is in.  Kinds that share no device need no common set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from .inventory import DeviceId
from .selecting import DeviceKind

#: Of kinds that overlap with more others than this, only pairs and all together are counted: a bound from above.
_MOST_KINDS = 5
PREFIX = "devices of class "


@dataclass(frozen=True)
class DeviceSets:
    """The sets of kinds that are counted, by the names of their resources."""

    sets: Mapping[str, frozenset[DeviceKind]] = field(default_factory=dict)

    def charge(self, counts: Mapping[DeviceKind, int]) -> dict[str, int]:
        """What a request for these numbers of devices of each kind takes."""
        taken = {name: sum(counts.get(kind, 0) for kind in kinds) for name, kinds in self.sets.items()}
        return {name: amount for name, amount in taken.items() if amount}

    def count(self, devices: Iterable[DeviceId], selected: Mapping[DeviceKind, Collection[DeviceId]]) -> dict[str, int]:
        """How many devices each set has among these."""
        listed = list(devices)
        return {
            name: sum(any(one in selected.get(kind, ()) for kind in kinds) for one in listed)
            for name, kinds in self.sets.items()
        }


def sets_of(kinds: Iterable[DeviceKind], overlap: Callable[[DeviceKind, DeviceKind], bool]) -> DeviceSets:
    """The sets that have to be counted for these kinds; `overlap` tells whether two of them share a device."""
    found: dict[str, frozenset[DeviceKind]] = {}
    for together in _overlapping(sorted(kinds, key=lambda one: one.label), overlap):
        for chosen in _subsets(together, overlap):
            found[PREFIX + " or ".join(sorted(kind.label for kind in chosen))] = frozenset(chosen)
    return DeviceSets(found)


def _overlapping(
    kinds: Iterable[DeviceKind], overlap: Callable[[DeviceKind, DeviceKind], bool]
) -> list[list[DeviceKind]]:
    """Kinds by the devices that they share, directly or through others."""
    groups: list[list[DeviceKind]] = []
    for kind in kinds:
        near = [group for group in groups if any(overlap(kind, other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([kind, *(other for group in near for other in group)])
    return groups


def _subsets(
    kinds: list[DeviceKind], overlap: Callable[[DeviceKind, DeviceKind], bool]
) -> Iterable[tuple[DeviceKind, ...]]:
    sizes = range(1, len(kinds) + 1) if len(kinds) <= _MOST_KINDS else (1, 2, len(kinds))
    for size in sizes:
        for chosen in combinations(kinds, size):
            if size == 1 or len(_overlapping(chosen, overlap)) == 1:
                yield chosen
