"""Objects of resource.k8s.io with one thing in each that a server takes or refuses."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from echelon.api.scheme import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES, Object, Resource
from echelon.testing.device_builders import (
    make_device,
    make_device_class,
    make_request,
    make_resource_claim,
    make_slice,
    make_taint_rule,
)

_TERM = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
_ONE, _TWO = ({"nodeSelectorTerms": [_TERM] * count} for count in (1, 2))
_CONFIG = {"opaque": {"driver": "a.org", "parameters": {"b": 1}}}


class DeviceCase(NamedTuple):
    name: str
    resource: Resource
    obj: Object
    taken: bool


def device_cases() -> Iterator[DeviceCase]:
    yield from _slices()
    yield from _claims()
    for taken, name, spec in (
        (True, "32 configs", {"config": [_CONFIG] * 32}),
        (False, "33 configs", {"config": [_CONFIG] * 33}),
        (False, "a driver with a space", {"config": [{"opaque": {**_CONFIG["opaque"], "driver": "a b"}}]}),
    ):
        yield DeviceCase(f"class: {name}", DEVICE_CLASSES, make_device_class("c", **spec), taken)
    for taken, name, selector in (
        (True, "a pool of two parts", {"pool": "a/b.c"}),
        (True, "a driver in capitals", {"driver": "GPU.org"}),
        (False, "a pool that is too long", {"pool": "a" * 254}),
        (False, "a driver that is too long", {"driver": "a" * 64}),
    ):
        yield DeviceCase(f"taint rule: {name}", DEVICE_TAINT_RULES, make_taint_rule("r", **selector), taken)


def _slices() -> Iterator[DeviceCase]:
    for taken, name, spec in (
        (True, "plain", {}),
        (True, "a driver in capitals", {"driver": "GPU.example.org"}),
        (False, "a driver that is too long", {"driver": "a" * 64}),
        (True, "a pool of two parts", {"pool": _pool(name="a/b")}),
        (False, "a pool with an underscore", {"pool": _pool(name="a_b")}),
        (False, "a generation below 0", {"pool": _pool(generation=-1)}),
        (False, "a node with a space", {"nodeName": "a b"}),
        (False, "all nodes: false", {"allNodes": False}),
        (True, "all nodes", {"nodeName": None, "allNodes": True}),
        (True, "a selector", {"nodeName": None, "nodeSelector": _ONE}),
        (False, "a selector of two terms", {"nodeName": None, "nodeSelector": _TWO}),
        (True, "128 devices", {"devices": [make_device(f"d{number}") for number in range(128)]}),
        (False, "129 devices", {"devices": [make_device(f"d{number}") for number in range(129)]}),
        (True, "64 tainted devices", {"devices": _tainted(64)}),
        (False, "65 tainted devices", {"devices": _tainted(65)}),
    ):
        yield DeviceCase(f"slice: {name}", RESOURCE_SLICES, make_slice("n", 1, **spec), taken)
    for taken, name, device, spec in _devices():
        made = make_slice("n", devices=[{**make_device("d"), **device}], **spec)
        yield DeviceCase(f"device: {name}", RESOURCE_SLICES, made, taken)


def _devices() -> Iterator[tuple[bool, str, Object, dict[str, Any]]]:
    for taken, name, attributes in (
        (True, "an attribute of another domain", {"a.org/b_C1": {"int": 1}}),
        (False, "an attribute with a space", {"a b": {"int": 1}}),
        (True, "an attribute of two slashes", {"a.org/b/c": {"int": 1}}),
        (False, "an attribute without a domain", {"/b": {"int": 1}}),
        (False, "an attribute without a name", {"a.org/": {"int": 1}}),
        (True, "a name of 32 characters", {"a" * 32: {"int": 1}}),
        (False, "a name of 33 characters", {"a" * 33: {"int": 1}}),
        (True, "a text of 64 characters", {"a": {"string": "x" * 64}}),
        (False, "a text of 65 characters", {"a": {"string": "x" * 65}}),
        (True, "no text", {"a": {"string": ""}}),
        (True, "a version", {"a": {"version": "1.2.3-rc.1+x.4"}}),
        (False, "a version of two numbers", {"a": {"version": "1.2"}}),
        (False, "a version with a zero before", {"a": {"version": "1.02.3"}}),
        (False, "two values", {"a": {"int": 1, "bool": True}}),
        (True, "32 attributes", {f"a{number}": {"int": 1} for number in range(32)}),
        (False, "33 attributes", {f"a{number}": {"int": 1} for number in range(33)}),
        (False, "an empty list", {"a": {"ints": []}}),
    ):
        yield taken, name, {"attributes": attributes}, {}
    taint = {"key": "a", "effect": "NoSchedule"}
    each: dict[str, Any] = {"nodeName": None, "perDeviceNodeSelection": True}
    yield False, "a capacity with a space", {"capacity": {"a b": {"value": "1"}}}, {}
    yield True, "16 taints", {"taints": [{**taint, "value": str(number)} for number in range(16)]}, {}
    yield False, "17 taints", {"taints": [{**taint, "value": str(number)} for number in range(17)]}, {}
    yield False, "a node of its own without need", {"nodeName": "m"}, {}
    yield True, "a node of its own", {"nodeName": "m"}, each
    yield True, "a selector of its own with two terms", {"nodeSelector": _TWO}, each
    yield False, "no node of its own", {}, each
    yield False, "two places of its own", {"nodeName": "m", "allNodes": True}, each


def _claims() -> Iterator[DeviceCase]:
    for taken, name, devices in (
        (True, "an attribute of constraints", {"constraints": [{"matchAttribute": "a.org/b"}]}),
        (False, "constraints without a domain", {"constraints": [{"matchAttribute": "b"}]}),
        (True, "constraints of two slashes", {"constraints": [{"matchAttribute": "a.org/b/c"}]}),
        (False, "constraints with a space", {"constraints": [{"matchAttribute": "a b/c"}]}),
        (
            False,
            "a request named twice",
            {"constraints": [{"requests": ["gpu", "gpu"], "matchAttribute": "a.org/b"}]},
        ),
        (True, "32 configs", {"config": [_CONFIG] * 32}),
        (False, "33 configs", {"config": [_CONFIG] * 33}),
        (True, "a driver in capitals", {"config": [{"opaque": {**_CONFIG["opaque"], "driver": "GPU.org"}}]}),
    ):
        yield DeviceCase(f"claim: {name}", RESOURCE_CLAIMS, make_resource_claim("c", **devices), taken)
    for taken, name, toleration in (
        (True, "a toleration of all", {"operator": "Exists"}),
        (True, "a toleration of any key with one value", {"operator": "Equal", "value": "a"}),
        (True, "a toleration that says no operator", {"key": "a", "value": "b"}),
        (False, "a toleration of values with a value", {"key": "a", "operator": "Exists", "value": "b"}),
        (False, "an operator that there is not", {"key": "a", "operator": "In"}),
        (False, "a toleration of a key with a space", {"key": "a b", "operator": "Exists"}),
        (False, "a toleration of a value with a space", {"key": "a", "operator": "Equal", "value": "b c"}),
        (False, "a toleration of an effect that there is not", {"key": "a", "operator": "Exists", "effect": "Never"}),
    ):
        made = make_resource_claim("c", make_request(tolerations=[deepcopy(toleration)]))
        yield DeviceCase(f"claim: {name}", RESOURCE_CLAIMS, made, taken)


def _pool(**more: Any) -> Object:
    return {"name": "n", "generation": 1, "resourceSliceCount": 1, **more}


def _tainted(count: int) -> list[Object]:
    return [make_device(f"d{number}", taints=[{"key": "a", "effect": "NoSchedule"}]) for number in range(count)]
