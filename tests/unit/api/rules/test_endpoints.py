"""Endpoints, EndpointSlices, PodTemplates and ControllerRevisions: what is refused, and what may still change."""

from __future__ import annotations

import pytest

from echelon.api.scheme import CONTROLLER_REVISIONS, ENDPOINT_SLICES, ENDPOINTS, POD_TEMPLATES, Object, Resource

from .builders import edited, on_create, on_update, stored

METADATA = {"name": "x", "namespace": "ns", "uid": "u"}


def endpoints(*addresses: str, **subset: object) -> Object:
    found = {"addresses": [{"ip": address} for address in addresses], "ports": [{"port": 80}], **subset}
    return {"metadata": dict(METADATA), "subsets": [found]}


def endpoint_slice(*addresses: str, kind: str = "IPv4", **fields: object) -> Object:
    return {
        "metadata": dict(METADATA),
        "addressType": kind,
        "endpoints": [{"addresses": list(addresses)}],
        **fields,
    }


@pytest.mark.parametrize(
    ("resource", "obj", "sentence"),
    [
        (ENDPOINTS, endpoints(), "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"),
        (ENDPOINTS, endpoints("a.b"), 'subsets[0].addresses[0].ip: Invalid value: "a.b": must be a valid IP address'),
        (ENDPOINTS, endpoints("127.0.0.1"), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (ENDPOINTS, endpoints("0.0.0.0"), "may not be unspecified (0.0.0.0)"),
        (ENDPOINTS, endpoints("169.254.1.1"), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (ENDPOINTS, endpoints("224.0.0.1"), "may not be in the link-local multicast range"),
        (ENDPOINTS, endpoints("10.0.0.1", ports=[{"port": 0}]), "subsets[0].ports[0].port: Invalid value: 0: must be"),
        (
            ENDPOINTS,
            endpoints("10.0.0.1", ports=[{"port": 1}, {"port": 2, "name": "a"}]),
            "subsets[0].ports[0].name: Required value",
        ),
        (ENDPOINT_SLICES, endpoint_slice("10.0.0.1", kind=""), "addressType: Required value"),
        (ENDPOINT_SLICES, endpoint_slice("10.0.0.1", kind="DNS"), 'addressType: Unsupported value: "DNS"'),
        (ENDPOINT_SLICES, endpoint_slice(), "endpoints[0].addresses: Required value: must contain at least 1 address"),
        (
            ENDPOINT_SLICES,
            endpoint_slice("fd00::1"),
            'endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address',
        ),
        (ENDPOINT_SLICES, endpoint_slice("a", kind="FQDN"), "should be a domain with at least two segments"),
        (
            ENDPOINT_SLICES,
            endpoint_slice("10.0.0.1", ports=[{"name": "a"}, {"name": "a"}]),
            'ports[1].name: Duplicate value: "a"',
        ),
        (
            POD_TEMPLATES,
            {"metadata": dict(METADATA), "template": {"spec": {}}},
            "template.spec.containers: Required value",
        ),
        (CONTROLLER_REVISIONS, {"metadata": dict(METADATA)}, "data: Required value: data is mandatory"),
        (CONTROLLER_REVISIONS, {"metadata": dict(METADATA), "data": [1]}, "data must be a valid JSON object"),
        (
            CONTROLLER_REVISIONS,
            {"metadata": dict(METADATA), "data": {}, "revision": -1},
            "revision: Invalid value: -1: must be greater than or equal to 0",
        ),
    ],
)
def test_a_bad_object_is_refused(resource: Resource, obj: Object, sentence: str) -> None:
    problems = on_create(resource, stored(resource, obj))
    assert len(problems) == 1
    assert sentence in problems[0]


@pytest.mark.parametrize(
    ("resource", "obj"),
    [
        (ENDPOINTS, {"metadata": dict(METADATA)}),
        (ENDPOINTS, endpoints("10.0.0.1", "fd00::1")),
        (ENDPOINT_SLICES, endpoint_slice("10.0.0.1", ports=[{"port": 80}])),
        (ENDPOINT_SLICES, endpoint_slice("a.b.example.", kind="FQDN")),
    ],
)
def test_a_good_object_is_accepted(resource: Resource, obj: Object) -> None:
    assert on_create(resource, stored(resource, obj)) == []


def test_ports_have_a_protocol_and_in_slices_a_name() -> None:
    assert stored(ENDPOINTS, endpoints("10.0.0.1"))["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    made = stored(ENDPOINT_SLICES, endpoint_slice("10.0.0.1", ports=[{"port": 80}]))
    assert made["ports"] == [{"port": 80, "protocol": "TCP", "name": ""}]


@pytest.mark.parametrize(
    ("resource", "obj", "field", "value"),
    [
        (ENDPOINT_SLICES, endpoint_slice("10.0.0.1"), "addressType", "IPv6"),
        (CONTROLLER_REVISIONS, {"metadata": dict(METADATA), "data": {"a": 1}}, "data", {"a": 2}),
    ],
)
def test_some_fields_never_change(resource: Resource, obj: Object, field: str, value: object) -> None:
    old = stored(resource, obj)
    problems = on_update(resource, edited(old, field, value), old)
    assert [f"{field}: Invalid value" in one and "field is immutable" in one for one in problems] == [True]
