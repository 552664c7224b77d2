"""The same verbs on our embedded server and on a real kube-apiserver.

`make cluster-tools` builds the real one; without it, tests on it are skipped and say so.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import NAMESPACES
from echelon.api.verbs import Verbs
from echelon.client.group_discovery import speaking
from echelon.client.http import HttpVerbs
from echelon.deploy.options import SCHEDULER
from tests.https_server import running

from . import audit
from .controlplane import ControlPlane, GateSet, control_plane
from .group_forms import with_group_kinds
from .logins import client_of
from .own_planes import skip_without_control_plane
from .real_plane import RealPlane
from .shipped_roles import NAMESPACE, Account, under_shipped_roles

_numbers = itertools.count()


@dataclass(frozen=True)
class Side:
    """One of the two servers, and a client that talks to it over HTTPS."""

    name: str
    verbs: Verbs
    kubeconfig: Path
    #: What programs act through where they have accounts of their own, by part.
    accounts: Mapping[str, Account] = field(default_factory=dict)

    def acting_as(self, part: str) -> Account:
        """What a program acts through; `verbs` and `kubeconfig` may do everything."""
        return self.accounts.get(part) or Account(self.verbs, self.kubeconfig)

    @property
    def real(self) -> bool:
        return self.name != "embedded"


def gate_sets(*others: str) -> list[Any]:
    """Parameters for a test on every gate set: with all gates always, with the rest in short runs only if named."""
    long = pytest.mark.cluster_long
    return [
        pytest.param(gates, marks=pytest.mark.cluster if gates in (GateSet.ALL, *others) else long, id=str(gates))
        for gates in GateSet
        if gates is not GateSet.DEFAULT  # which is for older servers
    ]


@pytest.fixture(scope="session")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[GateSet], ControlPlane]]:
    """One for each gate set that is asked for, for the whole run."""
    skip_without_control_plane()
    with ExitStack() as stack:
        running: dict[GateSet, ControlPlane] = {}

        def plane(gates: GateSet) -> ControlPlane:
            if gates not in running:
                directory = tmp_path_factory.mktemp(gates)
                watched = audit.policy(NAMESPACE)
                running[gates] = stack.enter_context(control_plane(directory, gates=gates, audit=watched))
            return running[gates]

        yield plane


@pytest.fixture(scope="session")
def real_plane(planes: Callable[[GateSet], ControlPlane]) -> ControlPlane:
    """With all gates, for the whole run."""
    return planes(GateSet.ALL)


@asynccontextmanager
async def connected(name: str, path: Path) -> AsyncIterator[Side]:
    async with client_of(path) as client:
        yield Side(name, client, path)


@asynccontextmanager
async def on_gates(plane: ControlPlane) -> AsyncIterator[Side]:
    """A real server whose groups are read and made in the form that it has, or in Echelon's own."""
    async with connected(str(plane.gates), plane.kubeconfig) as one:
        assert isinstance(one.verbs, HttpVerbs)
        support = await with_group_kinds(one.verbs)
        async with under_shipped_roles(one.verbs, plane, support) as accounts:
            yield replace(one, verbs=speaking(one.verbs, support), accounts=accounts)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
async def side(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Side]:
    """Each server in turn: ours made for the test, the real ones shared by all."""
    if request.param != "embedded":
        gates = GateSet.ALL if request.param == "real" else GateSet(request.param)
        async with on_gates(request.getfixturevalue("planes")(gates)) as one:
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
async def world(request: pytest.FixtureRequest, planes: Callable[[GateSet], ControlPlane]) -> AsyncIterator[RealPlane]:
    """A real cluster, empty, with our scheduler and no other; the parameter is its gate set."""
    async with on_gates(planes(getattr(request, "param", GateSet.ALL))) as real:
        world = RealPlane(real.verbs, real.acting_as(SCHEDULER).verbs)
        await world.clear()
        world.start()
        try:
            await world.settle(0)  # what comes before it leads has no order among equals
            yield world
        finally:
            await world.stop()
