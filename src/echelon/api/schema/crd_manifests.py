"""CustomResourceDefinitions of JobSet and the Trainer kinds, for `echelon crds`.

The embedded server reads the schemas as data with references (`definitions`); a CRD needs one structural schema without
references.  So references are replaced by what they refer to, and fields that a CRD may not have are left out.  The
result defaults and validates on kube-apiserver as `defaulting` and `schema_validation` do here.
"""

from __future__ import annotations

from typing import Any

from ..scheme import RESOURCES, Object, Resource
from . import definitions
from .defaulting import schema_defaults
from .definitions import Schema
from .kind_schema import printer_columns
from .schema_validation import SPECIAL

_API_VERSION = "apiextensions.k8s.io/v1"
#: The metadata fields that a template may set.
_EMBEDDED_METADATA = "io.x-k8s.jobset.v1alpha2.EmbeddedMetadata"
#: The keywords that are copied into a structural schema.
_KEYWORDS = (
    "description", "type", "format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    "minProperties", "required", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
)  # fmt: skip
_LIST_KEYS = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys")


def custom_resource_definitions() -> list[Object]:
    """One definition for every custom kind, in discovery order."""
    return [_definition(resource) for resource in RESOURCES if not resource.builtin]


def _definition(resource: Resource) -> Object:
    names: Object = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.singular,
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if resource.categories:
        names["categories"] = list(resource.categories)
    return {
        "apiVersion": _API_VERSION,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(resource)],
        },
    }


def _version(resource: Resource) -> Object:
    version: Object = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(definitions.name_of(resource))},
    }
    if resource.has_status:
        version["subresources"] = {"status": {}}
    columns = printer_columns(resource)
    if columns:
        version["additionalPrinterColumns"] = columns
    return version


def _root(name: str) -> Schema:
    """The schema of the whole object; metadata is validated by the server itself."""
    root = _resolved(definitions.described(name), native=False)
    root["properties"]["metadata"] = {"type": "object"}
    return root


def _resolved(schema: Schema, *, native: bool) -> Schema:
    """A schema with its references resolved."""
    name = schema.get("$ref")
    if name is not None:
        return _referenced(name, schema, native=native)
    made: Schema = {key: schema[key] for key in _KEYWORDS if key in schema}
    if "enum" in schema and not native:
        made["enum"] = schema["enum"]
    if "properties" in schema:
        made["properties"] = _properties(schema, native=native)
    if "items" in schema:
        made["items"] = _resolved(schema["items"], native=native)
        if not _has_usable_keys(made):
            for key in _LIST_KEYS:
                made.pop(key, None)
    if isinstance(schema.get("additionalProperties"), dict):
        made["additionalProperties"] = _resolved(schema["additionalProperties"], native=native)
    return made


def _referenced(name: str, beside: Schema, *, native: bool) -> Schema:
    if name == definitions.OBJECT_META:
        name = _EMBEDDED_METADATA
    native = native or definitions.is_native(name)
    inner = dict(SPECIAL[name]) if name in SPECIAL else _resolved(definitions.described(name), native=native)
    if "description" in beside:
        inner["description"] = beside["description"]
    return inner


def _properties(schema: Schema, *, native: bool) -> Schema:
    scalars, trees = schema_defaults(schema, custom=True, native=native)
    defaults: dict[str, Any] = {**scalars, **trees}
    made: Schema = {}
    for field, inner in schema["properties"].items():
        made[field] = _resolved(inner, native=native)
        if field in defaults:
            made[field]["default"] = defaults[field]
    return made


def _has_usable_keys(schema: Schema) -> bool:
    """kube-apiserver accepts a list-map only if each key is required or has a default."""
    items = schema["items"]
    return all(
        key in items.get("required", ()) or "default" in items.get("properties", {}).get(key, {})
        for key in schema.get("x-kubernetes-list-map-keys", ())
    )
