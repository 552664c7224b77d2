"""Namespace, Node, Service, ConfigMap, Secret, Event, Lease, PodDisruptionBudget."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import rules
from echelon.api.scheme import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    SECRETS,
    SERVICES,
    Object,
    Resource,
)

from .builders import edited, named, on_create, on_update, stored


def unspaced(**body: Any) -> Object:
    return {"metadata": {"name": "x"}, **body}


def test_a_namespace_starts_active_with_its_finalizer_and_label() -> None:
    obj = stored(NAMESPACES, unspaced())
    rules.prepare_create(NAMESPACES, obj, 0.0)
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert obj["spec"] == {"finalizers": ["kubernetes"]}
    assert obj["status"] == {"phase": "Active"}
    assert on_create(NAMESPACES, obj) == []
    renamed = edited(obj, "metadata.labels", {"kubernetes.io/metadata.name": "y"})
    assert on_update(NAMESPACES, renamed, obj) == [
        'metadata.labels[kubernetes.io/metadata.name]: Invalid value: "y": must be x'
    ]


def test_the_finalizers_of_a_namespace_are_not_cleared_by_an_update() -> None:
    old = unspaced(spec={"finalizers": ["kubernetes"]}, status={"phase": "Active"})
    new = unspaced(spec={"finalizers": []})
    rules.prepare_update(NAMESPACES, new, old)
    assert new["spec"] == {"finalizers": ["kubernetes"]}


@pytest.mark.conformance("API-17")
def test_a_node_registers_with_its_status() -> None:
    obj = stored(NODES, unspaced(status={"capacity": {"cpu": "8"}}))
    rules.prepare_create(NODES, obj, 0.0)
    assert obj["status"]["capacity"] == obj["status"]["allocatable"] == {"cpu": "8"}


def test_the_status_endpoint_of_a_node_keeps_its_taints() -> None:
    old = unspaced(spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}, status={})
    new = unspaced(spec={}, status={"phase": "x"})
    new["metadata"]["labels"] = {"a": "b"}
    rules.prepare_update(NODES, new, old, "status")
    assert new["spec"] == old["spec"]
    assert new["metadata"]["labels"] == {"a": "b"}


TAINT = {"key": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("resource", "obj", "sentence"),
    [
        (NODES, unspaced(spec={"taints": [TAINT, TAINT]}), "taints must be unique by key and effect pair"),
        (NODES, unspaced(spec={"taints": [{"key": "a"}]}), "spec.taints[0].effect: Required value"),
        (NODES, unspaced(status={"capacity": {"cpu": "-1"}}), "must be greater than or equal to 0"),
        (SERVICES, named(spec={"type": "ClusterIP"}), "spec.ports: Required value"),
        (SERVICES, named(spec={"type": "Magic", "clusterIP": "None"}), 'Unsupported value: "Magic"'),
        (SERVICES, named(spec={"ports": [{"port": 0}]}), "spec.ports[0].port: Invalid value: 0"),
        (SERVICES, named(spec={"ports": [{"port": 1, "name": "a"}, {"port": 2}]}), "spec.ports[1].name: Required"),
        (CONFIG_MAPS, named(data={"a/b": ""}), "a valid config key must consist of"),
        (CONFIG_MAPS, named(data={"a": "x" * (1024 * 1024 + 1)}), "Too long: may not be more than 1048576 bytes"),
        (CONFIG_MAPS, named(data={"a": ""}, binaryData={"a": ""}), "duplicate of key present in binaryData"),
        (SECRETS, named(type="kubernetes.io/tls", data={"tls.crt": ""}), "data[tls.key]: Required value"),
        (EVENTS, named(involvedObject={"namespace": "other"}), "does not match event.namespace"),
        (LEASES, named(spec={"leaseDurationSeconds": 0}), "must be greater than 0"),
        (POD_DISRUPTION_BUDGETS, named(spec={"minAvailable": 1, "maxUnavailable": 1}), "cannot be both set"),
        (POD_DISRUPTION_BUDGETS, named(spec={"minAvailable": -1}), "must be greater than or equal to 0"),
        (POD_DISRUPTION_BUDGETS, named(spec={"minAvailable": "half"}), "a valid percent string"),
        (POD_DISRUPTION_BUDGETS, named(spec={"minAvailable": "101%"}), "must not be greater than 100%"),
    ],
)
def test_bad_objects_are_refused(resource: Resource, obj: Object, sentence: str) -> None:
    problems = on_create(resource, obj)
    assert len(problems) == 1
    assert sentence in problems[0]


@pytest.mark.parametrize(
    ("resource", "obj"),
    [
        (NODES, unspaced(spec={"taints": [TAINT]}, status={"capacity": {"nvidia.com/gpu": "8"}})),
        (SERVICES, named(spec={"clusterIP": "None", "selector": {"a": "b"}})),
        (CONFIG_MAPS, named(data={"a.b_c-D": "x"})),
        (SECRETS, named(type="Opaque", data={"a": "eA=="})),
        (EVENTS, named(involvedObject={"namespace": "ns"})),
        (LEASES, named(spec={"leaseDurationSeconds": 15})),
        (POD_DISRUPTION_BUDGETS, named(spec={"maxUnavailable": "50%", "selector": {"matchLabels": {"a": "b"}}})),
    ],
)
def test_good_objects_are_accepted(resource: Resource, obj: Object) -> None:
    assert on_create(resource, obj) == []


def test_an_immutable_config_map_stays() -> None:
    old = named(data={"a": "1"}, immutable=True)
    assert on_update(CONFIG_MAPS, edited(old, "data", {"a": "2"}), old) == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]
    assert len(on_update(CONFIG_MAPS, edited(old, "immutable", False), old)) == 1


def test_a_service_keeps_its_address() -> None:
    old = stored(SERVICES, named(spec={"clusterIP": "None"}))
    assert old["spec"]["clusterIPs"] == ["None"]
    moved = edited(old, "spec.clusterIP", "10.0.0.1")
    assert "field is immutable" in str(on_update(SERVICES, edited(moved, "spec.ports", [{"port": 1}]), old))


def test_the_type_of_a_secret_stays() -> None:
    old = named(type="Opaque")
    assert on_update(SECRETS, edited(old, "type", "other"), old) == ['type: Invalid value: "other": field is immutable']
