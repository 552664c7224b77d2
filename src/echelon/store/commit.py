"""Commits accepted writes to the journal: inline (virtual time, memory) or in batches by one thread (SQLite).

    accept ──submit──▶ committer ──append──▶ journal
       ▲                    │
       └────── settle ◀─────┘      on the event loop, in order of revision

Writes submitted while the thread is writing form its next batch.  There is no timer: batches grow with the load.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol

from .interface import Record
from .journal import Batch, Entry, Journal


@dataclass(slots=True)
class PendingWrite:
    """An accepted write that is not durable yet; `record` is None for a deletion."""

    entry: Entry
    record: Record | None
    #: Resolved with the record written, or with the last record of the deleted key.
    done: asyncio.Future[Record]


@dataclass(frozen=True, slots=True)
class Compaction:
    """Revisions to delete from the journal; history is complete above `compacted`."""

    dead: tuple[int, ...]
    compacted: int


#: Called on the event loop when writes are durable, or with the error that stopped them.
Settle = Callable[[Sequence[PendingWrite], Exception | None], None]


class Committer(Protocol):
    def submit(self, item: PendingWrite | Compaction) -> None: ...

    async def close(self) -> None:
        """Settle everything submitted so far and close the journal."""
        ...


def _batch(items: Sequence[PendingWrite | Compaction]) -> tuple[list[PendingWrite], Batch]:
    writes = [item for item in items if isinstance(item, PendingWrite)]
    forgets = [item for item in items if isinstance(item, Compaction)]
    dead = [revision for one in forgets for revision in one.dead]
    compacted = forgets[-1].compacted if forgets else 0
    return writes, Batch([write.entry for write in writes], dead, compacted)


class InlineCommitter:
    """Every write is its own batch, durable before `submit` returns."""

    def __init__(self, journal: Journal, settle: Settle) -> None:
        self._journal = journal
        self._settle = settle
        self._broken: Exception | None = None

    def submit(self, item: PendingWrite | Compaction) -> None:
        writes, batch = _batch([item])
        if self._broken is None:
            try:
                self._journal.append(batch)
            except Exception as error:
                self._broken = error
        self._settle(writes, self._broken)

    async def close(self) -> None:
        self._journal.close()


class ThreadCommitter:
    """One thread writes; everything queued when it is free is one batch."""

    #: Approximate limit; a larger batch would delay its first writer.
    MAX_BATCH = 512

    def __init__(self, journal: Journal, settle: Settle) -> None:
        self._journal = journal
        self._settle = settle
        self._loop = asyncio.get_running_loop()
        #: Items submitted in this iteration of the event loop.  They go to the thread together, because waking it costs
        #: more than accepting a write.
        self._gathered: list[PendingWrite | Compaction] = []
        self._queue: SimpleQueue[list[PendingWrite | Compaction] | None] = SimpleQueue()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="store-commit", daemon=True)
        self._thread.start()

    def submit(self, item: PendingWrite | Compaction) -> None:
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(item)

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), self.MAX_BATCH):
            self._queue.put(gathered[start : start + self.MAX_BATCH])

    async def close(self) -> None:
        self._hand_over()
        self._queue.put(None)
        await self._ended.wait()
        self._thread.join()
        self._journal.close()

    def _run(self) -> None:
        broken: Exception | None = None
        running = True
        while running:
            items, running = self._take()
            writes, batch = _batch(items)
            if broken is None and (batch.entries or batch.dead):
                try:
                    self._journal.append(batch)
                except Exception as error:
                    broken = error
            self._call_on_loop(self._settle, writes, broken)
        self._call_on_loop(self._ended.set)

    def _call_on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        """Run a callback on the event loop, unless the loop is already closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _take(self) -> tuple[list[PendingWrite | Compaction], bool]:
        """All queued items, waiting for at least one; the flag is False for the last batch before closing."""
        more = self._queue.get()
        items: list[PendingWrite | Compaction] = []
        while more is not None:
            items += more
            if len(items) >= self.MAX_BATCH:
                return items, True
            try:
                more = self._queue.get_nowait()
            except Empty:
                return items, True
        return items, False
