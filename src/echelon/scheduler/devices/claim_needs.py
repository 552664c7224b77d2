"""What a ResourceClaim asks for, read once: requests with alternatives, constraints, and what is not supported.

    ResourceClaim ─┐
    DeviceClass   ─┴─► needs_of ─► ClaimNeeds ─► counted per node (`device_sets`), chosen device by device (`choosing`)

A claim whose requests only count devices is *plain*: amounts per node say exactly whether it fits.  Any other claim is
counted by how many claims like it a node has devices for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ...api.views.device_views import (
    DeviceClassView,
    DeviceRequest,
    DeviceSelector,
    ResourceClaimView,
    WantedDevices,
)
from .device_expressions import expression
from .selecting import DeviceKind, DeviceSelection

#: The most devices of a claim: servers refuse a longer allocation.
MOST_DEVICES = 32

Classes = Callable[[str], DeviceClassView | None]


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to satisfy a request."""

    #: As results name it: `gpu`, or `gpu/large` for an alternative.
    name: str
    kind: DeviceKind
    #: How many devices; None for all that a node reaches.
    count: int | None


@dataclass(frozen=True, slots=True)
class NeededDevices:
    """A request: the first of its alternatives that can be had."""

    name: str
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class Alike:
    """Devices of these requests (of all, if none is named) have one value of an attribute, or all different ones."""

    requests: tuple[str, ...]
    attribute: str
    distinct: bool

    def covers(self, request: str) -> bool:
        return not self.requests or request in self.requests or request.partition("/")[0] in self.requests


@dataclass(frozen=True, slots=True)
class ClaimNeeds:
    requests: tuple[NeededDevices, ...] = ()
    constraints: tuple[Alike, ...] = ()
    #: What it waits for, and the fields that are not supported.
    waits: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether the number of devices of each kind is all that matters."""
        return not self.constraints and all(_is_counted(request) for request in self.requests)

    @property
    def least(self) -> int:
        """The fewest devices that it can have."""
        return sum(min((one.count or 1 for one in request.alternatives), default=0) for request in self.requests)

    def counts(self) -> dict[DeviceKind, int]:
        """Devices of each kind, as far as they are known before a node is."""
        found: dict[DeviceKind, int] = {}
        for request in self.requests:
            if _is_counted(request):
                kind = joined(request)
                found[kind] = found.get(kind, 0) + (request.alternatives[0].count or 0)
        return found

    def kinds(self) -> dict[DeviceKind, None]:
        return {alternative.kind: None for request in self.requests for alternative in request.alternatives}

    def wanted_whole(self) -> dict[DeviceKind, None]:
        """Kinds of which it may take all devices that a node reaches."""
        return {one.kind: None for request in self.requests for one in request.alternatives if one.count is None}


def joined(request: NeededDevices) -> DeviceKind:
    """The devices that satisfy a counted request, whatever the alternative."""
    kinds = [alternative.kind for alternative in request.alternatives]
    if len(kinds) == 1:
        return kinds[0]
    return DeviceKind(" or ".join(kind.label for kind in kinds), tuple(one for kind in kinds for one in kind.any_of))


def _is_counted(request: NeededDevices) -> bool:
    counts = [alternative.count for alternative in request.alternatives]
    return bool(counts) and (counts == [1] * len(counts) or (len(counts) == 1 and counts[0] is not None))


def needs_of(claim: ResourceClaimView, classes: Classes) -> ClaimNeeds:
    """Read the spec of a claim; a class that does not exist is waited for."""
    requests: list[NeededDevices] = []
    waits: list[str] = []
    unsupported: list[str] = []
    devices = claim.spec.devices
    for index, request in enumerate(devices.requests):
        path = f"ResourceClaim {claim.name} spec.devices.requests[{index}]"
        alternatives: list[Alternative] = []
        for name, wanted, here in _ways(request, path):
            unsupported += _unsupported(wanted, here)
            found = classes(wanted.device_class_name)
            if found is None:
                waits.append(f"request {name}: device class {wanted.device_class_name} does not exist")
                continue
            unsupported += _unreadable(found.spec.selectors, f"DeviceClass {found.name} spec")
            count = None if wanted.allocation_mode == "All" else wanted.count
            alternatives.append(Alternative(name, _kind(wanted, found), count))
        requests.append(NeededDevices(request.name, tuple(alternatives)))
    least = ClaimNeeds(tuple(requests)).least
    if least > MOST_DEVICES:
        waits.append(f"resourceclaim {claim.name} asks for {least} devices; a claim can have {MOST_DEVICES} at most")
    alike = tuple(
        Alike(one.requests, one.match_attribute or one.distinct_attribute, distinct=not one.match_attribute)
        for one in devices.constraints
    )
    return ClaimNeeds(tuple(requests), alike, tuple(waits), tuple(unsupported))


def _ways(request: DeviceRequest, path: str) -> Iterator[tuple[str, WantedDevices, str]]:
    if request.exactly is not None:
        yield request.name, request.exactly, f"{path}.exactly"
    for index, one in enumerate(request.first_available):
        yield f"{request.name}/{one.name}", one, f"{path}.firstAvailable[{index}]"


def _unsupported(wanted: WantedDevices, path: str) -> Iterator[str]:
    if wanted.admin_access:
        yield f"{path}.adminAccess"
    if wanted.capacity:
        yield f"{path}.capacity"
    if wanted.derived_attributes:
        yield f"{path}.derivedAttributes"
    if wanted.allocation_mode not in ("ExactCount", "All"):
        yield f"{path}.allocationMode"
    yield from _unreadable(wanted.selectors, path)


def _unreadable(selectors: Iterable[DeviceSelector], path: str) -> Iterator[str]:
    """Expressions with functions that are not known here: nobody can tell which devices they select."""
    for index, selector in enumerate(selectors):
        if not expression(selector.cel.expression).compiles:
            yield f"{path}.selectors[{index}].cel.expression"


def _kind(wanted: WantedDevices, of_class: DeviceClassView) -> DeviceKind:
    own = tuple(dict.fromkeys(selector.cel.expression for selector in wanted.selectors))
    given = tuple(selector.cel.expression for selector in of_class.spec.selectors)
    selection = DeviceSelection(tuple(dict.fromkeys((*given, *own))), wanted.tolerations)
    label = of_class.name
    if own or wanted.tolerations:
        label += f" ({hashlib.sha256(repr((own, wanted.tolerations)).encode()).hexdigest()[:6]})"
    return DeviceKind(label, (selection,))
