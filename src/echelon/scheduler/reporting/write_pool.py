"""Writers that share one line of writes, and how writes of lower urgency wait for that line.

bindings ─► WritePool ─► 64 at a time
                └──────► `courtesy`: Scheduled conditions and events wait until the line is empty; older ones get every
                         tenth turn beside it, those that have waited too long go at once
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from ...base.clock import Clock

log = logging.getLogger(__name__)

#: One in this many writes beside a busy line is one that can wait.
_SHARE = 10

Job = Callable[[], Awaitable[None]]


class WritePool:
    """A fixed number of writers for one line of writes."""

    def __init__(self, name: str, size: int, clock: Clock) -> None:
        self._name = name
        self._size = size
        self._clock = clock
        #: First in, first out; writes that can wait go last.
        self._line: deque[Job] = deque()
        self._last: deque[Job] = deque()
        #: Writers without work.
        self._resting: list[asyncio.Future[None]] = []
        self._under_way = 0
        #: Set while nothing is in line or being written.
        self._idle = asyncio.Event()
        self._idle.set()
        #: Writes until one that can wait may go beside them; the event is set at none.
        self._until_turn = 0
        self._turn = asyncio.Event()
        self._turn.set()

    @property
    def idle(self) -> bool:
        """Whether nothing is in line or being written."""
        return not self._under_way

    @property
    def has_plenty(self) -> bool:
        """Whether more is in line than can be written at a time."""
        return len(self._line) > self._size

    def submit(self, job: Job, *, can_wait: bool = False) -> None:
        if not self._under_way:
            self._idle.clear()
        self._under_way += 1
        (self._last if can_wait else self._line).append(job)
        while self._resting:
            writer = self._resting.pop()
            if not writer.done():
                writer.set_result(None)
                return

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._size):
                group.create_task(self._work(), name=f"{self._name}-{number}")

    async def courtesy(self, patient_until: float, latest: float) -> None:
        """Return when a write that can wait may go: the line is empty, or its turn beside it has come."""
        await self._first(patient_until, self._idle)
        while not self.idle and self._clock.now() < latest and not self._turn.is_set():
            await self._first(latest, self._idle, self._turn)
        self._until_turn = _SHARE - 1
        self._turn.clear()

    async def _first(self, until: float, *events: asyncio.Event) -> None:
        """Wait for one of these events, at most until that moment."""
        left = until - self._clock.now()
        if left <= 0 or any(event.is_set() for event in events):
            return
        waits = [asyncio.ensure_future(wait) for wait in (*(event.wait() for event in events), self._clock.sleep(left))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not (self._line or self._last):
                rest = loop.create_future()
                self._resting.append(rest)
                await rest
                continue
            job = self._line.popleft() if self._line else self._last.popleft()
            try:
                await job()
            except Exception:
                log.exception("%s: unexpected error in a write", self._name)
            finally:
                self._ended()

    def _ended(self) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()
        self._until_turn -= 1
        if self._until_turn == 0:
            self._turn.set()
