"""Which children an object controls: those without a controller that it selects are adopted, others released."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from ...api.objects import meta
from ...api.objects.selectors import LabelSelector
from ...api.scheme import Object
from ...api.verbs import Patch, PatchType
from ...api.views.object_view import ObjectView
from ..plan import ApplyPatch

Child = TypeVar("Child", bound=ObjectView[Any, Any])


def claim(
    owner: ObjectView[Any, Any], selector: LabelSelector, owned: Iterable[Child], orphans: Iterable[Child]
) -> tuple[list[Child], list[ApplyPatch]]:
    """The children that are the owner's once the patches are written; an owner that is deleted changes nothing."""
    children = list(owned)
    if owner.deleting:
        return [child for child in children if selector.matches(child.labels)], []
    kept = [child for child in children if selector.matches(child.labels)]
    released = [_release(owner, child) for child in children if not selector.matches(child.labels)]
    found = [child for child in orphans if not child.deleting and selector.matches(child.labels)]
    return kept + found, released + [_adopt(owner, child) for child in found]


def _adopt(owner: ObjectView[Any, Any], child: ObjectView[Any, Any]) -> ApplyPatch:
    return _change(child, {"ownerReferences": [meta.owner_reference(owner.obj, owner.resource)]})


def _release(owner: ObjectView[Any, Any], child: ObjectView[Any, Any]) -> ApplyPatch:
    return _change(child, {"ownerReferences": [{"$patch": "delete", "uid": owner.uid}]})


def _change(child: ObjectView[Any, Any], metadata: Object) -> ApplyPatch:
    body = {"metadata": {"uid": child.uid, **metadata}}
    return ApplyPatch(
        child.resource, child.namespace, child.name, Patch(PatchType.STRATEGIC, body), gone_is_fine=True
    )  # fmt: skip
