"""The store itself, the same for every backend: implements `interface.Store` over a `Journal`.

    put/delete ─▶ accept: compare with the newest accepted write, take the next revision, encode
               ─▶ commit: a `Committer` makes it durable through a `Journal`
               ─▶ settle: state, history and watchers see it, the writer gets its answer

So there are two states: `_accepted`, with which writers are compared, and the durable `State`, which is all that
readers and watchers see.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from .commit import Committer, Compaction, PendingWrite, Settle
from .interface import Change, Encode, Header, HeaderOf, Record, RevisionMismatch, StoreFailed
from .journal import Entry, Journal
from .snapshots import Snapshots
from .state import State
from .watch_history import Subscription, WatchHistory, Window, check_prefix

_log = logging.getLogger(__name__)

MakeCommitter = Callable[[Journal, Settle], Committer]


class Log:
    """A `Store` over a journal.  All methods belong to one event loop."""

    def __init__(self, journal: Journal, committer: MakeCommitter, header_of: HeaderOf, window: Window) -> None:
        self._header_of = header_of
        self._state = State()
        #: The newest accepted write of each key that has a pending one.
        self._accepted: dict[str, PendingWrite] = {}
        self._failed: Exception | None = None
        self.closed = False
        self._revision, self._history = self._load(journal, window)
        self._snapshots = Snapshots(self._state, self._history)
        self._next = self._revision + 1
        self._committer = committer(journal, self._settle)
        self._forget_old()

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def failure(self) -> str:
        return str(self._failed or "")

    def get(self, key: str) -> Record | None:
        return self._state.get(key)

    def holds(self, prefix: str) -> bool:
        return self._state.holds(prefix)

    def changes(self, prefix: str) -> int:
        return self._state.changes(prefix)

    def scan(self, prefix: str, at: int | None = None) -> Sequence[Record]:
        check_prefix(prefix)
        if at is None:
            return self._state.scan(prefix)
        return self._snapshots.of(prefix, min(at, self._revision))

    def owned_by(self, uid: str) -> Sequence[Record]:
        return self._state.owned_by(uid)

    async def put(self, key: str, encode: Encode, expect: int | None, header: Header | None = None) -> Record:
        self._compare(key, expect)
        revision = self._next
        value = encode(revision)
        record = Record(key, value, revision, self._header_of(key, value) if header is None else header)
        return await self._commit(Entry(revision, key, value, False), record)

    async def delete(self, key: str, encode: Encode, expect: int | None) -> Record:
        if self._compare(key, expect) == 0:
            raise RevisionMismatch(key, 0)
        revision = self._next
        return await self._commit(Entry(revision, key, encode(revision), True), None)

    async def settled(self, key: str) -> None:
        while (write := self._accepted.get(key)) is not None and self._failed is None:
            await asyncio.wait([write.done])

    def watch(self, prefix: str, after: int) -> Subscription:
        return self._history.subscribe(prefix, after)

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            await self._committer.close()
            self._history.close()

    def _compare(self, key: str, expect: int | None) -> int:
        """The revision of the newest accepted write of a key; `RevisionMismatch` if it is not the expected one."""
        if self._failed is not None:
            raise StoreFailed(str(self._failed)) from self._failed
        if self.closed:
            raise StoreFailed("the store is closed")
        pending = self._accepted.get(key)
        record = pending.record if pending else self._state.get(key)
        current = record.revision if record else 0
        if expect is not None and expect != current:
            raise RevisionMismatch(key, current)
        return current

    async def _commit(self, entry: Entry, record: Record | None) -> Record:
        """Take the next revision and wait until the write is durable; only the disk can still fail."""
        self._next = entry.revision + 1
        done: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        write = self._accepted[entry.key] = PendingWrite(entry, record, done)
        self._committer.submit(write)
        if done.done():
            # An inline commit never waits; let the watchers run all the same.
            await asyncio.sleep(0)
        # A writer that is cancelled does not take its write back.
        return await asyncio.shield(done)

    def _settle(self, writes: Sequence[PendingWrite], error: Exception | None) -> None:
        if error is None and self._failed is not None:
            # An earlier batch could not be published: what comes after it would be seen without it.
            error = self._failed
        if error is None:
            try:
                self._publish(writes)
            except Exception as problem:
                _log.exception("durable writes cannot be published")
                error = problem
                # Watchers would miss the rest without noticing.
                self._history.close()
        if error is not None:
            self._fail(writes, error)

    def _publish(self, writes: Sequence[PendingWrite]) -> None:
        """Make durable writes visible to readers, watchers and their writers."""
        changes: list[Change] = []
        for write in writes:
            change, result = self._apply(write.entry, write.record)
            changes.append(change)
            if self._accepted.get(change.key) is write:
                del self._accepted[change.key]
            if not write.done.done():
                write.done.set_result(result)
        self._history.publish(changes)
        self._forget_old()

    def _apply(self, entry: Entry, record: Record | None) -> tuple[Change, Record]:
        """Make one durable change visible to readers; returns it and the record for its writer."""
        self._revision = entry.revision
        if record is None:
            last = self._state.drop(entry.key)
            return Change(entry.revision, entry.key, None, last, entry.value), last
        previous = self._state.put(record)
        return Change(entry.revision, entry.key, record, previous), record

    def _fail(self, writes: Sequence[PendingWrite], error: Exception) -> None:
        if self._failed is None:
            self._failed = StoreFailed(f"commit failed, no more writes are accepted: {error}")
        for write in writes:
            if not write.done.done():
                write.done.set_exception(StoreFailed(str(self._failed)))

    def _forget_old(self) -> None:
        """Delete from the journal what left the history window and is not a current value."""
        gone = self._history.trim()
        if not gone:
            return
        dead: list[int] = []
        for change in gone:
            if change.previous is not None:
                dead.append(change.previous.revision)
            if change.record is None:
                dead.append(change.revision)
        self._committer.submit(Compaction(tuple(dead), gone[-1].revision))
        self._snapshots.forget_old()

    def _load(self, journal: Journal, window: Window) -> tuple[int, WatchHistory]:
        kept = journal.load()
        history: list[Change] = []
        expected = kept.compacted + 1
        for entry in kept.entries:
            record = None
            if not entry.deleted:
                record = Record(entry.key, entry.value, entry.revision, self._header_of(entry.key, entry.value))
            change, _ = self._apply(entry, record)
            if entry.revision <= kept.compacted:
                continue
            if entry.revision != expected:
                raise StoreFailed(f"the database is damaged: revision {expected} is missing")
            expected += 1
            history.append(change)
        return expected - 1, WatchHistory(window, kept.compacted, history)
