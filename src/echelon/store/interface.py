"""The interface of a store, the same for SQLite and memory.

One counter, `revision`, grows by one with every change of any key.  A change is *acknowledged* (the awaited
`put` or `delete` returns), visible to `get` and `scan`, and delivered to watchers only after it is durable.
A watch starts at a revision and misses no later change.

The store knows keys and bytes, not kinds.  The `HeaderOf` function given at opening extracts what to index.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Header(NamedTuple):
    """The indexed parts of a value."""

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
    """The key is not at the revision that the writer expected; `current` is its revision (0: absent)."""

    def __init__(self, key: str, current: int) -> None:
        super().__init__(f"{key} is at revision {current}")
        self.key = key
        self.current = current


class Compacted(Exception):
    """The requested revision is older than the kept history."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked = asked
        self.oldest = oldest


class StoreBusy(Exception):
    """Another process holds the data directory."""


class StoreFailed(Exception):
    """A commit failed; the store accepts no writes until it is opened again."""


class Watch(Protocol):
    """A subscription: batches of changes in order of revision.  Raises `Compacted` if the reader is too slow."""

    def __aiter__(self) -> AsyncIterator[Sequence[Change]]: ...

    @property
    def caught_up(self) -> bool:
        """Whether everything up to the store's revision has been read."""
        ...

    def wake_at(self, when: float | None) -> None:
        """At this time of the event loop the reader gets an empty batch, instead of at any time set before."""
        ...

    def close(self) -> None:
        """End the iteration; safe to call twice."""
        ...


class Store(Protocol):
    """Keys, bytes and revisions; see the module docstring."""

    @property
    def revision(self) -> int:
        """The newest durable revision."""
        ...

    @property
    def failure(self) -> str:
        """Why no writes are accepted; "" if they are."""
        ...

    def get(self, key: str) -> Record | None: ...

    def holds(self, prefix: str) -> bool:
        """Whether there is any durable record of a kind; `prefix` is `/group/plural/`."""
        ...

    def changes(self, prefix: str) -> int:
        """A number that is another one after every change under the prefix of a whole kind."""
        ...

    def scan(self, prefix: str, at: int | None = None) -> Sequence[Record]:
        """Durable records under a prefix in bytewise order of keys: a snapshot at `revision`, or at an older one.

        A prefix ends with `/` (or is empty).  Raises `Compacted` when `at` is older than the kept history.
        A snapshot at a named revision is kept for a while, because the pages of a list ask for it again and again.
        """
        ...

    def owned_by(self, uid: str) -> Sequence[Record]:
        """Records whose header names that owner uid."""
        ...

    async def put(self, key: str, encode: Encode, expect: int | None, header: Header | None = None) -> Record:
        """Write a value.  `expect` 0: the key must be absent; n: it must be at revision n; None: no condition.

        Raises `RevisionMismatch` at once when the newest accepted write (durable or pending) has another revision.
        A writer that already has the header passes it, so that the store need not compute it.
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
