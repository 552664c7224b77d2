"""Seeing pods bound without getting in the way: one observer for everyone, in a thread that sleeps most of the time.

To be woken for every event would cost as much processor time as a binding costs its scheduler.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httptools
import msgspec

from .bare import Endpoint

_NAP_SECONDS = 0.02
_RETRY_SECONDS = 0.1
_READ_BYTES = 1 << 20


class _Metadata(msgspec.Struct):
    name: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")


class _Spec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Event(msgspec.Struct):
    type: str
    object: _Pod


class Binds(threading.Thread):
    """When which pod of a namespace was seen bound, to a fiftieth of a second; reads the meters when all are."""

    def __init__(
        self, endpoint: Endpoint, namespace: str, since: str, count: int, read: Callable[[], list[float]]
    ) -> None:
        super().__init__(name="observer", daemon=True)
        self.seen: dict[str, float] = {}
        self.read = read
        #: What the meters said when the last was seen.
        self.reading: list[float] = []
        self.count = count
        self.namespace = namespace
        self._endpoint = endpoint
        self._path = f"/api/v1/namespaces/{namespace}/pods?watch=1&timeoutSeconds=3000"
        self._since = since
        self._trouble = ""
        self._decoder = msgspec.json.Decoder(_Event)
        self._parser = httptools.HttpResponseParser(self)
        self._tail = b""
        self._ended = False
        self._over = threading.Event()

    def run(self) -> None:
        """Follow; a server in need may hang up on those who watch and refuse them, so begin again where it ended."""
        self._follow()
        while not (self._trouble or self._over.wait(_RETRY_SECONDS)):
            self._follow()

    def _follow(self) -> None:
        address = urlsplit(self._endpoint.url)
        host = address.hostname or ""
        self._parser, self._tail, self._ended = httptools.HttpResponseParser(self), b"", False
        plain = socket.create_connection((host, address.port or 443))
        with self._endpoint.trust.wrap_socket(plain, server_hostname=host) as line:
            head = f"GET {self._path}&resourceVersion={self._since} HTTP/1.1\r\nHost: {address.netloc}\r\n"
            line.sendall(f"{head}Authorization: Bearer {self._endpoint.token}\r\n\r\n".encode())
            line.setblocking(False)
            going_on = True
            while going_on and not self._over.wait(_NAP_SECONDS):
                going_on = self._take_all(line)
                if self.complete and not self.reading:
                    self.reading = self.read()

    def _take_all(self, line: ssl.SSLSocket) -> bool:
        """Everything that has come; False if nothing more will."""
        try:
            while data := line.recv(_READ_BYTES):
                self._parser.feed_data(data)
        except ssl.SSLWantReadError:
            return not (self._trouble or self._ended)
        return False

    def on_headers_complete(self) -> None:
        self._ended = self._parser.get_status_code() != 200

    def on_message_complete(self) -> None:
        """The server ends a watch that it finds slow, and leaves the connection open."""
        self._ended = True

    def on_body(self, body: bytes) -> None:
        if self._ended:
            return
        *lines, self._tail = (self._tail + body).split(b"\n")
        for line in lines:
            event = self._decoder.decode(line)
            pod = event.object
            if event.type == "ERROR":
                self._trouble = line.decode()
                return
            self._since = pod.metadata.version
            if pod.spec.node:
                self.seen.setdefault(pod.metadata.name, time.perf_counter())

    def stop(self) -> None:
        self._over.set()
        self.join()

    async def wait(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        """Until all are bound and the meters are read, or the time is over."""
        deadline = time.perf_counter() + seconds
        while not self.reading and time.perf_counter() < deadline:
            check()
            if self._trouble:
                raise RuntimeError(f"pods could not be followed: {self._trouble}")
            await asyncio.sleep(0.1)

    def spent_since(self, before: list[float]) -> list[float]:
        """What the meters counted until the last was seen; nothing if it never was."""
        return [after - earlier for after, earlier in zip(self.reading or before, before, strict=True)]

    @property
    def complete(self) -> bool:
        return len(self.seen) >= self.count

    @property
    def last(self) -> float:
        return max(self.seen.values())
