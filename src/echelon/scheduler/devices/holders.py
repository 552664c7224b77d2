"""Which claim has a device: those in the API, and those that were chosen and are not there yet."""

from __future__ import annotations

from collections.abc import Iterable

from .inventory import DeviceId


class Holders:
    """Devices by claim, and the reverse.  Two schedulers may give one device twice: then it is in use until both go."""

    def __init__(self) -> None:
        self._devices: dict[str, tuple[DeviceId, ...]] = {}
        self._holders: dict[DeviceId, dict[str, None]] = {}

    def set(self, claim: str, devices: tuple[DeviceId, ...]) -> Iterable[DeviceId]:
        """A claim has these devices now; returns all that it concerns."""
        before = self._devices.pop(claim, ())
        for device in before:
            holders = self._holders[device]
            holders.pop(claim, None)
            if not holders:
                del self._holders[device]
        for device in devices:
            self._holders.setdefault(device, {})[claim] = None
        if devices:
            self._devices[claim] = devices
        return dict.fromkeys((*before, *devices))

    def devices(self, claim: str) -> tuple[DeviceId, ...]:
        return self._devices.get(claim, ())

    def of(self, device: DeviceId) -> str:
        """The claim that has a device, "" if it is free."""
        holders = self._holders.get(device)
        return next(iter(holders)) if holders else ""

    def all_of(self, device: DeviceId) -> Iterable[str]:
        return self._holders.get(device, ())

    def is_free(self, device: DeviceId) -> bool:
        return device not in self._holders
