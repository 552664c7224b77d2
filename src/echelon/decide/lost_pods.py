"""Pods that no node will ever end: they are failed here, so that their controllers can count them.

deleted before they were bound, and held by a finalizer
bound to a node that no longer exists
"""

from __future__ import annotations

from ..api.objects import meta
from ..api.scheme import PODS, Object
from ..api.verbs import Patch, PatchType
from ..base.instants import to_time
from .plan import NOTHING, ApplyPatch, Delete, Plan

_TERMINAL = ("Succeeded", "Failed")


def end(pod: Object, node_exists: bool, now: float) -> Plan:
    bound = bool(pod["spec"].get("nodeName"))
    lost = not node_exists if bound else meta.deleting(pod)
    if not lost:
        return NOTHING
    stages: list[tuple[ApplyPatch | Delete, ...]] = []
    if (pod.get("status") or {}).get("phase") not in _TERMINAL:
        status: Object = {"phase": "Failed"}
        if bound:
            status["conditions"] = [_disrupted(now)]
        stages.append((_write(pod, status),))
    if bound and pod["metadata"].get("deletionGracePeriodSeconds") != 0:
        gone = Delete(PODS, meta.namespace(pod), meta.name(pod), meta.uid(pod), grace_period_seconds=0)
        stages.append((gone,))
    return Plan(stages=tuple(stages))


def _write(pod: Object, status: Object) -> ApplyPatch:
    patch = Patch(PatchType.STRATEGIC, {"metadata": {"uid": meta.uid(pod)}, "status": status})
    return ApplyPatch(PODS, meta.namespace(pod), meta.name(pod), patch, "status", gone_is_fine=True)


def _disrupted(now: float) -> Object:
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": to_time(now),
    }
