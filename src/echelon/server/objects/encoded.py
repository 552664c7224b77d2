"""Objects as the JSON bytes that the store keeps, for replies that need no tree.

Stored bytes begin with kind and apiVersion, in this order, so that a reply can leave them out or take them as they are
without reading the rest.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from ...api.scheme import Object, Resource
from ...api.verbs import DeleteOptions, ListOptions, Verbs, WatchOptions, WatchType

encode_json = msgspec.json.Encoder().encode
decode_json = msgspec.json.Decoder().decode
_TYPE = ("kind", "apiVersion")


@dataclass(frozen=True, slots=True)
class EncodedList:
    """A list whose items are stored bytes, at the storage version."""

    values: Sequence[bytes]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


class EncodedEvent(msgspec.Struct, frozen=True, gc=False):
    """A change of one object, at the storage version; a bookmark has no more than its metadata."""

    type: WatchType
    #: "" for bytes that are not those of a revision of that key.
    key: str
    revision: int
    value: bytes


class EncodedVerbs(Verbs, Protocol):
    """`Verbs` that can also answer with stored bytes: the embedded server, for its HTTP half."""

    async def get_encoded(self, resource: Resource, name: str, namespace: str = "") -> bytes: ...

    async def list_encoded(
        self, resource: Resource, namespace: str = "", options: ListOptions = ListOptions()
    ) -> EncodedList: ...

    def watch_encoded(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncGenerator[Sequence[EncodedEvent], None]:
        """Batches of events, otherwise as `watch`."""
        ...

    async def delete_collection(
        self, resource: Resource, namespace: str, which: ListOptions, options: DeleteOptions
    ) -> EncodedList:
        """Delete the selected objects; returns the last state of each."""
        ...


def head(kind: str, api_version: str) -> bytes:
    """The begin of the bytes of an object."""
    return f'{{"kind":"{kind}","apiVersion":"{api_version}",'.encode()


def encode_object(tree: Object) -> bytes:
    """The bytes of an object as they are stored."""
    rest = {name: value for name, value in tree.items() if name not in _TYPE}
    return head(tree["kind"], tree["apiVersion"]) + encode_json(rest)[1:]


def untyped(resource: Resource) -> Callable[[bytes], bytes]:
    """A function from stored bytes to the same object without kind and apiVersion, as items of built-in lists are."""
    known = head(resource.kind, resource.api_version)
    skipped = len(known)

    def without_type(value: bytes) -> bytes:
        if value.startswith(known):
            return b"{" + value[skipped:]
        # Bytes of another order, as earlier versions wrote them.
        tree = decode_json(value)
        return encode_json({name: part for name, part in tree.items() if name not in _TYPE})

    return without_type
