"""HTTP/1.1 requests over pooled connections, with as little as possible between the verbs and the socket.

    HttpVerbs ─► ConnectionPool ─► an idle connection, else a new one ─► httptools ─► HttpResponse
                   └───► a connection of its own ─► Stream

A scheduler binds a thousand pods a second, often on the same machine as the API server, which then lacks the CPU time
that a request costs the client.  Single objects and watches use this pool, at a third of the cost of a general client;
lists, which are few and large, use aiohttp.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import cast
from urllib.parse import quote, urlsplit

import httptools
import msgspec

from .login.credentials import Login, LoginSource
from .stream import ConnectionClosed, Stream

#: A connection idle for longer is not used again: the server may be closing it.
_IDLE_SECONDS = 60.0
#: Size of one read; a response is one object.
_READ_BYTES = 16 << 10
UNAUTHORIZED = 401
#: Raises OSError if nothing may be sent.
Permit = Callable[[], None]
#: A path that needs no quoting, as almost all do not.
_PLAIN = re.compile(r"[\w/.~-]*(\?.*)?", re.ASCII | re.DOTALL).fullmatch
#: Present in every response head with a Warning header.
_WARNING = re.compile(rb"\nwarning", re.IGNORECASE).search


class HttpResponse(msgspec.Struct, frozen=True, gc=False):
    status: int
    body: bytes
    warnings: tuple[str, ...] = ()


class ConnectionPool:
    """Idle and active connections to one server."""

    def __init__(self, server: str, credentials: LoginSource, headers: Mapping[str, str], limit: int) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._default_tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path.rstrip("/")
        self._credentials = credentials
        fixed = {"Host": parts.netloc, "Accept": "application/json", **headers}
        self._fixed_head = "".join(f"{name}: {value}\r\n" for name, value in fixed.items())
        #: The login of the last request, and its head.
        self._login: Login | None = None
        self._head = ""
        #: Idle connections, the one used last at the end.
        self._idle: list[_Connection] = []
        #: Connections with requests that were cancelled and may still be answered.
        self._abandoned: list[_Connection] = []
        #: How many more requests may be active, and the requests that wait for their turn, in order.
        self._free = limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def call(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str,
        seconds: float,
        permit: Permit | None = None,
    ) -> HttpResponse:
        """Send one request and wait for its response; raises OSError, or TimeoutError when it takes too long.

        The request is sent once more if the server refuses the login and there is a newer one.  `permit` is called
        right before anything is written, with nothing to wait for in between; a request that needs a permit and is
        cancelled can still be waited for (`wait_answered`).
        """
        if self._free:
            self._free -= 1
        else:
            await self._turn()
        try:
            login = self._credentials.current() or await self._credentials.renewed(None)
            request = self._request(login, method, path, body, content_type)
            response = await self._send(login, method, request, seconds, permit)
            if response.status != UNAUTHORIZED or (newer := await self._credentials.renewed(login)) is login:
                return response
            request = self._request(newer, method, path, body, content_type)
            return await self._send(newer, method, request, seconds, permit)
        finally:
            self._leave()

    async def _send(
        self, login: Login, method: str, request: bytes, seconds: float, permit: Permit | None
    ) -> HttpResponse:
        idle = self._idle_connection(self._tls_of(login))
        if idle is not None:
            try:
                if permit is not None:
                    permit()
                response = await idle.ask(request, seconds)
            except BaseException as error:
                self._give_up(idle, error, permit)
                # The idle connection was closed: only a GET may be sent again.
                if not isinstance(error, ConnectionClosed) or method != "GET" or idle.answering:
                    raise
            else:
                if idle.usable:
                    self._idle.append(idle)
                return response
        return await self._exchange(await self._connect(login, seconds), request, seconds, permit)

    @asynccontextmanager
    async def stream(self, path: str, seconds: float, silence: float) -> AsyncIterator[Stream]:
        """A GET with a streaming response: headers within `seconds`, then data at least every `silence` seconds."""
        login = self._credentials.current() or await self._credentials.renewed(None)
        try:
            stream = await self._stream(login, path, seconds, silence)
        except ssl.SSLError as error:
            login = await self._trusting(login, error)
            stream = await self._stream(login, path, seconds, silence)
        try:
            if stream.status == UNAUTHORIZED and (newer := await self._credentials.renewed(login)) is not login:
                stream.abort()
                stream = await self._stream(newer, path, seconds, silence)
            yield stream
        finally:
            stream.abort()

    async def _stream(self, login: Login, path: str, seconds: float, silence: float) -> Stream:
        loop = asyncio.get_running_loop()
        stream = Stream(loop, silence)
        try:
            async with asyncio.timeout(seconds):
                await loop.create_connection(lambda: stream, self._host, self._port)
                tls = self._tls_of(login)
                if tls is not None:
                    await stream.secure(tls, self._host)
            async with asyncio.timeout(seconds):
                await stream.ask(self._request(login, "GET", path, None, ""))
        except BaseException:
            stream.abort()
            raise
        return stream

    def _give_up(self, connection: _Connection, error: BaseException, permit: Permit | None) -> None:
        """A response that may still arrive is not that of the next request, so the connection is not used again."""
        if permit is not None and isinstance(error, asyncio.CancelledError):
            self._abandoned = [one for one in self._abandoned if not one.closed.is_set()]
            self._abandoned.append(connection)
        else:
            connection.abort()

    async def wait_answered(self, seconds: float) -> None:
        """Wait until requests that were cancelled after they had been sent are answered, but no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for connection in list(self._abandoned):
                    await connection.closed.wait()
        for connection in self._abandoned:
            connection.abort()
        self._abandoned.clear()

    async def open(self, count: int, seconds: float) -> None:
        """Open `count` idle connections in advance, ignoring errors: a TLS handshake costs more than a request."""
        login = self._credentials.current() or await self._credentials.renewed(None)
        missing = range(count - len(self._idle))
        opened = await asyncio.gather(*(self._connect(login, seconds) for _ in missing), return_exceptions=True)
        self._idle += [connection for connection in opened if isinstance(connection, _Connection)]

    def close(self) -> None:
        for connection in (*self._idle, *self._abandoned):
            connection.abort()
        self._idle.clear()
        self._abandoned.clear()

    def _request(self, login: Login, method: str, path: str, body: bytes | None, content_type: str) -> bytes:
        if login is not self._login:
            self._login = login
            self._head = self._fixed_head + "".join(f"{name}: {value}\r\n" for name, value in login.headers.items())
        if not _PLAIN(path):
            target, mark, query = path.partition("?")
            path = f"{quote(target)}{mark}{query}"
        line = f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._head}"
        if body is None:
            return f"{line}\r\n".encode("latin-1")
        head = f"{line}Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode("latin-1") + body

    async def _turn(self) -> None:
        """Wait until an active request ends and hands its place to this one."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                with suppress(ValueError):
                    self._waiting.remove(place)
            else:
                self._leave()  # the place had already been handed over
            raise

    def _leave(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def _tls_of(self, login: Login) -> ssl.SSLContext | None:
        return self._default_tls and (login.tls or self._default_tls)

    def _idle_connection(self, tls: ssl.SSLContext | None) -> _Connection | None:
        """The idle connection used last, if it is still usable; those of another TLS context are closed."""
        oldest = asyncio.get_running_loop().time() - _IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.since > oldest and connection.usable and connection.tls is tls:
                return connection
            connection.abort()
        return None

    async def _connect(self, login: Login, seconds: float) -> _Connection:
        try:
            return await self._connect_with(self._tls_of(login), seconds)
        except ssl.SSLError as error:
            return await self._connect_with(self._tls_of(await self._trusting(login, error)), seconds)

    async def _trusting(self, login: Login, error: ssl.SSLError) -> Login:
        """A login with another TLS context: the server may have a new certificate, and so the authority have changed.

        Without one the error is raised.
        """
        newer = await self._credentials.renewed(login)
        if newer.tls is login.tls:
            raise error
        return newer

    async def _connect_with(self, tls: ssl.SSLContext | None, seconds: float) -> _Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds):
            _, connection = await loop.create_connection(
                lambda: _Connection(loop, tls), self._host, self._port, ssl=tls
            )
        return connection

    async def _exchange(
        self, connection: _Connection, request: bytes, seconds: float, permit: Permit | None
    ) -> HttpResponse:
        try:
            if permit is not None:
                permit()
            response = await connection.ask(request, seconds)
        except BaseException as error:
            self._give_up(connection, error, permit)
            raise
        if connection.usable:
            self._idle.append(connection)
        return response


class _Connection(asyncio.BufferedProtocol):
    """One request at a time; buffers and parser are reused, since there may be a thousand requests a second."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> None:
        self._loop = loop
        self.tls = tls
        #: Set when the connection is closed, as it is by a response that nobody waits for.
        self.closed = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        #: Bytes up to the begin of the body, and the body.
        self._head: list[bytes] = []
        self._body: list[bytes] = []
        self.on_body = self._body.append
        self._parser = httptools.HttpResponseParser(self)
        #: The read buffer; without it the transport would allocate 256 KiB for every response.
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._response: asyncio.Future[HttpResponse] | None = None
        #: Deadline of the current request; one timer serves many requests and is set again when it fires too early.
        self._deadline = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._rings = 0.0
        self.since = 0.0
        self.usable = True

    @property
    def answering(self) -> bool:
        """Whether part of a response has arrived."""
        return bool(self._head)

    def ask(self, request: bytes, seconds: float) -> asyncio.Future[HttpResponse]:
        assert self._transport is not None
        self._head.clear()
        self._body.clear()
        self._response = response = self._loop.create_future()
        self._deadline = self._loop.time() + seconds
        if self._alarm is None or self._rings > self._deadline:
            self._set_alarm()
        self._transport.write(request)
        return response

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._rings = self._deadline
        self._alarm = self._loop.call_at(self._rings, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self._response is None or self._response.done():
            return
        if self._deadline > self._loop.time():
            self._set_alarm()
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
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)

    # -- what the transport calls --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.since = self._loop.time()

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        data = bytes(self._buffer[:size])
        if not self._body:
            self._head.append(data)
        if self._response is None or self._response.done():
            self.abort()  # a response without a request
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionClosed(f"invalid HTTP response: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.set()
        self._fail(ConnectionClosed(str(error) if error else "the server closed the connection"))

    # -- what the parser calls -----------------------------------------------------------------------------

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        self.usable = self._parser.should_keep_alive()
        self.since = self._loop.time()
        if self._response is not None and not self._response.done():
            self._response.set_result(HttpResponse(status, b"".join(self._body), _warnings(b"".join(self._head))))


def _warnings(head: bytes) -> tuple[str, ...]:
    """The values of Warning headers.  Headers are parsed only if the head contains the word, which is rare."""
    if not _WARNING(head):
        return ()
    found = _Warnings()
    httptools.HttpResponseParser(found).feed_data(head)
    return tuple(found.texts)


class _Warnings:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"warning":
            self.texts.append(value.decode("latin-1"))
