"""The limit: binding pods without scheduling them, as fast as the server takes it.

Bodies are bytes before the clock starts and answers are only looked at for their status, so that what is measured is
the server and hardly the client.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from echelon.client.connection_pool import ConnectionPool
from echelon.client.login.credentials import FixedCredentials, Login

PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Endpoint:
    """Where the server is and how it knows us."""

    url: str
    trust: ssl.SSLContext
    token: str

    @property
    def credentials(self) -> FixedCredentials:
        return FixedCredentials(Login(f"Bearer {self.token}", self.trust))


def binding(namespace: str, pod: str, node: str) -> tuple[str, bytes]:
    """Path and body of a request."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return f"/api/v1/namespaces/{namespace}/pods/{pod}/binding?fieldValidation=Ignore", msgspec.json.encode(body)


@asynccontextmanager
async def connected(endpoint: Endpoint, connections: int) -> AsyncIterator[ConnectionPool]:
    """A client of that server with so many connections open."""
    wire = ConnectionPool(endpoint.url, endpoint.credentials, {"User-Agent": "bare"}, connections)
    await wire.open(connections, PATIENCE_SECONDS)
    try:
        yield wire
    finally:
        wire.close()


async def bind_all(wire: ConnectionPool, requests: Sequence[tuple[str, bytes]], at_once: int) -> float:
    """Send every request, so many at a time; when the first was sent."""
    line = iter(requests)

    async def work() -> None:
        for path, body in line:
            answer = await wire.call("POST", path, body, "application/json", PATIENCE_SECONDS)
            if answer.status != 201:
                raise RuntimeError(f"a bare binding was refused with {answer.status}: {answer.body!r}")

    begin = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return begin
