"""Decodes built-in kinds: from the JSON tree of a client to a new tree in canonical form, as Go's decoder would.

Each definition is compiled once into nested closures, so that decoding only walks the object.  A wrong type is an
error with Go's message; nulls, unknown fields and the zeros that Go omits are dropped; quantities and times are
written in canonical form.  The closures only record *that* a field was unknown; its path is found by a second walk
(`pruning.unknown_paths`), which is rare.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from ...base import instants, quantity
from ..scheme import Object
from . import definitions
from .definitions import Schema

#: (value, unknown) → decoded value, or None to drop it; the names of unknown fields are added to `unknown`.
Decoder = Callable[[Any, list[str]], Any]

#: Timestamps that are already canonical: whole seconds, UTC, a day that every month has.
_WHOLE_SECONDS = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ")
_INTEGER_LIMITS = {"int32": 2**31, "int64": 2**63}


class TypeMismatch(Exception):
    """A value that Go's decoder would reject.  Collects the field path while it is raised."""

    def __init__(self, what: str, *, go_type: str = "") -> None:
        super().__init__(what)
        self._what = what
        self._go_type = go_type
        self._struct = ""
        self._path: list[str] = []

    def within(self, struct: str, field: str) -> None:
        self._struct = self._struct or struct
        self._path.append(field)

    def text(self) -> str:
        """The message of Go's decoder."""
        if not self._go_type:
            return self._what
        if not self._struct:
            return f"json: cannot unmarshal {self._what} into Go value of type {self._go_type}"
        field = ".".join([self._struct, *reversed(self._path)])
        return f"json: cannot unmarshal {self._what} into Go struct field {field} of type {self._go_type}"


def json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def typed(name: str) -> Decoder:
    """The decoder of one definition."""
    return SPECIAL[name] if name in SPECIAL else _struct(name)


@cache
def _struct(name: str) -> Decoder:
    go_type = definitions.go_type(name)
    struct = name.rsplit(".", 1)[-1]
    # Compiled on first use: only used definitions are compiled, and definitions may be recursive.
    fields: dict[str, Decoder] = {}

    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise TypeMismatch(json_kind(value), go_type=go_type)
        if not fields:
            fields.update(_compile_fields(name))
        made: Object = {}
        field = ""
        try:
            for field, item in value.items():
                if item is None:
                    continue
                child = fields.get(field)
                if child is None:
                    unknown.append(field)
                    continue
                result = child(item, unknown)
                if result is not None:
                    made[field] = result
        except TypeMismatch as mismatch:
            mismatch.within(struct, field)
            raise
        return made

    return decode


def _compile_fields(name: str) -> dict[str, Decoder]:
    properties = definitions.lookup(name).get("properties", {})
    return {field: _field(schema) for field, schema in properties.items()}


def _field(schema: Schema) -> Decoder:
    """One field of a struct: Go's `omitempty` drops its zero unless it is a struct, a pointer or always written."""
    decode = _value(schema)
    if "$ref" in schema or schema.get("x-pointer") or schema.get("x-written"):
        return decode
    return _string_or_omit if decode is _string else _omit_empty(decode)


def _omit_empty(decode: Decoder) -> Decoder:
    def decode_or_omit(value: Any, unknown: list[str]) -> Any:
        return decode(value, unknown) or None

    return decode_or_omit


def _value(schema: Schema) -> Decoder:
    if "$ref" in schema:
        return typed(schema["$ref"])
    kind = schema.get("type")
    if kind == "string":
        return _base64 if schema.get("format") == "byte" else _string
    if kind == "integer":
        return _integer(schema.get("format", "int64"))
    if kind == "boolean":
        return _boolean
    if kind == "number":
        return _number
    if kind == "array":
        return _list(schema["items"])
    if "additionalProperties" in schema:
        return _map(schema["additionalProperties"])
    return _free_form


def _go_name(schema: Schema) -> str:
    """The Go type of a schema, as in Go's messages."""
    if "$ref" in schema:
        return definitions.go_type(schema["$ref"])
    kind = schema.get("type")
    if kind == "array":
        return "[]" + _go_name(schema["items"])
    if "additionalProperties" in schema:
        return "map[string]" + _go_name(schema["additionalProperties"])
    if kind == "integer":
        return str(schema.get("format", "int64"))
    if schema.get("format") == "byte":
        return "[]uint8"
    return {"string": "string", "boolean": "bool", "number": "float64"}.get(str(kind), "interface {}")


def _list(items: Schema) -> Decoder:
    decode_item = _value(items)
    go_type = "[]" + _go_name(items)

    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not list:
            raise TypeMismatch(json_kind(value), go_type=go_type)
        return [decode_item(item, unknown) for item in value if item is not None]

    return decode


def _map(values: Schema) -> Decoder:
    decode_item = _value(values)
    go_type = "map[string]" + _go_name(values)

    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise TypeMismatch(json_kind(value), go_type=go_type)
        return {key: decode_item(item, unknown) for key, item in value.items() if item is not None}

    return decode


def _string(value: Any, unknown: list[str]) -> Any:
    if type(value) is not str:
        raise TypeMismatch(json_kind(value), go_type="string")
    return value


def _string_or_omit(value: Any, unknown: list[str]) -> Any:
    if type(value) is not str:
        raise TypeMismatch(json_kind(value), go_type="string")
    return value or None


def _boolean(value: Any, unknown: list[str]) -> Any:
    if type(value) is not bool:
        raise TypeMismatch(json_kind(value), go_type="bool")
    return value


def _number(value: Any, unknown: list[str]) -> Any:
    if type(value) is not int and type(value) is not float:
        raise TypeMismatch(json_kind(value), go_type="float64")
    return value


@cache
def _integer(width: str) -> Decoder:
    limit = _INTEGER_LIMITS[width]

    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            kind = json_kind(value)
            raise TypeMismatch(f"number {value}" if kind == "number" else kind, go_type=width)
        return value

    return decode


def _base64(value: Any, unknown: list[str]) -> Any:
    if type(value) is not str:
        raise TypeMismatch(json_kind(value), go_type="[]uint8")
    try:
        # Line breaks are allowed inside, as manifests wrap long values; what is stored has none.
        data = binascii.a2b_base64(value.replace("\n", "").replace("\r", ""), strict_mode=True)
    except ValueError as refused:
        raise TypeMismatch("illegal base64 data: the value must be encoded in standard base64") from refused
    return binascii.b2a_base64(data, newline=False).decode()


def _quantity(value: Any, unknown: list[str]) -> Any:
    if type(value) not in (str, int, float):
        raise TypeMismatch(quantity.WRONG_FORMAT)
    try:
        return quantity.canonical(value)
    except ValueError as refused:
        raise TypeMismatch(str(refused)) from refused


def _int_or_string(value: Any, unknown: list[str]) -> Any:
    if type(value) is str:
        return value
    if type(value) is not int or not -(2**31) <= value < 2**31:
        kind = json_kind(value)
        shown = f"number {value}" if kind == "number" else kind
        raise TypeMismatch(f"json: cannot unmarshal {shown} into Go value of type int32")
    return value


def _instant(write: Callable[[float], str], layout: str) -> Decoder:
    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is not str:
            raise TypeMismatch(f"json: cannot unmarshal {json_kind(value)} into Go value of type string")
        if layout == "2006-01-02T15:04:05Z07:00" and _WHOLE_SECONDS.fullmatch(value):
            return value
        try:
            return write(instants.parse(value))
        except ValueError as refused:
            raise TypeMismatch(f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"') from refused

    return decode


def _free_form(value: Any, unknown: list[str]) -> Any:
    return copy_tree(value)


def _schema_or(value: Any, unknown: list[str]) -> Any:
    """A JSON schema, a flag, or a list of schemas or names."""
    if type(value) is list:
        return [item if type(item) is str else _struct(definitions.JSON_SCHEMA)(item, unknown) for item in value]
    return value if type(value) is bool else _struct(definitions.JSON_SCHEMA)(value, unknown)


def _any_json(value: Any, unknown: list[str]) -> Any:
    """A value with its nulls."""
    if type(value) is dict:
        return {key: _any_json(item, unknown) for key, item in value.items()}
    return [_any_json(item, unknown) for item in value] if type(value) is list else value


def copy_tree(value: Any) -> Any:
    """A fresh copy of a JSON tree without its null members."""
    if type(value) is dict:
        return {key: copy_tree(item) for key, item in value.items() if item is not None}
    if type(value) is list:
        return [copy_tree(item) for item in value]
    return value


_FREE_FORM = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
}
SPECIAL: dict[str, Decoder] = {
    definitions.ANY_JSON: _any_json,
    **dict.fromkeys(definitions.SCHEMA_OR, _schema_or),
    definitions.QUANTITY: _quantity,
    definitions.INT_OR_STRING: _int_or_string,
    definitions.TIME: _instant(instants.to_time, "2006-01-02T15:04:05Z07:00"),
    definitions.MICRO_TIME: _instant(instants.to_micro_time, "2006-01-02T15:04:05.000000Z07:00"),
    **dict.fromkeys(_FREE_FORM, _free_form),
}
