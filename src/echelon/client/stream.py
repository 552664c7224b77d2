"""An answer that goes on and on, line by line: what a watch is made of.

    socket ─► httptools ─► pieces of the body ─► whole lines, as many as have come ─► whoever reads

In a storm of events data is taken in every few milliseconds and not line by line: to be woken costs more than to read.
A reader that is slow makes the server wait.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import cast

import httptools

#: More than this waiting for its reader, and nothing more is read from the socket.
_HIGH_WATER = 4 << 20
#: What is read at a time.
_READ_BYTES = 64 << 10
#: Data that comes so soon after other data is a storm, even if we were busy meanwhile, and so long the next may gather.
_STORM_SECONDS = 0.05
_GATHER_SECONDS = 0.005


class ConnectionClosed(ConnectionError):
    """The server closed the connection before its answer was whole."""


class Stream(asyncio.BufferedProtocol):
    """One answer on a connection of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, silence: float) -> None:
        self._loop = loop
        self._silence = silence
        #: Where to write, and what reading is paused on: the socket itself, below TLS if there is any.
        self._transport: asyncio.Transport | None = None
        self._socket: asyncio.Transport | None = None
        #: What has come of the body and was not read; a server sends every event as a piece of its own.
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self.on_body = self._pieces.append
        self._parser = httptools.HttpResponseParser(self)
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._ended = False
        self._trouble: Exception | None = None
        self._news: asyncio.Future[None] | None = None
        self._heard = loop.time()
        self._gathering: asyncio.TimerHandle | None = None
        self._alarm = loop.call_later(silence, self._listen)
        #: 0 until the head of the answer is there.
        self.status = 0

    # -- for the reader ------------------------------------------------------------------------------------

    async def secure(self, tls: ssl.SSLContext, host: str) -> None:
        """Speak TLS from now on; a transport that did so by itself would be woken and read on while it is paused."""
        assert self._socket is not None
        self._transport = await self._loop.start_tls(self._socket, self, tls, server_hostname=host)

    async def ask(self, request: bytes) -> None:
        """Send the request and wait for the head of the answer."""
        assert self._transport is not None
        self._transport.write(request)
        while not self.status:
            await self._wait()

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Whole lines as they come; a line cut off by the end of the stream is dropped, as the watch will resume."""
        tail = b""
        while True:
            if self._pieces:
                lines, end, rest = self._taken().rpartition(b"\n")
                if end:
                    yield tail + lines + end
                    tail = rest
                else:
                    tail += rest
            elif self._ended:
                return
            else:
                await self._wait()

    async def rest(self) -> bytes:
        """All that comes, for an answer that does end."""
        while not self._ended:
            await self._wait()
        return self._taken()

    def _taken(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_bytes = 0
        return taken

    def abort(self) -> None:
        """Hang up: a polite goodbye could outlive us."""
        self._alarm.cancel()
        if self._gathering is not None:
            self._gathering.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self) -> None:
        if self._trouble is not None:
            raise self._trouble
        self._news = self._loop.create_future()
        await self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _fail(self, trouble: Exception) -> None:
        self._trouble = self._trouble or trouble
        self._wake()

    def _listen(self) -> None:
        """A server that has been silent for too long may be gone."""
        left = self._heard + self._silence - self._loop.time()
        if left > 0:
            self._alarm = self._loop.call_later(left, self._listen)
        else:
            self._fail(TimeoutError())

    def _gather(self) -> None:
        """Read no more for a moment, or until the reader has caught up."""
        assert self._socket is not None
        if self._gathering is None and not self._socket.is_closing():
            self._socket.pause_reading()
            self._gathering = self._loop.call_later(_GATHER_SECONDS, self._go_on)

    def _go_on(self) -> None:
        assert self._socket is not None
        self._gathering = None
        if self._waiting_bytes > _HIGH_WATER:
            self._gathering = self._loop.call_later(_GATHER_SECONDS, self._go_on)
        elif not self._socket.is_closing():
            self._socket.resume_reading()

    # -- what the transport calls --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._socket = cast(asyncio.Transport, transport)

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        before, self._heard = self._heard, self._loop.time()
        try:
            self._parser.feed_data(self._buffer[:size])
        except httptools.HttpParserError as error:
            self._fail(ConnectionClosed(f"not an answer in HTTP: {error}"))
        self._waiting_bytes += size
        if self._heard - before < _STORM_SECONDS or self._waiting_bytes > _HIGH_WATER:
            self._gather()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(ConnectionClosed(str(error) if error else "the server hung up"))

    # -- what the parser calls -----------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_message_complete(self) -> None:
        self._ended = True
