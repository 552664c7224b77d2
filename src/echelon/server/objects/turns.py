"""Long work in slices: whoever has more to do than one slice waits for its turn before each of them.

One slice runs per turn of the event loop, and clients take turns: neither one long list nor many of one client hold up
the requests of others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class RoundRobin(Generic[T]):
    """A queue for each client; `pop` takes one from each in turn."""

    def __init__(self) -> None:
        #: Clients in the order of their turns; only those that wait.
        self._queues: dict[str, deque[T]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, client: str, item: T) -> None:
        self._queues.setdefault(client, deque()).append(item)
        self._length += 1

    def pop(self) -> T:
        client = next(iter(self._queues))
        queue = self._queues.pop(client)
        item = queue.popleft()
        if queue:
            self._queues[client] = queue
        self._length -= 1
        return item


class Turns:
    """One slice of long work per turn of the event loop."""

    def __init__(self) -> None:
        self._waiting: RoundRobin[asyncio.Future[None]] = RoundRobin()
        self._scheduled = False

    async def next(self, client: str = "") -> None:
        """Wait for the turn of this client; other work of the event loop comes in between."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.push(client, turn)
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._give, loop)
        await turn

    def _give(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            turn = self._waiting.pop()
            if not turn.done():
                turn.set_result(None)
                loop.call_soon(self._give, loop)
                return
        self._scheduled = False
