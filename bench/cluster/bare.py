"""The limit: binding pods without scheduling them, as fast as the server takes it.

Requests are bytes before the clock starts and answers are only looked at for their status, so that what is measured is
the server and not the client.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec


@dataclass(frozen=True)
class Endpoint:
    """Where the server is and how it knows us."""

    url: str
    trust: ssl.SSLContext
    token: str


def binding(endpoint: Endpoint, namespace: str, pod: str, node: str) -> bytes:
    """A whole request."""
    body = msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
    )
    head = (
        f"POST /api/v1/namespaces/{namespace}/pods/{pod}/binding HTTP/1.1\r\n"
        f"Host: {urlsplit(endpoint.url).netloc}\r\nAuthorization: Bearer {endpoint.token}\r\n"
        "Accept: application/json\r\nContent-Type: application/json\r\nUser-Agent: bare\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def bind_all(endpoint: Endpoint, requests: Sequence[bytes], connections: int) -> float:
    """Send every request, so many at a time; the seconds until the last is answered."""
    channels = await asyncio.gather(*(_Channel.open(endpoint) for _ in range(connections)))
    line = iter(requests)
    begin = time.perf_counter()
    try:
        await asyncio.gather(*(channel.work(line) for channel in channels))
        return time.perf_counter() - begin
    finally:
        for channel in channels:
            channel.close()


class _Channel:
    """One connection: a request, its answer, the next."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, endpoint: Endpoint) -> _Channel:
        address = urlsplit(endpoint.url)
        return cls(*await asyncio.open_connection(address.hostname, address.port, ssl=endpoint.trust))

    def close(self) -> None:
        self._writer.transport.abort()

    async def work(self, line: Iterator[bytes]) -> None:
        for request in line:
            self._writer.write(request)
            head = await self._reader.readuntil(b"\r\n\r\n")
            status = int(head[9:12])
            body = await self._reader.readexactly(_length(head))
            if status != 201:
                raise RuntimeError(f"a bare binding was refused with {status}: {body.decode(errors='replace')}")


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise RuntimeError(f"an answer of unknown length: {head!r}")
