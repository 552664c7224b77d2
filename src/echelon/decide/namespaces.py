"""Namespace deletion: delete what the namespace holds, report what remains, remove its finalizer when it is empty.

Pods go first: what they use must not disappear under them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..api.objects import meta
from ..api.objects.subtree import items, mapping
from ..api.scheme import NAMESPACES, PODS, Object, Resource
from ..api.verbs import Patch, PatchType
from ..api.views.cluster_views import NamespaceView
from ..base.instants import parse as instant
from .plan import NOTHING, ApplyPatch, Delete, Draft, Plan, StatusWrite

Contents = Mapping[Resource, Sequence[Object]]

FINALIZER = "kubernetes"
_MOST_PER_PASS = 500
#: Nothing is admitted once the mark is set; what was admitted just before it reaches the caches within this time.
_SETTLE_SECONDS = 1.0
#: Condition → reason and message while nothing is wrong; in the order of upstream.
_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


def reconcile(namespace: NamespaceView, contents: Contents, now: float) -> Plan:
    finalizers = namespace.spec.finalizers
    if not namespace.deleting or FINALIZER not in finalizers:
        return NOTHING
    marked = instant(namespace.metadata.deletion_timestamp)
    status = _status(namespace, contents, now)
    draft = Draft()
    if status is not None:
        draft.status(status)
    if any(contents.values()):
        draft.stage(*_deletions({PODS: contents[PODS]} if contents.get(PODS) else contents))
        return draft.done()
    settled = marked + _SETTLE_SECONDS + 1  # the mark has whole seconds
    if now < settled:
        draft.requeue(settled - now)
        return draft.done()
    left = [one for one in finalizers if one != FINALIZER]
    patch = Patch(PatchType.MERGE, {"metadata": {"uid": namespace.uid}, "spec": {"finalizers": left}})
    return Plan(((ApplyPatch(NAMESPACES, "", namespace.name, patch, "finalize", gone_is_fine=True),),))


def _deletions(contents: Contents) -> list[Delete]:
    doomed = [
        Delete(resource, meta.namespace(obj), meta.name(obj), meta.uid(obj))
        for resource, objects in contents.items()
        for obj in objects
        if not meta.deleting(obj)
    ]
    return doomed[:_MOST_PER_PASS]


def _status(namespace: NamespaceView, contents: Contents, now: float) -> StatusWrite | None:
    """The status with the conditions of the deletion, if they change."""
    wrong = _remaining(contents)
    before = items(namespace.obj, "status", "conditions")
    after = before
    for type_, (reason, message) in _FINE.items():
        said = ("True", *wrong[type_]) if type_ in wrong else ("False", reason, message)
        after = meta.with_condition(after, meta.condition(type_, *said, now))
    if after == before:
        return None
    return StatusWrite(NAMESPACES, namespace.obj, {**mapping(namespace.obj, "status"), "conditions": after})


def _remaining(contents: Contents) -> dict[str, tuple[str, str]]:
    """What is being deleted and still there: how many of which kind, and by which finalizers."""
    kinds: Counter[str] = Counter()
    finalizers: Counter[str] = Counter()
    for resource, objects in contents.items():
        for obj in objects:
            if meta.deleting(obj):
                kinds[f"{resource.plural}.{resource.group}"] += 1
                finalizers.update(meta.finalizers(obj))
    found: dict[str, tuple[str, str]] = {}
    if kinds:
        listed = ", ".join(sorted(f"{kind} has {count} resource instances" for kind, count in kinds.items()))
        found["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {listed}")
    if finalizers:
        listed = ", ".join(sorted(f"{name} in {count} resource instances" for name, count in finalizers.items()))
        message = f"Some content in the namespace has finalizers remaining: {listed}"
        found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    return found
