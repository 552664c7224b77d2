"""Recent changes, and the watchers that follow them.

`log.Log` publishes every durable change here.  The history keeps the newest changes in memory, bounded by number and by
bytes, and delivers each change to the subscriptions whose prefix matches.  Revisions have no gaps, so a revision is
also a position in the history.

A subscription is a buffer of references.  If its buffer fills up, it is cut off with `Compacted`: its reader lists
again, and other watchers are not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .interface import Change, Compacted

#: A full window is trimmed to a little below its limits, so that not every change trims: by this fraction …
_SLACK = 64
#: … and by at most about this many changes at once, which one commit deletes.
_TRIM_STEP = 512


@dataclass(frozen=True)
class Window:
    """How much history is kept, and how many unread changes a watcher may have."""

    events: int = 50_000
    bytes: int = 96 * 1024 * 1024
    unread: int = 32_768


def check_prefix(prefix: str) -> None:
    """Scans work on whole segments of a key; any other prefix is an error of the caller."""
    if prefix and not prefix.endswith("/"):
        raise ValueError(f"a prefix ends with '/': {prefix!r}")


def _prefixes(key: str) -> list[str]:
    """Every prefix that a subscription to this key may have: "", each segment's end, the whole key."""
    found = [""]
    at = key.find("/")
    while at >= 0:
        found.append(key[: at + 1])
        at = key.find("/", at + 1)
    found.append(key)
    return found


def _weight(change: Change) -> int:
    return len(change.record.value) if change.record else len(change.tombstone)


class Subscription:
    """One reader: see `interface.Watch`."""

    def __init__(self, history: WatchHistory, prefix: str, after: int, backlog: list[Change]) -> None:
        self.prefix = prefix
        self._watch_history = history
        self._after = after
        self._unread = backlog
        self._too_slow = False
        self._closed = False
        self._waiting: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._rings: float | None = None
        self._rang = False

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Sequence[Change]:
        while not self._unread:
            if self._too_slow:
                raise Compacted(self._after, self._watch_history.oldest)
            if self._closed:
                raise StopAsyncIteration
            if self._rang:
                self._rang = False
                return ()
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        batch, self._unread = self._unread, []
        self._after = batch[-1].revision
        return batch

    @property
    def caught_up(self) -> bool:
        return not self._unread and not self._too_slow

    def deliver(self, change: Change, limit: int) -> None:
        if self._too_slow or change.revision <= self._after:
            return
        if len(self._unread) >= limit:
            self._too_slow = True
            self._unread = []
            self._watch_history.unsubscribe(self)
        else:
            self._unread.append(change)
        self._wake()

    def wake_at(self, when: float | None) -> None:
        # One timer serves many events: a reader sets the same time again and again.
        if when == self._rings:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._rings = when
        self._alarm = None if when is None else asyncio.get_running_loop().call_at(when, self._ring)

    def _ring(self) -> None:
        self._alarm = self._rings = None
        self._rang = True
        self._wake()

    def close(self) -> None:
        self.wake_at(None)
        self._closed = True
        self._watch_history.unsubscribe(self)
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class WatchHistory:
    """The window of recent changes and all subscriptions."""

    def __init__(self, window: Window, compacted: int, history: Iterable[Change]) -> None:
        self._window = window
        self._history = list(history)
        self._bytes = sum(map(_weight, self._history))
        #: History is complete above this revision.
        self.oldest = compacted
        self._readers: dict[str, dict[Subscription, None]] = {}

    def subscribe(self, prefix: str, after: int) -> Subscription:
        backlog = [change for change in self.since(after) if change.key.startswith(prefix)]
        reader = Subscription(self, prefix, after, backlog)
        self._readers.setdefault(prefix, {})[reader] = None
        return reader

    def unsubscribe(self, reader: Subscription) -> None:
        readers = self._readers.get(reader.prefix)
        if readers is not None:
            readers.pop(reader, None)
            if not readers:
                del self._readers[reader.prefix]

    def since(self, after: int) -> list[Change]:
        """All changes above a revision, oldest first; `Compacted` if some are no longer kept."""
        if after < self.oldest:
            raise Compacted(after, self.oldest)
        return self._history[after - self.oldest :]

    def publish(self, changes: Sequence[Change]) -> None:
        limit = self._window.unread
        for change in changes:
            self._bytes += _weight(change)
            for prefix in _prefixes(change.key):
                for reader in tuple(self._readers.get(prefix, ())):
                    reader.deliver(change, limit)
        self._history += changes

    def trim(self) -> list[Change]:
        """Remove and return the changes that no longer fit the window, a limited number at a time."""
        window = self._window
        if self._bytes <= window.bytes and len(self._history) <= window.events:
            return []
        events = window.events - min(_TRIM_STEP, window.events // _SLACK)
        too_heavy = self._bytes - (window.bytes - window.bytes // _SLACK)
        count = max(0, len(self._history) - events)
        too_heavy -= sum(map(_weight, self._history[:count]))
        while too_heavy > 0 and count < len(self._history):
            too_heavy -= _weight(self._history[count])
            count += 1
        gone = self._history[:count]
        del self._history[:count]
        self._bytes -= sum(map(_weight, gone))
        self.oldest = gone[-1].revision
        return gone

    def close(self) -> None:
        for readers in list(self._readers.values()):
            for reader in list(readers):
                reader.close()
