"""Amounts of devices per node say exactly what can be chosen, and what is chosen is right; against brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations

import pytest

from echelon.api.views.device_views import SliceDevice
from echelon.scheduler.devices.choosing import choose
from echelon.scheduler.devices.claim_needs import Alike, Alternative, ClaimNeeds, NeededDevices
from echelon.scheduler.devices.device_sets import DeviceSets, sets_of
from echelon.scheduler.devices.inventory import Device, DeviceId
from echelon.scheduler.devices.selecting import DeviceKind


def device(number: int, **attributes: int) -> Device:
    facts = SliceDevice(name=f"d{number}", attributes={name: {"int": value} for name, value in attributes.items()})
    return Device(DeviceId("d.org", "n", f"d{number}"), "n", None, facts)


def claim(kind: DeviceKind, count: int | None, *constraints: Alike) -> ClaimNeeds:
    return ClaimNeeds((NeededDevices("r", (Alternative("r", kind, count),)),), constraints)


def counted(selected: dict[DeviceKind, set[DeviceId]]) -> DeviceSets:
    return sets_of(selected, lambda one, other: not selected[one].isdisjoint(selected[other]))


def instances() -> Iterator[tuple[list[Device], dict[DeviceKind, set[DeviceId]], dict[DeviceKind, int]]]:
    for seed in range(300):
        draw = random.Random(seed)
        devices = [device(number) for number in range(draw.randint(1, 5))]
        kinds = [DeviceKind(f"k{number}", ()) for number in range(draw.randint(1, 4))]
        selected = {kind: {one.id for one in devices if draw.random() < 0.6} for kind in kinds}
        yield devices, selected, {kind: draw.randint(0, 2) for kind in kinds}


def fits(devices: list[Device], selected: dict[DeviceKind, set[DeviceId]], counts: dict[DeviceKind, int]) -> bool:
    """Every way to give each request a device of its own."""
    wanted = [kind for kind, count in counts.items() for _ in range(count)]
    if len(wanted) > len(devices):
        return False
    ways = permutations([one.id for one in devices], len(wanted))
    return any(all(one in selected[kind] for kind, one in zip(wanted, way, strict=True)) for way in ways)


def test_amounts_allow_what_can_be_chosen_and_nothing_else() -> None:
    seen = {True: 0, False: 0}
    for devices, selected, counts in instances():
        sets = counted(selected)
        have, taken = sets.count([one.id for one in devices], selected), sets.charge(counts)
        allowed = all(amount <= have[name] for name, amount in taken.items())
        possible = fits(devices, selected, counts)
        assert allowed == possible, (selected, counts)
        claims = [(kind.label, claim(kind, count)) for kind, count in counts.items() if count]
        chosen = choose(claims, devices, {one.id for one in devices}, selected)
        assert (chosen is not None) == possible
        for kind, count in counts.items():
            given = [one.id for _, one in (chosen or {}).get(kind.label, [])]
            assert len(given) == len(set(given)) == (count if chosen is not None else 0)
            assert set(given) <= selected[kind]
        seen[possible] += 1
    assert min(seen.values()) > 60, seen


def test_kinds_without_a_common_device_have_no_common_amount() -> None:
    one, other = DeviceKind("a", ()), DeviceKind("b", ())
    apart = counted({one: {device(0).id}, other: {device(1).id}})
    assert sorted(apart.sets) == ["devices of class a", "devices of class b"]
    shared = counted({one: {device(0).id}, other: {device(0).id, device(1).id}})
    assert sorted(shared.sets) == ["devices of class a", "devices of class a or b", "devices of class b"]


@pytest.mark.parametrize(
    ("distinct", "count", "possible"), [(False, 3, True), (False, 4, False), (True, 2, True), (True, 3, False)]
)
def test_constraints_hold_within_a_claim(distinct: bool, count: int, possible: bool) -> None:
    """Six devices on two sockets."""
    devices = [device(number, socket=number % 2) for number in range(6)]
    kind, free = DeviceKind("a", ()), {one.id for one in devices}
    needs = claim(kind, count, Alike((), "d.org/socket", distinct))
    assert (choose([("c", needs)], devices, free, {kind: free}) is not None) == possible


def test_a_request_for_all_devices_needs_all_of_them_free() -> None:
    devices = [device(number) for number in range(3)]
    kind, ids = DeviceKind("a", ()), {one.id for one in devices}
    everything = claim(kind, None)
    found = choose([("c", everything)], devices, ids, {kind: ids})
    assert found is not None
    assert len(found["c"]) == 3
    assert choose([("c", everything)], devices, ids - {devices[0].id}, {kind: ids}) is None


def test_requests_that_come_first_have_their_first_alternative() -> None:
    """However many devices there are for the other ones."""
    good, plain, spare = (DeviceKind(name, ()) for name in ("good", "plain", "spare"))
    devices = [device(number) for number in range(5)]
    selected = {good: {devices[0].id}, plain: {one.id for one in devices[1:4]}, spare: {devices[4].id}}
    first = NeededDevices("first", (Alternative("first/a", good, 1), Alternative("first/b", plain, 1)))
    second = NeededDevices("second", (Alternative("second/a", good, 1), Alternative("second/b", spare, 1)))
    chosen = choose([("c", ClaimNeeds((first, second)))], devices, {one.id for one in devices}, selected)
    assert chosen is not None
    assert [name for name, _ in chosen["c"]] == ["first/a", "second/b"]
    exact = NeededDevices("exact", (Alternative("exact", good, 1),))
    chosen = choose([("c", ClaimNeeds((first, exact)))], devices, {one.id for one in devices}, selected)
    assert chosen is not None
    assert [name for name, _ in chosen["c"]] == ["exact", "first/b"]
