"""The same verbs on our embedded server and on a real kube-apiserver.

`make cluster-tools` builds the real one; without it, tests on it are skipped and say so.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import NAMESPACES
from echelon.api.verbs import Verbs
from echelon.client import kubeconfig
from tests.https_server import running

from .controlplane import ControlPlane, control_plane, home, missing
from .real_plane import RealPlane

_numbers = itertools.count()


@dataclass(frozen=True)
class Side:
    """One of the two servers, and a client that talks to it over HTTPS."""

    name: str
    verbs: Verbs
    kubeconfig: Path


@pytest.fixture(scope="session")
def real_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One for the whole run."""
    if missing():
        pytest.skip(f"NO REAL CONTROL PLANE in {home()}: `make cluster-tools` builds it where Go is present")
    with control_plane(tmp_path_factory.mktemp("real")) as plane:
        yield plane


@asynccontextmanager
async def connected(name: str, path: Path) -> AsyncIterator[Side]:
    client = kubeconfig.connect(kubeconfig.load(path))
    try:
        yield Side(name, client, path)
    finally:
        await client.close()


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
async def side(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Side]:
    """Each server in turn: ours made for the test, the real one shared by all."""
    if request.param == "real":
        async with connected("real", request.getfixturevalue("real_plane").kubeconfig) as one:
            yield one
        return
    async with running(tmp_path / "server") as (server, _):
        server.write_kubeconfig(tmp_path / "kubeconfig")
        async with connected("embedded", tmp_path / "kubeconfig") as one:
            yield one


@pytest.fixture
async def namespace(side: Side) -> AsyncIterator[str]:
    """A namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    await side.verbs.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    with suppress(ApiError):
        await side.verbs.delete(NAMESPACES, name)


@pytest.fixture
async def world(real_plane: ControlPlane) -> AsyncIterator[RealPlane]:
    """The real cluster, empty, with our scheduler and no other."""
    async with connected("real", real_plane.kubeconfig) as real:
        world = RealPlane(real.verbs)
        await world.clear()
        world.start()
        try:
            await world.settle(0)  # what comes before it leads has no order among equals
            yield world
        finally:
            await world.stop()
