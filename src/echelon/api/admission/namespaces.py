"""Namespaces: no object is created in a missing or terminating one; system namespaces cannot be deleted."""

from __future__ import annotations

from ..errors import ApiError, forbidden, not_found
from ..objects import meta
from ..scheme import NAMESPACES, Object, Resource
from .reader import Reader

#: Namespaces that cannot be deleted.
PROTECTED = ("default", "kube-system", "kube-public")


def must_be_open(resource: Resource, obj: Object, reader: Reader) -> None:
    """The namespace of a new object exists (404) and is not being deleted (403)."""
    space = meta.namespace(obj)
    found = reader.get(NAMESPACES, space)
    if found is None:
        raise not_found(NAMESPACES, space)
    if meta.deleting(found) or (found.get("status") or {}).get("phase") == "Terminating":
        raise _terminating(resource, obj, space)


def _terminating(resource: Resource, obj: Object, space: str) -> ApiError:
    detail = f"unable to create new content in namespace {space} because it is being terminated"
    refusal = forbidden(resource, meta.name(obj), detail)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {space} is being terminated",
        "field": "metadata.namespace",
    }
    return ApiError(refusal.code, refusal.reason, refusal.message, {**refusal.details, "causes": [cause]})


def may_be_deleted(obj: Object) -> None:
    name = meta.name(obj)
    if name in PROTECTED:
        raise forbidden(NAMESPACES, name, "this namespace may not be deleted")
