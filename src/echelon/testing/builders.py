"""Builders of API objects for tests; everything that is not given has a simple default.

make_node("n1", cpu=4, rack="r1")
make_pod_group("workers", gang=4, key=RACK, parent="root")
make_pod("p0", cpu=1, group="workers", priority=100)
bare_pod("p0", seconds=30)
"""

from __future__ import annotations

from typing import Any, Literal

from ..api.objects import vocabulary as words
from ..api.scheme import COMPOSITE_POD_GROUPS, NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS, WORKLOADS, Object

GPU = "nvidia.com/gpu"
Mode = Literal["single", "all"]


def make_node(
    name: str,
    *,
    cpu: int | str = 4,
    memory: str = "64Gi",
    gpu: int = 0,
    pods: int = 110,
    zone: str = "",
    block: str = "",
    rack: str = "",
    labels: dict[str, str] | None = None,
    taints: list[Object] | None = None,
    unschedulable: bool = False,
) -> Object:
    """A ready node; its hostname label is its name."""
    levels = {words.ZONE: zone, words.BLOCK: block, words.RACK: rack}
    named = {key: value for key, value in levels.items() if value}
    amounts = {"cpu": str(cpu), "memory": memory, "pods": str(pods)} | ({GPU: str(gpu)} if gpu else {})
    spec: Object = {"taints": taints} if taints else {}
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": {words.HOSTNAME: name, **named, **(labels or {})}},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def make_pod(
    name: str,
    *,
    cpu: int | str = 1,
    gpu: int = 0,
    memory: str = "",
    group: str = "",
    node: str = "",
    priority: int | None = None,
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: Object | None = None,
    gates: tuple[str, ...] = (),
    grace: int | None = 0,
    **spec: Any,
) -> Object:
    """A pod with one container; further keywords are added to its spec."""
    devices = {GPU: str(gpu)} if gpu else {}
    requests = {"cpu": str(cpu)} | devices | ({"memory": memory} if memory else {})
    resources: Object = {"requests": requests, "limits": devices} if devices else {"requests": requests}
    body: Object = {
        "containers": [{"name": "main", "image": "busybox", "resources": resources}],
        "schedulerName": "default-scheduler",
        **spec,
    }
    optional: Object = {
        "schedulingGroup": {"podGroupName": group} if group else None,
        "nodeName": node or None,
        "priority": priority,
        "schedulingGates": [{"name": gate} for gate in gates] or None,
        "terminationGracePeriodSeconds": grace,
    }
    body |= {key: value for key, value in optional.items() if value is not None}
    metadata: Object = {"name": name, "namespace": namespace, "labels": labels or {}, "annotations": annotations or {}}
    if owner:
        metadata["ownerReferences"] = [{"controller": True, "blockOwnerDeletion": True, **owner}]
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": metadata, "spec": body}


def bare_pod(
    name: str = "p",
    *,
    seconds: float | None = None,
    group: str = "",
    node: str = "",
    namespace: str = "",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """The least that a server takes for a pod; with `seconds`, one that sleeps this long and then has succeeded."""
    container: Object = {"name": "c", "image": "i"}
    body: Object = {"containers": [container]}
    if seconds is not None:
        container["command"] = ["sleep", str(seconds)]
        body["restartPolicy"] = "Never"
    if group:
        body["schedulingGroup"] = {"podGroupName": group}
    if node:
        body["nodeName"] = node
    given = {"name": name, "namespace": namespace, "labels": labels}
    metadata = {field: value for field, value in given.items() if value}
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": metadata, "spec": {**body, **spec}}


def make_pod_group(
    name: str,
    *,
    gang: int | None = None,
    key: str = "",
    parent: str = "",
    workload: str = "",
    template: str = "",
    mode: Mode = "single",
    priority: int | None = None,
    never: bool = False,
    exclusive: str = "",
    preferred: tuple[str, ...] = (),
    namespace: str = "default",
    owner: Object | None = None,
) -> Object:
    """A PodGroup with the gang policy if `gang` is given, else basic."""
    policy: Object = {"basic": {}} if gang is None else {"gang": {"minCount": gang}}
    group = _group(POD_GROUPS, name, policy, key, parent, workload, template, mode, priority, never, namespace)
    annotations = {words.EXCLUSIVE_TOPOLOGY: exclusive, words.PREFERRED_TOPOLOGY: ",".join(preferred)}
    group["metadata"]["annotations"] = {key: value for key, value in annotations.items() if value}
    if owner:
        group["metadata"]["ownerReferences"] = [{"controller": True, "blockOwnerDeletion": True, **owner}]
    return group


def make_composite(
    name: str,
    *,
    gang: int | None = None,
    key: str = "",
    parent: str = "",
    workload: str = "w",
    template: str = "",
    mode: Mode = "single",
    priority: int | None = None,
    never: bool = False,
    namespace: str = "default",
) -> Object:
    """A CompositePodGroup with the gang policy if `gang` is given, else basic."""
    policy: Object = {"basic": {}} if gang is None else {"gang": {"minGroupCount": gang}}
    return _group(COMPOSITE_POD_GROUPS, name, policy, key, parent, workload, template, mode, priority, never, namespace)


def _group(
    resource: Any,
    name: str,
    policy: Object,
    key: str,
    parent: str,
    workload: str,
    template: str,
    mode: Mode,
    priority: int | None,
    never: bool,
    namespace: str,
) -> Object:
    spec: Object = {"schedulingPolicy": policy, "disruptionMode": {mode: {}}}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    if parent:
        spec["parentCompositePodGroupName"] = parent
        workload = workload or "w"
    if workload:
        spec["workloadRef"] = {"workloadName": workload, "templateName": template or name}
    if priority is not None:
        spec["priority"] = priority
    spec["preemptionPolicy"] = "Never" if never else "PreemptLowerPriority"
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def make_workload(name: str, *templates: Object, namespace: str = "default") -> Object:
    """A Workload over `group_template` or `composite_template` records."""
    composite = any("podGroupTemplates" in t or "compositePodGroupTemplates" in t for t in templates)
    field = "compositePodGroupTemplates" if composite else "podGroupTemplates"
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {field: list(templates)},
    }


def group_template(name: str, *, gang: int | None = None) -> Object:
    return {"name": name, "schedulingPolicy": {"basic": {}} if gang is None else {"gang": {"minCount": gang}}}


def composite_template(name: str, *children: Object, gang: int | None = None) -> Object:
    """A composite template; children that have children themselves are composites."""
    policy: Object = {"basic": {}} if gang is None else {"gang": {"minGroupCount": gang}}
    inner = [c for c in children if "podGroupTemplates" in c or "compositePodGroupTemplates" in c]
    leaves = [c for c in children if c not in inner]
    template: Object = {"name": name, "schedulingPolicy": policy}
    if leaves:
        template["podGroupTemplates"] = leaves
    if inner:
        template["compositePodGroupTemplates"] = inner
    return template


def make_budget(name: str, labels: dict[str, str], *, min_available: int | str, namespace: str = "default") -> Object:
    """A PodDisruptionBudget over pods with these labels."""
    return {
        "apiVersion": POD_DISRUPTION_BUDGETS.api_version,
        "kind": POD_DISRUPTION_BUDGETS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "minAvailable": min_available},
    }
