"""Time for a scheduler that works against a real server: it passes only while a test lets it.

    settle(5) ─► until nothing is left to do ─► the next sleeper whose time comes within 5 s wakes ─► and so on

How long the machine takes for anything does not matter: a second of the scheduler has passed when everything that
had to be done before has been done.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time


class SteppedClock:
    """A clock whose sleepers wake in order, one instant at a time."""

    def __init__(self) -> None:
        # Servers stamp objects with the time of the wall, so it begins there.
        self._now = time.time()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._numbers), woken))
        await woken

    def step(self, until: float) -> bool:
        """Go to the next instant at which someone wakes, if it is not after `until`, else there; whether one did."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        if not self._sleepers or self._sleepers[0][0] > until:
            self._now = max(self._now, until)
            return False
        self._now = max(self._now, self._sleepers[0][0])
        while self._sleepers and self._sleepers[0][0] <= self._now:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)
        return True
