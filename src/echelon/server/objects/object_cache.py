"""Cache of decoded objects, by key and revision, shared by all readers.

The store keeps bytes; readers, watchers and writers need JSON trees.  The tree of a write is cached when it is encoded,
so it is usually never decoded.

    NO MUTATION: a cached tree is shared.  Copy what you change (`{**tree, "metadata": {**tree["metadata"], …}}`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from ...api.objects.selectors import fields_of
from ...api.scheme import RESOURCES, Object, Resource
from ...store.interface import Header, Record
from .sharing import decode_indexed, decode_shared

#: ObjectCache are about five times as large as their bytes, so only the newest ones are kept.
_CAPACITY = 20_000
_BY_PREFIX = {resource.prefix: resource for resource in RESOURCES if resource.stored_as is None}
_NO_LABELS: Mapping[str, str] = {}
#: Selectable fields that were seen lately, by their values.
_fields: dict[tuple[str, ...], dict[str, str]] = {}
_MOST_FIELDS = 16_384


class ObjectCache:
    """Decoded objects that were used recently, by key and revision."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[tuple[str, int], Object] = OrderedDict()

    def keep(self, key: str, revision: int, tree: Object) -> None:
        self._kept[key, revision] = tree
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)

    def of(self, key: str, revision: int, value: bytes) -> Object:
        """The decoded tree of a value at that revision."""
        found = self._kept.get((key, revision))
        if found is None:
            found = decode_shared(value)
            self.keep(key, revision, found)
        else:
            try:  # noqa: SIM105 - every read of an object comes here
                self._kept.move_to_end((key, revision))
            except KeyError:  # another thread has just put it out
                pass
        return found

    def of_record(self, record: Record) -> Object:
        return self.of(record.key, record.revision, record.value)


def header(resource: Resource, tree: Object) -> Header:
    """What the store indexes of an object: uid, labels, owners, selectable fields."""
    metadata = tree["metadata"]
    owners = metadata.get("ownerReferences")
    return Header(
        metadata["uid"],
        metadata.get("labels") or _NO_LABELS,
        tuple(owner["uid"] for owner in owners) if owners else (),
        _shared_fields(fields_of(resource.stored_as or resource, tree)),
    )


def _shared_fields(fields: dict[str, str]) -> Mapping[str, str]:
    """Equal fields are kept once: many pods of a node differ in none."""
    values = tuple(fields.values())
    known = _fields.get(values)
    # Another kind may have the same values of other fields.
    if known is None or known.keys() != fields.keys():
        if len(_fields) >= _MOST_FIELDS:
            _fields.clear()
        known = _fields[values] = fields
    return known


def resource_of(key: str) -> Resource:
    """The kind a store key belongs to, at one of its versions."""
    group, plural = key.split("/", 3)[1:3]
    return _BY_PREFIX[f"/{group}/{plural}/"]


def header_of(key: str, value: bytes) -> Header:
    """The `HeaderOf` for stores of API objects; kinds that are not known in advance are custom ones."""
    group, plural, *place = key.split("/")[1:]
    known = _BY_PREFIX.get(f"/{group}/{plural}/")
    return header(known or Resource(group, "", plural, "", namespaced=len(place) > 1), decode_indexed(value))
