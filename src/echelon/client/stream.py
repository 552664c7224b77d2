"""A streaming HTTP response, line by line: the transport of a watch.

    socket ─► httptools ─► chunks of the body ─► complete lines, in batches ─► the reader (`http.HttpVerbs.watch`)

Under many events the socket is read every few milliseconds instead of per event, because waking up costs more than
reading.  A slow reader pauses the socket, and flow control makes the server wait.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import cast

import httptools

#: With more unread bytes than this, the socket is paused.
_HIGH_WATER = 4 << 20
#: Size of one read.
_READ_BYTES = 64 << 10
#: Data within `_STORM_SECONDS` after other data pauses the socket for `_GATHER_SECONDS`, so that more can gather.
_STORM_SECONDS = 0.05
_GATHER_SECONDS = 0.005


class ConnectionClosed(ConnectionError):
    """The server closed the connection before its response was complete."""


class Stream(asyncio.BufferedProtocol):
    """One streaming response on its own connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, silence: float) -> None:
        self._loop = loop
        self._silence = silence
        #: `_transport` is written to; `_socket`, below TLS if there is any, is what reading is paused on.
        self._transport: asyncio.Transport | None = None
        self._socket: asyncio.Transport | None = None
        #: Unread chunks of the body; a server sends every event as one chunk.
        self._chunks: list[bytes] = []
        self._waiting_bytes = 0
        self.on_body = self._chunks.append
        self._parser = httptools.HttpResponseParser(self)
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._ended = False
        self._failure: Exception | None = None
        self._changed: asyncio.Future[None] | None = None
        self._last_data = loop.time()
        self._gathering: asyncio.TimerHandle | None = None
        self._alarm = loop.call_later(silence, self._check_silence)
        #: 0 until the headers have arrived.
        self.status = 0

    # -- for the reader ------------------------------------------------------------------------------------

    async def secure(self, tls: ssl.SSLContext, host: str) -> None:
        """Start TLS on the connection.  Not left to the transport, which would keep reading while it is paused."""
        assert self._socket is not None
        self._transport = await self._loop.start_tls(self._socket, self, tls, server_hostname=host)

    async def ask(self, request: bytes) -> None:
        """Send the request and wait for the response headers."""
        assert self._transport is not None
        self._transport.write(request)
        while not self.status:
            await self._wait()

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Complete lines as they arrive; an incomplete last line is dropped, since the watch resumes before it."""
        tail = b""
        while True:
            if self._chunks:
                lines, end, rest = self._take_unread().rpartition(b"\n")
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
        """The whole body, for a response that ends."""
        while not self._ended:
            await self._wait()
        return self._take_unread()

    def _take_unread(self) -> bytes:
        taken = b"".join(self._chunks)
        self._chunks.clear()
        self._waiting_bytes = 0
        return taken

    def abort(self) -> None:
        """Close the connection at once, without a TLS shutdown that may take longer than this process lives."""
        self._alarm.cancel()
        if self._gathering is not None:
            self._gathering.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._changed = self._loop.create_future()
        await self._changed

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._wake()

    def _check_silence(self) -> None:
        """Fail with TimeoutError after `silence` seconds without data."""
        left = self._last_data + self._silence - self._loop.time()
        if left > 0:
            self._alarm = self._loop.call_later(left, self._check_silence)
        else:
            self._fail(TimeoutError())

    def _gather(self) -> None:
        """Pause the socket for a moment, or until the reader has caught up."""
        assert self._socket is not None
        if self._gathering is None and not self._socket.is_closing():
            self._socket.pause_reading()
            self._gathering = self._loop.call_later(_GATHER_SECONDS, self._resume)

    def _resume(self) -> None:
        assert self._socket is not None
        self._gathering = None
        if self._waiting_bytes > _HIGH_WATER:
            self._gathering = self._loop.call_later(_GATHER_SECONDS, self._resume)
        elif not self._socket.is_closing():
            self._socket.resume_reading()

    # -- what the transport calls --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._socket = cast(asyncio.Transport, transport)

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        before, self._last_data = self._last_data, self._loop.time()
        try:
            self._parser.feed_data(self._buffer[:size])
        except httptools.HttpParserError as error:
            self._fail(ConnectionClosed(f"invalid HTTP response: {error}"))
        self._waiting_bytes += size
        if self._last_data - before < _STORM_SECONDS or self._waiting_bytes > _HIGH_WATER:
            self._gather()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(ConnectionClosed(str(error) if error else "the server closed the connection"))

    # -- what the parser calls -----------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_message_complete(self) -> None:
        self._ended = True
