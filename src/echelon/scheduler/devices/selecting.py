"""Which devices a request may have: selectors in CEL, taints and tolerations.

An expression that has no value for a device, because an attribute is missing, does not select it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...api.views.device_views import DeviceTaint, DeviceToleration
from .device_expressions import expression
from .inventory import Device

_SCALARS = ("int", "bool", "string", "version")


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """The expressions of a class and of a request, which all must hold, and the taints that do not matter."""

    expressions: tuple[str, ...]
    tolerations: tuple[DeviceToleration, ...] = ()

    def selects(self, device: Device) -> bool:
        taints = device.facts.taints
        if device.odd or (taints and any(_repels(taint, self.tolerations) for taint in taints)):
            return False
        return self.matches(device)

    def matches(self, device: Device) -> bool:
        """Whether a device is one of those, be it that it cannot be had."""
        return device.unknown or all(expression(text).holds(device) for text in self.expressions)


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """Devices that are all the same to a request: those that one of its selections selects."""

    #: For people, unique among kinds: the class, and what tells apart requests of one class.
    label: str
    any_of: tuple[DeviceSelection, ...]

    def selects(self, device: Device) -> bool:
        return any(selection.selects(device) for selection in self.any_of)

    def misses(self, device: Device) -> bool:
        """Whether a device is of this kind and cannot be had: it is tainted, or has something not supported here."""
        hindered = device.odd or device.facts.taints
        return bool(hindered) and not self.selects(device) and any(one.matches(device) for one in self.any_of)


def _repels(taint: DeviceTaint, tolerations: Iterable[DeviceToleration]) -> bool:
    return taint.effect in ("NoSchedule", "NoExecute") and not any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def attribute_of(device: Device, name: str) -> Any:
    """The value of a fully qualified attribute, None if the device does not have it."""
    facts, driver = device.facts.attributes, device.id.driver
    domain, _, short = name.rpartition("/")
    found = facts.get(name) or (facts.get(short) if domain == driver else None)
    for field in _SCALARS if found else ():
        if (value := (found or {}).get(field)) is not None:
            return field, value
    return None
