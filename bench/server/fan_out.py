"""Watch fan-out: 1,000 watches of one collection, and how soon all of them have seen what is written to it."""

from __future__ import annotations

import asyncio
import time
from typing import cast
from urllib.parse import urlsplit

import msgspec

from ..cluster.bare import PATIENCE_SECONDS, connected
from .contenders import Contender
from .rows import Figure

WATCHES = 1000
WRITES = 30
_MARK = b'{"type":"ADDED"'
_JSON = "application/json"


class _Watch(asyncio.Protocol):
    """Counts events in a stream without parsing it."""

    def __init__(self, request: bytes, begun: asyncio.Semaphore, seen: asyncio.Semaphore) -> None:
        self._request = request
        self._begun = begun
        self._seen = seen
        self._tail = b""
        self._answered = False
        self.count = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._answered:
            assert data.startswith(b"HTTP/1.1 200"), data[:300]
            self._answered = True
            self._begun.release()
        text = self._tail + data
        self.count += text.count(_MARK)
        # An event that begins in the next piece is counted there.
        at = text.rfind(_MARK)
        self._tail = text[max(at + len(_MARK) if at >= 0 else 0, len(text) - len(_MARK) + 1) :]
        if self.count >= WRITES:
            self._seen.release()
            self.count = -(10**9)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def fan_out(contender: Contender, namespace: str, watches: int = WATCHES) -> Figure:
    """Requests of the figure are events delivered."""
    where = f"/api/v1/namespaces/{namespace}/configmaps"
    parts = urlsplit(contender.endpoint.url)
    head = f"GET {where}?watch=true HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    request = f"{head}Authorization: Bearer {contender.endpoint.token}\r\nAccept: application/json\r\n\r\n".encode()
    loop, begun, seen = asyncio.get_running_loop(), asyncio.Semaphore(0), asyncio.Semaphore(0)
    streams: list[_Watch] = []
    async with connected(contender.endpoint, 4) as wire:
        made = msgspec.json.encode({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        await wire.call("POST", "/api/v1/namespaces", made, _JSON, PATIENCE_SECONDS)
        await wire.call("POST", where, _config_map("first"), _JSON, PATIENCE_SECONDS)
        for _ in range(watches):
            _, stream = await loop.create_connection(
                lambda: _Watch(request, begun, seen),
                parts.hostname or "",
                parts.port or 443,
                ssl=contender.endpoint.trust,
            )
            streams.append(stream)
        for _ in range(watches):
            await begun.acquire()
        await asyncio.sleep(1.0)
        for stream in streams:
            stream.count = 0
        before, begin = contender.processor(), time.perf_counter()
        for number in range(WRITES):
            answer = await wire.call("POST", where, _config_map(f"c{number}"), _JSON, PATIENCE_SECONDS)
            assert answer.status == 201, answer
        async with asyncio.timeout(300):
            for _ in range(watches):
                await seen.acquire()
        figure = Figure(watches * WRITES, time.perf_counter() - begin, contender.processor() - before)
        for stream in streams:
            stream.close()
        await wire.call("DELETE", where, None, "", PATIENCE_SECONDS)
    return figure


def _config_map(name: str) -> bytes:
    data = {f"key-{number}": "value" * 10 for number in range(8)}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
