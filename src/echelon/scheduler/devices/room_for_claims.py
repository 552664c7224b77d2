"""How many claims with constraints a node has devices for: found by trying, once for all nodes that are alike.

    free devices of a node, as such claims see them ─► known? ─► choose devices for one claim, two, three, …

Amounts cannot say it: two devices of one NUMA node each need pairs, not numbers.  A try that fails may take long.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from .choosing import Devices, choose
from .claim_needs import ClaimNeeds
from .inventory import Device, DeviceId
from .selecting import attribute_of

#: Claims like one of them that are counted on a node.
_MOST_ALIKE = 16
#: When more makes of nodes than this are known, all are forgotten.
_MOST_KNOWN = 10_000


class RoomForClaims:
    def __init__(self) -> None:
        self._known: dict[tuple[ClaimNeeds, tuple[Any, ...]], int] = {}

    def count(
        self,
        needs: ClaimNeeds,
        devices: Sequence[Device],
        free: Set[DeviceId],
        selected: Devices,
        missed: Devices,
    ) -> int:
        """How many claims with these needs the free ones of these devices are enough for."""
        seen = tuple(sorted((_seen(one, needs, free, selected, missed) for one in devices), key=repr))
        found = self._known.get((needs, seen))
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[needs, seen] = _tried(needs, devices, free, selected, missed)
        return found


def _seen(
    device: Device, needs: ClaimNeeds, free: Set[DeviceId], selected: Devices, missed: Devices
) -> tuple[Any, ...]:
    """All that matters of a device to such claims."""
    kinds = tuple(device.id in of.get(kind, ()) for of in (selected, missed) for kind in needs.kinds())
    if not any(kinds):
        return ()
    return device.id in free, kinds, tuple(attribute_of(device, one.attribute) for one in needs.constraints)


def _tried(
    needs: ClaimNeeds,
    devices: Sequence[Device],
    free: Set[DeviceId],
    selected: Devices,
    missed: Devices,
) -> int:
    kinds = [selected.get(kind, ()) for kind in needs.kinds()]
    usable = sum(one.id in free and any(one.id in kind for kind in kinds) for one in devices)
    most = min(_MOST_ALIKE, usable // max(needs.least, 1))
    count = 0
    while count < most:
        claims = [(str(number), needs) for number in range(count + 1)]
        if choose(claims, devices, free, selected, missed) is None:
            break
        count += 1
    return count
