"""What a store promises, whatever keeps the bytes.

One counter, `revision`, grows by one with every change of any key.  A change is *acknowledged* (the awaited
`put` or `delete` returns), visible to `get` and `scan`, and delivered to watchers only after it is durable.
Watching begins at a revision and misses nothing: subscribe first, then read.

The store knows keys and bytes, not kinds.  A `HeaderOf` given at opening tells it what to index.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Header(NamedTuple):
    """What a store remembers of a value beside its bytes."""

    uid: str = ""
    labels: Mapping[str, str] = {}
    #: Uids of owners, for garbage collection by index.
    owners: tuple[str, ...] = ()
    #: Values of the fields that selectors may name.
    fields: Mapping[str, str] = {}


HeaderOf = Callable[[str, bytes], Header]
#: Makes the bytes of a value once its revision is known, so that a value can carry its own revision.
Encode = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Record:
    """One key at one revision."""

    key: str
    value: bytes
    revision: int
    header: Header


@dataclass(frozen=True, slots=True)
class Change:
    """One committed step of the log: `record` is None for a deletion, `previous` None for a creation.

    `tombstone` holds the final bytes of a deleted value, stamped with the revision of the deletion.
    """

    revision: int
    key: str
    record: Record | None
    previous: Record | None
    tombstone: bytes = b""


class RevisionMismatch(Exception):
    """The key was not at the revision the writer expected; `current` is what it is at (0: absent)."""

    def __init__(self, key: str, current: int) -> None:
        super().__init__(f"{key} is at revision {current}")
        self.key = key
        self.current = current


class Compacted(Exception):
    """The asked-for revision is older than the window of kept history."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked = asked
        self.oldest = oldest


class StoreBusy(Exception):
    """Another process holds the data directory."""


class StoreFailed(Exception):
    """The disk refused a commit; the store takes no more writes until it is opened again."""


class Watch(Protocol):
    """A subscription: batches of changes in order of revision.  Raises `Compacted` if the reader falls behind."""

    def __aiter__(self) -> AsyncIterator[Sequence[Change]]: ...

    @property
    def caught_up(self) -> bool:
        """Whether everything up to the store's revision has been read."""
        ...

    def close(self) -> None:
        """End the iteration; safe to call twice."""
        ...


class Store(Protocol):
    """See the module's opening."""

    @property
    def revision(self) -> int:
        """The newest durable revision."""
        ...

    def get(self, key: str) -> Record | None: ...

    def scan(self, prefix: str, at: int | None = None) -> Sequence[Record]:
        """Durable records under a prefix in bytewise order of keys: a snapshot at `revision`, or at an older one.

        A prefix ends with `/` (or is empty).  Raises `Compacted` when `at` is older than the kept history.
        """
        ...

    def owned_by(self, uid: str) -> Sequence[Record]:
        """Records whose header names that owner."""
        ...

    async def put(self, key: str, encode: Encode, expect: int | None, header: Header | None = None) -> Record:
        """Write a value.  `expect` 0: must be absent; n: must be at revision n; None: whatever is there.

        Raises `RevisionMismatch` at once when the newest accepted write (durable or on its way) disagrees.
        A writer that has the header at hand passes it and saves the store from asking for it.
        """
        ...

    async def delete(self, key: str, encode: Encode, expect: int | None) -> Record:
        """Remove a key and return its last record; `encode` makes the tombstone that watchers receive.

        Raises `RevisionMismatch` also when the key is absent.
        """
        ...

    async def settled(self, key: str) -> None:
        """Wait until no write of that key is pending; after a `RevisionMismatch`, wait for this, then read again."""
        ...

    def watch(self, prefix: str, after: int) -> Watch:
        """Changes under a prefix with a revision above `after`, from history and then live.

        A prefix ends with `/` (or is empty); a whole key watches that key.  Raises `Compacted` at once when
        history does not reach back to `after`.
        """
        ...

    async def close(self) -> None:
        """Finish every accepted write, end all watches, release the data directory."""
        ...
