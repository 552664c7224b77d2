"""Ingress, IngressClass, NetworkPolicy and RuntimeClass: what a real server refuses."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import rules, scheme
from echelon.api.scheme import Object, Resource

BACKEND = {"service": {"name": "s", "port": {"number": 80}}}


def path(**changes: Any) -> Object:
    return {"path": "/", "pathType": "Prefix", "backend": BACKEND, **changes}


def ingress(*paths: Object, host: str = "example.org") -> Object:
    return {"rules": [{"host": host, "http": {"paths": list(paths)}}]}


def problems(resource: Resource, body: Object) -> list[str]:
    namespace = {"namespace": "default"} if resource.namespaced else {}
    obj: Object = {"metadata": {"name": "x", **namespace}, **body}
    rules.default(resource, obj, None)
    return [str(problem) for problem in rules.validate_create(resource, obj)]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"),
        (ingress(path(), host="10.0.0.1"), "must be a DNS name, not an IP address"),
        (ingress(), "spec.rules[0].http.paths: Required value"),
        (ingress(path(pathType=None)), "pathType: Required value: pathType must be specified"),
        (ingress(path(pathType="Other")), 'supported values: "Exact", "ImplementationSpecific", "Prefix"'),
        (ingress(path(path="x")), 'path: Invalid value: "x": must be an absolute path'),
        (ingress(path(path="/a//b")), "must not contain '//'"),
        (ingress(path(path="/a/..")), "cannot end with '/..'"),
        (ingress(path(backend={})), "resource or service backend is required"),
        (ingress(path(backend={"service": {"name": "s"}})), "port name or number is required"),
        (ingress(path(backend={**BACKEND, "resource": {}})), "cannot set both resource and service backends"),
    ],
)
def test_ingress_is_refused(spec: Object, told: str) -> None:
    found = problems(scheme.INGRESSES, {"spec": spec})
    assert len(found) == 1
    assert told in found[0]


def test_ingress_is_taken() -> None:
    spec = {**ingress(path(), path(path="", pathType="ImplementationSpecific"), host="*.example.org")}
    assert not problems(scheme.INGRESSES, {"spec": spec})


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"ports": [{"port": 0}]}, "must be between 1 and 65535, inclusive"),
        ({"ports": [{"port": 80, "endPort": 79}]}, "must be greater than or equal to `port`"),
        ({"ports": [{"port": "web", "endPort": 79}]}, "may not be specified when `port` is non-numeric"),
        ({"ports": [{"port": "80"}]}, "must contain at least one letter (a-z)"),
        ({"from": [{}]}, "must specify a peer"),
        ({"from": [{"podSelector": {}, "ipBlock": {"cidr": "::/0"}}]}, "may not specify both ipBlock and another peer"),
    ],
)
def test_network_policy_is_refused(rule: Object, told: str) -> None:
    found = problems(scheme.NETWORK_POLICIES, {"spec": {"podSelector": {}, "ingress": [rule]}})
    assert len(found) == 1
    assert told in found[0]


def test_policy_types_follow_the_rules() -> None:
    obj: Object = {"metadata": {}, "spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]}}
    rules.default(scheme.NETWORK_POLICIES, obj, None)
    assert obj["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert obj["spec"]["egress"][0]["ports"][0]["protocol"] == "TCP"


def test_parameters_of_a_class_have_a_scope() -> None:
    spec = {"controller": "example.org/c", "parameters": {"kind": "K", "name": "n", "scope": "Namespace"}}
    assert problems(scheme.INGRESS_CLASSES, {"spec": spec}) == [
        "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"
    ]


def test_handler_and_controller_are_immutable() -> None:
    def runtime(handler: str) -> Object:
        return {"metadata": {"name": "x"}, "handler": handler}

    found = rules.validate_update(scheme.RUNTIME_CLASSES, runtime("b"), runtime("a"))
    assert [str(problem) for problem in found] == ['handler: Invalid value: "b": field is immutable']
