"""Devices for claims, one by one: the exact question that amounts per node only bound from above.

    claims that go to one node, devices that the node reaches, which of them are free ─► choose ─► a device for each

A search in order: the requests with the fewest devices to choose from first and those with alternatives last, devices
that few other requests could have first.  It gives up after a number of steps; then the answer is no.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field

from .claim_needs import MOST_DEVICES, Alternative, ClaimNeeds, NeededDevices
from .inventory import Device, DeviceId
from .selecting import DeviceKind, attribute_of

_STEPS = 20_000

#: The devices that are of each kind.
Devices = Mapping[DeviceKind, Collection[DeviceId]]
_NONE: Devices = {}
#: A claim's key, and what it asks for.
OpenClaim = tuple[str, ClaimNeeds]
#: The name of the request or alternative, and the device.
Result = tuple[str, Device]


def choose(
    claims: Sequence[OpenClaim],
    devices: Sequence[Device],
    free: Set[DeviceId],
    selected: Devices,
    missed: Devices = _NONE,
) -> dict[str, list[Result]] | None:
    """Devices for all claims together, by the claims' keys; None if there are not enough.

    Nobody can have all devices of a kind where one is `missed`, because it cannot be had.
    """
    search = _Search(devices, free, selected, missed)
    flat = [(key, needs, request) for key, needs in claims for request in needs.requests]
    order = sorted(flat, key=lambda one: search.rank(one[2]))
    if not search.place(order, 0):
        return None
    chosen: dict[str, list[Result]] = {key: [] for key, _ in claims}
    for key, result in search.results:
        chosen[key].append(result)
    return {key: sorted(results, key=lambda one: (one[0], one[1].id)) for key, results in chosen.items()}


@dataclass(slots=True)
class _Search:
    devices: Sequence[Device]
    free: Set[DeviceId]
    selected: Devices
    missed: Devices
    taken: set[DeviceId] = field(default_factory=set)
    results: list[tuple[str, Result]] = field(default_factory=list)
    steps: int = _STEPS

    def rank(self, request: NeededDevices) -> tuple[bool, int]:
        """Requests with few devices to choose from come first, those with alternatives last and in their own order:
        the first of them is the first to have the alternative that it prefers."""
        if len(request.alternatives) > 1:
            return True, 0
        kinds = [self.selected.get(one.kind, ()) for one in request.alternatives]
        return False, sum(any(device.id in kind for kind in kinds) for device in self.devices)

    def place(self, order: Sequence[tuple[str, ClaimNeeds, NeededDevices]], index: int) -> bool:
        if index == len(order):
            return True
        key, needs, request = order[index]
        for alternative in request.alternatives:
            fitting = [one for one in self.devices if one.id in self.selected.get(alternative.kind, ())]
            usable = [one for one in fitting if one.id in self.free and one.id not in self.taken]
            count = alternative.count
            if count is None:
                lost = self.missed.get(alternative.kind, ())
                if not fitting or len(usable) < len(fitting) or any(one.id in lost for one in self.devices):
                    continue  # It takes all, and some are in use or cannot be had.
                count = len(fitting)
            if count + sum(owner == key for owner, _ in self.results) > MOST_DEVICES:
                continue
            usable.sort(key=lambda one: (self._asked_by(one), one.id))
            if self._add(order, index, alternative, usable, 0, count, key, needs):
                return True
        return False

    def _asked_by(self, device: Device) -> int:
        return sum(device.id in devices for devices in self.selected.values())

    def _add(
        self,
        order: Sequence[tuple[str, ClaimNeeds, NeededDevices]],
        index: int,
        alternative: Alternative,
        usable: Sequence[Device],
        start: int,
        count: int,
        key: str,
        needs: ClaimNeeds,
    ) -> bool:
        """Give a request `count` more devices out of those from `start` on, then go on with the next request."""
        if count == 0:
            return self.place(order, index + 1)
        for number in range(start, len(usable) - count + 1):
            self.steps -= 1
            if self.steps < 0:
                return False
            device = usable[number]
            if not self._agrees(key, needs, alternative.name, device):
                continue
            self.taken.add(device.id)
            self.results.append((key, (alternative.name, device)))
            if self._add(order, index, alternative, usable, number + 1, count - 1, key, needs):
                return True
            self.results.pop()
            self.taken.discard(device.id)
        return False

    def _agrees(self, key: str, needs: ClaimNeeds, request: str, device: Device) -> bool:
        """Whether a device keeps the constraints of its claim with the devices that the claim has so far."""
        for constraint in needs.constraints:
            if not constraint.covers(request):
                continue
            value = attribute_of(device, constraint.attribute)
            if value is None:
                return False
            others = [
                attribute_of(other, constraint.attribute)
                for owner, (name, other) in self.results
                if owner == key and constraint.covers(name)
            ]
            if (value in others) if constraint.distinct else any(other != value for other in others):
                return False
        return True
