"""OpenAPI v3 documents, one per group version, as kubectl needs them for apply, edit and explain.

A document has a path for every resource, with its kind, its patch types and `fieldValidation`, and the schemas of all
kinds of the group version with everything they refer to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ..custom_kind import CustomKind
from ..scheme import REVIEWS, SCALES, SERVED_VERSION, Object, Resource
from ..served_kinds import ServedKinds
from ..verbs import PatchType
from . import definitions, structural
from .definitions import Schema

_SCHEMAS = "#/components/schemas/"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
#: Internal keywords that are not published.
_PRIVATE = ("x-pointer", "x-written", "x-printer-columns")
_LISTING = (
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "watch",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "timeoutSeconds",
)
_WRITING = ("dryRun", "fieldManager", "fieldValidation")
_DELETING = ("dryRun", "gracePeriodSeconds", "propagationPolicy", "orphanDependents")
_TYPES = {"limit": "integer", "timeoutSeconds": "integer", "gracePeriodSeconds": "integer"} | dict.fromkeys(
    ("watch", "allowWatchBookmarks", "sendInitialEvents", "orphanDependents"), "boolean"
)


def document(kinds: ServedKinds, group: str, version: str) -> Object:
    """The OpenAPI document of one group version; shared, do not change it."""
    served = [resource for resource in kinds.all if (resource.group, resource.version) == (group, version)]
    if any(resource in kinds.custom for resource in served):
        return _document(served)
    return _of_known(tuple(served))


@cache
def _of_known(served: tuple[Resource, ...]) -> Object:
    """Kept, because the schemas of these kinds are package data."""
    return _document(served)


def _document(members: Sequence[Resource]) -> Object:
    served = [resource for resource in members if resource not in REVIEWS]
    reviews = [resource for resource in members if resource in REVIEWS]
    paths: Object = {}
    for resource in served:
        paths |= _paths(resource)
    for resource in reviews:
        paths |= _review_path(resource)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Echelon", "version": SERVED_VERSION},
        "paths": paths,
        "components": {"schemas": _schemas(served, reviews)},
    }


def _paths(resource: Resource) -> Object:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    home = _home(resource)
    paths: Object = {home: _collection(resource)}
    if resource.namespaced:
        paths[f"{root}/{resource.plural}"] = {"get": _operation(resource, "list", _LISTING)}
    paths[f"{home}/{{name}}"] = _named(resource)
    if resource.has_status:
        status = _named(resource)
        del status["delete"]
        paths[f"{home}/{{name}}/status"] = status
    if resource.scale is not None:
        scale = {**_named(SCALES), **_path_parameters(resource, named=True)}
        del scale["delete"]
        paths[f"{home}/{{name}}/scale"] = scale
    return paths


def _home(resource: Resource) -> str:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"


def _review_path(resource: Resource) -> Object:
    """A review is only created."""
    post = {**_operation(resource, "post", _WRITING), "requestBody": _json_body(resource)}
    return {_home(resource): {**_path_parameters(resource, named=False), "post": post}}


def _collection(resource: Resource) -> Object:
    return {
        **_path_parameters(resource, named=False),
        "get": _operation(resource, "list", _LISTING),
        "post": {**_operation(resource, "post", _WRITING), "requestBody": _json_body(resource)},
        "delete": _operation(resource, "deletecollection", (*_LISTING[:2], *_DELETING)),
    }


def _named(resource: Resource) -> Object:
    accepted = [kind for kind in PatchType if resource.builtin or kind is not PatchType.STRATEGIC]
    patches = {str(kind): {"schema": {"type": "array" if kind is PatchType.JSON else "object"}} for kind in accepted}
    return {
        **_path_parameters(resource, named=True),
        "get": _operation(resource, "get", ()),
        "put": {**_operation(resource, "put", _WRITING), "requestBody": _json_body(resource)},
        "patch": {
            **_operation(resource, "patch", (*_WRITING, "force")),
            "requestBody": {"content": patches, "required": True},
        },
        "delete": _operation(resource, "delete", _DELETING),
    }


def _operation(resource: Resource, action: str, parameters: tuple[str, ...]) -> Object:
    name = _list_name(resource) if action == "list" else definitions.name_of(resource)
    described = [
        {"name": parameter, "in": "query", "schema": {"type": _TYPES.get(parameter, "string")}}
        for parameter in parameters
    ]
    return {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(resource, resource.kind),
        **({"parameters": described} if described else {}),
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": {"$ref": _SCHEMAS + name}}}}
        },
    }


def _gvk(resource: Resource, kind: str) -> Object:
    return {"group": resource.group, "kind": kind, "version": resource.version}


def _path_parameters(resource: Resource, *, named: bool) -> Object:
    """`parameters`, but not as an empty list, which generators of clients refuse."""
    names = (["name"] if named else []) + (["namespace"] if resource.namespaced else [])
    found = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    return {"parameters": found} if found else {}


def _json_body(resource: Resource) -> Object:
    reference = {"$ref": _SCHEMAS + definitions.name_of(resource)}
    return {"content": {"application/json": {"schema": reference}}, "required": True}


def _schemas(served: list[Resource], reviews: list[Resource]) -> Object:
    """The kinds, the lists of those that are stored, and all definitions these refer to."""
    lists = {_list_name(resource): _list_schema(resource) for resource in served}
    found: dict[str, Schema] = dict(lists)
    for resource in served:
        if resource.custom is not None:
            found[definitions.name_of(resource)] = _custom_schema(resource, resource.custom)
    waiting = [reference for schema in found.values() for reference in definitions.references(schema)]
    waiting += [definitions.name_of(resource) for resource in reviews]
    if any(resource.scale for resource in served):
        waiting.append(definitions.name_of(SCALES))
    while waiting:
        name = waiting.pop()
        # What looks like a reference in the default of a custom kind is none.
        if name not in found and definitions.exists(name):
            found[name] = definitions.described(name)
            waiting += definitions.references(found[name])
    return {name: _published(found[name]) for name in sorted(found)}


def _list_name(resource: Resource) -> str:
    return definitions.name_of(resource).removesuffix(resource.kind) + resource.list_kind


def _custom_schema(resource: Resource, kind: CustomKind) -> Schema:
    return {**structural.published(kind), "x-kubernetes-group-version-kind": [_gvk(resource, resource.kind)]}


def _list_schema(resource: Resource) -> Schema:
    return {
        "description": f"A list of {resource.kind} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": _LIST_META},
            "items": {"type": "array", "items": {"$ref": definitions.name_of(resource)}},
        },
        "x-kubernetes-group-version-kind": [_gvk(resource, resource.list_kind)],
    }


def _published(schema: Any) -> Any:
    """A schema in OpenAPI form: full references, wrapped in allOf if there are other keywords."""
    if isinstance(schema, list):
        return [_published(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    beside = {key: _published(value) for key, value in schema.items() if key not in _PRIVATE and key != "$ref"}
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return beside if reference is None else {**beside, "$ref": _published(reference)}
    pointer = {"$ref": _SCHEMAS + reference}
    return {**beside, "allOf": [pointer]} if beside else pointer
