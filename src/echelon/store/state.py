"""The current value of every key, in memory: sorted per kind, with an index of owners.

Keys look like `/group/plural/namespace/name`.  Records are kept per `/group/plural/`, so that reading one kind does
not touch another.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from .interface import Record

#: Greater than every character of a key: the end of the range of a prefix.
_END = "\U0010ffff"


class _KindRecords:
    """The records of one kind, by key and in order."""

    __slots__ = ("changes", "keys", "records")

    def __init__(self) -> None:
        #: How often a record was put or dropped.
        self.changes = 0
        self.keys: list[str] = []
        self.records: dict[str, Record] = {}

    def put(self, record: Record) -> None:
        if record.key not in self.records:
            insort(self.keys, record.key)
        self.records[record.key] = record
        self.changes += 1

    def drop(self, key: str) -> None:
        del self.records[key]
        del self.keys[bisect_left(self.keys, key)]
        self.changes += 1

    def under(self, prefix: str) -> list[str]:
        """Keys under a prefix, in order."""
        low = bisect_left(self.keys, prefix)
        return self.keys[low : bisect_left(self.keys, prefix + _END, low)]

    def scan(self, prefix: str) -> Iterator[Record]:
        return map(self.records.__getitem__, self.under(prefix))


def _kind_prefix(key: str) -> str:
    """`/group/plural/` of a key."""
    end = key.find("/", key.find("/", 1) + 1)
    return key[: end + 1]


class State:
    """All durable records."""

    def __init__(self) -> None:
        self._kinds: dict[str, _KindRecords] = {}
        self._records: dict[str, Record] = {}
        self._owned: dict[str, dict[str, None]] = {}

    def get(self, key: str) -> Record | None:
        return self._records.get(key)

    def put(self, record: Record) -> Record | None:
        """Put a record in place and return the one it replaces."""
        key = record.key
        previous = self._records.get(key)
        self._records[key] = record
        kind = self._kinds.get(_kind_prefix(key))
        if kind is None:
            kind = self._kinds[_kind_prefix(key)] = _KindRecords()
        kind.put(record)
        before = previous.header.owners if previous else ()
        if before != record.header.owners:
            self._disown(key, before)
            for owner in record.header.owners:
                self._owned.setdefault(owner, {})[key] = None
        return previous

    def drop(self, key: str) -> Record:
        """Remove an existing key and return its last record."""
        record = self._records.pop(key)
        self._kinds[_kind_prefix(key)].drop(key)
        self._disown(key, record.header.owners)
        return record

    def holds(self, prefix: str) -> bool:
        kind = self._kinds.get(prefix)
        return kind is not None and bool(kind.keys)

    def changes(self, prefix: str) -> int:
        kind = self._kinds.get(prefix)
        return 0 if kind is None else kind.changes

    def scan(self, prefix: str) -> list[Record]:
        """Records under a prefix in order of keys."""
        if prefix.count("/") >= 3:
            kind = self._kinds.get(_kind_prefix(prefix))
            return [] if kind is None else list(kind.scan(prefix))
        found = (s for name, s in sorted(self._kinds.items()) if name.startswith(prefix))
        return [record for one in found for record in one.scan(prefix)]

    def owned_by(self, uid: str) -> list[Record]:
        return [self._records[key] for key in sorted(self._owned.get(uid, ()))]

    def _disown(self, key: str, owners: tuple[str, ...]) -> None:
        # An owner may be named twice: by one uid under two names.
        for owner in dict.fromkeys(owners):
            dependents = self._owned[owner]
            dependents.pop(key, None)
            if not dependents:
                del self._owned[owner]
