"""The health of a node: a lease that is no longer renewed, the taints that follow, and the readiness of its pods.

    lease expired ─► conditions Unknown ─► taints ─► `taint_eviction`
                                       └─► pods not ready

Conditions that anybody else writes lead to the same taints.  A node that never had a lease keeps its conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...api.objects.vocabulary import NODE_STATE_TAINTS, NOT_READY, UNREACHABLE, UNSCHEDULABLE
from ...api.scheme import NODES, PODS, Object
from ...api.verbs import Patch, PatchType
from ...api.views.cluster_views import LeaseView, NodeTaint, NodeView
from ...api.views.pod_views import PodView
from ...base.instants import to_time
from ..plan import ApplyPatch, Draft, Note, Plan

#: A lease that is shorter than this is waited for nevertheless.
_GRACE_SECONDS = 50.0
#: The conditions that a kubelet reports.
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
#: Condition type → status → key of the taint that follows.
_CONDITION_TAINTS = {
    "Ready": {"False": NOT_READY, "Unknown": UNREACHABLE},
    "MemoryPressure": {"True": NODE_STATE_TAINTS + "memory-pressure"},
    "DiskPressure": {"True": NODE_STATE_TAINTS + "disk-pressure"},
    "PIDPressure": {"True": NODE_STATE_TAINTS + "pid-pressure"},
    "NetworkUnavailable": {"True": NODE_STATE_TAINTS + "network-unavailable"},
}
_Key = tuple[str, str]


@dataclass(frozen=True)
class Heartbeat:
    """The newest renewal of a lease and when it was seen here: clocks of other machines are not trusted."""

    lease: LeaseView
    seen: float

    @property
    def expires(self) -> float:
        return self.seen + max(_GRACE_SECONDS, self.lease.spec.lease_duration_seconds)


def reconcile(node: NodeView, heartbeat: Heartbeat | None, pods: Sequence[PodView], now: float) -> Plan:
    """`pods` are those on the node."""
    draft = Draft()
    if heartbeat is not None and heartbeat.expires > now:
        draft.requeue(heartbeat.expires - now)
    elif heartbeat is not None and node.ready != "Unknown":
        # The rest follows when the node is seen with these conditions.
        draft.stage(_unknown(node, now))
        draft.note(Note(NODES, node.obj, "Normal", "NodeNotReady", f"Node {node.name} status is now: NodeNotReady"))
        return draft.done()
    taints = _taints(node, now)
    if taints is not None:
        draft.stage(taints)
    if node.ready == "Unknown":
        believed = [pod for pod in pods if not pod.ended and pod.is_true("Ready")]
        draft.stage(*(_not_ready(pod, now) for pod in believed))
        for pod in believed:
            draft.note(Note(PODS, pod.obj, "Warning", "NodeNotReady", "Node is not ready"))
    return draft.done()


def _unknown(node: NodeView, now: float) -> ApplyPatch:
    conditions = []
    for type_ in _REPORTED:
        known = node.condition(type_)
        if known is None:
            text = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            text["lastHeartbeatTime"] = node.metadata.creation_timestamp
        else:
            text = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
        if known is None or known.status != "Unknown":
            conditions.append({"type": type_, "status": "Unknown", **text, "lastTransitionTime": to_time(now)})
    body = {"metadata": _precondition(node), "status": {"conditions": conditions}}
    return ApplyPatch(NODES, "", node.name, Patch(PatchType.STRATEGIC, body), "status")


def _taints(node: NodeView, now: float) -> ApplyPatch | None:
    """The patch that brings the taints of a node in line with its conditions; None if they are."""
    wanted = _wanted(node)
    decided = _decided(node)
    kept = [taint for taint in node.spec.taints if _key(taint) in wanted or _key(taint) not in decided]
    known = {_key(taint) for taint in kept}
    added = [key for key in wanted if key not in known]
    if not added and len(kept) == len(node.spec.taints):
        return None
    stamp = to_time(now)
    taints = [*map(_tree, kept), *({"key": key, "effect": effect, "timeAdded": stamp} for key, effect in added)]
    body = {"metadata": _precondition(node), "spec": {"taints": taints or None}}
    return ApplyPatch(NODES, "", node.name, Patch(PatchType.MERGE, body))


def _wanted(node: NodeView) -> list[_Key]:
    """Keys and effects of the taints that follow from conditions and cordon."""
    wanted: list[_Key] = []
    for type_, by_status in _CONDITION_TAINTS.items():
        known = node.condition(type_)
        key = None if known is None else by_status.get(known.status)
        if key is not None:
            wanted.append((key, "NoSchedule"))
            if type_ == "Ready":
                wanted.append((key, "NoExecute"))
    if node.spec.unschedulable:
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    return wanted


def _decided(node: NodeView) -> set[_Key]:
    """Keys and effects that are ours to remove: those of conditions that the node has."""
    decided = {(UNSCHEDULABLE, "NoSchedule")}
    for type_, by_status in _CONDITION_TAINTS.items():
        if node.condition(type_) is not None:
            decided |= {(key, "NoSchedule") for key in by_status.values()}
    if node.ready:
        decided |= {(NOT_READY, "NoExecute"), (UNREACHABLE, "NoExecute")}
    return decided


def _key(taint: NodeTaint) -> _Key:
    return taint.key, taint.effect


def _tree(taint: NodeTaint) -> Object:
    made: Object = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        made["value"] = taint.value
    if taint.time_added:
        made["timeAdded"] = taint.time_added
    return made


def _not_ready(pod: PodView, now: float) -> ApplyPatch:
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": to_time(now)}
    body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [ready]}}
    return ApplyPatch(PODS, pod.namespace, pod.name, Patch(PatchType.STRATEGIC, body), "status", gone_is_fine=True)


def _precondition(node: NodeView) -> Object:
    return {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
