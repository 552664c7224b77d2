"""The table columns of custom kinds: the name, then the printer columns of the definition, or the age."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from ....api.custom_kind import CustomKind
from ....api.objects import json_paths
from ....api.scheme import Object
from .columns import GENERIC, Cell, Column
from .durations import since


@lru_cache(maxsize=4096)
def columns_of_custom(kind: CustomKind) -> tuple[Column, ...]:
    own = tuple(_column(column) for column in kind.columns)
    return (GENERIC[0], *own) if own else GENERIC


def _column(column: Mapping[str, Any]) -> Column:
    path = column["jsonPath"]
    description = column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    return Column(
        column["name"],
        _cell(path, column["type"]),
        description,
        type=column["type"],
        format=column.get("format", ""),
        priority=column.get("priority", 0),
    )


def _cell(path: str, kind: str) -> Cell:
    def cell(obj: Object, now: float) -> Any:
        try:
            found = json_paths.find(path, obj)
        except json_paths.BadPath:
            return None
        return _shown(kind, found[0], now) if found else None

    return cell


def _shown(kind: str, value: Any, now: float) -> Any:
    if kind == "string":
        return _text(value)
    if kind == "date" and isinstance(value, str):
        try:
            return since(value, now)
        except ValueError:
            return "<invalid>"
    if kind == "boolean" and isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"integer": int, "number": float}.get(kind, lambda _: None)(value)
    return None


def _text(value: Any) -> Any:
    """As kubectl prints what a JSONPath leads to."""
    if value is None:
        return "<nil>"
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)
