"""CustomResourceDefinitions of JobSet and the Trainer kinds, for `echelon crds`.

The embedded server reads the schemas as data with references (`definitions`); a CRD needs one structural schema without
references.  So references are replaced by what they refer to, fields that a CRD may not have are left out, and some
rules and defaults that are code here are added (`crd_rules`).  The result defaults and validates on kube-apiserver as
`defaulting` and `schema_validation` do here, and more.
"""

from __future__ import annotations

from typing import Any

from ..scheme import OWN_GROUP_KINDS, RESOURCES, Object, Resource
from . import crd_rules, definitions
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
#: How often a schema may refer to itself; a CRD has no references, so what is deeper is `TOO_DEEP`.
DEEPEST = 3
TOO_DEEP: Schema = {"type": "object", "description": "Too deep: not allowed here."}
_LIST_KEYS = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys")


def custom_resource_definitions() -> list[Object]:
    """One definition for every custom kind, in discovery order."""
    return [definition(resource, resolved_schema(resource)) for resource in RESOURCES if not resource.builtin]


def definition(resource: Resource, schema: Schema) -> Object:
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
            "versions": [_version(resource, schema)],
        },
    }


def _version(resource: Resource, schema: Schema) -> Object:
    version: Object = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if resource.has_status:
        version["subresources"] = {"status": {}}
    columns = [] if resource in OWN_GROUP_KINDS.values() else printer_columns(resource)
    if columns:
        version["additionalPrinterColumns"] = columns
    return version


def resolved_schema(resource: Resource) -> Schema:
    """The schema of the whole object; metadata is validated by the server itself."""
    root = _resolved(definitions.described(definitions.name_of(resource)), native=False)
    root["properties"]["metadata"] = {"type": "object"}
    crd_rules.complete(resource, root)
    return root


def _resolved(schema: Schema, *, native: bool, within: tuple[str, ...] = ()) -> Schema:
    """A schema with its references resolved; `within` are the references that lead here."""
    name = schema.get("$ref")
    if name is not None:
        return _referenced(name, schema, native=native, within=within)
    made: Schema = {key: schema[key] for key in _KEYWORDS if key in schema}
    if "enum" in schema and not native:
        made["enum"] = schema["enum"]
    if "properties" in schema:
        made["properties"] = _properties(schema, native=native, within=within)
    if "items" in schema:
        made["items"] = _resolved(schema["items"], native=native, within=within)
        if not _has_usable_keys(made):
            for key in _LIST_KEYS:
                made.pop(key, None)
    if isinstance(schema.get("additionalProperties"), dict):
        made["additionalProperties"] = _resolved(schema["additionalProperties"], native=native, within=within)
    return made


def _referenced(name: str, beside: Schema, *, native: bool, within: tuple[str, ...]) -> Schema:
    if within.count(name) == DEEPEST:
        return dict(TOO_DEEP)
    if name == definitions.OBJECT_META:
        name = _EMBEDDED_METADATA
    native = native or definitions.is_native(name)
    if name in SPECIAL:
        inner = dict(SPECIAL[name])
    else:
        inner = _resolved(definitions.described(name), native=native, within=(*within, name))
    if "description" in beside:
        inner["description"] = beside["description"]
    return inner


def _properties(schema: Schema, *, native: bool, within: tuple[str, ...]) -> Schema:
    scalars, trees = schema_defaults(schema, custom=True, native=native)
    defaults: dict[str, Any] = {**scalars, **trees}
    made: Schema = {}
    for field, inner in schema["properties"].items():
        made[field] = _resolved(inner, native=native, within=within)
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
