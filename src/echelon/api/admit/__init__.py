"""Admission: what a write needs to know about *other* objects, as pure functions of (object, old, reader).

    create   namespace open → priority → protection → kind's own
    update   kind's own
    delete   protected namespaces

Refusals are `ApiError`s (403, or 404 for a missing namespace); changes are made in place.
"""

from __future__ import annotations

from ..scheme import (
    COMPOSITE_POD_GROUPS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    Object,
    Resource,
)
from . import namespaces, pods, priority, protection
from .reader import Reader

__all__ = ["Reader", "admit_create", "admit_delete", "admit_update"]

_GROUPS = (POD_GROUPS.kind, COMPOSITE_POD_GROUPS.kind)


def admit_create(resource: Resource, obj: Object, reader: Reader) -> None:
    """Complete a new object in place, or refuse it."""
    if resource.namespaced:
        namespaces.must_be_open(resource, obj, reader)
    kind = resource.kind
    if kind == PODS.kind or kind in _GROUPS:
        priority.resolve(resource, obj, reader)
    if kind in _GROUPS:
        protection.protect(resource, obj)
    elif kind == PODS.kind:
        pods.tolerate_node_trouble(obj)
        pods.label_priority(obj)
    elif kind == PRIORITY_CLASSES.kind:
        priority.single_default(resource, obj, reader)


def admit_update(resource: Resource, new: Object, old: Object, reader: Reader) -> None:
    """Refuse a change that the rest of the cluster does not allow."""
    if resource.kind == PRIORITY_CLASSES.kind:
        priority.single_default(resource, new, reader)


def admit_delete(resource: Resource, obj: Object, reader: Reader) -> None:
    """Refuse the deletion of what everybody needs."""
    if resource.kind == NAMESPACES.kind:
        namespaces.may_be_deleted(obj)
