"""Requests in flight: how many are held at a time, and in which order they begin.

    held < limit                 every request is taken in
    held >= limit                a client with its share of the limit or more is told to come again (429)
    taken in                     a few requests begin per turn of the event loop, clients in turn

A client is a user with one program (user agent).  So a client with hundreds of requests waits for itself: another one's
request begins in the next turn.  Watches and health checks are not counted.
"""

from __future__ import annotations

import asyncio

from ...objects.turns import RoundRobin

#: Requests that begin in one turn of the event loop: a few milliseconds of work.
_PER_TURN = 16


class TooManyRequests(Exception):
    """The client holds its share of the requests that may be in flight."""


class InFlight:
    """The requests of one sort, reading or writing; a limit of 0 is none."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        #: Requests that wait, are worked on, or whose reply is being sent.
        self.held = 0
        self._held_of: dict[str, int] = {}
        self._waiting: RoundRobin[asyncio.Future[None]] = RoundRobin()
        #: Requests that began in this turn of the event loop.
        self._begun = 0
        self._scheduled = False

    @property
    def waiting(self) -> int:
        """Requests that have not begun yet."""
        return len(self._waiting)

    async def enter(self, client: str) -> None:
        """Wait until the request may begin; `leave` must follow, unless this raises."""
        own = self._held_of.get(client, 0)
        if self._limit and self.held >= self._limit and own >= self._share(client):
            raise TooManyRequests
        self._held_of[client] = own + 1
        self.held += 1
        if self._begun < _PER_TURN and not self._waiting:
            self._begun += 1
            self._schedule()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.push(client, turn)
        self._schedule()
        try:
            await turn
        except BaseException:
            self.leave(client)
            raise

    def leave(self, client: str) -> None:
        self.held -= 1
        left = self._held_of[client] - 1
        if left:
            self._held_of[client] = left
        else:
            del self._held_of[client]

    def _share(self, client: str) -> int:
        """What a client may hold when the limit is reached: an equal part, and at least one request."""
        return max(1, self._limit // len(self._held_of.keys() | {client}))

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._scheduled = False
        self._begun = 0
        while self._waiting and self._begun < _PER_TURN:
            turn = self._waiting.pop()
            if not turn.done():
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            self._schedule()


class Place:
    """The place of one request among those in flight, if it has taken one."""

    __slots__ = ("_client", "_taken")

    def __init__(self) -> None:
        self._taken: InFlight | None = None
        self._client = ""

    async def take(self, where: InFlight | None, client: str) -> None:
        """Wait until the request may begin; nothing is counted if `where` is None."""
        if where is not None:
            await where.enter(client)
            self._taken, self._client = where, client

    def leave(self) -> None:
        if self._taken is not None:
            self._taken.leave(self._client)
