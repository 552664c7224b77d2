"""Bodies that are not stored objects: DeleteOptions, Binding and Eviction."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from ....api.schema import kind_schema
from ....api.scheme import Object, Resource

T = TypeVar("T")

DELETE_OPTIONS = Resource("", "v1", "deleteoptions", "DeleteOptions")
EVICTIONS = Resource("policy", "v1", "evictions", "Eviction")

#: A longer period would end after the last timestamp that can be represented.
_Seconds = Annotated[int, msgspec.Meta(le=2**32)]


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteBody(msgspec.Struct, frozen=True, rename="camel"):
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    grace_period_seconds: _Seconds | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None


class BodyMetadata(msgspec.Struct, frozen=True):
    name: str | None = None
    uid: str | None = None
    annotations: dict[str, str] | None = None


class NodeReference(msgspec.Struct, frozen=True):
    kind: str | None = None
    name: str | None = None


class BindingBody(msgspec.Struct, frozen=True):
    metadata: BodyMetadata | None = None
    target: NodeReference | None = None


class EvictionBody(msgspec.Struct, frozen=True, rename="camel"):
    metadata: BodyMetadata | None = None
    delete_options: DeleteBody | None = None


def record(tree: Object, type_: type[T], resource: Resource) -> T:
    """`tree` as a record; 400 with the field that has the wrong type."""
    try:
        return msgspec.convert(tree, type_)
    except msgspec.ValidationError as problem:
        raise kind_schema.cannot_handle(resource, str(problem)) from None
