"""PATCH: which of the three patch languages applies, and merge patch itself.

    apply ─► JSON patch (`json_patch`) | merge patch (below) | strategic merge (`strategic_merge`, built-in kinds only)

`apply` returns a new tree and leaves its input alone.  The server decodes and validates the result like any update, so
nothing here looks at what the fields mean.
"""

from __future__ import annotations

from typing import Any

from .. import errors
from ..schema import definitions
from ..schema.decoding import copy_tree
from ..scheme import Object, Resource
from ..verbs import Patch, PatchType
from . import strategic_merge
from .json_patch import json_patch


def apply(resource: Resource, obj: Object, patch: Patch) -> Object:
    """`obj` with the patch applied.

    400 for a malformed patch, 422 for one that cannot be applied, 415 for strategic merge on a custom kind.
    """
    try:
        return _applied(resource, obj, patch)
    except RecursionError:
        raise errors.bad_request("error decoding patch: exceeded max depth") from None


def _applied(resource: Resource, obj: Object, patch: Patch) -> Object:
    if patch.type is PatchType.JSON:
        return json_patch(obj, patch.body)
    if not isinstance(patch.body, dict):
        raise errors.bad_request(f"error decoding patch: a {patch.type} is an object")
    if patch.type is PatchType.MERGE:
        return _merged(obj, patch.body)
    if not resource.builtin:
        raise errors.unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            f"{PatchType.JSON}, {PatchType.MERGE}"
        )
    return strategic_merge.merge({"$ref": definitions.name_of(resource)}, obj, patch.body)


def _merged(target: Any, patch: Object) -> Object:
    """RFC 7386: objects merge, null removes, everything else replaces."""
    result: Object = copy_tree(target) if isinstance(target, dict) else {}
    for field, value in patch.items():
        if value is None:
            result.pop(field, None)
        elif isinstance(value, dict):
            result[field] = _merged(result.get(field), value)
        else:
            result[field] = copy_tree(value)
    return result
