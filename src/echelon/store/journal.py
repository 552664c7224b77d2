"""The interface between the log and its backend: batches are written, and read back after a restart.

`log.Log` decides what is written and when it becomes visible.  A `Journal` only makes batches durable, each one
completely or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """One change as it is stored; a deletion has its tombstone as `value`."""

    revision: int
    key: str
    value: bytes
    deleted: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries that become durable together, and revisions to delete with them."""

    entries: Sequence[Entry]
    #: Revisions that no reader can ask for any more.
    dead: Sequence[int] = ()
    #: After this batch, history is complete only above this revision; 0 leaves the mark unchanged.
    compacted: int = 0


@dataclass(frozen=True, slots=True)
class JournalContents:
    """The contents of an opened journal: every entry above `compacted`, and the state at `compacted`."""

    compacted: int
    entries: Iterable[Entry]


class Journal(Protocol):
    """Called by one thread at a time."""

    def load(self) -> JournalContents: ...

    def append(self, batch: Batch) -> None:
        """Return when the batch is on disk; after an exception it is not and never will be."""
        ...

    def close(self) -> None: ...
