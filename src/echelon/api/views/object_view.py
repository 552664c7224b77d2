"""What every view shares: parts that are decoded once and never fail on what the API accepted.

    JSON tree ─► client.informer.ViewCache ─► PodView, JobView … ─► decide, scheduler

Metadata is decoded when the object enters a cache, spec and status when they are first read.  A view names its fields
as Kubernetes does (`pod.spec.node_name` is `spec.nodeName`).  A value of the wrong type reads as absent.  The
tree stays at `obj`, for templates and for writing; it is never changed.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin

import msgspec

from ..objects.vocabulary import QUEUED_SINCE
from ..scheme import Object, Resource

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

P = TypeVar("P", bound="ViewPart")
S = TypeVar("S", bound="ViewPart")
T = TypeVar("T", bound="ViewPart")


class ViewPart(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A piece of an object.  Every field has a default: what an absent one means."""


class OwnerReference(ViewPart, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


class Metadata(ViewPart, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None


class Condition(ViewPart, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class Conditioned(ViewPart, frozen=True):
    """A status with conditions."""

    conditions: tuple[Condition, ...] = ()


class ObjectView(Generic[S, T]):
    """One object of one version."""

    __slots__ = ("_spec", "_status", "metadata", "obj")

    resource: ClassVar[Resource]
    _spec_part: ClassVar[type[ViewPart]]
    _status_part: ClassVar[type[ViewPart]]

    def __init_subclass__(
        cls, resource: Resource, spec: type[ViewPart] = ViewPart, status: type[ViewPart] = Conditioned, **more: Any
    ) -> None:
        super().__init_subclass__(**more)
        cls.resource, cls._spec_part, cls._status_part = resource, spec, status

    def __init__(self, obj: Object) -> None:
        self.obj = obj
        self.metadata = read(Metadata, obj.get("metadata"))
        self._spec: S | None = None
        self._status: T | None = None

    def __repr__(self) -> str:
        return f"{self.resource.kind} {self.key}"

    @property
    def spec(self) -> S:
        found = self._spec
        if found is None:
            found = self._spec = read(self._spec_part, self.obj.get("spec"))  # type: ignore[assignment]
        return found  # type: ignore[return-value]

    @property
    def status(self) -> T:
        found = self._status
        if found is None:
            found = self._status = read(self._status_part, self.obj.get("status"))  # type: ignore[assignment]
        return found  # type: ignore[return-value]

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects."""
        known = self.metadata
        return f"{known.namespace}/{known.name}" if known.namespace else known.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.metadata.annotations

    @property
    def deleting(self) -> bool:
        return bool(self.metadata.deletion_timestamp)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`."""
        for owner in self.metadata.owner_references:
            if owner.controller:
                return owner
        return None

    @property
    def queued_since(self) -> str:
        """When the user's object was created that this one is made for; its own creation if no controller made it."""
        own = self.metadata.creation_timestamp
        inherited = self.annotations.get(QUEUED_SINCE, "")
        if self.controller is None or not _is_time(inherited):
            return own
        return min(own, inherited) if own else inherited

    def controlled_by(self, uid: str) -> bool:
        owner = self.controller
        return owner is not None and owner.uid == uid

    def condition(self, type_: str) -> Condition | None:
        conditions: tuple[Condition, ...] = getattr(self.status, "conditions", ())
        for one in conditions:
            if one.type == type_:
                return one
        return None

    def is_true(self, type_: str) -> bool:
        found = self.condition(type_)
        return found is not None and found.status == "True"


def _is_time(text: str) -> bool:
    """Whether this is a time as the API writes it: such times compare as text."""
    return _TIME.fullmatch(text) is not None


def read(part: type[P], tree: Any) -> P:
    """A part of a tree; what is absent, null or of the wrong type is left at its default."""
    if tree is None:
        return part()
    try:
        return msgspec.convert(tree, part)
    except msgspec.ValidationError:
        return _read_fields(part, tree, "", [])


def read_all(part: type[P], tree: Any, path: str) -> tuple[P, list[str]]:
    """A part of a tree, and the paths of the values that could not be read."""
    try:
        return msgspec.convert(tree, part), []
    except msgspec.ValidationError:
        unread: list[str] = []
        return _read_fields(part, tree, path, unread), unread


def _read_fields(part: type[P], tree: Any, path: str, unread: list[str]) -> P:
    found: dict[str, Any] = {}
    if isinstance(tree, Mapping):
        for field in msgspec.structs.fields(part):
            value = tree.get(field.encode_name)
            readable = [] if value is None else _readable(field.type, value, f"{path}.{field.encode_name}", unread)
            if readable:
                found[field.name] = readable[0]
    elif tree is not None:
        unread.append(path)
    return part(**found)


def _readable(type_: Any, value: Any, path: str, unread: list[str]) -> list[Any]:
    """The value as a type, as far as it can be read; empty if it cannot."""
    try:
        return [msgspec.convert(value, type_)]
    except msgspec.ValidationError:
        pass
    if get_origin(type_) in (Union, types.UnionType):
        type_ = next((one for one in get_args(type_) if _is_part(one)), type_)
    if _is_part(type_) and isinstance(value, Mapping):
        return [_read_fields(type_, value, path, unread)]
    if get_origin(type_) is tuple and isinstance(value, list):
        inner = get_args(type_)[0]
        entries = [_readable(inner, one, f"{path}[{index}]", unread) for index, one in enumerate(value)]
        return [tuple(found for entry in entries for found in entry)]
    if get_origin(type_) is dict and isinstance(value, Mapping):
        inner = get_args(type_)[1]
        return [{key: found for key, one in value.items() for found in _readable(inner, one, f"{path}.{key}", unread)}]
    unread.append(path)
    return []


def _is_part(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, ViewPart)
