"""From a protobuf body to the JSON tree that the same client would have sent as JSON.

    bytes ─► envelope (apiVersion, kind, raw) ─► message of the kind ─► tree

Go writes every scalar that is not a pointer, so a zero is left out unless the field is a pointer.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec

from ...base import instants
from ..scheme import Object
from .messages import APIEXTENSIONS, META, RUNTIME, UNKNOWN, MessageType, message, name_of

MAGIC = b"k8s\x00"
QUANTITY = "k8s.io.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "k8s.io.apimachinery.pkg.util.intstr.IntOrString"
#: What stands for "leave the field out".
_ABSENT = object()


class NotProtobuf(ValueError):
    """The body is no protobuf form of a kind that has one; the text says why."""


def decode(body: bytes, default: tuple[str, str] = ("", "")) -> Object:
    """The object in a body; `default` is the apiVersion and kind of a body that names none; raises `NotProtobuf`."""
    if not body.startswith(MAGIC):
        raise NotProtobuf("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = _parse(message(UNKNOWN), body[len(MAGIC) :])
    api_version = envelope.typeMeta.apiVersion or default[0]
    kind = envelope.typeMeta.kind or default[1]
    name = name_of(api_version, kind)
    if name is None:
        raise NotProtobuf(f'no kind "{kind}" is registered for version "{api_version}" in protobuf form')
    known = message(name)
    return {"apiVersion": api_version, "kind": kind, **_tree(known, _parse(known, envelope.raw))}


def _parse(known: MessageType, raw: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return known.new.FromString(raw)
    except DecodeError:
        short = known.name.rpartition(".")[2]
        raise NotProtobuf(f"{short}: the message is torn, too deep, or has strings that are not UTF-8") from None


def _tree(known: MessageType, found: Any) -> Object:
    tree: Object = {}
    for descriptor, value in found.ListFields():
        field = descriptor.name
        if field in known.inline:
            tree.update(_tree(message(known.holds[field]), value))
            continue
        plain = _field(known, field, value)
        if plain is not _ABSENT:
            tree[known.json_names[field]] = plain
    return tree


def _field(known: MessageType, field: str, value: Any) -> Any:
    holds = known.holds[field]
    if field in known.maps:
        return {key: _present(_one(holds, value[key])) for key in sorted(value)}
    if field in known.repeated:
        return [_present(_one(holds, entry)) for entry in value]
    if holds:
        return _one(holds, value)
    if not value and field not in known.pointers:
        return _ABSENT
    return _scalar(value)


def _one(holds: str, value: Any) -> Any:
    if not holds:
        return _scalar(value)
    special = _SPECIAL.get(holds)
    if special is not None:
        return special(value)
    known = message(holds)
    if known.is_list:
        return list(value.items)
    return _tree(known, value)


def _present(value: Any) -> Any:
    """An entry of a list or map, which cannot be left out."""
    return None if value is _ABSENT else value


def _scalar(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _instant(write: Callable[[float], str]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not value.ByteSize():  # Go writes its zero time as nothing at all
            return _ABSENT
        try:
            return write(value.seconds + value.nanos / 1e9)
        except (ValueError, OverflowError, OSError):
            raise NotProtobuf(f"{value.seconds} seconds are no time") from None

    return read


def _int_or_string(value: Any) -> Any:
    return value.strVal if value.type == 1 else value.intVal


def _embedded(field: str) -> Callable[[Any], Any]:
    """JSON that travels as bytes inside a message."""

    def read(value: Any) -> Any:
        raw = getattr(value, field)
        try:
            return msgspec.json.decode(raw) if raw else _ABSENT
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as refused:
            raise NotProtobuf(f"embedded JSON: {refused}") from None

    return read


def _schema_or(other: str) -> Callable[[Any], Any]:
    """A JSON schema, or something simpler in its place."""
    schema = f"{APIEXTENSIONS}.v1.JSONSchemaProps"

    def read(value: Any) -> Any:
        if value.HasField("schema"):
            return _tree(message(schema), value.schema)
        simpler = getattr(value, other)
        if isinstance(simpler, bool):
            return simpler
        return [_one("" if isinstance(entry, str) else schema, entry) for entry in simpler]

    return read


_SPECIAL: dict[str, Callable[[Any], Any]] = {
    f"{META}.Time": _instant(instants.to_time),
    f"{META}.MicroTime": _instant(instants.to_micro_time),
    f"{META}.FieldsV1": _embedded("Raw"),
    f"{RUNTIME}.RawExtension": _embedded("raw"),
    f"{APIEXTENSIONS}.v1.JSON": _embedded("raw"),
    f"{APIEXTENSIONS}.v1.JSONSchemaPropsOrArray": _schema_or("jSONSchemas"),
    f"{APIEXTENSIONS}.v1.JSONSchemaPropsOrBool": _schema_or("allows"),
    f"{APIEXTENSIONS}.v1.JSONSchemaPropsOrStringArray": _schema_or("property"),
    QUANTITY: lambda value: value.string,
    INT_OR_STRING: _int_or_string,
}
