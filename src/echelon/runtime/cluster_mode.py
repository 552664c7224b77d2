"""Cluster mode: the scheduler or the controllers as a separate process on a real cluster.

kubeconfig ─► HttpVerbs ─► caches, synced at once ─► the lease, when it is free ─► the components, while it is held

Several processes may run: one leads, the others keep their caches current and take over when its lease expires.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from ..api.errors import ApiError
from ..api.scheme import Resource
from ..api.verbs import ListOptions, Verbs
from ..base.clock import Clock
from ..client.informer import Caches
from ..client.lease import Lease
from ..controllers.registry import CLUSTER_CONTROLLERS, cluster_controllers
from ..deploy.options import LEASE_NAMESPACE
from ..scheduler.acting.reservation import Patience
from ..scheduler.loop import Settings
from . import components
from .clocks import RealClock
from .components import Component
from .metrics_server import Address, CannotListen, metrics_registry, serve_metrics
from .plane import CannotStart
from .server_connection import connect_to
from .supervision import supervised

__all__ = ["CLUSTER_CONTROLLERS", "Address", "RemoteSettings", "controllers", "running_in_cluster", "scheduler"]

#: Connections to open in advance: a new leader often starts with a burst of writes.
_WRITES_AT_ONCE = 72
MakeComponents = Callable[[Verbs, Caches, Clock, CollectorRegistry], list[Component]]


@dataclass(frozen=True)
class RemoteSettings:
    """Which API server, and which lease to hold; "" runs without leader election."""

    kubeconfig: Path | None
    context: str | None
    lease: str
    #: Where to serve metrics; None: nowhere.
    metrics: Address | None = None


def scheduler(names: Sequence[str], reserve_after: float) -> MakeComponents:
    """A scheduler for these scheduler names; after `reserve_after` seconds it reserves capacity for a waiting group."""
    settings = Settings(names=tuple(names), patience=Patience(after_seconds=reserve_after))
    return lambda verbs, caches, clock, registry: components.scheduler(verbs, caches, clock, settings, registry)[1]


def controllers(names: Sequence[str], our_schedulers: Sequence[str]) -> MakeComponents:
    """The named controllers; names are those of `CLUSTER_CONTROLLERS`."""
    return lambda verbs, caches, clock, _: components.controllers(
        verbs, caches, clock, cluster_controllers(caches, names, our_schedulers)
    )


@asynccontextmanager
async def running_in_cluster(
    settings: RemoteSettings, make: MakeComponents, report: Callable[[str], None]
) -> AsyncIterator[str]:
    """Run the components while the block runs, once this process leads; yields the address of the API server.

    `report` is called with progress messages for the user.  A lost lease ends the block.
    """
    clock = RealClock()
    verbs, server = connect_to(settings.kubeconfig, settings.context)
    try:
        registry = metrics_registry()
        caches = Caches(verbs, clock, registry)
        parts = make(verbs, caches, clock, registry)
        await _check(verbs, caches.resources, server)
        async with (
            _metrics_served(settings.metrics, registry, caches, report),
            supervised([Component("caches", caches.run)]),
        ):
            await caches.wait_synced()
            for part in parts:
                part.prepare()
            await verbs.get_ready(_WRITES_AT_ONCE)
            async with _leading(settings.lease, verbs, clock, report) as duties, supervised([*duties, *parts]):
                yield server
    finally:
        await verbs.close()


@asynccontextmanager
async def _metrics_served(
    address: Address | None, registry: CollectorRegistry, caches: Caches, report: Callable[[str], None]
) -> AsyncIterator[None]:
    """Serve metrics and health while the block runs, if an address is given."""
    if address is None:
        yield
        return
    try:
        async with serve_metrics(registry, address, lambda: caches.synced) as url:
            report(f"serving metrics at {url}/metrics")
            yield
    except CannotListen as error:
        raise CannotStart(str(error)) from error


@asynccontextmanager
async def _leading(
    name: str, verbs: Verbs, clock: Clock, report: Callable[[str], None]
) -> AsyncIterator[list[Component]]:
    """Entered when the lease is acquired; yields the component that renews it; releases the lease at the end."""
    if not name:
        yield []
        return
    lease = Lease(verbs, clock, LEASE_NAMESPACE, name, f"{socket.gethostname()}_{secrets.token_hex(4)}")
    report(f"waiting for lease {LEASE_NAMESPACE}/{name}")
    try:
        await lease.acquire()
    except ApiError as error:
        raise CannotStart(f"cannot acquire lease {LEASE_NAMESPACE}/{name}: {error}") from error
    try:
        yield [Component("lease", lease.hold, vital=True)]
    finally:
        await lease.release()


async def _check(verbs: Verbs, resources: Sequence[Resource], server: str) -> None:
    """Fail early if the server does not serve a needed kind or refuses this user."""
    try:
        # Kinds that one command adds come first: most servers lack them.
        for resource in sorted(resources, key=lambda one: one.builtin):
            await _check_one(verbs, resource, server)
    except ApiError as error:
        hint = "; the server rejects the credentials of this kubeconfig" if error.code == 401 else ""
        raise CannotStart(f"cannot use {server}: {error}{hint}") from error


async def _check_one(verbs: Verbs, resource: Resource, server: str) -> None:
    try:
        await verbs.list(resource, options=ListOptions(limit=1))
    except ApiError as error:
        if error.code != 404:
            raise
        if resource.builtin:
            hint = f"start it with --runtime-config={resource.api_version}=true and the feature gates of the kind"
        else:
            hint = "run `echelon crds | kubectl apply --server-side -f -`"
        raise CannotStart(f"{server} does not serve {resource.kind} in {resource.api_version}: {hint}") from error
