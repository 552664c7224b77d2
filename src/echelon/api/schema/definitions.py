"""The schemas of all kinds as data: a table from definition name to OpenAPI schema.

    native.json        built-in types; `x-pointer` and `x-written` mark where Go's JSON keeps zeros
    defaults.yaml      defaults that kube-apiserver sets in code, by type
    jobset.yaml        JobSet, with references to native types
    trainer.yaml       the Trainer kinds, likewise
    descriptions.yaml  texts for `kubectl explain`

References are definition names.  Decoding, defaulting, validation, patching and OpenAPI are compiled from this table;
none of them has code for a kind.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import msgspec

from ..scheme import Resource

Schema = dict[str, Any]

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
JSON_SCHEMA = _APIEXTENSIONS + "JSONSchemaProps"
ANY_JSON = _APIEXTENSIONS + "JSON"
#: A JSON schema, or a list or flag in its place.
SCHEMA_OR = frozenset(_APIEXTENSIONS + name for name in (
    "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray",
))  # fmt: skip

#: Files with definitions of custom kinds.
_CUSTOM_FILES = ("jobset.yaml", "trainer.yaml")


def _read(name: str) -> bytes:
    return resources.files("echelon.api").joinpath("data", name).read_bytes()


@cache
def _native() -> dict[str, Schema]:
    table: dict[str, Schema] = msgspec.json.decode(_read("native.json"))
    return table


@cache
def _custom() -> dict[str, Schema]:
    return {name: schema for file in _CUSTOM_FILES for name, schema in msgspec.yaml.decode(_read(file)).items()}


@cache
def constant_defaults() -> dict[str, dict[str, Any]]:
    """Definition name → field → constant default."""
    table: dict[str, dict[str, Any]] = msgspec.yaml.decode(_read("defaults.yaml"))
    return table


def exists(name: str) -> bool:
    return name in _native() or name in _custom()


def lookup(name: str) -> Schema:
    """The schema of one definition."""
    native = _native().get(name)
    return native if native is not None else _custom()[name]


@cache
def _descriptions() -> dict[str, dict[str, str]]:
    """`group.Type` → field → description; the field "" is the type itself, the type "" any type."""
    table: dict[str, dict[str, str]] = msgspec.yaml.decode(_read("descriptions.yaml"))
    return table


@cache
def described(name: str) -> Schema:
    """The schema of one definition with descriptions."""
    schema = lookup(name)
    parts = name.split(".")
    words = _descriptions().get(f"{parts[-3]}.{parts[-1]}", {})
    properties = {
        field: {"description": text, **inner} if (text := words.get(field) or _descriptions()[""].get(field)) else inner
        for field, inner in schema.get("properties", {}).items()
    }
    above = {"description": words[""]} if "" in words else {}
    return {**above, **schema, **({"properties": properties} if properties else {})}


def is_native(name: str) -> bool:
    return name in _native()


@cache
def _names_by_kind() -> dict[tuple[str, str, str], str]:
    names: dict[tuple[str, str, str], str] = {}
    for table in (_native(), _custom()):
        for name, schema in table.items():
            for gvk in schema.get("x-kubernetes-group-version-kind", ()):
                names[gvk["group"], gvk["version"], gvk["kind"]] = name
    return names


def name_of(resource: Resource) -> str:
    """The definition name of a served kind."""
    if resource.custom is not None:
        return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])
    return _names_by_kind()[resource.group, resource.version, resource.kind]


def go_type(name: str) -> str:
    """`io.k8s.api.core.v1.PodSpec` → `v1.PodSpec`, as in Go's messages."""
    return ".".join(name.split(".")[-2:])


def references(schema: Any) -> list[str]:
    """The definitions that a schema refers to, in order."""
    if isinstance(schema, list):
        return [name for item in schema for name in references(item)]
    if not isinstance(schema, dict):
        return []
    if isinstance(schema.get("$ref"), str):
        return [schema["$ref"]]
    return [name for item in schema.values() for name in references(item)]
