"""Every store test runs on memory, on SQLite with its commit thread, and on SQLite with inline commits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from echelon.store.log import Log
from echelon.store.memory import open_memory
from echelon.store.sqlite import open_sqlite
from echelon.store.watch_history import Window

from .store_values import Open, header_of

BACKENDS = ("memory", "sqlite-threaded", "sqlite-inline")


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Callable[..., Log]]:
    """Opens stores by backend name; closes what the test left open."""
    stores: list[Log] = []

    def open_(backend: str, window: Window = Window()) -> Log:
        if backend == "memory":
            store = open_memory(header_of, window)
        else:
            store = open_sqlite(tmp_path / "data", header_of, inline=backend == "sqlite-inline", window=window)
        stores.append(store)
        return store

    yield open_
    for store in stores:
        if not store.closed:
            await store.close()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def store(backend: str, opened: Open) -> Log:
    return opened(backend)
