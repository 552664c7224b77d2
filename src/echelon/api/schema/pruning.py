"""Decodes custom kinds: prunes unknown fields and nulls, keeps everything else for `schema_validation`.

Only apiVersion, kind and metadata are decoded like those of a built-in kind.  `unknown_paths` returns the paths of
unknown fields, for custom and built-in kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from ..scheme import Object
from . import definitions
from .decoding import SPECIAL, Decoder, TypeMismatch, copy_tree, json_kind, typed
from .definitions import Schema


@cache
def pruner(name: str) -> Decoder:
    """The decoder of a custom kind; apiVersion, kind and metadata are typed, the rest is pruned."""
    return with_typed_metadata(_value({"$ref": name}))


def with_typed_metadata(prune: Decoder) -> Decoder:
    """The decoder of whole objects: metadata is decoded as that of a built-in kind, the rest by `prune`."""
    metadata = typed(definitions.OBJECT_META)

    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise TypeMismatch(json_kind(value), go_type="map[string]interface {}")
        made = prune({field: item for field, item in value.items() if field != "metadata"}, unknown)
        if value.get("metadata") is not None:
            try:
                made["metadata"] = metadata(value["metadata"], unknown)
            except TypeMismatch as mismatch:
                mismatch.within("", "metadata")
                raise
        return made

    return decode


def _value(schema: Schema) -> Decoder:
    if "$ref" in schema:
        name = schema["$ref"]
        return _whole_number if name in SPECIAL else _struct(name)
    if "properties" in schema:
        return _fields(schema)
    if schema.get("type") == "integer":
        return _whole_number
    if schema.get("type") == "array":
        return _list(_value(schema["items"]))
    if isinstance(schema.get("additionalProperties"), dict):
        return _map(_value(schema["additionalProperties"]))
    if schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        return _fields(schema)
    return _keep


@cache
def _struct(name: str) -> Decoder:
    """Compiled on first use, so that definitions may be recursive."""
    compiled: list[Decoder] = []

    def decode(value: Any, unknown: list[str]) -> Any:
        if not compiled:
            compiled.append(_fields(definitions.lookup(name)))
        return compiled[0](value, unknown)

    return decode


def _fields(schema: Schema) -> Decoder:
    fields = {field: _value(inner) for field, inner in schema.get("properties", {}).items()}
    unknown_stay = bool(schema.get("x-kubernetes-preserve-unknown-fields"))

    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not dict:
            return copy_tree(value)
        made: Object = {}
        for field, item in value.items():
            if item is None:
                continue
            child = fields.get(field)
            if child is not None:
                made[field] = child(item, unknown)
            elif unknown_stay:
                made[field] = copy_tree(item)
            else:
                unknown.append(field)
        return made

    return decode


def _list(decode_item: Decoder) -> Decoder:
    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not list:
            return copy_tree(value)
        return [decode_item(item, unknown) for item in value if item is not None]

    return decode


def _map(decode_item: Decoder) -> Decoder:
    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not dict:
            return copy_tree(value)
        return {key: decode_item(item, unknown) for key, item in value.items() if item is not None}

    return decode


def _whole_number(value: Any, unknown: list[str]) -> Any:
    """JSON has one number type: 4.0 is the integer 4."""
    if type(value) is float and value.is_integer():
        return int(value)
    return copy_tree(value)


def _keep(value: Any, unknown: list[str]) -> Any:
    return copy_tree(value)


def unknown_paths(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Paths of the fields that are not in the schema: `spec.x`, `spec.containers[0].y`."""
    name = schema.get("$ref")
    if name in definitions.SCHEMA_OR and isinstance(value, dict):
        name = definitions.JSON_SCHEMA
    if name in SPECIAL:
        return
    if name is not None:
        schema = definitions.lookup(name)
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from unknown_paths(schema["items"], item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    if isinstance(schema.get("additionalProperties"), dict):
        for key, item in value.items():
            yield from unknown_paths(schema["additionalProperties"], item, f"{path}.{key}")
        return
    properties = schema.get("properties", {})
    for field, item in value.items():
        below = f"{path}.{field}" if path else field
        if item is None:
            continue
        if field in properties:
            yield from unknown_paths(properties[field], item, below)
        elif not schema.get("x-kubernetes-preserve-unknown-fields") and schema.get("additionalProperties") is not True:
            yield below
