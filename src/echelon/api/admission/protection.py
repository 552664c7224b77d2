"""Group protection: new groups carry a finalizer, so that a group outlives its pods and a parent its children."""

from __future__ import annotations

from ..objects.vocabulary import COMPOSITE_PROTECTION, POD_GROUP_PROTECTION
from ..scheme import COMPOSITE_POD_GROUPS, Object, Resource


def protect(resource: Resource, obj: Object) -> None:
    """Add the finalizer of that kind of group, once."""
    finalizer = COMPOSITE_PROTECTION if resource.kind == COMPOSITE_POD_GROUPS.kind else POD_GROUP_PROTECTION
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)
