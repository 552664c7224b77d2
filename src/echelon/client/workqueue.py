"""The work queue of controllers: a key is queued once, processed by one worker at a time, retried with back-off."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque

from ..base.clock import Clock

_FIRST_BACKOFF_SECONDS = 0.05
_LAST_BACKOFF_SECONDS = 60.0


class WorkQueue:
    """`add` → `get` → work → `done`; a key added while it is processed is queued again after `done`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: deque[str] = deque()
        #: Keys in `_ready`, or to be put there when their worker is done.
        self._dirty: set[str] = set()
        self._working: set[str] = set()
        self._failures: dict[str, int] = {}
        #: (time, key) to be added later, soonest first, and the soonest time of each key.
        self._later: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}
        #: One permit per key in `_ready`, so that a key wakes one worker and not all of them.
        self._permits = asyncio.Semaphore(0)
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_at = 0.0

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Whether no key is queued or being processed; timers may still be set."""
        return not self._ready and not self._working

    def state(self) -> dict[str, int]:
        """How many keys are queued, worked on, set for later, and failed last time."""
        return {
            "queued": len(self._ready),
            "working": len(self._working),
            "later": len(self._due),
            "failing": len(self._failures),
        }

    def add(self, key: str) -> None:
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._ready.append(key)
            self._permits.release()

    def add_after(self, key: str, seconds: float) -> None:
        """Add after a delay; of several delays for a key the soonest counts."""
        if seconds <= 0:
            self.add(key)
            return
        at = self._clock.now() + seconds
        if self._due.get(key, at + 1) <= at:
            return
        self._due[key] = at
        heapq.heappush(self._later, (at, key))
        self._set_alarm()

    def retry(self, key: str) -> None:
        """Add after a delay that doubles with every failure since the last `forget`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(_FIRST_BACKOFF_SECONDS * 2 ** min(failures, 20), _LAST_BACKOFF_SECONDS))

    def forget(self, key: str) -> None:
        self._failures.pop(key, None)

    async def get(self) -> str:
        await self._permits.acquire()
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def done(self, key: str) -> None:
        self._working.discard(key)
        if key in self._dirty:
            self._ready.append(key)
            self._permits.release()

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def _set_alarm(self) -> None:
        if not self._later:
            return
        soonest = self._later[0][0]
        if self._alarm is not None and not self._alarm.done():
            if self._alarm_at <= soonest:
                return
            self._alarm.cancel()
        self._alarm_at = soonest
        self._alarm = asyncio.get_running_loop().create_task(self._ring(soonest), name="workqueue-alarm")

    async def _ring(self, at: float) -> None:
        await self._clock.sleep(at - self._clock.now())
        now = self._clock.now()
        while self._later and self._later[0][0] <= now:
            due, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        self._alarm = None
        self._set_alarm()
