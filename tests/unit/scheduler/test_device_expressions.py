"""Expressions about devices are evaluated once for devices that look the same to them, and the answer is the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from echelon.api.schema import expressions
from echelon.api.views.device_views import SliceDevice
from echelon.scheduler.devices.device_expressions import DeviceExpression
from echelon.scheduler.devices.expression_reads import WHOLE, reads
from echelon.scheduler.devices.inventory import Device, DeviceId

OWN, OTHER = "gpu.example.org", "net.example.org"
OF = f'device.attributes["{OWN}"]'
BIND = f"cel.bind(own, {OF}, "


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("true", []),
        ("device.driver == 'a'", ["driver"]),
        ("device.attributes['a'].x == 1 && device.capacity['b']['y'].isInteger()", ["attributes a x", "capacity b y"]),
        ("has(device.attributes['a'].x)", ["attributes a x"]),
        ("device.attributes['a'].?x.orValue(1) == 1", ["attributes a x"]),
        ("'x' in device.attributes['a']", ["attributes a x"]),
        ("cel.bind(d, device.attributes['a'], d.x == 1 || cel.bind(e, d.y, e))", ["attributes a x", "attributes a y"]),
        ("cel.bind(d, device.attributes['a'].x, true)", ["attributes a x"]),
        ("cel.bind(d, device.attributes['a'], d == {})", ["attributes a"]),
        ("device.attributes['a'].exists(k, k == 'x')", ["attributes a"]),
        ("device.attributes[device.driver].x == 1", ["attributes", "driver"]),
        ("device.attributes.exists(d, device.attributes[d].x == 1)", ["attributes"]),
        ("['a'].exists(device, device == 'a')", []),
        ("[device.driver].exists(device, device == 'a')", ["driver"]),
        ("{'a': [device.driver]} == {device.attributes['a'].x: ['b']}", ["attributes a x", "driver"]),
        ("device == device", [""]),
        ("device.", [""]),
    ],
)
def test_what_an_expression_reads(text: str, paths: list[str]) -> None:
    assert sorted(reads(text, "device")) == [tuple(path.split()) for path in paths]


def test_an_expression_whose_syntax_cannot_be_read_reads_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        def serialize(self) -> bytes:
            return b"\x0c"

    monkeypatch.setattr("echelon.scheduler.devices.expression_reads.compiled", lambda _: Other())
    assert reads("device.driver == 'of another library'", "device") == WHOLE


TEXTS = [
    f'device.driver == "{OWN}"',
    f'{OF}.model == "a"',
    f'has({OF}.model) && {OF}.model != "a"',
    f'{OF}.?model.orValue("b") == "b"',
    f'"model" in {OF} || {OF}.index > 1',
    f'{OF}["numa"] == 0 ? {OF}.index == 1 : {OF}.model == "a"',
    f"{OF}.index in [0, 2]",
    f"{OF}.flag",
    f'{OF}.driverVersion.isGreaterThan(semver("1.5.0"))',
    f"{OF}.driverVersion.major() == 1",
    f'{OF}.tags.exists(tag, tag == "fast" || tag == {OF}.model)',
    f'{BIND}own.model == "a" && own.index < 2)',
    f"{BIND}cel.bind(number, own.index, number == own.numa))",
    f"cel.bind(unused, {OF}.model, true)",
    f'device.capacity["{OWN}"].memory.compareTo(quantity("40Gi")) >= 0',
    f'device.capacity["{OWN}"].memory.isGreaterThan(quantity("40Gi")) || {OF}.model == "b"',
    f'!has(device.attributes["{OTHER}"].rail) || device.attributes["{OTHER}"].rail == 1',
    'device.attributes[device.driver].model == "a"',
    f'{OF}.exists(name, name == "serial")',
    f'{OF}.all(name, name != "flag")',
    "device.attributes.size() == 1",
    "device.attributes.all(domain, has(device.attributes[domain].model))",
    f"device.allowMultipleAllocations || {OF}.index == 0",
    f'[1, 2].exists(device, device == 2) && {OF}.model == "a"',
    f'{OF}.serial.endsWith("1")',
    f"{OF}.index",
    "device.unknown == 1",
    "no such expression",
]


def drawn(draw: random.Random, number: int) -> Device:
    """A device with some of what the expressions read, some of it unlike what they expect."""
    attributes: dict[str, Any] = {
        "model": draw.choice([{"string": "a"}, {"string": "b"}, {"int": 1}, {"bool": True}]),
        "index": draw.choice([{"int": 0}, {"int": 1}, {"int": 2}, {"string": "1"}]),
        "numa": {"int": draw.randint(0, 1)},
        "flag": draw.choice([{"bool": True}, {"bool": False}, {"int": 1}]),
        "driverVersion": {"version": draw.choice(["1.2.0", "1.6.0", "2.0.0", "not a version"])},
        "tags": {"strings": draw.choice([["fast"], ["slow", "a"], []])},
        f"{OTHER}/rail": {"int": draw.randint(0, 1)},
        f"{OWN}/model": {"string": draw.choice("ab")},
    }
    kept = draw.sample(sorted(attributes), draw.randint(0, len(attributes)))
    named = {name: attributes[name] for name in kept}
    named["serial"] = {"string": f"s{number}"}
    memory = {"memory": {"value": draw.choice(["40Gi", "42949672960", "80Gi", "much"])}}
    facts = SliceDevice(
        name=f"d{number}",
        attributes=named,
        capacity=memory if draw.random() < 0.7 else {},
        allow_multiple_allocations=draw.random() < 0.2,
    )
    return Device(DeviceId(draw.choice([OWN, OTHER]), "pool", f"d{number}"), "n", None, facts)


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_known_of_equal_devices_is_true_of_each(text: str) -> None:
    draw = random.Random(text)
    known = DeviceExpression(text)
    for number in range(400):
        device = drawn(draw, number)
        assert known.holds(device) == DeviceExpression(text).evaluated(device), device


def test_devices_that_differ_in_what_is_not_read_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluations: list[str] = []

    def evaluate(text: str, **values: Any) -> Any:
        evaluations.append(text)
        return original(text, **values)

    original = expressions.evaluate
    monkeypatch.setattr(expressions, "evaluate", evaluate)
    known = DeviceExpression(f'{OF}.model == "a" && {OF}.index < 4')
    for number in range(1000):
        named: dict[str, dict[str, Any]] = {
            "model": {"string": "a"},
            "index": {"int": number % 8},
            "serial": {"string": f"s{number}"},
        }
        device = Device(DeviceId(OWN, "pool", f"d{number}"), "n", None, SliceDevice(attributes=named))
        assert known.holds(device) == (number % 8 < 4)
    assert len(evaluations) == 8
