"""Objects of Kueue, and the words by which Jobs and pods join its queues."""

from __future__ import annotations

from typing import Any

from echelon.api.scheme import Object, Resource

GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"
QUEUE = f"{GROUP}/queue-name"
PRIORITY = f"{GROUP}/priority-class"
ADMISSION_GATE = f"{GROUP}/admission"
TOPOLOGY_GATE = f"{GROUP}/topology"
POD_GROUP_NAME = f"{GROUP}/pod-group-name"
POD_GROUP_COUNT = f"{GROUP}/pod-group-total-count"


def _kind(plural: str, kind: str, *, namespaced: bool) -> Resource:
    return Resource(GROUP, VERSION, plural, kind, namespaced=namespaced, builtin=False)


CLUSTER_QUEUES = _kind("clusterqueues", "ClusterQueue", namespaced=False)
FLAVORS = _kind("resourceflavors", "ResourceFlavor", namespaced=False)
LOCAL_QUEUES = _kind("localqueues", "LocalQueue", namespaced=True)
PRIORITIES = _kind("workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False)
TOPOLOGIES = _kind("topologies", "Topology", namespaced=False)
WORKLOADS = _kind("workloads", "Workload", namespaced=True)


def flavor(name: str, labels: dict[str, str], **spec: Any) -> Object:
    """Nodes with these labels, which pods are made to select."""
    return {"metadata": {"name": name}, "spec": {"nodeLabels": labels, **spec}}


def cluster_queue(name: str, cpus: int, **spec: Any) -> Object:
    """So many CPUs of the flavor of its name, for every namespace."""
    quota = [{"name": "cpu", "nominalQuota": str(cpus)}]
    resources = [{"coveredResources": ["cpu"], "flavors": [{"name": name, "resources": quota}]}]
    return {"metadata": {"name": name}, "spec": {"namespaceSelector": {}, "resourceGroups": resources, **spec}}


def local_queue(name: str, queue: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"clusterQueue": queue}}


def topology(name: str, *labels: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": label} for label in labels]}}


def priority_class(name: str, value: int) -> Object:
    return {"metadata": {"name": name}, "value": value, "description": "in a test"}
