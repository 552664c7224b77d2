"""Pods that no node will ever end are failed here, so that their controllers can count them:

deleted before they were bound, and held by a finalizer
bound to a node that no longer exists
deleted on a node that is not ready and that an administrator has tainted as out of service
"""

from __future__ import annotations

from ...api.objects.vocabulary import OUT_OF_SERVICE
from ...api.scheme import PODS, Object
from ...api.verbs import Patch, PatchType
from ...api.views.cluster_views import NodeView
from ...api.views.pod_views import PodView
from ...base.instants import to_time
from ..plan import NOTHING, ApplyPatch, Delete, Plan


def reconcile(pod: PodView, node: NodeView | None, now: float) -> Plan:
    bound = bool(pod.spec.node_name)
    if not _is_lost(pod, node):
        return NOTHING
    stages: list[tuple[ApplyPatch | Delete, ...]] = []
    if not pod.ended:
        status: Object = {"phase": "Failed"}
        if bound and node is None:
            status["conditions"] = [_disrupted(now)]
        stages.append((_write(pod, status),))
    if bound and pod.metadata.deletion_grace_period_seconds != 0:
        gone = Delete(PODS, pod.namespace, pod.name, pod.uid, grace_period_seconds=0)
        stages.append((gone,))
    return Plan(stages=tuple(stages))


def is_out_of_service(node: NodeView) -> bool:
    return node.ready != "True" and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def _is_lost(pod: PodView, node: NodeView | None) -> bool:
    if pod.spec.node_name and node is None:
        return True
    return pod.deleting and (node is None or is_out_of_service(node))


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
