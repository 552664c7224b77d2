"""What a node writes about itself: its Node object, the conditions in it, and its lease; all pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal
from zlib import crc32

from ..api.objects import meta
from ..api.objects.vocabulary import ARCH, NODE_FAILURE, NODE_LEASES, OS, SIMULATED
from ..api.scheme import LEASES, NODES, SERVED_VERSION, Object
from ..base.instants import to_micro_time, to_time

Failure = Literal["", "lost", "not-ready"]

#: Condition → the status of a node that is well, with reason and message.
_WELL = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "simulated node is ready"),
}
_NOT_READY = ("False", "KubeletNotReady", f"the annotation {NODE_FAILURE} says so")
#: 172.16.0.0/12, where it begins and the number of its addresses.
_NETWORK, _ADDRESSES = 172 << 24 | 16 << 16, 1 << 20


class BadFailure(ValueError):
    """The annotation has an unknown value."""


def failure_of(node: Object) -> Failure:
    """How the node fails now; "" if it does not."""
    match meta.annotations(node).get(NODE_FAILURE, ""):
        case "":
            return ""
        case "lost":
            return "lost"
        case "not-ready":
            return "not-ready"
        case other:
            raise BadFailure(f"metadata.annotations[{NODE_FAILURE}]: {other!r} must be lost or not-ready")


def registered(node: Object, address: str, now: float) -> Object:
    """The Node that a kubelet would register: labels, addresses, conditions and what runs on the machine."""
    labels = {OS: "linux", ARCH: "amd64", **meta.labels(node)}
    name = meta.name(node)
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
    status = {
        **node["status"],
        "conditions": conditions(node, "", now),
        "addresses": addresses,
        "nodeInfo": _node_info(name, labels),
    }
    return {**node, "metadata": {**node["metadata"], "labels": labels}, "status": status}


def conditions(node: Object, failure: Failure, now: float) -> list[Object]:
    """The conditions that must be written because they are missing or have another status."""
    wanted = _WELL | ({"Ready": _NOT_READY} if failure == "not-ready" else {})
    stamp = to_time(now)
    return [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": stamp,
        }
        for type_, (status, reason, message) in wanted.items()
        if not meta.condition_is(node, type_, status)
    ]


def internal_address(node: Object) -> str:
    for one in (node.get("status") or {}).get("addresses") or ():
        if one.get("type") == "InternalIP":
            return str(one.get("address", ""))
    return ""


def free_address(name: str, used: Collection[str]) -> str:
    """An address in 172.16.0.0/12 computed from the name; the next free one if another node has it."""
    first = crc32(name.encode())
    for step in range(_ADDRESSES):
        number = _NETWORK + (first + step) % _ADDRESSES
        address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
        if number & 255 not in (0, 255) and address not in used:
            return address
    return ""


def lease(node: Object, now: float, seconds: int, *, simulated: bool = True) -> Object:
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {
            "name": meta.name(node),
            "namespace": NODE_LEASES,
            **({"labels": {SIMULATED: "true"}} if simulated else {}),
            "ownerReferences": [meta.owner_reference(node, NODES, controller=False)],
        },
        "spec": {
            "holderIdentity": meta.name(node),
            "leaseDurationSeconds": seconds,
            "renewTime": to_micro_time(now),
        },
    }


def _node_info(name: str, labels: dict[str, str]) -> Object:
    """Identities are computed from the name."""
    digits = f"{crc32(name.encode()):08x}"
    return {
        "architecture": labels[ARCH],
        "bootID": f"{digits}-0000-4000-8000-000000000001",
        "containerRuntimeVersion": "simulated://1",
        "kernelVersion": "simulated",
        "kubeProxyVersion": "",
        "kubeletVersion": SERVED_VERSION,
        "machineID": digits * 4,
        "operatingSystem": labels[OS],
        "osImage": "simulated",
        "systemUUID": f"{digits}-0000-4000-8000-000000000000",
    }
