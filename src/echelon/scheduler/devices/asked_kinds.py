"""The kinds of devices that claims in use ask for: which devices each selects, and what nodes count for them.

    claim comes, changes, goes ─► AskedKinds.ask ─┐
    device comes, changes, goes ─► on_device ─────┴─► selected, sets, alike ─► amounts of nodes, requests of pods

Only kinds in use are counted: every resource of a node is a row of the engine's table.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import combinations
from typing import Any, NamedTuple

from .claim_needs import ClaimNeeds, joined
from .device_sets import DeviceSets, sets_of
from .inventory import Device, DeviceId, Inventory
from .selecting import DeviceKind

ALIKE = "room for claims like "
#: Kinds that no claim asks for any more and that are kept all the same: to select devices anew takes long.
_MOST_SPARE = 16
_NOTHING: frozenset[DeviceId] = frozenset()


class Counted(NamedTuple):
    """What is counted otherwise than before."""

    #: Room for claims with constraints, on nodes.
    alike: bool = False
    #: Devices, on nodes and in what pods take.
    sets: bool = False


class _Devices(NamedTuple):
    """The devices of a kind, as `AskedKinds` has them."""

    selected: set[DeviceId]
    missed: set[DeviceId]
    spread: set[DeviceId]


class AskedKinds:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self.sets = DeviceSets()
        #: The devices that each kind in use selects, and those of the kind that cannot be had.
        self.selected: dict[DeviceKind, set[DeviceId]] = {}
        self.missed: dict[DeviceKind, set[DeviceId]] = {}
        #: Those of both that several nodes reach.
        self._spread: dict[DeviceKind, set[DeviceId]] = {}
        #: The same for kinds that no claim asks for now, the oldest first.
        self._spare: dict[DeviceKind, _Devices] = {}
        #: How many devices two kinds in use have in common, and whether sets are others for that.
        self._common: Counter[frozenset[DeviceKind]] = Counter()
        self._regrouped = False
        #: Kinds by how many claims ask for them, and by claim.
        self._asked: Counter[DeviceKind] = Counter()
        self._asks: dict[str, tuple[DeviceKind, ...]] = {}
        #: Claims that amounts alone do not describe, with the resource that counts claims like them; and the reverse.
        self.uneven: dict[str, str] = {}
        self.alike: dict[str, dict[str, None]] = {}

    def ask(self, key: str, needs: ClaimNeeds | None) -> Counted:
        """A claim in use has these needs; None if it is not used any more."""
        before, wanted = self._asks.pop(key, ()), tuple[DeviceKind, ...]()
        if needs is not None:
            wanted = tuple(needs.kinds() | dict.fromkeys(map(joined, filter(_has_ways, needs.requests))))
            self._asks[key] = wanted
        other_alike = self._liken(key, "" if needs is None or needs.plain else alike_name(needs))
        self._asked.update(wanted)
        self._asked.subtract(before)
        self._asked += Counter()
        if self.selected.keys() == self._asked.keys():
            return Counted(other_alike)
        self._select()
        return Counted(other_alike, self.recount())

    def on_device(self, one: DeviceId, device: Device | None) -> None:
        """A device is another than it was, or gone; `recount` when all are known."""
        before = self._pairs_of(one)
        for kind, devices in self._all().items():
            for listed in devices:
                listed.discard(one)
            if device is not None:
                _enter(devices, kind, device)
        after = self._pairs_of(one)
        if before != after:
            self._common.subtract(before)
            self._common.update(after)
            self._regrouped = True

    def recount(self) -> bool:
        """Whether other sets have to be counted than before."""
        if not self._regrouped:
            return False
        self._regrouped = False
        before, self.sets = self.sets, sets_of(self.selected, self._overlap)
        return before != self.sets

    def has_spread(self, kind: DeviceKind) -> bool:
        """Whether a kind selects devices that several nodes reach."""
        return not self._spread.get(kind, _NOTHING).isdisjoint(self.selected.get(kind, _NOTHING))

    def is_spread(self, needs: ClaimNeeds) -> bool:
        """Whether devices that several nodes reach have a part in what a claim can have."""
        whole = any(self._spread.get(kind) for kind in needs.wanted_whole())
        return whole or any(self.has_spread(kind) for kind in needs.kinds())

    def _overlap(self, one: DeviceKind, other: DeviceKind) -> bool:
        return self._common[frozenset((one, other))] > 0

    def _pairs_of(self, one: DeviceId) -> list[frozenset[DeviceKind]]:
        return list(map(frozenset, combinations([kind for kind, found in self.selected.items() if one in found], 2)))

    def _all(self) -> dict[DeviceKind, _Devices]:
        return {kind: self._devices_of(kind) for kind in self.selected} | self._spare

    def _devices_of(self, kind: DeviceKind) -> _Devices:
        return _Devices(self.selected[kind], self.missed[kind], self._spread[kind])

    def _liken(self, key: str, alike: str) -> bool:
        """Enter the resource that counts claims like one; True for the first of its like and the last that goes."""
        counted, known = self.uneven.pop(key, ""), len(self.alike)
        if alike:
            self.uneven[key] = alike
            self.alike.setdefault(alike, {})[key] = None
        changed = len(self.alike) != known
        if counted and counted != alike:
            del self.alike[counted][key]
            if not self.alike[counted]:
                del self.alike[counted]
                changed = True
        return changed

    def _select(self) -> None:
        """Know the devices of the kinds that are asked for."""
        self._regrouped = True
        for kind in [kind for kind in self.selected if kind not in self._asked]:
            self._spare[kind] = self._devices_of(kind)
            del self.selected[kind], self.missed[kind], self._spread[kind]
            for pair in [one for one in self._common if kind in one]:
                del self._common[pair]
        for kind in [kind for kind in self._asked if kind not in self.selected]:
            known = self._spare.pop(kind, None)
            if known is None:
                known = _Devices(set(), set(), set())
                for one in self._inventory.all():
                    _enter(known, kind, one)
            for other, devices in self.selected.items():
                self._common[frozenset((kind, other))] = len(known.selected & devices)
            self.selected[kind], self.missed[kind], self._spread[kind] = known
        while len(self._spare) > _MOST_SPARE:
            del self._spare[next(iter(self._spare))]


def _enter(devices: _Devices, kind: DeviceKind, device: Device) -> None:
    if kind.selects(device):
        devices.selected.add(device.id)
    elif kind.misses(device):
        devices.missed.add(device.id)
    else:
        return
    if not device.node:
        devices.spread.add(device.id)


def alike_name(needs: ClaimNeeds) -> str:
    """The resource that counts claims like one."""
    labels = sorted(kind.label for kind in needs.kinds())
    digest = hashlib.sha256(repr((needs.requests, needs.constraints)).encode()).hexdigest()[:6]
    return f"{ALIKE}{', '.join(labels)} ({digest})"


def _has_ways(request: Any) -> bool:
    return bool(request.alternatives)
