"""Group protection: a deleted PodGroup stays until its pods have ended, a CompositePodGroup until it is empty."""

from __future__ import annotations

from collections.abc import Iterable

from ..api.verbs import Patch, PatchType
from ..api.views.group_views import GroupView
from ..api.views.pod_views import PodView
from .plan import NOTHING, ApplyPatch, Plan


def any_active(pods: Iterable[PodView]) -> bool:
    """Whether a pod still needs its group; one that is only being deleted does."""
    return not all(pod.ended for pod in pods)


def reconcile(group: GroupView, finalizer: str, needed: bool) -> Plan:
    finalizers = group.metadata.finalizers
    if needed or not group.deleting or finalizer not in finalizers:
        return NOTHING
    left = [one for one in finalizers if one != finalizer]
    body = {"metadata": {"resourceVersion": group.metadata.resource_version, "finalizers": left}}
    patch = Patch(PatchType.MERGE, body)
    return Plan(stages=((ApplyPatch(group.resource, group.namespace, group.name, patch, gone_is_fine=True),),))
