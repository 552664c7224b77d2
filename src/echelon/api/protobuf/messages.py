"""The messages of built-in kinds, built from a table of field numbers when the first protobuf body arrives.

`data/protobuf.json` has for every message its fields, which of its scalars are pointers (their zero means something),
which members JSON has in their parent, and JSON names that differ.  tools/protobuf/extract.py wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import msgspec

META = "k8s.io.apimachinery.pkg.apis.meta.v1"
RUNTIME = "k8s.io.apimachinery.pkg.runtime"
APIEXTENSIONS = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions"
UNKNOWN = f"{RUNTIME}.Unknown"
#: Kinds that every group version knows; they are messages of `meta.v1`.
_COMMON = {"DeleteOptions", "Status", "WatchEvent", "PartialObjectMetadata", "PartialObjectMetadataList"}
_SCALARS = {"double": 1, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12, "uint32": 13}
_MESSAGE = 11
_OPTIONAL, _REPEATED = 1, 3


@dataclass(frozen=True, slots=True)
class MessageType:
    """One message: its class, and how its fields stand in JSON."""

    name: str
    #: The class of the protobuf library.
    new: Any
    #: Field -> name of the message it holds; "" for scalars.
    holds: dict[str, str]
    #: Field -> JSON name.
    json_names: dict[str, str]
    #: JSON name -> field, inlined members aside.
    fields: dict[str, str]
    repeated: frozenset[str]
    maps: frozenset[str]
    #: Scalars whose zero is written in JSON.
    pointers: frozenset[str]
    #: Members whose fields JSON has in their parent.
    inline: tuple[str, ...]
    #: Whether JSON has the list `items` itself in its place.
    is_list: bool


def name_of(api_version: str, kind: str) -> str | None:
    """The full name of a kind's message; None if the kind has no protobuf form."""
    if kind in _COMMON:
        return f"{META}.{kind}"
    group, _, version = api_version.rpartition("/")
    package = APIEXTENSIONS if group == "apiextensions.k8s.io" else f"k8s.io.api.{group.partition('.')[0] or 'core'}"
    name = f"{package}.{version}.{kind}"
    return name if name in _table() else None


@cache
def message(name: str) -> MessageType:
    """The message of that full name."""
    entry = _table()[name]
    holds, repeated, maps = {}, set(), set()
    for field, written in entry["fields"].values():
        kind = written
        if written.startswith("[]"):
            kind = written[2:]
            repeated.add(field)
        elif written.startswith("map<"):
            kind = written[4:-1].partition(",")[2]
            maps.add(field)
        holds[field] = "" if kind in _SCALARS else kind
    json_names = {field: entry.get("json", {}).get(field, field) for field in holds}
    inline = tuple(entry.get("inline", ()))
    return MessageType(
        name=name,
        new=_class(name),
        holds=holds,
        json_names=json_names,
        fields={json: field for field, json in json_names.items() if field not in inline},
        repeated=frozenset(repeated),
        maps=frozenset(maps),
        pointers=frozenset(entry.get("pointers", ())),
        inline=inline,
        is_list=entry.get("list", False),
    )


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = msgspec.json.decode(
        resources.files("echelon.api").joinpath("data", "protobuf.json").read_bytes()
    )
    return table


def _class(name: str) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(_flat(name)))


@cache
def _pool() -> Any:
    """All messages in one file; their names are flat, so that packages need no files of their own."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    # This edition has optional fields as proto2 has them, and refuses strings that are not UTF-8.
    file = descriptor_pb2.FileDescriptorProto(
        name="kubernetes.proto", syntax="editions", edition=descriptor_pb2.EDITION_2023
    )
    for name, entry in _table().items():
        described = file.message_type.add(name=_flat(name))
        for number, (field, written) in entry["fields"].items():
            _add_field(described, int(number), field, written)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add_field(described: Any, number: int, field: str, written: str) -> None:
    label, kind = _OPTIONAL, written
    if written.startswith("[]"):
        label, kind = _REPEATED, written[2:]
    elif written.startswith("map<"):
        label, kind = _REPEATED, _map_entry(described, field, written)
    added = described.field.add(name=field, number=number, label=label, type=_SCALARS.get(kind, _MESSAGE))
    if kind not in _SCALARS:
        added.type_name = f".{kind if '.' in kind and kind.startswith(described.name) else _flat(kind)}"


def _map_entry(described: Any, field: str, written: str) -> str:
    """A map is a repeated message of key and value, nested in its owner; the full name of that message."""
    key, _, value = written[4:-1].partition(",")
    name = f"{field[0].upper()}{field[1:]}Entry"
    entry = described.nested_type.add(name=name)
    entry.options.map_entry = True
    _add_field(entry, 1, "key", key)
    _add_field(entry, 2, "value", value)
    return f"{described.name}.{name}"


def _flat(name: str) -> str:
    return name.replace(".", "_")
