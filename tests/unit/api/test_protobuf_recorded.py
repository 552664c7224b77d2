"""Protobuf against recordings: objects of a real 1.37 server there and back, and bodies that kubectl 1.37 sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from echelon.api import scheme
from echelon.api.protobuf.from_protobuf import decode
from echelon.api.protobuf.to_protobuf import encode
from echelon.api.schema import kind_schema

DATA = Path(__file__).parent / "data"
RECORDED: list[dict[str, Any]] = json.loads((DATA / "recorded_objects.json").read_text())
BODIES: dict[str, str] = json.loads((DATA / "kubectl_bodies.json").read_text())


@pytest.mark.parametrize("obj", RECORDED, ids=lambda obj: f"{obj['kind']} {obj['metadata']['name']}")
def test_objects_of_a_real_server_survive_the_way_through_protobuf(obj: dict[str, Any]) -> None:
    """As the server stores them: some zeros that Go writes in JSON come back as defaults."""
    assert stored(decode(encode(obj))) == stored(obj)


def stored(obj: dict[str, Any]) -> dict[str, Any]:
    resource = scheme.by_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None
    tree = kind_schema.decode(resource, obj).obj
    kind_schema.apply_defaults(resource, tree)
    return tree


JOB_SPEC = {
    "metadata": {},
    "spec": {
        "containers": [{"name": "j", "image": "busybox", "command": ["date"], "resources": {}}],
        "restartPolicy": "Never",
    },
}
SENT: dict[str, dict[str, Any]] = {
    "create namespace n": {
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "spec": {}, "status": {},
    },
    "create configmap c --from-literal=a=1": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"},
    },
    "create secret generic s --from-literal=a=1": {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "MQ=="},
    },
    "create job j --image=busybox -- date": {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"template": JOB_SPEC}, "status": {},
    },
    "create poddisruptionbudget p --selector=a=b --min-available=50%": {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}, "status": {},
    },
    "create role r --verb=get,list --resource=pods": {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
        "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}],
    },
    "create priorityclass pc --value=1000": {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "pc"}, "value": 1000,
        "preemptionPolicy": "PreemptLowerPriority",
    },
    "auth can-i get pods": {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {}, "status": {},
        "spec": {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}},
    },
    "auth whoami": {
        "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {},
        "status": {"userInfo": {}},
    },
}  # fmt: skip


@pytest.mark.conformance("API-101")
@pytest.mark.parametrize("command", BODIES)
def test_bodies_of_kubectl_are_read_without_spurious_zeros(command: str) -> None:
    assert decode(bytes.fromhex(BODIES[command])) == SENT[command]
