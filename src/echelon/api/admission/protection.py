"""Group protection: adds a finalizer to new groups, so that they are deleted after their pods or child groups."""

from __future__ import annotations

from ..objects.vocabulary import COMPOSITE_PROTECTION, POD_GROUP_PROTECTION
from ..scheme import COMPOSITE_POD_GROUPS, Object, Resource


def protect(resource: Resource, obj: Object) -> None:
    """Add the protection finalizer of the kind."""
    finalizer = COMPOSITE_PROTECTION if resource.kind == COMPOSITE_POD_GROUPS.kind else POD_GROUP_PROTECTION
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)
