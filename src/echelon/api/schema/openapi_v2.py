"""OpenAPI v2 out of the v3 documents, as JSON and as gnostic's protobuf, which kubectl and Helm ask for.

    v3 documents ─► one v2 document ─► bytes of `openapi.v2.Document`

Clients look up here whether a kind is served, after they have not found it in v3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ..scheme import SERVED_VERSION, Object

_V3, _V2 = "#/components/schemas/", "#/definitions/"
_GVK = "x-kubernetes-group-version-kind"
_METHODS = ("get", "put", "post", "delete", "patch")
#: Keywords that v2 does not have.
_UNKNOWN = ("oneOf", "anyOf", "not", "nullable")


def document(parts: Iterable[Object]) -> Object:
    """One v2 document with the paths and schemas of all v3 documents."""
    paths: Object = {}
    definitions: Object = {}
    for part in parts:
        paths |= {path: _item(item) for path, item in part["paths"].items()}
        definitions |= {name: _definition(schema) for name, schema in part["components"]["schemas"].items()}
    return {
        "swagger": "2.0",
        "info": {"title": "Echelon", "version": SERVED_VERSION},
        "paths": paths,
        "definitions": dict(sorted(definitions.items())),
    }


def _definition(schema: Any) -> Any:
    """A schema of the document; kinds that keep unknown fields have none, because v2 could not say so."""
    if schema.get("x-kubernetes-preserve-unknown-fields") and _GVK in schema:
        return {"type": "object", _GVK: schema[_GVK]}
    return _schema(schema)


def _item(item: Object) -> Object:
    made: Object = {method: _operation(item[method]) for method in _METHODS if method in item}
    if item.get("parameters"):
        made["parameters"] = [_parameter(parameter) for parameter in item["parameters"]]
    return made


def _operation(operation: Object) -> Object:
    made = {key: value for key, value in operation.items() if key.startswith("x-")}
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", ())]
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        made["consumes"] = list(content)
        body = _schema(next(iter(content.values()))["schema"])
        parameters.insert(0, {"name": "body", "in": "body", "required": True, "schema": body})
    made["produces"] = ["application/json", "application/vnd.kubernetes.protobuf"]
    if parameters:
        made["parameters"] = parameters
    made["responses"] = {code: _response(response) for code, response in operation["responses"].items()}
    return made


def _parameter(parameter: Object) -> Object:
    flat = {key: value for key, value in parameter.items() if key != "schema"}
    return {**flat, **parameter["schema"], "uniqueItems": True}


def _response(response: Object) -> Object:
    made: Object = {"description": response["description"]}
    for media in response.get("content", {}).values():
        made["schema"] = _schema(media["schema"])
    return made


def _schema(schema: Any) -> Any:
    """References beside other keywords; what is one of several scalars is a string."""
    if not isinstance(schema, dict):
        return schema
    made: Object = {}
    for key, value in schema.items():
        if key == "$ref":
            made[key] = value.replace(_V3, _V2)
        elif key == "allOf" and len(value) == 1 and "$ref" in value[0]:
            made["$ref"] = value[0]["$ref"].replace(_V3, _V2)
        elif key == "allOf":
            made[key] = [_schema(part) for part in value]
        elif key == "properties":
            made[key] = {name: _schema(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties"):
            made[key] = _schema(value)
        elif key not in _UNKNOWN:
            made[key] = value
    if "oneOf" in schema and "type" not in made and "properties" not in made:
        made["type"] = "string"
    return made


def gnostic(swagger: Object) -> bytes:
    """The document as a message of gnostic's OpenAPIv2.proto, whose field numbers stand below."""
    info = _text(1, swagger["info"]["title"]) + _text(2, swagger["info"]["version"])
    paths = b"".join(
        _nested(2, _text(1, path) + _nested(2, _item_message(item))) for path, item in swagger["paths"].items()
    )
    definitions = _named_schemas(swagger["definitions"])
    return _text(1, swagger["swagger"]) + _nested(2, info) + _nested(8, paths) + _nested(9, definitions)


_ITEM_NUMBERS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _item_message(item: Object) -> bytes:
    operations = (_nested(number, _operation_message(item[m])) for m, number in _ITEM_NUMBERS.items() if m in item)
    return b"".join(operations) + _parameters(9, item)


def _operation_message(operation: Object) -> bytes:
    produces = b"".join(_text(6, media) for media in operation["produces"])
    consumes = b"".join(_text(7, media) for media in operation.get("consumes", ()))
    responses = b"".join(
        _nested(1, _text(1, code) + _nested(2, _nested(1, _response_message(response))))
        for code, response in operation["responses"].items()
    )
    return produces + consumes + _parameters(8, operation) + _nested(9, responses) + _extensions(13, operation)


def _response_message(response: Object) -> bytes:
    schema = _nested(2, _nested(1, _schema_message(response["schema"]))) if "schema" in response else b""
    return _text(1, response["description"]) + schema


def _parameters(number: int, owner: Object) -> bytes:
    return b"".join(_nested(number, _nested(1, _parameter_message(p))) for p in owner.get("parameters", ()))


def _parameter_message(parameter: Object) -> bytes:
    name, place, required = parameter["name"], parameter["in"], parameter.get("required", False)
    if place == "body":
        schema = _nested(5, _schema_message(parameter["schema"]))
        return _nested(1, _text(2, name) + _text(3, place) + _flag(4, required) + schema)
    shared = _flag(1, required) + _text(2, place) + _text(4, name)
    if place == "query":
        return _nested(2, _nested(3, shared + _text(6, parameter["type"]) + _flag(20, True)))
    return _nested(2, _nested(4, shared + _text(5, parameter["type"]) + _flag(19, True)))


_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_COUNTS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17, "minProperties": 18}
_NUMBERS = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_FLAGS = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16, "readOnly": 27}


def _schema_message(schema: Object) -> bytes:
    return b"".join(_keyword(key, value) for key, value in schema.items()) + _extensions(31, schema)


def _keyword(key: str, value: Any) -> bytes:
    if key in _TEXTS:
        return _text(_TEXTS[key], value)
    if key in _COUNTS:
        return _tag(_COUNTS[key], 0) + _varint(value)
    if key in _NUMBERS:
        return _tag(_NUMBERS[key], 1) + struct.pack("<d", value)
    if key in _FLAGS:
        return _flag(_FLAGS[key], value)
    return _STRUCTURED[key](value) if key in _STRUCTURED else b""


def _additional(value: Any) -> bytes:
    inner = _flag(2, value) if isinstance(value, bool) else _nested(1, _schema_message(value))
    return _nested(21, inner)


_STRUCTURED: dict[str, Callable[[Any], bytes]] = {
    "default": lambda value: _nested(5, _any(value)),
    "required": lambda names: b"".join(_text(19, name) for name in names),
    "enum": lambda values: b"".join(_nested(20, _any(value)) for value in values),
    "additionalProperties": _additional,
    "type": lambda name: _nested(22, _text(1, name)),
    "items": lambda schema: _nested(23, _nested(1, _schema_message(schema))),
    "allOf": lambda schemas: b"".join(_nested(24, _schema_message(schema)) for schema in schemas),
    "properties": lambda schemas: _nested(25, _named_schemas(schemas)),
}


def _named_schemas(schemas: Object) -> bytes:
    return b"".join(_nested(1, _text(1, name) + _nested(2, _schema_message(s))) for name, s in schemas.items())


def _extensions(number: int, owner: Object) -> bytes:
    return b"".join(
        _nested(number, _text(1, key) + _nested(2, _any(value))) for key, value in owner.items() if key.startswith("x-")
    )


def _any(value: Any) -> bytes:
    """A free value is YAML text, of which JSON is a part."""
    return _nested(2, msgspec.json.encode(value) + b"\n")


def _text(number: int, value: str) -> bytes:
    return _nested(number, value.encode())


def _flag(number: int, value: bool) -> bytes:
    return _tag(number, 0) + b"\x01" if value else b""


def _nested(number: int, body: bytes) -> bytes:
    return _tag(number, 2) + _varint(len(body)) + body


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    if value < 0:
        value += 1 << 64
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
