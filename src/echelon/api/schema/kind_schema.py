"""The functions of a kind's schema that the server calls: decode, default, check.

    parse           bytes → JSON tree
    decode          JSON tree → new tree of known fields in canonical form, and the paths of unknown fields
    apply_defaults  sets defaults, in place
    check           validates custom kinds against their schema (built-in kinds are validated by `rules`)
    openapi_v3      the document of a group version, for kubectl
    openapi_v2      one document of all group versions; gnostic is its protobuf form

The schemas are data (`definitions`); each is compiled once, on first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .. import errors
from ..errors import ApiError, FieldError
from ..scheme import Object, Resource
from . import decoding, defaulting, definitions, expression_rules, pruning, schema_validation, structural
from .definitions import Schema
from .json_bodies import duplicate_fields, parse
from .openapi import document as openapi_v3
from .openapi_v2 import document as openapi_v2
from .openapi_v2 import gnostic

__all__ = [
    "Decoded",
    "apply_defaults",
    "cannot_handle",
    "check",
    "decode",
    "definition",
    "duplicate_fields",
    "gnostic",
    "openapi_v2",
    "openapi_v3",
    "parse",
    "present",
    "printer_columns",
    "to_storage",
    "unknown_fields",
]


@dataclass(frozen=True, slots=True)
class Decoded:
    """An object in canonical form, and the paths of its unknown fields."""

    obj: Object
    unknown: list[str]


def decode(resource: Resource, obj: Object) -> Decoded:
    """A new tree of the known fields; `ApiError` 400 where a value has the wrong type."""
    unknown: list[str] = []
    try:
        read = _decoder(resource)(obj, unknown)
    except decoding.TypeMismatch as mismatch:
        raise cannot_handle(resource, mismatch.text()) from None
    except RecursionError:
        raise cannot_handle(resource, "json: exceeded max depth") from None
    made: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
    made.update(read)
    made["apiVersion"], made["kind"] = resource.api_version, resource.kind
    if not unknown:
        return Decoded(made, [])
    if resource.custom is not None:
        return Decoded(made, sorted(pruning.unknown_paths(structural.published(resource.custom), obj)))
    return Decoded(made, list(pruning.unknown_paths({"$ref": definitions.name_of(resource)}, obj)))


def _decoder(resource: Resource) -> decoding.Decoder:
    return _known_decoder(resource) if resource.custom is None else structural.pruner(resource.custom)


@cache
def _known_decoder(resource: Resource) -> decoding.Decoder:
    name = definitions.name_of(resource)
    return decoding.typed(name) if resource.builtin else pruning.pruner(name)


def apply_defaults(resource: Resource, obj: Object) -> None:
    """Set the defaults of the schema, in place; the object must have been decoded, and be in its stored form."""
    if resource.custom is None:
        _known_filler(resource.stored_as or resource)(obj)
    else:
        structural.filler(resource.custom)(obj)


@cache
def _known_filler(resource: Resource) -> defaulting.Filler:
    return defaulting.filler(definitions.name_of(resource), custom=not resource.builtin)


def check(resource: Resource, obj: Object, old: Object | None = None) -> list[FieldError]:
    """Errors of a custom kind against its schema; none for built-in kinds, which `rules` validates.

    `old` is the stored object of an update: kinds that are defined by others may have become stricter since.
    """
    if resource.custom is not None:
        problems = schema_validation.validate_custom(structural.checkable(resource.custom), obj, old)
        return problems or expression_rules.check(resource.custom, obj, old)
    return (
        [] if resource.builtin else schema_validation.validate(definitions.lookup(definitions.name_of(resource)), obj)
    )


def present(resource: Resource, stored: Object) -> Object:
    """A stored object at the requested version; the versions of a known kind differ in apiVersion alone."""
    if resource.custom is not None:
        return structural.present(resource, resource.custom, stored)
    if stored["apiVersion"] == resource.api_version:
        return stored
    return {**stored, "apiVersion": resource.api_version}


def to_storage(resource: Resource, tree: Object) -> Object:
    """A checked object as it is stored."""
    return tree if resource.custom is None else structural.to_storage(resource.custom, tree)


def definition(resource: Resource) -> Schema:
    """The schema of a kind; references are bare definition names."""
    if resource.custom is not None:
        return structural.published(resource.custom)
    return definitions.lookup(definitions.name_of(resource))


def printer_columns(resource: Resource) -> list[Object]:
    """The columns a custom kind prints after its name: name, type, jsonPath, description."""
    columns: list[Object] = definition(resource).get("x-printer-columns", [])
    return columns


def cannot_handle(resource: Resource, detail: str) -> ApiError:
    """400 for a body that is not an object of this kind."""
    return errors.bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {detail}'
    )


def unknown_fields(resource: Resource, paths: list[str], duplicates: list[str] | None = None) -> ApiError:
    """400 for unknown and duplicate fields under strict field validation."""
    listed = [f'unknown field "{path}"' for path in paths] + [f'duplicate field "{path}"' for path in duplicates or ()]
    return cannot_handle(resource, f"strict decoding error: {', '.join(listed)}")
