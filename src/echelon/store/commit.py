"""Commits accepted writes to the journal: inline (virtual time, memory) or in batches by one thread (SQLite).

    accept ──submit──▶ committer ──append──▶ journal
       ▲                    │
       └────── settle ◀─────┘      on the event loop, in order of revision

Writes submitted while the thread is writing form its next batch.  There is no timer: batches grow with the load.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol

from .interface import Record
from .journal import Batch, Entry, Journal

_log = logging.getLogger(__name__)


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


Item = PendingWrite | Compaction
#: Called on the event loop when writes are durable, or with the error that stopped them.
Settle = Callable[[Sequence[PendingWrite], Exception | None], None]


class Committer(Protocol):
    def submit(self, item: Item) -> None: ...

    async def close(self) -> None:
        """Settle everything submitted so far and close the journal."""
        ...


def _writes(items: Sequence[Item]) -> list[PendingWrite]:
    return [item for item in items if isinstance(item, PendingWrite)]


def _batch(items: Sequence[Item]) -> tuple[list[PendingWrite], Batch]:
    writes = _writes(items)
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

    def submit(self, item: Item) -> None:
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
    """One thread writes; everything queued when it is free is one batch.

    Every submitted write is settled, whatever happens to the thread: writes that it can no longer make are failed.
    """

    #: Approximate limit; a larger batch would delay its first writer.
    MAX_BATCH = 512
    #: A commit that takes longer is reported while it lasts: the disk does not answer.
    SLOW_SECONDS = 10.0

    def __init__(self, journal: Journal, settle: Settle) -> None:
        self._journal = journal
        self._settle = settle
        self._loop = asyncio.get_running_loop()
        #: Items submitted in this iteration of the event loop.  They go to the thread together, because waking it costs
        #: more than accepting a write.
        self._gathered: list[Item] = []
        self._queue: SimpleQueue[list[Item] | None] = SimpleQueue()
        #: Items that the thread has taken and not settled yet.
        self._taken: list[Item] = []
        self._broken: BaseException | None = None
        self._alive = True
        self._ended = asyncio.Event()
        #: When the commit that is under way began, in the loop's time; 0: there is none.
        self._began = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._run, name="store-commit", daemon=True)
        self._thread.start()

    def submit(self, item: Item) -> None:
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(item)

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        if not self._alive:
            self._settle(_writes(gathered), self._error())
            return
        for start in range(0, len(gathered), self.MAX_BATCH):
            self._queue.put(gathered[start : start + self.MAX_BATCH])
        if self._alarm is None and gathered:
            self._alarm = self._loop.call_later(self.SLOW_SECONDS, self._report_slow)

    def _report_slow(self) -> None:
        began, self._alarm = self._began, None
        if began and self._alive:
            seconds = self._loop.time() - began
            if seconds >= self.SLOW_SECONDS / 2:
                _log.warning("a commit has been under way for %.0f s: the disk is slow or does not answer", seconds)
            self._alarm = self._loop.call_later(self.SLOW_SECONDS, self._report_slow)

    async def close(self) -> None:
        self._hand_over()
        self._queue.put(None)
        await self._ended.wait()
        if self._alarm is not None:
            self._alarm.cancel()
        self._thread.join()
        self._journal.close()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._commit_until_closed()
        except BaseException as error:
            self._broken = error
        finally:
            self._call_on_loop(self._end)

    def _commit_until_closed(self) -> None:
        running = True
        while running:
            running = self._take()
            items = self._taken
            writes, batch = _batch(items)
            if self._broken is None and (batch.entries or batch.dead):
                self._began = self._loop.time()
                try:
                    self._journal.append(batch)
                except Exception as error:
                    self._broken = error
                self._began = 0.0
            self._call_on_loop(self._settle, writes, self._broken and self._error())
            self._taken = []

    def _take(self) -> bool:
        """Take all queued items, waiting for at least one; False for the last ones before closing."""
        more = self._queue.get()
        while more is not None:
            self._taken += more
            if len(self._taken) >= self.MAX_BATCH:
                return True
            try:
                more = self._queue.get_nowait()
            except Empty:
                return True
        return False

    def _call_on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        """Run a callback on the event loop, unless the loop is already closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _end(self) -> None:
        """The thread has ended, on its own or because of `close`: fail what it left."""
        self._alive = False
        left, self._taken = self._taken, []
        while not self._queue.empty():
            left += self._queue.get_nowait() or ()
        if self._broken is not None or left:
            self._settle(_writes(left), self._error())
        self._ended.set()

    def _error(self) -> Exception:
        if isinstance(self._broken, Exception):
            return self._broken
        return RuntimeError(f"the commit thread has ended: {self._broken!r}")
