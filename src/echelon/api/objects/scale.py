"""`/scale` of an object: a Scale made from the fields that `Resource.scale` names, and back.

Built-in kinds have a selector in object form or a map of labels, custom kinds have its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import bad_request
from ..scheme import SCALES, Object, Resource
from .selectors import selector_text

_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(resource: Resource, obj: Object) -> Object:
    """The Scale of an object; 400 if it has no number of replicas."""
    paths = resource.scale
    assert paths is not None
    replicas = _at(obj, paths.replicas)
    if not _is_count(replicas):
        raise bad_request(f'the spec replicas field ".{".".join(paths.replicas)}" does not exist')
    seen = _at(obj, paths.status_replicas)
    status: Object = {"replicas": seen if _is_count(seen) else 0}
    if text := _selector(_at(obj, paths.selector) if paths.selector else None):
        status["selector"] = text
    return {
        "kind": SCALES.kind,
        "apiVersion": SCALES.api_version,
        "metadata": {field: obj["metadata"][field] for field in _COPIED if field in obj["metadata"]},
        # As Go writes it: without a zero.
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def replicas_of(scale: Object) -> int:
    """The replicas that a Scale asks for."""
    found: int = (scale.get("spec") or {}).get("replicas") or 0
    return found


def scaled(resource: Resource, obj: Object, replicas: int) -> Object:
    """A copy of the object with another number of replicas."""
    paths = resource.scale
    assert paths is not None
    return _with(obj, paths.replicas, replicas)


def _with(tree: Mapping[str, Any], path: tuple[str, ...], value: Any) -> Object:
    first, *rest = path
    if not rest:
        return {**tree, first: value}
    below = tree.get(first)
    return {**tree, first: _with(below if isinstance(below, dict) else {}, tuple(rest), value)}


def _at(obj: Object, path: tuple[str, ...]) -> Any:
    found: Any = obj
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _selector(found: Any) -> str:
    if isinstance(found, str):
        return found
    if not isinstance(found, dict):
        return ""
    is_map_of_labels = any(isinstance(value, str) for value in found.values())
    return selector_text({"matchLabels": found} if is_map_of_labels else found)
