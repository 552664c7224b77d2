"""A server over the durable store, as `echelon up` runs it but without controllers: for tests through HTTPS."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from echelon.base.rng import Rng
from echelon.runtime.clocks import RealClock
from echelon.server.http.application import FlightLimits
from echelon.server.https_server import Authorization, Server, ServerSettings, serve
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.sqlite import open_sqlite
from echelon.store.watch_history import Window


@asynccontextmanager
async def running(
    directory: Path,
    window: Window = Window(),
    authorization: Authorization = "allow-all",
    limits: FlightLimits = FlightLimits(),
) -> AsyncIterator[tuple[Server, Pipeline]]:
    """The server and the pipeline behind it, for as long as the block lasts; `window` bounds what watches remember."""
    clock = RealClock()
    store = open_sqlite(directory, header_of, window=window)
    try:
        pipeline = Pipeline(store, clock, Rng(1))
        await pipeline.bootstrap()
        server = await serve(pipeline, ServerSettings(directory, authorization=authorization, limits=limits), clock)
        background = asyncio.create_task(pipeline.run())
        try:
            yield server, pipeline
        finally:
            background.cancel()
            await server.stop()
    finally:
        await store.close()


@contextmanager
def in_thread(
    directory: Path,
    window: Window = Window(),
    authorization: Authorization = "allow-all",
    limits: FlightLimits = FlightLimits(),
) -> Iterator[Server]:
    """The same on an event loop in a thread of its own, for clients that block."""
    handed = threading.Event()
    box: list[Server | BaseException] = []
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        try:
            async with running(directory, window, authorization, limits) as (server, _):
                finish = asyncio.Event()
                stop.append((asyncio.get_running_loop(), finish))
                box.append(server)
                handed.set()
                await finish.wait()
        except BaseException as problem:
            box.append(problem)
            handed.set()
            raise

    thread = threading.Thread(target=lambda: uvloop.run(main()), name="server")
    thread.start()
    handed.wait()
    first = box[0]
    if isinstance(first, BaseException):
        thread.join()
        raise first
    try:
        yield first
    finally:
        loop, finish = stop[0]
        loop.call_soon_threadsafe(finish.set)
        thread.join()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Https:
    """A plain HTTPS client that trusts the server and shows its token, unless told not to."""

    def __init__(self, server: Server) -> None:
        self.port = server.port
        self.authority = server.authority_pem.decode()
        self._token = server.token
        self._context = ssl.create_default_context(cadata=server.authority_pem.decode())

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self._context, timeout=30)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request on a connection of its own; header names are written with `_` for `-`."""
        connection = self.connect()
        try:
            sent = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, path, sent, self.headers(**headers))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def headers(self, **given: str) -> dict[str, str]:
        named = {name.replace("_", "-").lower(): value for name, value in given.items()}
        authorization = named.pop("authorization", f"Bearer {self._token}")
        return {**named, "authorization": authorization} if authorization else named
