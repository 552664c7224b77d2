"""A server over the durable store, as `echelon up` runs it but without controllers: for tests through HTTPS."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvloop
from echelon.server.pipeline import Pipeline
from echelon.server.trees import header_of

from echelon.base.rng import Rng
from echelon.runtime.clock import RealClock
from echelon.server.app import Server, ServerSettings, serve
from echelon.store.sqlite import open_sqlite


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[tuple[Server, Pipeline]]:
    """The server and the pipeline behind it, for as long as the block lasts."""
    clock = RealClock()
    store = open_sqlite(directory, header_of)
    try:
        pipeline = Pipeline(store, clock, Rng(1))
        await pipeline.bootstrap()
        server = await serve(pipeline, ServerSettings(directory), clock)
        try:
            yield server, pipeline
        finally:
            await server.stop()
    finally:
        await store.close()


@contextmanager
def in_thread(directory: Path) -> Iterator[Server]:
    """The same on an event loop in a thread of its own, for clients that block."""
    handed = threading.Event()
    box: list[Server | BaseException] = []
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        try:
            async with running(directory) as (server, _):
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
