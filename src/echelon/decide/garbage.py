"""Garbage collection: what becomes of an object when its owners go, and of an owner that waits for its dependents.

an object whose owners are all gone          → deleted
with a living owner left                     → keeps that one, loses the references to the others
an owner deleted in the foreground           → stays until no dependent that blocks it is left; one that waits for the
                                               owner in turn does not block it
an owner deleted with orphaning              → its dependents lose the reference, then it goes
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..api.objects import meta
from ..api.rules.metadata import FOREGROUND, ORPHAN
from ..api.scheme import Object, Resource
from ..api.verbs import Patch, PatchType, Propagation
from .plan import NOTHING, ApplyPatch, Delete, Note, Plan


class Fate(Enum):
    """How an owner reference stands."""

    LIVES = "lives"
    #: In foreground deletion: it waits for this object.
    WAITS = "waits"
    GONE = "gone"
    #: A namespaced owner of a cluster-scoped object: its namespace is unknown.
    UNRESOLVABLE = "unresolvable"


@dataclass(frozen=True)
class Owned:
    """An object to decide on, with the fate of each of its owner references, in their order."""

    resource: Resource
    obj: Object
    fates: Sequence[Fate]
    #: (resource, object) of everything that refers to it as an owner.
    dependents: Sequence[tuple[Resource, Object]]
    #: Uids of dependents that wait for this object themselves, because they own one another in a circle.
    circular: Collection[str] = ()


def reconcile(seen: Owned) -> Plan:
    if meta.deleting(seen.obj):
        finalizers = meta.finalizers(seen.obj)
        if FOREGROUND in finalizers:
            return _release_foreground(seen)
        return _orphan(seen) if ORPHAN in finalizers else NOTHING
    return _decide_owned(seen) if seen.fates else NOTHING


def waits_for_dependents(obj: Object) -> bool:
    """Whether the object is being deleted in the foreground."""
    return meta.deleting(obj) and FOREGROUND in meta.finalizers(obj)


def lets_go_of_dependents(obj: Object) -> bool:
    """Whether the object is being deleted and its dependents are to stay."""
    return meta.deleting(obj) and ORPHAN in meta.finalizers(obj)


def _decide_owned(seen: Owned) -> Plan:
    if Fate.UNRESOLVABLE in seen.fates:
        message = "ownerReferences of a cluster-scoped object must not name a namespaced owner"
        return Plan(notes=(Note(seen.resource, seen.obj, "Warning", "OwnerRefInvalidNamespace", message),))
    references: Sequence[Mapping[str, Any]] = seen.obj["metadata"]["ownerReferences"]
    living = [one for one, fate in zip(references, seen.fates, strict=True) if fate is Fate.LIVES]
    if living:
        return NOTHING if len(living) == len(references) else Plan(stages=((_with_owners(seen, living),),))
    return Plan(stages=((_delete(seen, _policy(seen)),),))


def _policy(seen: Owned) -> Propagation:
    """By the object's own finalizers; below an owner that waits, an object with dependents waits too."""
    finalizers = meta.finalizers(seen.obj)
    if ORPHAN in finalizers:
        return "Orphan"
    if FOREGROUND in finalizers or (Fate.WAITS in seen.fates and seen.dependents):
        return "Foreground"
    return "Background"


def _release_foreground(seen: Owned) -> Plan:
    uid = meta.uid(seen.obj)
    blocking = any(
        reference.get("blockOwnerDeletion")
        for _, dependent in seen.dependents
        if meta.uid(dependent) not in seen.circular
        for reference in meta.owner_references(dependent)
        if reference["uid"] == uid
    )
    return NOTHING if blocking else Plan(stages=((_without_finalizer(seen, FOREGROUND),),))


def _orphan(seen: Owned) -> Plan:
    uid = meta.uid(seen.obj)
    freed = []
    for resource, dependent in seen.dependents:
        others = [one for one in meta.owner_references(dependent) if one["uid"] != uid]
        freed.append(_with_owners(Owned(resource, dependent, (), ()), others))
    return Plan(stages=(tuple(freed), (_without_finalizer(seen, ORPHAN),)))


# -- writes, each conditional on the version that was decided on -------------------------------------------------


def _delete(seen: Owned, propagation: Propagation) -> Delete:
    return Delete(
        seen.resource,
        meta.namespace(seen.obj),
        meta.name(seen.obj),
        meta.uid(seen.obj),
        propagation,
        resource_version=seen.obj["metadata"]["resourceVersion"],
    )


def _with_owners(seen: Owned, owners: Sequence[Mapping[str, Any]]) -> ApplyPatch:
    return _change(seen, {"ownerReferences": [dict(one) for one in owners]})


def _without_finalizer(seen: Owned, finalizer: str) -> ApplyPatch:
    return _change(seen, {"finalizers": [one for one in seen.obj["metadata"]["finalizers"] if one != finalizer]})


def _change(seen: Owned, metadata: Object) -> ApplyPatch:
    body = {"metadata": {"resourceVersion": seen.obj["metadata"]["resourceVersion"], **metadata}}
    patch = Patch(PatchType.MERGE, body)
    return ApplyPatch(seen.resource, meta.namespace(seen.obj), meta.name(seen.obj), patch, gone_is_fine=True)
