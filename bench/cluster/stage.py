"""The real cluster as the bench uses it: put objects there, see them bound, take them away again."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import yaml
from tests.cluster.controlplane import ControlPlane, GateSet

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    LEASES,
    NAMESPACES,
    NODES,
    OWN_GROUP_KINDS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    SERVICE_ACCOUNTS,
    Object,
    Resource,
)
from echelon.api.verbs import DeleteOptions, Patch, PatchType
from echelon.base.instants import parse
from echelon.client import kubeconfig
from echelon.client.http import HttpVerbs
from echelon.client.lease import Lease
from echelon.runtime.clocks import RealClock

from .bare import PATIENCE_SECONDS, Endpoint, connected
from .contenders import LEASE_NAMESPACE
from .observer import Binds
from .scenarios import Scenario

_AT_ONCE = 32
_BENCH = "bench"

T = TypeVar("T")


class Stage:
    """One control plane and a client of it."""

    #: Seconds of peace between one thing and the next.
    settle = 1.0

    def __init__(self, plane: ControlPlane, verbs: HttpVerbs) -> None:
        self.plane = plane
        self.verbs = verbs
        native = plane.gates is GateSet.ALL
        #: As this server has them.
        self._pod_groups, self._composites = (
            kind if native else OWN_GROUP_KINDS[kind] for kind in (POD_GROUPS, COMPOSITE_POD_GROUPS)
        )

    @property
    def endpoint(self) -> Endpoint:
        config = yaml.safe_load(self.plane.kubeconfig.read_text())
        authority = config["clusters"][0]["cluster"]["certificate-authority"]
        token = config["users"][0]["user"]["token"]
        return Endpoint(self.plane.url, ssl.create_default_context(cafile=authority), token)

    async def tidy(self) -> None:
        """Have the server collect its garbage now.

        What one run leaves behind, or a scheduler that fills its caches, costs as much to collect as a thousand
        bindings do; whoever's turn it is when that falls due would pay for it.
        """
        async with connected(self.endpoint, 1) as wire:
            answer = await wire.call("GET", "/debug/pprof/heap?gc=1", None, "", PATIENCE_SECONDS)
        if answer.status != 200:
            raise RuntimeError(f"the server does not collect its garbage: {answer.status} {answer.body!r}")

    async def nodes(self, nodes: Iterable[Object]) -> None:
        await self._each(nodes, lambda node: self.verbs.create(NODES, node))

    async def around(self, objects: Iterable[tuple[Resource, Object]]) -> None:
        await self._each(objects, lambda one: self.verbs.create(one[0], one[1]))

    async def submit(self, scenario: Scenario, namespace: str) -> None:
        await self.verbs.create(NAMESPACES, {"metadata": {"name": namespace}})
        await self.account(namespace)
        await self._each(scenario.groups, lambda one: self.verbs.create(one[0], one[1], namespace))
        await self.pods(scenario.pods, namespace)

    async def account(self, namespace: str) -> None:
        """What pods run under where servers want that; no controller makes it here."""
        account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
        await self.verbs.create(SERVICE_ACCOUNTS, account, namespace)

    async def pods(self, pods: Iterable[Object], namespace: str) -> None:
        await self._each(pods, lambda pod: self.verbs.create(PODS, pod, namespace))

    async def clear(self, namespace: str) -> None:
        """Everything of the namespace but itself, protected or not."""
        now = DeleteOptions(grace_period_seconds=0)
        for resource in (PODS, self._pod_groups, self._composites, RESOURCE_CLAIMS):

            async def remove(obj: Object, resource: Resource = resource) -> None:
                with suppress(ApiError):
                    if obj["metadata"].get("finalizers"):
                        free = Patch(PatchType.MERGE, {"metadata": {"finalizers": None}})
                        await self.verbs.patch(resource, meta.name(obj), free, namespace)
                    await self.verbs.delete(resource, meta.name(obj), namespace, now)

            await self._each((await self.verbs.list(resource, namespace)).items, remove)

    @asynccontextmanager
    async def binds(self, namespace: str, count: int, read: Callable[[], list[float]]) -> AsyncIterator[Binds]:
        """Follow what is bound in a namespace, up to so many; `read` reads the meters."""
        listed = await self.verbs.list(PODS, namespace)
        binds = Binds(self.endpoint, namespace, listed.resource_version, count, read)
        binds.start()
        try:
            yield binds
        finally:
            binds.stop()

    async def all_said(self, namespace: str, seconds: float) -> float | None:
        """When every PodGroup said that it is scheduled, if in time; kube-scheduler says nothing on composites."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            groups = (await self.verbs.list(self._pod_groups, namespace)).items
            if all(meta.condition_is(group, "PodGroupInitiallyScheduled") for group in groups):
                return time.perf_counter()
            await asyncio.sleep(0.2)
        return None

    @asynccontextmanager
    async def lease(self, name: str) -> AsyncIterator[Lease]:
        """Hold the lease that a contender waits for, until `release` or the end."""
        lease = Lease(self.verbs, RealClock(), LEASE_NAMESPACE, name, _BENCH)
        await lease.acquire()
        holding = asyncio.create_task(lease.hold())
        try:
            yield lease
        finally:
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)
            await lease.release()

    async def led_since(self, name: str, seconds: float, read: Callable[[], list[float]]) -> tuple[float, list[float]]:
        """Wait until somebody else holds the lease; when that began, on our stop-watch, and the meters at that time."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            reading = read()
            spec = (await self.verbs.get(LEASES, name, LEASE_NAMESPACE))["spec"]
            if (spec.get("holderIdentity") or _BENCH) != _BENCH:
                return time.perf_counter() - (time.time() - parse(spec["acquireTime"])), reading
            await asyncio.sleep(0.05)
        raise RuntimeError(f"nobody takes the lease {name}")

    async def _each(self, what: Iterable[T], act: Callable[[T], Awaitable[object]]) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(item: T) -> None:
            async with gate:
                await act(item)

        await asyncio.gather(*map(one, what))


@asynccontextmanager
async def stage(plane: ControlPlane) -> AsyncIterator[Stage]:
    verbs = kubeconfig.connect(kubeconfig.load(plane.kubeconfig))
    try:
        yield Stage(plane, verbs)
    finally:
        await verbs.close()
