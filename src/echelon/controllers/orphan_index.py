"""Indexes that lead from an object without a controller to those that may select it, and back.

Both sides are entered under labels; a selector that names no label, and every orphan, also under the namespace alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..api.objects import meta
from ..api.scheme import Object
from ..client.informer import ViewCache

#: Names of the two indexes.
ORPHANS = "orphan-label"
SELECTORS = "selected-label"


def orphan_labels(obj: Object) -> Iterable[str]:
    """Every label of an object without a controller."""
    if meta.controller_of(obj) is not None:
        return ()
    space = meta.namespace(obj)
    return [f"{space}/", *(f"{space}/{key}={value}" for key, value in meta.labels(obj).items())]


def selected_labels(obj: Object) -> list[str]:
    """The labels that an object with a selector asks for; all that it selects are under the first of them."""
    selector: Mapping[str, Any] = obj["spec"].get("selector") or {}
    is_map_of_labels = any(isinstance(value, str) for value in selector.values())
    labels = selector if is_map_of_labels else selector.get("matchLabels") or {}
    space = meta.namespace(obj)
    return [f"{space}/{key}={value}" for key, value in sorted(labels.items())] or [f"{space}/"]


def adopters(obj: Object, owners: ViewCache[Any]) -> Iterable[str]:
    """Keys of those that may select an object without a controller; `owners` are in the index of selectors."""
    for value in orphan_labels(obj):
        for owner in owners.find(SELECTORS, value):
            yield owner.key
