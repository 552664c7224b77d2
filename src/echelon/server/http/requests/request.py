"""One HTTP request and its reply; ASGI is used only here and in `application`.

The body is read on demand and only up to the limit; flow control of the transport bounds memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import getrandbits
from typing import Any, Protocol
from urllib.parse import parse_qs

from ....api.errors import ApiError
from ...identity.client_certificates import PeerCertificate

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: Closes the connection of a request without sending the rest.
Abort = Callable[[], None]

MAX_BODY = 3 * 1024 * 1024
NO_CACHE = ("cache-control", "no-cache, private")
#: How long the body of a request may take to arrive.
BODY_SECONDS = 60.0
#: How long a client may read nothing of a streamed reply.
STUCK_SECONDS = 60.0


class Disconnected(Exception):
    """The client disconnected before its request was complete."""


def _no_connection() -> None:
    """The default of `Request.abort`."""


def _random_id() -> str:
    """A random uuid.  It names a request and protects nothing, so the cheap generator will do."""
    text = f"{getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


@dataclass(frozen=True)
class Request:
    method: str
    #: Without a trailing slash, except for the root.
    path: str
    query: Mapping[str, list[str]]
    #: Names in lower case; values of a repeated header are joined by ", ".
    headers: Mapping[str, str]
    receive: Receive
    #: As sent, with the query.
    uri: str = ""
    #: The address of the client, or "".
    client: str = ""
    certificate: PeerCertificate | None = None
    abort: Abort = _no_connection
    #: Names the request in the reply and in logs: chosen by the client, or random.
    audit_id: str = ""

    @staticmethod
    def from_scope(scope: Mapping[str, Any], receive: Receive) -> Request:
        headers: dict[str, str] = {}
        for raw_name, raw_value in scope["headers"]:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        path: str = scope["path"]
        if len(path) > 1 and path.endswith("/"):
            path = path[:-1]
        query: Mapping[str, list[str]] = {}
        uri: str = scope["path"]
        if scope["query_string"]:
            text = scope["query_string"].decode("latin-1")
            query, uri = parse_qs(text, keep_blank_values=True), f"{uri}?{text}"
        client = scope.get("client") or ("",)
        certificate, abort = scope.get("echelon.certificate"), scope.get("echelon.abort") or _no_connection
        audit_id = headers.get("audit-id") or _random_id()
        return Request(scope["method"], path, query, headers, receive, uri, client[0], certificate, abort, audit_id)

    def parameter(self, name: str) -> str:
        """The first value of a query parameter, or ""."""
        values = self.query.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """A boolean parameter: present and neither `0` nor `false`."""
        return name in self.query and self.query[name][0].lower() not in ("0", "false")

    async def body(self, limit: int = MAX_BODY) -> bytes:
        """The whole body; 413 beyond the limit, 504 if it does not arrive in time."""
        declared = self.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await self._received(limit)
        except TimeoutError:
            text = "Timeout: request did not complete within the allotted timeout"
            raise ApiError(504, "Timeout", text) from None

    async def _received(self, limit: int) -> bytes:
        chunks = bytearray()
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            chunks += message.get("body", b"")
            if len(chunks) > limit:
                raise _too_large(limit)
            if not message.get("more_body"):
                return bytes(chunks)


def _too_large(limit: int) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


class Reply(Protocol):
    """A reply that can be sent."""

    @property
    def code(self) -> int: ...

    async def send(self, send: Send) -> None: ...


@dataclass(frozen=True)
class Response:
    """A reply with a complete body."""

    body: bytes
    code: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = field(default=())

    async def send(self, send: Send) -> None:
        headers = [(b"content-type", self.content_type.encode()), (b"content-length", b"%d" % len(self.body))]
        headers += _encoded(self.headers)
        await send({"type": "http.response.start", "status": self.code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


@lru_cache(maxsize=256)
def _encoded(headers: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    """Most replies have the same few headers."""
    return [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers]


async def send_patiently(send: Send, message: MutableMapping[str, Any], abort: Abort) -> bool:
    """Send a part of a stream; closes the connection and returns False if the client does not read for too long."""
    try:
        async with asyncio.timeout(STUCK_SECONDS):
            await send(message)
    except TimeoutError:
        abort()
        return False
    return True
