"""Group protection: a group that is being deleted stays until nobody lives in it, a parent until it has no children."""

from __future__ import annotations

from collections.abc import Iterable

from ..api.objects import meta
from ..api.scheme import Object, Resource
from ..api.verbs import Patch, PatchType
from .plan import NOTHING, ApplyPatch, Plan

_TERMINAL = ("Succeeded", "Failed")


def any_active(pods: Iterable[Object]) -> bool:
    """A pod that has ended needs its group no more; one that is only being deleted still does."""
    return any((pod.get("status") or {}).get("phase") not in _TERMINAL for pod in pods)


def release(resource: Resource, group: Object, finalizer: str, needed: bool) -> Plan:
    finalizers = group["metadata"].get("finalizers") or []
    if needed or not meta.deleting(group) or finalizer not in finalizers:
        return NOTHING
    left = [one for one in finalizers if one != finalizer]
    body = {"metadata": {"resourceVersion": group["metadata"]["resourceVersion"], "finalizers": left}}
    patch = Patch(PatchType.MERGE, body)
    return Plan(stages=((ApplyPatch(resource, meta.namespace(group), meta.name(group), patch, gone_is_fine=True),),))
