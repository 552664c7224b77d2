"""What a backend does for the log: keep batches, and give them back after a restart.

`log.Log` decides what is written and when it becomes visible; a `Journal` only makes batches durable, each one
wholly or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """One step of the log as it is kept; a deletion keeps its tombstone as `value`."""

    revision: int
    key: str
    value: bytes
    deleted: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """What becomes durable together."""

    entries: Sequence[Entry]
    #: Revisions that no reader can need any more.
    dead: Sequence[int] = ()
    #: After this batch, history is complete only above this revision; 0 leaves the mark where it is.
    compacted: int = 0


@dataclass(frozen=True, slots=True)
class JournalContents:
    """What a journal holds when it is opened: every step above `compacted`, and the state at `compacted`."""

    compacted: int
    entries: Iterable[Entry]


class Journal(Protocol):
    """Called by one thread at a time."""

    def load(self) -> JournalContents: ...

    def append(self, batch: Batch) -> None:
        """Return when the batch is on disk; any exception means that it is not and never will be."""
        ...

    def close(self) -> None: ...
