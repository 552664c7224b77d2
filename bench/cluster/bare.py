"""The limit: binding pods without scheduling them, as fast as the server takes it.

Bodies are bytes before the clock starts and answers are only looked at for their status, so that what is measured is
the server and hardly the client.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from echelon.client.wire import Wire

_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Endpoint:
    """Where the server is and how it knows us."""

    url: str
    trust: ssl.SSLContext
    token: str


def binding(namespace: str, pod: str, node: str) -> tuple[str, bytes]:
    """Path and body of a request."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return f"/api/v1/namespaces/{namespace}/pods/{pod}/binding?fieldValidation=Ignore", msgspec.json.encode(body)


def connected(endpoint: Endpoint, connections: int) -> Wire:
    """A client of that server; close it when done."""
    headers = {"User-Agent": "bare", "Authorization": f"Bearer {endpoint.token}"}
    return Wire(endpoint.url, endpoint.trust, headers, connections)


async def bind_all(endpoint: Endpoint, requests: Sequence[tuple[str, bytes]], connections: int) -> float:
    """Send every request, so many at a time; when the first was sent."""
    wire = connected(endpoint, connections)
    await wire.open(connections, _PATIENCE_SECONDS)
    line = iter(requests)

    async def work() -> None:
        for path, body in line:
            answer = await wire.call("POST", path, body, "application/json", _PATIENCE_SECONDS)
            if answer.status != 201:
                raise RuntimeError(f"a bare binding was refused with {answer.status}: {answer.body!r}")

    begin = time.perf_counter()
    try:
        await asyncio.gather(*(work() for _ in range(connections)))
        return begin
    finally:
        wire.close()
