"""Validates custom kinds against their schema: types, required fields, enums, limits, patterns, unique keys.

All errors are reported together, with the messages of kube-apiserver for custom resources.  Inside native types only
what their published schemas contain applies: enums and limits of native types are code.
"""

from __future__ import annotations

import binascii
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ...base import instants
from .. import errors
from ..errors import FieldError
from . import definitions, expressions
from .definitions import Schema

_QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_STRING_OR_NUMBER: Schema = {"x-kubernetes-int-or-string": True}
#: Native types that are not the structs they look like.
SPECIAL: dict[str, Schema] = {
    definitions.QUANTITY: {**_STRING_OR_NUMBER, "pattern": _QUANTITY_PATTERN},
    definitions.INT_OR_STRING: _STRING_OR_NUMBER,
    definitions.TIME: {"type": "string", "format": "date-time"},
    definitions.MICRO_TIME: {"type": "string", "format": "date-time"},
}
#: The keyword of patterns that come with a CustomResourceDefinition.
FOREIGN_PATTERN = "x-foreign-pattern"
#: The old value of something new.
ABSENT: Any = object()
_PYTHON_TYPES: dict[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool}
_INTEGER_LIMITS = {"int32": 2**31 - 1, "int64": 2**63 - 1}


def validate(schema: Schema, obj: Any) -> list[FieldError]:
    """Every error of the object against its definition."""
    problems: list[FieldError] = []
    for field, inner in schema["properties"].items():
        if field in obj and field not in ("apiVersion", "kind", "metadata"):
            problems += _walk(inner, obj[field], field, native=False)
    problems += [errors.required(field) for field in schema.get("required", ()) if field not in obj]
    return problems


def validate_custom(schema: Mapping[str, Any], obj: Any, old: Any = None) -> list[FieldError]:
    """Every error of an object against the structural schema of its CustomResourceDefinition.

    What an update leaves as it is in `old` is not an error: a schema may have become stricter since.
    """
    properties = schema.get("properties", {})
    own = {name: inner for name, inner in properties.items() if name not in ("apiVersion", "kind", "metadata")}
    required = [name for name in schema.get("required", ()) if name not in ("apiVersion", "kind", "metadata")]
    before = ABSENT if old is None else old
    problems = list(_walk({**schema, "properties": own, "required": required}, obj, "", native=False, old=before))
    named = properties.get("metadata", {}).get("properties", {})
    for name, inner in named.items():
        if name in obj["metadata"]:
            problems += _walk(inner, obj["metadata"][name], f"metadata.{name}", native=False)
    return problems


def validate_value(schema: Mapping[str, Any], value: Any, path: str) -> list[FieldError]:
    """Every error of a value against a schema without references."""
    return list(_walk(dict(schema), value, path, native=False))


def _walk(schema: Schema, value: Any, path: str, *, native: bool, old: Any = ABSENT) -> Iterator[FieldError]:
    if old is not ABSENT and old == value and type(old) is type(value):
        return
    name = schema.get("$ref")
    if name is not None:
        native = native or definitions.is_native(name)
        schema = SPECIAL.get(name) or definitions.lookup(name)
    if value is None and schema.get("nullable"):
        return
    wrong = _type_error(schema, value, path)
    if wrong is not None:
        yield wrong
        return
    if (
        not native
        and "enum" in schema
        and not (type(value) is str and value in schema["enum"])
        and not _among(value, schema["enum"])
    ):
        yield errors.not_supported(path, value, schema["enum"])
    if not _JUNCTORS.isdisjoint(schema):
        yield from _junctors(schema, value, path)
    if isinstance(value, dict):
        yield from _object(schema, value, path, native=native, old=old)
    elif isinstance(value, list):
        yield from _list(schema, value, path, native=native, old=old)
    elif isinstance(value, str):
        yield from _string(schema, value, path)
    elif not isinstance(value, bool):
        yield from _number(schema, value, path)


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) or value.is_integer() else "number"
    return next((name for name, python_type in _PYTHON_TYPES.items() if isinstance(value, python_type)), "null")


def _type_error(schema: Schema, value: Any, path: str) -> FieldError | None:
    wanted: str = schema.get("type", "")
    if type(value) is _PYTHON_TYPES.get(wanted):
        return None  # by far the most frequent case
    kind = _json_type(value)
    if schema.get("x-kubernetes-int-or-string"):
        right, wanted = kind in ("integer", "string"), "integer,string"
    elif wanted == "integer":
        right = kind == "integer"
    elif wanted == "number":
        right = kind in ("integer", "number")
    else:
        # A definition may name a type that there is not; it is refused for that.
        right = wanted not in _PYTHON_TYPES or isinstance(value, _PYTHON_TYPES[wanted])
    if right:
        return None
    return errors.type_invalid(path, kind, f'{_body(path)} must be of type {wanted}: "{kind}"')


def _object(schema: Schema, value: dict[str, Any], path: str, *, native: bool, old: Any) -> Iterator[FieldError]:
    if len(value) < schema.get("minProperties", 0):
        detail = f"{_body(path)} should have at least {schema['minProperties']} properties"
        yield errors.invalid(path, len(value), detail)
    if len(value) > schema.get("maxProperties", len(value)):
        yield errors.too_many(path, len(value), schema["maxProperties"])
    prefix = f"{path}." if path else ""
    for field in schema.get("required", ()):
        if field not in value:
            yield errors.required(prefix + field)
    if schema.get("x-kubernetes-embedded-resource"):
        yield from (errors.required(prefix + field) for field in ("apiVersion", "kind") if not value.get(field))
    properties = schema.get("properties", {})
    entries = schema.get("additionalProperties")
    was_object = isinstance(old, dict)
    for field, item in value.items():
        inner = properties.get(field, entries if isinstance(entries, dict) else None)
        if inner is not None:
            before = old.get(field, ABSENT) if was_object else ABSENT
            yield from _walk(inner, item, prefix + field, native=native, old=before)


def _list(schema: Schema, value: list[Any], path: str, *, native: bool, old: Any) -> Iterator[FieldError]:
    if len(value) > schema.get("maxItems", len(value)):
        yield errors.too_many(path, len(value), schema["maxItems"])
    if len(value) < schema.get("minItems", 0):
        yield errors.invalid(path, len(value), f"{path} in body should have at least {schema['minItems']} items")
    yield from _duplicates(schema, value, path)
    items = schema.get("items")
    if items is not None:
        before = None if old is ABSENT else correlated(schema, old)
        for index, item in enumerate(value):
            was = before(item) if before is not None else ABSENT
            yield from _walk(items, item, f"{path}[{index}]", native=native, old=was)


def correlated(schema: Mapping[str, Any], old: Any) -> Callable[[Any], Any]:
    """From an item of a list to the item with the same keys in the old list; only lists that are maps have keys."""
    keys = schema.get("x-kubernetes-list-map-keys") if schema.get("x-kubernetes-list-type") == "map" else None
    if not keys or not isinstance(old, list):
        return lambda _item: ABSENT

    def identity(item: Any) -> Any:
        return tuple(str(item.get(key)) for key in keys) if isinstance(item, dict) else None

    known = {identity(item): item for item in old}
    return lambda item: known.get(identity(item), ABSENT)


def _duplicates(schema: Schema, value: list[Any], path: str) -> Iterator[FieldError]:
    """List maps have unique keys, sets unique items."""
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("map", "set"):
        return
    keys = schema.get("x-kubernetes-list-map-keys", ())
    seen: dict[bytes, None] = {}
    for index, item in enumerate(value):
        identity = {key: item.get(key) for key in keys} if kind == "map" and isinstance(item, dict) else item
        encoded = msgspec.json.encode(identity, order="sorted")
        if encoded in seen:
            yield FieldError("FieldValueDuplicate", f"{path}[{index}]", f"Duplicate value: {encoded.decode()}")
        seen[encoded] = None


def _body(path: str) -> str:
    return f"{path} in body" if path else "body"


def _among(value: Any, allowed: list[Any]) -> bool:
    """Whether JSON has the value in the list: true is not 1."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed)


#: Keywords that combine schemas.
_JUNCTORS = frozenset(("allOf", "anyOf", "oneOf", "not"))


def _junctors(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    for inner in schema.get("allOf", ()):
        yield from _walk(inner, value, path, native=False)
    if "anyOf" in schema and not any(_fits(inner, value) for inner in schema["anyOf"]):
        yield _of_whole(path, "must validate at least one schema (anyOf)")
        yield from _of_best(schema["anyOf"], value, path)
    if "oneOf" in schema:
        fitting = sum(_fits(inner, value) for inner in schema["oneOf"])
        if fitting != 1:
            found = "Found none valid" if not fitting else f"Found {fitting} valid alternatives"
            yield _of_whole(path, f"must validate one and only one schema (oneOf). {found}")
        if not fitting:
            yield from _of_best(schema["oneOf"], value, path)
    if "not" in schema and _fits(schema["not"], value):
        yield _of_whole(path, "must not validate the schema (not)")


def _of_whole(path: str, detail: str) -> FieldError:
    """An error of a combination; upstream names its field in the message alone."""
    return errors.invalid("<nil>", "", f'"{path}" {detail}')


def _fits(schema: Schema, value: Any) -> bool:
    return next(_walk(schema, value, "", native=False), None) is None


def _of_best(schemas: list[Schema], value: Any, path: str) -> list[FieldError]:
    """The errors of the alternative that comes nearest."""
    return min((list(_walk(inner, value, path, native=False)) for inner in schemas), key=len, default=[])


def _string(schema: Schema, value: str, path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxLength", len(value)):
        yield errors.too_long(path, schema["maxLength"])
    if len(value) < schema.get("minLength", 0):
        yield errors.invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
    pattern = schema.get("pattern")
    if pattern is not None and re.search(pattern, value) is None:
        yield errors.invalid(path, value, f"{path} in body should match '{pattern}'")
    foreign = schema.get(FOREIGN_PATTERN)
    if foreign is not None and not expressions.matches(foreign, value):
        yield errors.invalid(path, value, f"{path} in body should match '{foreign}'")
    form = schema.get("format")
    if form is not None and form in _FORMATS and not _is_of(form, value):
        yield errors.type_invalid(path, value, f'{path} in body must be of type {form}: "{value}"')


def _uuid(version: str) -> Callable[[str], object]:
    return re.compile(
        rf"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?[0-9a-f]{{4}}-?[0-9a-f]{{12}}"
    ).fullmatch


_HOSTNAME = re.compile(r"([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*")
_EMAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+")
#: Formats that are checked: a check returns nothing or raises `ValueError` for a text that is not of its form.
_FORMATS: dict[str, Callable[[str], object]] = {
    "date-time": instants.parse,
    "datetime": instants.parse,
    "date": lambda text: instants.parse(f"{text}T00:00:00Z"),
    "byte": lambda text: binascii.a2b_base64(text, strict_mode=True) or not text,
    "duration": expressions.duration,
    "email": _EMAIL.fullmatch,
    "hostname": _HOSTNAME.fullmatch,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "cidr": lambda text: "/" in text and ipaddress.ip_interface(text),
    "mac": re.compile(r"(?i)([0-9a-f]{2}[:-]){5}[0-9a-f]{2}").fullmatch,
    "uri": re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*:\S+|/\S*)").fullmatch,
    "uuid": _uuid("[0-9a-f]"),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
}


def _is_of(form: str, text: str) -> bool:
    try:
        found = _FORMATS[form](text)
    except (ValueError, IndexError):
        return False
    return found is not None and found is not False


def _number(schema: Schema, value: int | float, path: str) -> Iterator[FieldError]:
    limit = _INTEGER_LIMITS.get(schema.get("format", ""))
    lowest = schema.get("minimum", None if limit is None else -limit - 1)
    highest = schema.get("maximum", limit)
    if lowest is not None:
        if schema.get("exclusiveMinimum") and value == lowest:
            yield errors.invalid(path, value, f"{path} in body should be greater than {lowest}")
        elif value < lowest:
            yield errors.invalid(path, value, f"{path} in body should be greater than or equal to {lowest}")
    if highest is not None:
        if schema.get("exclusiveMaximum") and value == highest:
            yield errors.invalid(path, value, f"{path} in body should be less than {highest}")
        elif value > highest:
            yield errors.invalid(path, value, f"{path} in body should be less than or equal to {highest}")
    factor = schema.get("multipleOf")
    if factor and value % factor:
        yield errors.invalid(path, value, f"{path} in body should be a multiple of {factor}")
