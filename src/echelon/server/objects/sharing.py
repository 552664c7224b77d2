"""Equal parts of objects are kept once: most of a pod is the same in thousands of pods.

    stored bytes ──▶ fields of spec and status ──▶ one tree, and one piece of bytes, for all that are equal

Parts are found by their bytes in a table of those seen lately.  Trees are never changed, so sharing them is safe; and a
part that is known is not decoded again, which makes decoding faster.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from ...api.scheme import Object
from .encoded import decode_json

#: The fields of these are parts: large, and alike in many objects.
_DIVIDED = ("spec", "status")
#: Larger objects and parts are decoded as they are.
LARGEST_SHARED = 32 * 1024
#: A piece of bytes that is shorter costs as much as a reference to it.
_SMALLEST_PIECE = 128
#: A generation of a table is complete with this many entries, or bytes.
_ENTRIES, _BYTES = 16_384, 8 * 1024 * 1024

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
T = TypeVar("T")


class SharedParts(Generic[T]):
    """What was made of parts lately, by their bytes; what is not asked for while a generation fills up is forgotten."""

    def __init__(self, make: Callable[[bytes], T]) -> None:
        self._make = make
        self._new: dict[bytes, T] = {}
        self._old: dict[bytes, T] = {}
        self._bytes = 0

    def of(self, part: bytes) -> T:
        found = self._new.get(part)
        if found is None:
            found = self._old.get(part)
            if found is None:
                found = self._make(part)
            self._keep(part, found)
        return found

    def _keep(self, part: bytes, found: T) -> None:
        if len(part) > LARGEST_SHARED:
            return
        if len(self._new) >= _ENTRIES or self._bytes >= _BYTES:
            self._old, self._new, self._bytes = self._new, {}, 0
        self._new[part] = found
        self._bytes += len(part)

    def changed(self) -> list[bytes]:
        """Parts of which a shared tree was changed, which is an error; for tests."""
        return [part for part, found in [*self._new.items(), *self._old.items()] if found != self._make(part)]


def _interned(part: bytes) -> Any:
    """Labels or annotations, their keys and short values once for all objects."""
    found = decode_json(part)
    if type(found) is not dict:
        return found
    return {intern(key): intern(text) if type(text) is str and len(text) < 64 else text for key, text in found.items()}


#: Of the whole process: what is equal is equal for all its servers.
TREES: SharedParts[Any] = SharedParts(decode_json)
LABELS: SharedParts[Any] = SharedParts(_interned)
#: Large fields that no index is made of.
_NOT_INDEXED = ("annotations", "managedFields", "data", "binaryData", "stringData")
#: Fields of metadata that no two objects have in common.
_OWN = ("name", "uid", "resourceVersion")


class WrittenTree(NamedTuple):
    """A tree as a request made it, with parts of its own."""

    key: str
    revision: int
    tree: Object
    value: bytes


def share_parts(written: WrittenTree) -> None:
    """Give a tree parts that other trees have too; whoever holds the tree sees the same content."""
    if len(written.value) <= LARGEST_SHARED:
        written.tree.update(decode_shared(written.value))


def decode_shared(value: bytes) -> Object:
    """The tree of stored bytes; it shares its parts with the trees of other objects."""
    if len(value) > LARGEST_SHARED:
        return decode_json(value)  # type: ignore[no-any-return]
    tree_of = TREES.of
    tree: Object = {}
    for name, raw in _fields(value).items():
        if name == "metadata":
            tree[name] = {field: _metadata_part(field, part) for field, part in _fields(raw).items()}
        elif name in _DIVIDED:
            tree[name] = _divided(raw)
        else:
            tree[name] = tree_of(bytes(raw))
    return tree


def decode_indexed(value: bytes) -> Object:
    """What headers are made of: the metadata, and of spec and status the fields that are neither objects nor lists."""
    tree: Object = {}
    for name, raw in _fields(value).items():
        if name == "metadata":
            known = _fields(raw).items()
            tree[name] = {field: _metadata_part(field, part) for field, part in known if field not in _NOT_INDEXED}
        elif name in _DIVIDED:
            tree[name] = _scalars(raw)
        elif name not in _NOT_INDEXED:
            tree[name] = TREES.of(bytes(raw))
    return tree


def _metadata_part(field: str, part: msgspec.Raw) -> Any:
    if field in _OWN:
        return decode_json(part)
    if field == "labels" or field == "annotations":
        return LABELS.of(bytes(part))
    return TREES.of(bytes(part))


def _divided(raw: msgspec.Raw) -> Any:
    tree_of = TREES.of
    try:
        return {field: tree_of(bytes(part)) for field, part in _fields(raw).items()}
    except msgspec.ValidationError:
        # Not an object, in a custom kind.
        return decode_json(raw)


def _scalars(raw: msgspec.Raw) -> Object:
    try:
        parts = [(field, bytes(part)) for field, part in _fields(raw).items()]
    except msgspec.ValidationError:
        return {}
    return {field: TREES.of(part) for field, part in parts if part[0] not in b"{["}
