"""`meta.k8s.io` Tables, which `kubectl get` prints, for objects, lists and watch events.

The columns and cells of each kind are in `columns`.
"""

from __future__ import annotations

from typing import Any, Literal

from ....api.errors import ApiError, bad_request
from ....api.scheme import Object, Resource
from ..requests.request import Request
from .columns import Column, columns_of
from .custom_columns import columns_of_custom

IncludeObject = Literal["Metadata", "Object", "None"]


def include_object(request: Request) -> IncludeObject:
    """The `includeObject` parameter: what a row contains besides its cells."""
    wanted = request.parameter("includeObject")
    if wanted in ("", "Metadata"):
        return "Metadata"
    if wanted == "Object":
        return "Object"
    if wanted == "None":
        return "None"
    raise _bad_include(wanted)


def _bad_include(wanted: str) -> ApiError:
    return bad_request(f'invalid includeObject "{wanted}": must be one of None, Metadata, Object')


def table(
    resource: Resource,
    items: list[Object],
    metadata: Object,
    *,
    now: float,
    include: IncludeObject,
    version: str = "v1",
    headed: bool = True,
) -> Object:
    """A Table of `items`; without column definitions after the first event of a watch."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in _columns(resource)] if headed else None,
        "rows": [row(resource, item, now, include, version) for item in items],
    }


def _columns(resource: Resource) -> tuple[Column, ...]:
    return columns_of(resource) if resource.custom is None else columns_of_custom(resource.custom)


def partial_metadata(obj: Object, version: str = "v1") -> Object:
    """An object reduced to its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": 1 if column.wide else column.priority,
    }


def row(resource: Resource, item: Object, now: float, include: IncludeObject, version: str) -> Object:
    """The row of one object."""
    carried: Any = None
    if include == "Metadata":
        carried = partial_metadata(item, version)
    elif include == "Object":
        carried = item
    columns = _columns(resource)
    try:
        cells = [column.cell(item, now) for column in columns]
    except Exception:  # an odd object must not hide the others of its list
        cells = [_cell(column, item, now) for column in columns]
    return {"cells": cells, "object": carried}


def _cell(column: Column, item: Object, now: float) -> Any:
    """A cell, or what kubectl prints for a value that cannot be told."""
    try:
        return column.cell(item, now)
    except Exception:
        return "<unknown>"
