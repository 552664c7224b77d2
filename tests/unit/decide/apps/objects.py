"""Objects for tests of decisions about replicated kinds, as the API would store them."""

from __future__ import annotations

from typing import Any

from echelon.api.scheme import Object
from echelon.base.instants import to_time

NOW = 1_000_000.0
TEMPLATE: Object = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def replicated(kind: str = "ReplicaSet", name: str = "web", metadata: Object | None = None, **spec: Any) -> Object:
    selector = {"app": "a"} if kind == "ReplicationController" else {"matchLabels": {"app": "a"}}
    return {
        "apiVersion": "v1" if kind == "ReplicationController" else "apps/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": to_time(NOW - 1000),
            "labels": {"app": "a"},
            **(metadata or {}),
        },
        "spec": {"replicas": 3, "selector": selector, "template": TEMPLATE, **spec},
        "status": {"replicas": 0},
    }


def reference(owner: Object) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod(
    name: str,
    owner: Object | None = None,
    *,
    node: str = "n0",
    phase: str = "Running",
    ready_for: float | None = 100,
    age: float = 200,
    restarts: int = 0,
    labels: Object | None = None,
    annotations: Object | None = None,
    deleting: bool = False,
) -> Object:
    conditions = []
    if ready_for is not None:
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": to_time(NOW - ready_for)}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": to_time(NOW - age),
            "labels": {"app": "a"} if labels is None else labels,
            **({"annotations": annotations} if annotations else {}),
            **({"ownerReferences": [reference(owner)]} if owner else {}),
            **({"deletionTimestamp": to_time(NOW)} if deleting else {}),
        },
        "spec": {"containers": [{"name": "c"}], **({"nodeName": node} if node else {})},
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{"name": "c", "restartCount": restarts}],
        },
    }


def node(name: str, *taints: Object, labels: Object | None = None) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"taints": list(taints)} if taints else {},
    }


def template(image: str) -> Object:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def replica_set(
    owner: Object,
    name: str,
    replicas: int,
    *,
    image: str = "old",
    age: float = 500,
    there: int | None = None,
    ready: int | None = None,
    available: int | None = None,
    annotations: Object | None = None,
    status: Object | None = None,
    **spec: Any,
) -> Object:
    """A ReplicaSet of a Deployment; all of its pods are there and available unless it is told otherwise."""
    there = replicas if there is None else there
    available = there if available is None else available
    obj = replicated("ReplicaSet", name, replicas=replicas, template=template(image), **spec)
    obj["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = name
    obj["metadata"] |= {
        "creationTimestamp": to_time(NOW - age),
        "resourceVersion": "7",
        "ownerReferences": [reference(owner)],
        "annotations": annotations or {},
    }
    obj["status"] = {
        "replicas": there,
        "readyReplicas": available if ready is None else ready,
        "availableReplicas": available,
        "observedGeneration": 1,
        **(status or {}),
    }
    return obj


def revision(owner: Object, image: str, number: int, *, age: float = 500, controlled: bool = True) -> Object:
    """The stored template of a StatefulSet or DaemonSet; it is called after the image."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"web-{image}",
            "namespace": "default",
            "uid": f"uid-web-{image}",
            "creationTimestamp": to_time(NOW - age),
            "labels": {"app": "a", "controller-revision-hash": image},
            **({"ownerReferences": [reference(owner)]} if controlled else {}),
        },
        "data": {"spec": {"template": {**template(image), "$patch": "replace"}}},
        "revision": number,
    }
