"""Rules of the schemas in a CustomResourceDefinition: they must be structural, so that pruning and defaulting work.

structure   every field has a type outside of allOf, anyOf, oneOf and not; these hold value checks only
keywords    list and map types fit together; keywords that Kubernetes does not support are refused
defaults    a default is itself valid and has no unknown fields
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import FieldError, forbidden_field, invalid, not_supported, required
from ..schema import expressions, schema_validation, structural
from . import validation_rules

Schema = Mapping[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
#: Levels of fields; every kind of one's own needs far fewer, and each costs several calls.
_DEEPEST = 80
_META = ("apiVersion", "kind", "metadata")
_STRING_FORMATS = frozenset(
    (
        "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5",
        "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration",
        "datetime", "date-time", "k8s-short-name", "k8s-long-name",
    )
)  # fmt: skip
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
#: Keywords that say what a value is, which value checks inside of junctors may not.
_STRUCTURE = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def check(path: str, schema: Schema) -> list[FieldError]:
    """All errors of the schema of one version."""
    if _depth(schema) > _DEEPEST:
        return [invalid(path, "", f"schemas are nested at most {_DEEPEST} levels deep")]
    problems = sorted(_structure(path, schema, "root"), key=str)
    if schema.get("nullable"):
        problems.append(forbidden_field(f"{path}.nullable", "nullable cannot be true at the root"))
    problems += _keywords(path, schema, root=True)
    if not problems:
        problems = list(_complete(path, schema))
    if not problems:
        problems = list(_defaults(path, schema))
    return problems or list(validation_rules.check_schema(path, schema))


def unknown_formats(schema: Schema) -> Iterator[str]:
    """Formats of strings that nothing checks."""
    if schema.get("type") == "string" and schema.get("format") and schema["format"] not in _STRING_FORMATS:
        yield schema["format"]
    for _, inner, _ in _children(schema):
        yield from unknown_formats(inner)


def _depth(schema: Schema) -> int:
    """Levels of lists and objects, counted without recursion."""
    deepest, left = 0, list[tuple[int, Any]]([(1, schema)])
    while left:
        depth, value = left.pop()
        deepest = max(deepest, depth)
        if depth <= 4 * _DEEPEST and isinstance(value, (dict, list)):
            below = value.values() if isinstance(value, dict) else value
            left.extend((depth + 1, one) for one in below if isinstance(one, (dict, list)))
    return deepest // 2


# -- structure ---------------------------------------------------------------------------------------------------


def _structure(path: str, schema: Schema, level: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified")
    for step, inner, below in _children(schema):
        yield from _structure(f"{path}.{step}", inner, below)
    if "additionalProperties" in schema and level == "root":
        yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    yield from _extensions(path, schema, kind, level)
    yield from _value_checks(path, schema)
    if level == "root" or schema.get("x-kubernetes-embedded-resource"):
        yield from _object_fields(path, schema, level)


def _children(schema: Schema) -> Iterator[tuple[str, Schema, str]]:
    """The step to each schema inside, the schema, and its level."""
    if isinstance(schema.get("items"), dict):
        yield "items", schema["items"], "item"
    for name, inner in (schema.get("properties") or {}).items():
        yield f"properties[{name}]", inner, "field"
    if isinstance(schema.get("additionalProperties"), dict):
        yield "additionalProperties", schema["additionalProperties"], "field"


def _extensions(path: str, schema: Schema, kind: str, level: str) -> Iterator[FieldError]:
    free, embedded = (schema.get(f"x-kubernetes-{name}") for name in ("preserve-unknown-fields", "embedded-resource"))
    either = schema.get("x-kubernetes-int-or-string")
    if either and free:
        detail = "must be false if x-kubernetes-int-or-string is true"
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", True, detail)
    if either and embedded:
        detail = "must be false if x-kubernetes-int-or-string is true"
        yield invalid(f"{path}.x-kubernetes-embedded-resource", True, detail)
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)
    elif not kind and not either and not free:
        yield required(f"{path}.type", _EMPTY_TYPE[level])
    if embedded and "additionalProperties" in schema:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden_field(f"{path}.additionalProperties", detail)
    if embedded and not free and not schema.get("properties"):
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", detail)
    if level == "root" and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")


def _object_fields(path: str, schema: Schema, level: str) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    where = f"{path}.properties[metadata]"
    if metadata.get("type") != "object":
        yield invalid(f"{where}.type", metadata.get("type", ""), "must be object")
    other = set(metadata) - {"type", "description", "title", "default", "properties", "required"}
    if level == "root" and (other or set(metadata.get("properties") or ()) - {"name", "generateName"}):
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden_field(where, detail)


def _value_checks(path: str, schema: Schema) -> Iterator[FieldError]:
    either = bool(schema.get("x-kubernetes-int-or-string"))
    for junctor in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(junctor) or ()):
            if junctor == "anyOf" and either and schema["anyOf"] == _INT_OR_STRING:
                continue
            if junctor == "allOf" and either and index == 0 and inner.get("anyOf") == _INT_OR_STRING:
                inner = {key: value for key, value in inner.items() if key != "anyOf"}
            yield from _nested(f"{path}.{junctor}[{index}]", inner)
    if isinstance(schema.get("not"), dict):
        yield from _nested(f"{path}.not", schema["not"])
    if schema.get("pattern"):
        try:
            expressions.matches(schema["pattern"], "")
        except expressions.BadExpression as problem:
            detail = f"must be a valid regular expression, but isn't: {problem}"
            yield invalid(f"{path}.pattern", schema["pattern"], detail)


def _nested(path: str, schema: Schema) -> Iterator[FieldError]:
    """A schema inside of a junctor: value checks alone."""
    yield from _value_checks(path, schema)
    for keyword, detail in _STRUCTURE.items():
        if schema.get(keyword) not in (None, "", False, []):
            yield forbidden_field(f"{path}.{keyword}", detail)
    for step, inner, _ in _children(schema):
        if step != "additionalProperties":
            yield from _nested(f"{path}.{step}", inner)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden_field(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _complete(path: str, schema: Schema) -> Iterator[FieldError]:
    """Fields that are named inside of junctors must be named outside too."""
    for junctor in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(junctor) or ()):
            yield from _covered(path, schema, inner, f"{path}.{junctor}[{index}]")
    if isinstance(schema.get("not"), dict):
        yield from _covered(path, schema, schema["not"], f"{path}.not")
    for step, inner, _ in _children(schema):
        yield from _complete(f"{path}.{step}", inner)


def _covered(path: str, outer: Schema, inner: Schema, where: str) -> Iterator[FieldError]:
    if isinstance(inner.get("items"), dict):
        if not isinstance(outer.get("items"), dict):
            yield required(f"{path}.items", f"because it is defined in {where}.items")
        else:
            yield from _covered(f"{path}.items", outer["items"], inner["items"], f"{where}.items")
    for name, below in (inner.get("properties") or {}).items():
        known = (outer.get("properties") or {}).get(name)
        step = f"properties[{name}]"
        if known is None:
            yield required(f"{path}.{step}", f"because it is defined in {where}.{step}")
        else:
            yield from _covered(f"{path}.{step}", known, below, f"{where}.{step}")
    for junctor in ("allOf", "anyOf", "oneOf"):
        for index, below in enumerate(inner.get(junctor) or ()):
            yield from _covered(path, outer, below, f"{where}.{junctor}[{index}]")
    if isinstance(inner.get("not"), dict):
        yield from _covered(path, outer, inner["not"], f"{where}.not")


# -- defaults ----------------------------------------------------------------------------------------------------


def _defaults(path: str, schema: Schema) -> Iterator[FieldError]:
    """Each default fits its own schema and has only fields that the schema names."""
    if "default" in schema:
        where, value = f"{path}.default", schema["default"]
        unknown = structural.unknown_in(schema, value)
        if unknown:
            yield invalid(where, value, "must not have unknown fields")
        else:
            filled = structural.filled_in(schema, value)
            for problem in schema_validation.validate_value(structural.with_foreign_patterns(schema), filled, ""):
                yield FieldError(
                    problem.reason, where + (f".{problem.field}" if problem.field else ""), problem.message
                )
    for step, inner, _ in _children(schema):
        yield from _defaults(f"{path}.{step}", inner)


# -- keywords ----------------------------------------------------------------------------------------------------


def _keywords(path: str, schema: Schema, *, root: bool = False, no_default: str = "") -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if "default" in schema and no_default:
        yield forbidden_field(f"{path}.default", f"must not be set {no_default}")
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            yield forbidden_field(f"{path}.{keyword}", f"{keyword} is not supported")
    if "$ref" in schema:
        yield forbidden_field(f"{path}.$ref", "$ref is not supported")
    if kind == "null":
        yield forbidden_field(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", detail)
    if schema.get("properties") and "additionalProperties" in schema and schema["additionalProperties"] is not True:
        yield forbidden_field(
            f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    yield from _list_and_map(path, schema, kind)
    yield from _parts(path, schema, root=root, no_default=no_default)


def _parts(path: str, schema: Schema, *, root: bool, no_default: str) -> Iterator[FieldError]:
    for step, inner, _ in _children(schema):
        reason = no_default
        if root and step in (f"properties[{name}]" for name in _META):
            reason = f"in top-level {step[11:-1]}"
        yield from _keywords(f"{path}.{step}", inner, no_default=reason)
    for junctor in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(junctor) or ()):
            yield from _keywords(f"{path}.{junctor}[{index}]", inner, no_default=no_default)
    if isinstance(schema.get("not"), dict):
        yield from _keywords(f"{path}.not", schema["not"], no_default=no_default)


def _list_and_map(path: str, schema: Schema, kind: str) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    for keyword, wanted, allowed in (
        ("x-kubernetes-map-type", "object", ("atomic", "granular")),
        ("x-kubernetes-list-type", "array", ("atomic", "set", "map")),
    ):
        said = schema.get(keyword)
        if said is None:
            continue
        if kind != wanted:
            detail = f"must be {wanted} if {keyword} is specified"
            yield invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)
        if said not in allowed:
            yield not_supported(f"{path}.{keyword}", said, allowed)
    yield from _keyed(
        path, schema, schema.get("x-kubernetes-list-map-keys") or (), schema.get("x-kubernetes-list-type")
    )


def _keyed(path: str, schema: Schema, keys: Sequence[str], list_type: str | None) -> Iterator[FieldError]:
    """Lists that are maps or sets."""
    items = schema.get("items") if isinstance(schema.get("items"), dict) else None
    if keys and list_type != "map":
        where, detail = f"{path}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty"
        yield invalid(where, list_type, detail) if list_type else required(where, detail)
    if list_type not in ("map", "set") or items is None:
        return
    if items.get("nullable"):
        yield forbidden_field(
            f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        )
    if list_type == "set":
        yield from _set_items(path, items)
        return
    if not keys:
        where = f"{path}.x-kubernetes-list-map-keys"
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), detail)
        return
    if len(set(keys)) != len(keys):
        yield invalid(f"{path}.x-kubernetes-list-map-keys", list(keys), "must not contain duplicate entries")
    for key in keys:
        yield from _key(path, items, keys, key)


def _key(path: str, items: Schema, keys: Sequence[str], key: str) -> Iterator[FieldError]:
    found = (items.get("properties") or {}).get(key)
    where = f"{path}.items.properties[{key}]"
    if found is None:
        yield invalid(f"{path}.x-kubernetes-list-map-keys", list(keys), "entries must all be names of item properties")
        return
    if found.get("type") in ("array", "object"):
        detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{where}.type", items.get("type", ""), detail)
    if key not in (items.get("required") or ()) and "default" not in found:
        detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
        yield required(f"{where}.default", detail)
    if found.get("nullable"):
        detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
        yield forbidden_field(f"{where}.nullable", detail)


def _set_items(path: str, items: Schema) -> Iterator[FieldError]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and items.get("x-kubernetes-list-type", "atomic") != "atomic":
        yield invalid(f"{path}.items.x-kubernetes-list-type", items["x-kubernetes-list-type"], detail)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(f"{path}.items.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), detail)
