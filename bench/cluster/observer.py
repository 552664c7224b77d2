"""Seeing pods bound without getting in the way: one observer for everyone, in a thread that sleeps most of the time.

To be woken for every event would cost as much processor time as a binding costs its scheduler.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from .bare import Endpoint

_NAP_SECONDS = 0.02
_READ_BYTES = 1 << 20


class _Metadata(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Event(msgspec.Struct):
    object: _Pod


class Binds(threading.Thread):
    """When which pod of a namespace was seen bound, to a fiftieth of a second."""

    def __init__(self, endpoint: Endpoint, namespace: str, since: str) -> None:
        super().__init__(name="observer", daemon=True)
        self.seen: dict[str, float] = {}
        address = urlsplit(endpoint.url)
        self._connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=endpoint.trust)
        self._path = f"/api/v1/namespaces/{namespace}/pods?watch=1&resourceVersion={since}&timeoutSeconds=3000"
        self._headers = {"Authorization": f"Bearer {endpoint.token}"}
        self._decoder = msgspec.json.Decoder(_Event)

    def run(self) -> None:
        self._connection.request("GET", self._path, headers=self._headers)
        # A connection that `stop` has ended reads as ended or as broken.
        with suppress(OSError, http.client.HTTPException, ValueError):
            answer = self._connection.getresponse()
            tail = b""
            while data := answer.read1(_READ_BYTES):
                *lines, tail = (tail + data).split(b"\n")
                for line in lines:
                    pod = self._decoder.decode(line).object
                    if pod.spec.node:
                        self.seen.setdefault(pod.metadata.name, time.perf_counter())
                time.sleep(_NAP_SECONDS)

    def stop(self) -> None:
        if self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self.join()
        self._connection.close()

    async def wait_for(self, count: int, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        """Until so many are bound, or the time is over."""
        deadline = time.perf_counter() + seconds
        while not self.complete(count) and time.perf_counter() < deadline:
            check()
            await asyncio.sleep(0.1)

    def complete(self, count: int) -> bool:
        return len(self.seen) >= count

    @property
    def last(self) -> float:
        return max(self.seen.values())
