"""From a JSON tree to the protobuf form of its kind, for clients that accept nothing else.

Fields that the message does not know are left out, as in a Go server that has no such member.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ...base import instants
from ..scheme import Object
from .from_protobuf import INT_OR_STRING, MAGIC, QUANTITY
from .messages import APIEXTENSIONS, META, RUNTIME, UNKNOWN, MessageType, message, name_of

#: The tag of field 2, a message.
_ITEM = b"\x12"


def has_form(api_version: str, kind: str) -> bool:
    """Whether a kind can be written as protobuf."""
    return name_of(api_version, kind) is not None


def encode(obj: Object) -> bytes:
    """The envelope around an object of a kind that has a protobuf form."""
    api_version, kind = obj["apiVersion"], obj["kind"]
    name = name_of(api_version, kind)
    assert name is not None, f"{kind} has no protobuf form"
    envelope = message(UNKNOWN).new()
    envelope.typeMeta.apiVersion, envelope.typeMeta.kind = api_version, kind
    envelope.raw = _filled(message(name), obj).SerializeToString()
    return MAGIC + bytes(envelope.SerializeToString())


def item(api_version: str, kind: str, obj: Object) -> bytes:
    """An object without its envelope, as lists hold it."""
    name = name_of(api_version, kind)
    assert name is not None, f"{kind} has no protobuf form"
    return bytes(_filled(message(name), obj).SerializeToString())


def encode_list(api_version: str, kind: str, metadata: Object, items: Iterable[bytes]) -> bytes:
    """The envelope around a list of encoded items: `metadata` is field 1 of every list, `items` field 2."""
    name = name_of(api_version, kind)
    assert name is not None, f"{kind} has no protobuf form"
    parts = [_filled(message(name), {"metadata": metadata}).SerializeToString()]
    for one in items:
        parts += (_ITEM, _varint(len(one)), one)
    envelope = message(UNKNOWN).new()
    envelope.typeMeta.apiVersion, envelope.typeMeta.kind = api_version, kind
    envelope.raw = b"".join(parts)
    return MAGIC + bytes(envelope.SerializeToString())


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def frame(kind: str, obj: Object) -> bytes:
    """One event of a watch: its length in four bytes, then the event, which holds an enveloped object."""
    event = message(f"{META}.WatchEvent").new(type=kind)
    event.object.raw = encode(obj)
    raw = bytes(event.SerializeToString())
    return len(raw).to_bytes(4, "big") + raw


def _filled(known: MessageType, tree: Mapping[str, Any]) -> Any:
    made = known.new()
    _fill(known, made, tree)
    return made


def _fill(known: MessageType, made: Any, tree: Mapping[str, Any]) -> None:
    for json_name, value in tree.items():
        field = known.fields.get(json_name)
        if field is not None and value is not None:
            _set(known, made, field, value)
    for member in known.inline:
        inner = message(known.holds[member])
        if any(name in inner.fields for name in tree):
            _fill(inner, getattr(made, member), tree)


def _set(known: MessageType, made: Any, field: str, value: Any) -> None:
    holds, target = known.holds[field], getattr(made, field)
    if field in known.maps:
        for key, entry in value.items():
            if holds:
                target[key].CopyFrom(_one(holds, entry))
            else:
                target[key] = _scalar(known, field, entry)
    elif field in known.repeated:
        target.extend(_one(holds, entry) if holds else _scalar(known, field, entry) for entry in value)
    elif holds:
        target.CopyFrom(_one(holds, value))
        target.SetInParent()
    else:
        setattr(made, field, _scalar(known, field, value))


def _one(holds: str, value: Any) -> Any:
    special = _SPECIAL.get(holds)
    if special is not None:
        return special(message(holds), value)
    known = message(holds)
    if known.is_list:
        return known.new(items=value)
    return _filled(known, value)


def _scalar(known: MessageType, field: str, value: Any) -> Any:
    descriptor = known.new.DESCRIPTOR.fields_by_name[field]
    if field in known.maps:
        descriptor = descriptor.message_type.fields_by_name["value"]
    if descriptor.type != descriptor.TYPE_BYTES:
        return value
    try:
        return base64.b64decode(value)
    except (binascii.Error, ValueError):
        return b""


def _instant(known: MessageType, text: str) -> Any:
    moment = instants.parse(text)
    seconds = int(moment // 1)
    return known.new(seconds=seconds, nanos=round((moment - seconds) * 1e6) * 1000)


def _int_or_string(known: MessageType, value: Any) -> Any:
    return known.new(type=1, strVal=value) if isinstance(value, str) else known.new(type=0, intVal=value)


def _embedded(field: str) -> Callable[[MessageType, Any], Any]:
    return lambda known, value: known.new(**{field: msgspec.json.encode(value)})


def _schema_or(other: str) -> Callable[[MessageType, Any], Any]:
    def write(known: MessageType, value: Any) -> Any:
        schema = message(f"{APIEXTENSIONS}.v1.JSONSchemaProps")
        if isinstance(value, dict):
            return known.new(schema=_filled(schema, value), **({"allows": True} if other == "allows" else {}))
        if isinstance(value, list):
            entries = [entry if isinstance(entry, str) else _filled(schema, entry) for entry in value]
            return known.new(**{other: entries})
        return known.new(**{other: value})

    return write


_SPECIAL: dict[str, Callable[[MessageType, Any], Any]] = {
    f"{META}.Time": _instant,
    f"{META}.MicroTime": _instant,
    f"{META}.FieldsV1": _embedded("Raw"),
    f"{RUNTIME}.RawExtension": _embedded("raw"),
    f"{APIEXTENSIONS}.v1.JSON": _embedded("raw"),
    f"{APIEXTENSIONS}.v1.JSONSchemaPropsOrArray": _schema_or("jSONSchemas"),
    f"{APIEXTENSIONS}.v1.JSONSchemaPropsOrBool": _schema_or("allows"),
    f"{APIEXTENSIONS}.v1.JSONSchemaPropsOrStringArray": _schema_or("property"),
    QUANTITY: lambda known, value: known.new(string=str(value)),
    INT_OR_STRING: _int_or_string,
}
