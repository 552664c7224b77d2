"""Pods that no node will ever end are failed here, so that their controllers can count them:

deleted before they were bound, and held by a finalizer
bound to a node that no longer exists
"""

from __future__ import annotations

from ..api.scheme import PODS, Object
from ..api.verbs import Patch, PatchType
from ..api.views.pod_views import PodView
from ..base.instants import to_time
from .plan import NOTHING, ApplyPatch, Delete, Plan


def reconcile(pod: PodView, node_exists: bool, now: float) -> Plan:
    bound = bool(pod.spec.node_name)
    lost = not node_exists if bound else pod.deleting
    if not lost:
        return NOTHING
    stages: list[tuple[ApplyPatch | Delete, ...]] = []
    if not pod.ended:
        status: Object = {"phase": "Failed"}
        if bound:
            status["conditions"] = [_disrupted(now)]
        stages.append((_write(pod, status),))
    if bound and pod.metadata.deletion_grace_period_seconds != 0:
        gone = Delete(PODS, pod.namespace, pod.name, pod.uid, grace_period_seconds=0)
        stages.append((gone,))
    return Plan(stages=tuple(stages))


def _write(pod: PodView, status: Object) -> ApplyPatch:
    patch = Patch(PatchType.STRATEGIC, {"metadata": {"uid": pod.uid}, "status": status})
    return ApplyPatch(PODS, pod.namespace, pod.name, patch, "status", gone_is_fine=True)


def _disrupted(now: float) -> Object:
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": to_time(now),
    }
