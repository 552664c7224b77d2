"""The pipeline on both kinds of store, with a clock that tests move and seeded chance; a server that listens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from echelon.base.clock import ManualClock
from echelon.base.rng import Rng
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.interface import Store
from echelon.store.memory import open_memory
from echelon.store.sqlite import open_sqlite
from tests.https_server import Https, in_thread


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = open_memory(header_of) if request.param == "memory" else open_sqlite(tmp_path / "data", header_of)
    yield opened
    await opened.close()


@pytest.fixture
async def pipeline(store: Store, clock: ManualClock) -> Pipeline:
    """A bootstrapped server without its HTTP face."""
    made = Pipeline(store, clock, Rng(1))
    await made.bootstrap()
    return made


@pytest.fixture(scope="module")
def https(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Https]:
    with in_thread(tmp_path_factory.mktemp("plane")) as server:
        yield Https(server)
