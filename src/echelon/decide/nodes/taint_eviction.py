"""Pods that a taint with the effect NoExecute ends: at once, or when they no longer tolerate it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...api.scheme import PODS
from ...api.verbs import Patch, PatchType
from ...api.views.cluster_views import NodeTaint, NodeView
from ...api.views.object_view import read
from ...api.views.placement_views import TimedToleration, TolerationSpec
from ...api.views.pod_views import PodView
from ...base.instants import parse, to_time
from ..plan import NOTHING, ApplyPatch, Delete, Note, Plan

NO_EXECUTE = "NoExecute"
_ByKey = dict[str, list[tuple[int, TimedToleration]]]


def reconcile(pod: PodView, node: NodeView, since: Callable[[NodeTaint], float], now: float) -> Plan:
    """What becomes of a pod on its node; `since` says when a taint without `timeAdded` was first seen."""
    if pod.deleting or pod.ended:
        return NOTHING
    tolerations = _by_key(read(TolerationSpec, pod.obj.get("spec")).tolerations)
    arrived = _arrived(pod)
    ends = [
        max(arrived, parse(taint.time_added) if taint.time_added else since(taint)) + seconds
        for taint in node.spec.taints
        if taint.effect == NO_EXECUTE and (seconds := _tolerated_for(taint, tolerations)) is not None
    ]
    if not ends:
        return NOTHING
    left = min(ends) - now
    return Plan(requeue_after=left) if left > 0 else _evict(pod, now)


def _arrived(pod: PodView) -> float:
    """When the pod was bound: it tolerates an older taint from then on."""
    bound = pod.condition("PodScheduled")
    stamp = bound.last_transition_time if bound is not None else ""
    return parse(stamp or pod.metadata.creation_timestamp)


def _by_key(tolerations: Sequence[TimedToleration]) -> _ByKey:
    """Tolerations with their places by the key of the taint that they are for, "" for any: there may be thousands."""
    found: _ByKey = {}
    for place, toleration in enumerate(tolerations):
        found.setdefault(toleration.key, []).append((place, toleration))
    return found


def _tolerated_for(taint: NodeTaint, by_key: _ByKey) -> float | None:
    """Seconds for which the first toleration that matches lasts; None: for ever."""
    asked = (*by_key.get(taint.key, ()), *by_key.get("", ()))
    matching = [(place, toleration) for place, toleration in asked if _matches(toleration, taint)]
    if not matching:
        return 0
    seconds = min(matching, key=lambda one: one[0])[1].toleration_seconds
    return None if seconds is None else max(0, seconds)


def _matches(toleration: TimedToleration, taint: NodeTaint) -> bool:
    """For a toleration of the taint's key, or of any."""
    if toleration.effect not in ("", taint.effect):
        return False
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == taint.value)


def disrupted(pod: PodView, reason: str, message: str, now: float) -> ApplyPatch:
    """The condition that a pod gets before it is deleted: its Job may pass over an end with this reason."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": to_time(now),
    }
    body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
    return ApplyPatch(PODS, pod.namespace, pod.name, Patch(PatchType.STRATEGIC, body), "status", gone_is_fine=True)


def _evict(pod: PodView, now: float) -> Plan:
    message = "Taint manager: deleting due to NoExecute taint"
    return Plan(
        stages=(
            (disrupted(pod, "DeletionByTaintManager", message, now),),
            (Delete(PODS, pod.namespace, pod.name, pod.uid),),
        ),
        notes=(Note(PODS, pod.obj, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {pod.key}"),),
    )
