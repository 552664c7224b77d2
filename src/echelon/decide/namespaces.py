"""Namespace deletion: delete what the namespace holds, report what remains, remove its finalizer when it is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..api.objects import meta
from ..api.objects.subtree import items, mapping
from ..api.scheme import NAMESPACES, Object, Resource
from ..api.verbs import Patch, PatchType
from ..api.views.cluster_views import NamespaceView
from ..base.instants import parse as instant
from .plan import NOTHING, ApplyPatch, Delete, Draft, Plan, StatusWrite

FINALIZER = "kubernetes"
_MOST_PER_PASS = 500
#: Nothing is admitted once the mark is set; what was admitted just before it reaches the caches within this time.
_SETTLE_SECONDS = 1.0


def reconcile(namespace: NamespaceView, contents: Mapping[Resource, Sequence[Object]], now: float) -> Plan:
    finalizers = namespace.spec.finalizers
    if not namespace.deleting or FINALIZER not in finalizers:
        return NOTHING
    draft = Draft()
    if any(contents.values()):
        draft.stage(*_deletions(contents))
        _report(draft, namespace, contents, now)
        return draft.done()
    settled = instant(namespace.metadata.deletion_timestamp) + _SETTLE_SECONDS + 1  # the mark has whole seconds
    if now < settled:
        return Plan(requeue_after=settled - now)
    left = [one for one in finalizers if one != FINALIZER]
    patch = Patch(PatchType.MERGE, {"metadata": {"uid": namespace.uid}, "spec": {"finalizers": left}})
    draft.stage(ApplyPatch(NAMESPACES, "", namespace.name, patch, "finalize", gone_is_fine=True))
    return draft.done()


def _deletions(contents: Mapping[Resource, Sequence[Object]]) -> list[Delete]:
    doomed = [
        Delete(resource, meta.namespace(obj), meta.name(obj), meta.uid(obj))
        for resource, objects in contents.items()
        for obj in objects
        if not meta.deleting(obj)
    ]
    return doomed[:_MOST_PER_PASS]


def _report(draft: Draft, namespace: NamespaceView, contents: Mapping[Resource, Sequence[Object]], now: float) -> None:
    counts = [f"{resource.qualified} has {len(objects)}" for resource, objects in contents.items() if objects]
    message = f"Some resources are remaining: {', '.join(counts)}"
    if namespace.condition("NamespaceContentRemaining") is None:
        condition = meta.condition("NamespaceContentRemaining", "True", "SomeResourcesRemain", message, now)
        conditions = meta.with_condition(items(namespace.obj, "status", "conditions"), condition)
        status = {**mapping(namespace.obj, "status"), "conditions": conditions}
        draft.status(StatusWrite(NAMESPACES, namespace.obj, status))
