"""What is scheduled: nodes, groups and pods of each scenario, the same objects for every contender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from echelon.api.objects.vocabulary import BLOCK, HOSTNAME, RACK
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    DEVICE_CLASSES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Object,
    Resource,
)

_GPU = "nvidia.com/gpu"
#: Nodes and pods without GPUs are those of upstream's own scheduling benchmarks.
_PLAIN_NODE = {"cpu": "4", "memory": "32Gi", "pods": "110"}
_GPU_NODE = {"cpu": "96", "memory": "1Ti", "pods": "110", _GPU: "8"}
_PLAIN_POD = {"cpu": "100m", "memory": "100Mi"}
_SMALL_GPU_POD = {"cpu": "8", "memory": "64Gi", _GPU: "1"}
_GPU_POD = {"cpu": "8", "memory": "64Gi", _GPU: "8"}
_RACK_SIZE = 16
_DRIVER, _DEVICES = "gpu.example.org", "gpu"
#: The scheduler that every pod names; each contender answers to it in its turn.
SCHEDULER = "default-scheduler"


@dataclass(frozen=True)
class Scenario:
    """Objects without a namespace, in the order in which they are created."""

    name: str
    title: str
    #: How much faster than kube-scheduler Echelon means to be.
    aim: float
    nodes: list[Object]
    groups: list[tuple[Resource, Object]]
    pods: list[Object]
    #: What is there from the beginning beside nodes; cluster-scoped.
    around: list[tuple[Resource, Object]] = field(default_factory=list)


def _node(index: int, capacity: dict[str, str], *, per_rack: int = 0, per_block: int = 0) -> Object:
    name = f"node-{index}"
    labels = {HOSTNAME: name}
    if per_block:
        labels[BLOCK] = f"block-{index // per_block}"
    if per_rack:
        labels[RACK] = f"rack-{index // per_rack}"
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(name: str, group: str, requests: dict[str, str]) -> Object:
    limits = {_GPU: requests[_GPU]} if _GPU in requests else {}
    container = {
        "name": "main",
        "image": "registry.example/pause:3.10",
        "resources": {"requests": requests, **({"limits": limits} if limits else {})},
    }
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {"name": name},
        "spec": {
            "schedulerName": SCHEDULER,
            "schedulingGroup": {"podGroupName": group},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


def _spec(policy: dict[str, int], key: str = "", parent: str = "", template: str = "") -> Object:
    spec: Object = {"schedulingPolicy": {"gang": policy}}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if template:
        spec["workloadRef"] = {"workloadName": "training", "templateName": template}
    return spec


def gang(name: str, size: int, key: str = "", parent: str = "") -> tuple[Resource, Object]:
    """A PodGroup that wants all its pods, in one domain of `key`."""
    resource = POD_GROUPS
    spec = _spec({"minCount": size}, key, parent, "racks" if parent else "")
    return resource, _named(resource, name, spec)


def composite(name: str, size: int, key: str) -> tuple[Resource, Object]:
    resource = COMPOSITE_POD_GROUPS
    return resource, _named(resource, name, _spec({"minGroupCount": size}, key, template="blocks"))


def _named(resource: Resource, name: str, spec: Object) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _members(group: str, size: int, requests: dict[str, str]) -> list[Object]:
    return [pod(f"{group}-{index}", group, requests) for index in range(size)]


def _gangs(
    name: str,
    title: str,
    aim: float,
    nodes: list[Object],
    count: int,
    size: int,
    requests: dict[str, str],
    key: str = "",
) -> Scenario:
    """Gangs of equal size, each in one domain of `key`."""
    names = [f"gang-{index}" for index in range(count)]
    groups = [gang(one, size, key) for one in names]
    return Scenario(name, title, aim, nodes, groups, [pod for one in names for pod in _members(one, size, requests)])


def small_gangs(scale: float) -> Scenario:
    count, size = _scaled(1000, scale), _scaled(5000, scale)
    nodes = [_node(index, _PLAIN_NODE) for index in range(size)]
    return _gangs("small", f"{count:,} gangs of 3 on {size:,} nodes", 3.0, nodes, count, 3, _PLAIN_POD)


def large_gangs(scale: float) -> Scenario:
    size, count = _scaled(500, scale), _scaled(1000, scale)
    nodes = [_node(index, _PLAIN_NODE) for index in range(count)]
    return _gangs("large", f"3 gangs of {size} on {count:,} nodes", 10.0, nodes, 3, size, _PLAIN_POD)


def rack_gangs(scale: float) -> Scenario:
    count, racks = _scaled(50, scale), _scaled(64, scale)
    nodes = [_node(index, _GPU_NODE, per_rack=_RACK_SIZE) for index in range(racks * _RACK_SIZE)]
    title = f"{count} rack-gangs of 16 × 8 GPUs on {racks} racks × 16"
    return _gangs("racks", title, 10.0, nodes, count, _RACK_SIZE, _GPU_POD, RACK)


def block_gangs(scale: float) -> Scenario:
    blocks, racks, wanted = _scaled(16, scale), 16, 12
    roots = [f"block-gang-{index}" for index in range(_scaled(12, scale))]
    leaves = [(root, f"{root}-{index}") for root in roots for index in range(wanted)]
    return Scenario(
        "blocks",
        f"{len(roots)} block-gangs × {wanted} rack-gangs × 16 pods on {blocks * racks * _RACK_SIZE:,} nodes",
        25.0,
        [
            _node(index, _GPU_NODE, per_rack=_RACK_SIZE, per_block=racks * _RACK_SIZE)
            for index in range(blocks * racks * _RACK_SIZE)
        ],
        [
            *(composite(root, wanted, BLOCK) for root in roots),
            *(gang(leaf, _RACK_SIZE, RACK, root) for root, leaf in leaves),
        ],
        [one for _, leaf in leaves for one in _members(leaf, _RACK_SIZE, _GPU_POD)],
    )


def claim_gangs(scale: float) -> Scenario:
    """Every pod has a ResourceClaim of its own; together they take all devices."""
    size, each, count = _scaled(64, scale), 8, 8
    nodes = [_node(index, _GPU_NODE) for index in range(size)]
    names = [f"gang-{index}" for index in range(count)]
    members = size * each // count
    pods = [one for name in names for one in _members(name, members, _PLAIN_POD)]
    claims = []
    for one in pods:
        name = one["metadata"]["name"]
        request = {"name": "gpu", "exactly": {"deviceClassName": _DEVICES, "allocationMode": "ExactCount", "count": 1}}
        claims.append((RESOURCE_CLAIMS, _named(RESOURCE_CLAIMS, name, {"devices": {"requests": [request]}})))
        one["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    selector = {"cel": {"expression": f'device.driver == "{_DRIVER}"'}}
    around: list[tuple[Resource, Object]] = [
        (DEVICE_CLASSES, _named(DEVICE_CLASSES, _DEVICES, {"selectors": [selector]})),
        *((RESOURCE_SLICES, _slice(node["metadata"]["name"], each)) for node in nodes),
    ]
    title = f"{count} gangs of {members} with a ResourceClaim each, {size} nodes × {each} devices"
    groups = [*claims, *(gang(name, members) for name in names)]
    return Scenario("claims", title, 3.0, nodes, groups, pods, around)


def _slice(node: str, count: int) -> Object:
    spec: Object = {
        "driver": _DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{index}", "attributes": {"model": {"string": "a"}}} for index in range(count)],
    }
    return _named(RESOURCE_SLICES, f"{node}-gpus", spec)


SCENARIOS: dict[str, Callable[[float], Scenario]] = {
    "small": small_gangs,
    "large": large_gangs,
    "racks": rack_gangs,
    "blocks": block_gangs,
    "claims": claim_gangs,
}


def full_cluster(scale: float) -> tuple[list[Object], list[Object]]:
    """Nodes, and pods that fill every one of them from the day they are created."""
    nodes = [
        _node(index, _GPU_NODE, per_rack=_RACK_SIZE, per_block=_RACK_SIZE * _RACK_SIZE)
        for index in range(_scaled(5000, scale))
    ]
    pods = []
    for index, node in enumerate(nodes):
        one = pod(f"filler-{index}", "", _GPU_POD)
        del one["spec"]["schedulingGroup"]
        one["spec"]["nodeName"] = node["metadata"]["name"]
        pods.append(one)
    return nodes, pods


def busy_cluster(scale: float) -> tuple[list[Object], list[Object]]:
    """Nodes, and five pods on each that take a GPU."""
    nodes = [
        _node(index, _GPU_NODE, per_rack=_RACK_SIZE, per_block=_RACK_SIZE * _RACK_SIZE)
        for index in range(_scaled(10_000, scale))
    ]
    pods = []
    for index, node in enumerate(nodes):
        for number in range(5):
            one = pod(f"busy-{index}-{number}", "", _SMALL_GPU_POD)
            del one["spec"]["schedulingGroup"]
            one["spec"]["nodeName"] = node["metadata"]["name"]
            pods.append(one)
    return nodes, pods


def waiting_gangs(count: int, size: int) -> Scenario:
    """Gangs whose pods ask for more GPUs than any node has."""
    names = [f"waiting-{number}" for number in range(count)]
    asked = {**_SMALL_GPU_POD, _GPU: "64"}
    pods = [one for name in names for one in _members(name, size, asked)]
    return Scenario("waiting", "gangs that do not fit", 0.0, [], [gang(name, size) for name in names], pods)


def gang_of(name: str, size: int, key: str) -> Scenario:
    """One gang of pods with a GPU, in one domain of `key`."""
    return Scenario(name, name, 0.0, [], [gang(name, size, key)], _members(name, size, _SMALL_GPU_POD))


@dataclass(frozen=True)
class Tree:
    """One submission; its root comes first."""

    title: str
    groups: list[tuple[Resource, Object]]
    pods: list[Object]


def trees_that_do_not_fit() -> list[Tree]:
    """Of every kind one, none of which has room on a full cluster."""
    racks = [f"stuck-block-{index}" for index in range(12)]
    return [
        Tree("gang of 16", [gang("stuck-gang", 16)], _members("stuck-gang", 16, _GPU_POD)),
        Tree("rack-gang of 16", [gang("stuck-rack", 16, RACK)], _members("stuck-rack", 16, _GPU_POD)),
        Tree("gang of 500", [gang("stuck-large", 500)], _members("stuck-large", 500, _GPU_POD)),
        Tree(
            "block-gang of 12 × 16",
            [composite("stuck-block", 12, BLOCK), *(gang(name, 16, RACK, "stuck-block") for name in racks)],
            [one for name in racks for one in _members(name, 16, _GPU_POD)],
        ),
    ]


def _scaled(count: int, scale: float) -> int:
    return max(1, round(count * scale))
