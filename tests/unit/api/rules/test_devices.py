"""DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate and ResourceSlice: what a real server refuses."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from echelon.api import rules, scheme
from echelon.api.scheme import Object, Resource
from echelon.testing.device_builders import make_device, make_slice

from .device_cases import DeviceCase, device_cases


def problems(resource: Resource, body: Object) -> list[str]:
    namespace = {"namespace": "default"} if resource.namespaced else {}
    obj: Object = {"metadata": {"name": "x", **namespace}, **body}
    rules.default(resource, obj, None)
    return [str(problem) for problem in rules.validate_create(resource, obj)]


def claim(*requests: Object, **devices: Any) -> Object:
    return {"spec": {"devices": {"requests": list(requests), **devices}}}


def request(name: str = "gpu", **exactly: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


def test_one_device_is_asked_for_unless_the_request_says_how_many() -> None:
    obj: Object = {"metadata": {"name": "x", "namespace": "default"}, **claim(request(), request("all"))}
    obj["spec"]["devices"]["requests"][1]["exactly"]["allocationMode"] = "All"
    rules.default(scheme.RESOURCE_CLAIMS, obj, None)
    one, every = (entry["exactly"] for entry in obj["spec"]["devices"]["requests"])
    assert one["count"] == 1
    assert "count" not in every


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (claim({"name": "gpu"}), "exactly one of `exactly` or `firstAvailable` is required"),
        (claim(request(deviceClassName="")), "requests[0].exactly.deviceClassName: Required value"),
        (claim(request(), request()), "requests[1]"),
        (claim(request(count=-1)), "count: Invalid value: -1: must be greater than zero"),
        (claim(request(allocationMode="All", count=2)), "must not be specified when allocationMode is 'All'"),
        (claim(request(selectors=[{"cel": {"expression": "device."}}])), "selectors[0].cel.expression: Invalid value"),
        (claim(request(selectors=[{"cel": {"expression": "1 + 1"}}])), "must evaluate to bool"),
        (
            claim(request(), constraints=[{"requests": ["x"], "matchAttribute": "a.org/b"}]),
            "constraints[0].requests[0]",
        ),
        (claim(request(), constraints=[{"matchAttribute": "b"}]), "must include a domain"),
    ],
)
def test_a_claim_is_refused(body: Object, told: str) -> None:
    found = problems(scheme.RESOURCE_CLAIMS, body)
    assert any(told in one for one in found), found


def test_a_claim_is_taken() -> None:
    selector = {"cel": {"expression": 'device.attributes["d.org"].memory > 10 && device.driver == "d.org"'}}
    body = claim(request(selectors=[selector]), request("net"), constraints=[{"matchAttribute": "d.org/numa"}])
    assert not problems(scheme.RESOURCE_CLAIMS, body)
    assert not problems(scheme.RESOURCE_CLAIM_TEMPLATES, {"spec": body})


def status_problems(now: Object, was: Object) -> list[str]:
    base: Object = {"metadata": {"name": "x", "namespace": "default", "uid": "u"}, **claim(request())}
    found = rules.validate_update(scheme.RESOURCE_CLAIMS, {**base, "status": now}, {**base, "status": was}, "status")
    return [str(problem) for problem in found]


def allocation(device: str) -> Object:
    return {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "n", "device": device}]}}


def test_an_allocation_is_written_once_and_taken_away_as_a_whole() -> None:
    user = {"resource": "pods", "name": "p", "uid": "1"}
    held = {"allocation": allocation("g0"), "reservedFor": [user]}
    assert not status_problems(held, {})
    assert not status_problems({}, held)
    assert "status.allocation" in status_problems({**held, "allocation": allocation("g1")}, held)[0]
    many = [allocation(f"g{number}")["devices"]["results"][0] for number in range(33)]
    assert not status_problems({"allocation": {"devices": {"results": many[:32]}}}, {})
    assert status_problems({"allocation": {"devices": {"results": many}}}, {}) == [
        "status.allocation.devices.results: Too many: 33: must have at most 32 items"
    ]
    assert "may not be specified when `allocated` is not set" in status_problems({"reservedFor": [user]}, {})[0]
    assert (
        "must be the name of a request"
        in status_problems(
            {"allocation": {"devices": {"results": [{"request": "x", "driver": "d", "pool": "n", "device": "g"}]}}}, {}
        )[0]
    )


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"nodeName": ""}, "exactly one of `nodeName`"),
        ({"allNodes": True}, "exactly one of `nodeName`"),
        ({"devices": [{"name": "a"}, {"name": "a"}]}, "spec.devices[1]"),
        ({"devices": [{"name": "a", "attributes": {"x": {}}}]}, "exactly one value must be specified"),
        ({"devices": [{"name": "a", "taints": [{"key": "k", "effect": "Never"}]}]}, "taints[0].effect"),
        ({"pool": {"name": "n", "resourceSliceCount": 0}}, "resourceSliceCount"),
    ],
)
def test_a_slice_is_refused(spec: Object, told: str) -> None:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    found = problems(scheme.RESOURCE_SLICES, {"spec": {"driver": "d.org", "nodeName": "n", "pool": pool, **spec}})
    assert any(told in one for one in found), found


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"taint": {"key": "k"}}, "spec.taint.effect: Required value"),
        ({"taint": {"key": "k", "effect": "Never"}}, "spec.taint.effect: Unsupported value"),
        ({"taint": {"effect": "NoSchedule"}}, "spec.taint.key: Required value"),
        ({"taint": {"key": "k", "value": "a b", "effect": "NoSchedule"}}, "spec.taint.value"),
        ({"taint": {"key": "k", "effect": "None"}, "deviceSelector": {"driver": "A b"}}, "deviceSelector.driver"),
        ({"taint": {"key": "k", "effect": "None"}, "deviceSelector": {"pool": "a//b"}}, "deviceSelector.pool"),
        ({"taint": {"key": "k", "effect": "None"}, "deviceSelector": {"device": "a.b"}}, "deviceSelector.device"),
    ],
)
def test_a_taint_rule_is_refused(spec: Object, told: str) -> None:
    found = problems(scheme.DEVICE_TAINT_RULES, {"spec": spec})
    assert any(told in one for one in found), found


def test_a_taint_rule_says_since_when_it_has_its_effect() -> None:
    rule: Object = {"metadata": {"name": "x"}, "spec": {"taint": {"key": "k", "effect": "None"}}}
    assert not rules.validate_create(scheme.DEVICE_TAINT_RULES, rule)
    rules.prepare_create(scheme.DEVICE_TAINT_RULES, rule, 0)
    assert rule["spec"]["taint"]["timeAdded"] == "1970-01-01T00:00:00Z"
    same, other = deepcopy(rule), deepcopy(rule)
    other["spec"]["taint"]["effect"] = "NoSchedule"
    for one in (same, other):
        rules.prepare_update(scheme.DEVICE_TAINT_RULES, one, rule, now=60)
    assert same["spec"]["taint"]["timeAdded"] == "1970-01-01T00:00:00Z"
    assert other["spec"]["taint"]["timeAdded"] == "1970-01-01T00:01:00Z"


@pytest.mark.parametrize("case", list(device_cases()), ids=lambda case: case.name)
def test_devices_and_claims_are_taken_and_refused_as_by_a_real_server(case: DeviceCase) -> None:
    """tests/cluster/test_device_rules.py asks one."""
    assert (problems(case.resource, case.obj) == []) is case.taken


def test_lists_of_values_have_at_least_one_and_no_more_than_64_such_devices_are_in_a_slice() -> None:
    def told(count: int, values: list[int]) -> list[str]:
        devices = [make_device(f"d{number}") for number in range(count)]
        devices[0]["attributes"]["a"] = {"ints": values}
        return problems(scheme.RESOURCE_SLICES, make_slice("n", devices=devices))

    assert told(64, [1, 2]) == []
    assert "must not be empty if specified" in told(64, [])[0]
    assert told(65, [1]) == ["spec.devices: Too many: 65: must have at most 64 items"]
