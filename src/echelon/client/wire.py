"""Requests over kept connections: HTTP/1.1 with as little as possible between the verbs and the socket.

    HttpVerbs ─► Wire ─► a connection that waits, else a new one ─► httptools ─► Answer
                   └───► a connection of its own ─► Stream

A scheduler binds a thousand pods a second, often beside the server that it talks to: what a request or a watched event
costs us, the server lacks.  So single objects and watches go this way, at a third of the cost of a general client;
lists, which are few and large, do not.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple, cast
from urllib.parse import quote, urlsplit

import httptools

from .stream import HungUp, Stream

#: A connection that has waited this long is not used again: the server may be closing it at this very moment.
_IDLE_SECONDS = 60.0
#: What is read at a time; an answer is one object.
_READ_BYTES = 16 << 10
#: A path in which nothing needs quoting, as almost all are.
_PLAIN = re.compile(r"[\w/.~-]*(\?.*)?", re.ASCII | re.DOTALL).fullmatch


class Answer(NamedTuple):
    status: int
    body: bytes
    warnings: tuple[str, ...] = ()


class Wire:
    """Connections to one server."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, headers: Mapping[str, str], limit: int) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path.rstrip("/")
        fixed = {"Host": parts.netloc, "Accept": "application/json", **headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in fixed.items())
        #: Those that wait for work, the one used last at the end.
        self._idle: list[_Connection] = []
        self._slots = asyncio.Semaphore(limit)

    async def call(self, method: str, path: str, body: bytes | None, content_type: str, seconds: float) -> Answer:
        """Send one request and wait for its answer; raises OSError, or TimeoutError when it takes too long."""
        request = self._request(method, path, body, content_type)
        async with self._slots:
            kept = self._kept()
            if kept is not None:
                try:
                    return await self._exchange(kept, request, seconds)
                except HungUp:
                    # It was closed while it waited.  Only what changes nothing may be asked twice.
                    if method != "GET" or kept.answering:
                        raise
            return await self._exchange(await self._connect(seconds), request, seconds)

    @asynccontextmanager
    async def stream(self, path: str, seconds: float, silence: float) -> AsyncIterator[Stream]:
        """A GET whose answer goes on; given up when nothing is heard for as long as `silence`."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds):
            _, stream = await loop.create_connection(
                lambda: Stream(loop, silence), self._host, self._port, ssl=self._tls
            )
        try:
            await stream.ask(self._request("GET", path, None, ""))
            yield stream
        finally:
            stream.abort()

    async def open(self, count: int, seconds: float) -> None:
        """Have so many connections ready, if they can be had: a handshake costs both sides more than a request."""
        missing = range(count - len(self._idle))
        opened = await asyncio.gather(*(self._connect(seconds) for _ in missing), return_exceptions=True)
        self._idle += [connection for connection in opened if isinstance(connection, _Connection)]

    def close(self) -> None:
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def _request(self, method: str, path: str, body: bytes | None, content_type: str) -> bytes:
        if not _PLAIN(path):
            target, mark, query = path.partition("?")
            path = f"{quote(target)}{mark}{query}"
        line = f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._head}"
        if body is None:
            return f"{line}\r\n".encode("latin-1")
        head = f"{line}Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode("latin-1") + body

    def _kept(self) -> _Connection | None:
        """The connection used last, if it has not waited for too long."""
        oldest = asyncio.get_running_loop().time() - _IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.since > oldest and connection.usable:
                return connection
            connection.abort()
        return None

    async def _connect(self, seconds: float) -> _Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds):
            _, connection = await loop.create_connection(
                lambda: _Connection(loop), self._host, self._port, ssl=self._tls
            )
        return connection

    async def _exchange(self, connection: _Connection, request: bytes, seconds: float) -> Answer:
        try:
            answer = await connection.ask(request, seconds)
        except BaseException:
            connection.abort()  # its answer may still come
            raise
        if connection.usable:
            self._idle.append(connection)
        return answer


class _Connection(asyncio.BufferedProtocol):
    """One request at a time; a thousand a second, so nothing is made anew that can be kept."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        #: What has just been read; without it the transport would find a quarter of a megabyte for every answer.
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._answer: asyncio.Future[Answer] | None = None
        self._body: list[bytes] = []
        self._warnings: list[str] = []
        #: When the answer must be there; the alarm is set once for many requests and looks again when it rings.
        self._deadline = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        #: Whether anything of an answer has come.
        self.answering = False
        self.since = 0.0
        self.usable = True

    def ask(self, request: bytes, seconds: float) -> asyncio.Future[Answer]:
        assert self._transport is not None
        self.answering = False
        self._answer = self._loop.create_future()
        self._body, self._warnings = [], []
        self._deadline = self._loop.time() + seconds
        if self._alarm is not None and self._alarm.when() > self._deadline:
            self._alarm.cancel()
            self._alarm = None
        if self._alarm is None:
            self._alarm = self._loop.call_later(seconds, self._ring)
        self._transport.write(request)
        return self._answer

    def _ring(self) -> None:
        left, self._alarm = self._deadline - self._loop.time(), None
        if self._answer is None or self._answer.done():
            return
        if left > 0:
            self._alarm = self._loop.call_later(left, self._ring)
        else:
            self._fail(TimeoutError())

    def abort(self) -> None:
        self.usable = False
        if self._alarm is not None:
            self._alarm.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: Exception) -> None:
        self.usable = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # -- what the transport calls --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.since = self._loop.time()

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self.answering = True
        if self._answer is None or self._answer.done():
            self.abort()  # an answer to nothing
            return
        try:
            self._parser.feed_data(self._buffer[:size])
        except httptools.HttpParserError as error:
            self._fail(HungUp(f"not an answer in HTTP: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(HungUp(str(error) if error else "the server hung up"))

    # -- what the parser calls -----------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) == 7 and name.lower() == b"warning":
            self._warnings.append(value.decode("latin-1"))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        self.usable = self._parser.should_keep_alive()
        self.since = self._loop.time()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Answer(status, b"".join(self._body), tuple(self._warnings)))
