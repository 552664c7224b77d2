"""Objects of kinds that a CustomResourceDefinition defines: pruned, defaulted and presented by its structural schema.

    prune    unknown fields go, unless the schema says that they stay; apiVersion, kind and metadata always stay
    default  defaults are set; a null in a field that is not nullable counts as absent
    present  a stored object as the served schema sees it: other version, later defaults, fields that were removed

`published` is the schema that clients see, with the fields of every object filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..custom_kind import CustomKind
from ..scheme import Object, Resource
from . import definitions
from .decoding import Decoder, TypeMismatch, copy_tree, json_kind, typed
from .defaulting import Filler
from .definitions import Schema
from .pruning import with_typed_metadata
from .schema_validation import FOREIGN_PATTERN

#: More compiled schemas than any server has versions of kinds.
_MOST_COMPILED = 4096
_ROOT_FIELDS = ("apiVersion", "kind", "metadata")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
#: The fields of every object, with upstream's words.
_OBJECT_FIELDS: dict[str, Schema] = {
    "apiVersion": {
        "type": "string",
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers should "
        "convert recognized schemas to the latest internal value, and may reject unrecognized values. "
        f"More info: {_CONVENTIONS}#resources",
    },
    "kind": {
        "type": "string",
        "description": "Kind is a string value representing the REST resource this object represents. Servers may "
        "infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. "
        f"More info: {_CONVENTIONS}#types-kinds",
    },
    "metadata": {
        "$ref": definitions.OBJECT_META,
        "description": f"Standard object's metadata. More info: {_CONVENTIONS}#metadata",
    },
}


@lru_cache(maxsize=_MOST_COMPILED)
def published(kind: CustomKind) -> Schema:
    """The schema with the fields that every object has."""
    schema = _with_object_fields(_embedding(kind.schema))
    return {**schema, _PRESERVE: True} if kind.keeps_unknown else schema


def _embedding(schema: Mapping[str, Any]) -> Schema:
    """A schema in which embedded resources have the fields of objects."""
    made = dict(schema)
    if "properties" in made:
        made["properties"] = {name: _embedding(inner) for name, inner in made["properties"].items()}
    for holder in ("items", "additionalProperties"):
        if isinstance(made.get(holder), dict):
            made[holder] = _embedding(made[holder])
    return _with_object_fields(made) if made.get(_EMBEDDED) else made


def _with_object_fields(schema: Schema) -> Schema:
    own = schema.get("properties", {})
    described = {field: text for field in _ROOT_FIELDS if (text := own.get(field, {}).get("description"))}
    above = {field: {**inner, **_said(described.get(field))} for field, inner in _OBJECT_FIELDS.items()}
    return {**schema, "type": "object", "properties": {**above, **_without_object_fields(own)}}


def _said(description: str | None) -> Schema:
    return {"description": description} if description else {}


def _without_object_fields(properties: Mapping[str, Any]) -> Schema:
    return {name: inner for name, inner in properties.items() if name not in _ROOT_FIELDS}


@lru_cache(maxsize=_MOST_COMPILED)
def checkable(kind: CustomKind) -> Schema:
    """The schema for validation: its patterns are someone else's, and are matched in bounded time."""
    made: Schema = with_foreign_patterns(kind.schema)
    return made


def with_foreign_patterns(schema: Any) -> Any:
    """A schema whose patterns are matched in bounded time."""
    if isinstance(schema, list):
        return [with_foreign_patterns(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: value for key, value in schema.items() if key != "pattern"}
    if "properties" in made:
        made["properties"] = {name: with_foreign_patterns(inner) for name, inner in made["properties"].items()}
    for key in ("items", "additionalProperties", "not", "allOf", "anyOf", "oneOf"):
        if key in made:
            made[key] = with_foreign_patterns(made[key])
    return {**made, FOREIGN_PATTERN: schema["pattern"]} if schema.get("pattern") else made


# -- pruning -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=_MOST_COMPILED)
def pruner(kind: CustomKind) -> Decoder:
    """The decoder of a custom kind: metadata is typed, the rest is pruned, nothing is shared with the input."""
    return with_typed_metadata(_keep if kind.keeps_unknown else _pruned(kind.schema, root=True))


def _pruned(schema: Mapping[str, Any], *, root: bool = False) -> Decoder:
    preserved = bool(schema.get(_PRESERVE))
    fields = {name: _pruned(inner) for name, inner in schema.get("properties", {}).items()}
    if root:
        fields |= dict.fromkeys(_ROOT_FIELDS, _keep)
    elif schema.get(_EMBEDDED):
        fields |= {"apiVersion": _text, "kind": _text, "metadata": typed(definitions.OBJECT_META)}
    entries = schema.get("additionalProperties")
    if isinstance(entries, dict):
        others: Decoder | None = _pruned(entries)
    else:
        others = _keep if preserved or entries is True else None
    items = _pruned(schema["items"]) if isinstance(schema.get("items"), dict) else _keep
    whole = schema.get("type") == "integer"

    def decode(value: Any, unknown: list[str]) -> Any:
        if type(value) is dict:
            made: Object = {}
            for name, item in value.items():
                child = fields.get(name, others)
                if child is None:
                    unknown.append(name)
                else:
                    made[name] = child(item, unknown)
            return made
        if type(value) is list:
            return [items(item, unknown) for item in value]
        # JSON has one number type: 4.0 is the integer 4.
        return int(value) if whole and type(value) is float and value.is_integer() else value

    return decode


def _text(value: Any, unknown: list[str]) -> Any:
    if value is not None and type(value) is not str:
        raise TypeMismatch(json_kind(value), go_type="string")
    return value


def _keep(value: Any, unknown: list[str]) -> Any:
    if type(value) is dict:
        return {key: _keep(item, unknown) for key, item in value.items()}
    if type(value) is list:
        return [_keep(item, unknown) for item in value]
    return value


# -- defaulting --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=_MOST_COMPILED)
def filler(kind: CustomKind) -> Filler:
    """Sets the defaults of this version, in place; nulls that are neither allowed nor defaulted go."""
    return _filled({**kind.schema, "properties": _without_object_fields(kind.schema.get("properties", {}))})


@lru_cache(maxsize=_MOST_COMPILED)
def _stored_filler(kind: CustomKind) -> Filler:
    return _filled(
        {**kind.stored_schema, "properties": _without_object_fields(kind.stored_schema.get("properties", {}))}
    )


def _filled(schema: Mapping[str, Any]) -> Filler:
    properties = schema.get("properties", {})
    defaults = {name: inner["default"] for name, inner in properties.items() if "default" in inner}
    solid = [name for name, inner in properties.items() if not inner.get("nullable")]
    children = {name: _filled(inner) for name, inner in properties.items() if _has_parts(inner)}
    entries = schema.get("additionalProperties")
    entry = _filled(entries) if isinstance(entries, dict) else None
    solid_entries = isinstance(entries, dict) and not entries.get("nullable")
    items = _filled(schema["items"]) if isinstance(schema.get("items"), dict) else None

    def fill(value: Any) -> None:
        if type(value) is dict:
            for name in solid:
                if name in value and value[name] is None:
                    del value[name]
            for name, default in defaults.items():
                if name not in value:
                    value[name] = copy_tree(default)
            for name, child in children.items():
                if name in value:
                    child(value[name])
            if entry is not None:
                for name in [name for name in value if name not in properties]:
                    if value[name] is None and solid_entries:
                        del value[name]
                    else:
                        entry(value[name])
        elif type(value) is list and items is not None:
            for item in value:
                items(item)

    return fill


def _has_parts(schema: Mapping[str, Any]) -> bool:
    return any(holder in schema for holder in ("properties", "items", "additionalProperties"))


# -- stored objects ----------------------------------------------------------------------------------------------


def present(resource: Resource, kind: CustomKind, tree: Object) -> Object:
    """A stored object at the requested version; the same tree if nothing differs.

    The defaults are those of the stored version, what is pruned is decided by the requested one.
    """
    same_version = tree["apiVersion"] == resource.api_version
    if same_version and int(tree["metadata"].get("resourceVersion") or 0) >= kind.since:
        return tree
    seen: Object = _keep({field: item for field, item in tree.items() if field != "metadata"}, [])
    _stored_filler(kind)(seen)
    seen = pruner(kind)(seen, [])
    seen["apiVersion"], seen["kind"] = resource.api_version, resource.kind
    if same_version and all(seen.get(field) == tree.get(field) for field in (*seen, *tree) if field != "metadata"):
        return tree
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": tree["metadata"], **seen}


def to_storage(kind: CustomKind, tree: Object) -> Object:
    """An object as it is stored: without what the stored version does not know."""
    if kind.stored_schema is kind.schema or kind.keeps_unknown:
        return tree
    kept: Object = _stored_pruner(kind)({field: item for field, item in tree.items() if field != "metadata"}, [])
    return {**kept, "metadata": tree["metadata"]}


@lru_cache(maxsize=_MOST_COMPILED)
def _stored_pruner(kind: CustomKind) -> Decoder:
    return _pruned(kind.stored_schema, root=True)


# -- defaults of a schema ----------------------------------------------------------------------------------------


def unknown_in(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Names of the fields of a default that its schema does not name."""
    unknown: list[str] = []
    _pruned(schema)(value, unknown)
    return unknown


def filled_in(schema: Mapping[str, Any], value: Any) -> Any:
    """A default with the defaults inside of it."""
    made = _keep(value, [])
    _filled(schema)(made)
    return made
