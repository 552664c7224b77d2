"""Cluster mode: the scheduler or the controllers as a separate process on a real cluster.

kubeconfig ─► HttpVerbs ─► caches, synced at once ─► the lease, when it is free ─► the components, while it is held

Several processes may run: one leads, the others keep their caches current and take over when its lease expires.  Writes
of the components are fenced by the lease: one that is ready to be sent when its time is over is not sent.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge

from ..api.errors import ApiError
from ..api.scheme import Resource
from ..api.verbs import ListOptions, Verbs
from ..base.clock import Clock
from ..base.instants import to_time
from ..base.program_options import AUTO, CONTROLLERS_PROGRAM
from ..base.version import __version__
from ..client.group_dialect import GroupDialect
from ..client.group_discovery import GroupsNotServed, group_support, speaking
from ..client.http import HttpVerbs
from ..client.informer import Caches
from ..client.lease import Lease
from ..controllers.registry import CLUSTER_CONTROLLERS, cluster_controllers
from ..deploy.options import LEASE_NAMESPACE, controllers_lease, scheduler_lease
from ..scheduler.acting.reservation import Patience
from ..scheduler.loop import Settings
from . import components
from .clocks import RealClock, since_boot
from .components import Component
from .operations.debug_pages import DebugPages
from .operations.live_configuration import LiveConfiguration
from .operations.metrics_server import Address, CannotListen, metrics_registry, serve_metrics
from .plane import CannotStart
from .server_connection import connect_to
from .supervision import supervised

__all__ = ["CLUSTER_CONTROLLERS", "Address", "RemoteSettings", "controllers", "running_in_cluster", "scheduler"]

#: Connections to open in advance: a new leader often starts with a burst of writes.
_WRITES_AT_ONCE = 72
#: How long writes may take to be answered when a leader ends.
_LAST_WRITES_SECONDS = 2.0
MakeComponents = Callable[[Verbs, Caches, Clock, CollectorRegistry], list[Component]]


@dataclass(frozen=True)
class RemoteSettings:
    """How to run, which may change meanwhile."""

    live: LiveConfiguration

    @property
    def lease(self) -> str:
        """Which lease to hold; "" runs without leader election."""
        values = self.live.values
        if not values["leaderElect"]:
            return ""
        own = controllers_lease(values["only"]) if self.makes_groups else scheduler_lease(values["name"])
        return values["lease"] or own

    @property
    def kubeconfig(self) -> Path | None:
        named = self.live.values["kubeconfig"]
        return Path(named) if named is not None else None

    @property
    def metrics(self) -> Address | None:
        """Where to serve metrics; None: nowhere."""
        values = self.live.values
        return Address(values["metricsHost"], values["metricsPort"]) if values["metricsPort"] is not None else None

    @property
    def groups(self) -> str:
        """One of `group_kinds.CHOICES`; "" fits the server."""
        chosen = str(self.live.values["groups"])
        return "" if chosen == AUTO else chosen

    @property
    def makes_groups(self) -> bool:
        """Whether the program makes groups, and may try what becomes of them."""
        return self.live.program is CONTROLLERS_PROGRAM


def scheduler(live: LiveConfiguration) -> MakeComponents:
    """A scheduler as configured."""

    def make(verbs: Verbs, caches: Caches, clock: Clock, registry: CollectorRegistry) -> list[Component]:
        values = live.values
        settings = Settings(
            names=tuple(values["name"]),
            levels=values["topologyLevels"],
            patience=Patience(after_seconds=values["reserveAfter"]),
        )
        made, parts = components.scheduler(verbs, caches, clock, settings, registry)
        live.on_change(lambda now: made.reservations.reserve_after(now["reserveAfter"]))
        return parts

    return make


def controllers(live: LiveConfiguration) -> MakeComponents:
    """The controllers that are configured; names are those of `CLUSTER_CONTROLLERS`."""
    names, schedulers = live.values["only"], live.values["schedulerName"]
    return lambda verbs, caches, clock, _: components.controllers(
        verbs, caches, clock, cluster_controllers(caches, names, schedulers)
    )


@asynccontextmanager
async def running_in_cluster(
    settings: RemoteSettings, make: MakeComponents, report: Callable[[str], None]
) -> AsyncIterator[str]:
    """Run the components while the block runs, once this process leads; yields the address of the API server.

    `report` is called with progress messages for the user.  A lost lease ends the block.
    """
    # A machine that was suspended must not act on a lease that others have acquired meanwhile.
    clock = RealClock(passed=since_boot)
    http, server = connect_to(settings.kubeconfig, settings.live.values["context"])
    try:
        registry = metrics_registry()
        settings.live.count_in(registry)
        verbs = await _with_groups(http, settings, server, report)
        caches = Caches(verbs, clock, registry)
        lease = _lease(settings.lease, http, clock)
        writing = http.fenced(lease.check) if lease else http
        parts = make(verbs.through(writing) if isinstance(verbs, GroupDialect) else writing, caches, clock, registry)
        await _check(verbs, caches.resources, caches.may_lack, server)
        if lease is not None:
            _tell_leader(lease, registry)
        state = partial(_state, settings, server, caches, lease, parts, clock.now())
        debug = DebugPages(state, lambda: bool(settings.live.values["debugEndpoints"]))
        async with (
            _metrics_served(settings.metrics, registry, caches, debug, report),
            supervised([Component("caches", caches.run), Component("config", partial(settings.live.follow, clock))]),
        ):
            await caches.wait_synced()
            for part in parts:
                part.prepare()
            await http.get_ready(_WRITES_AT_ONCE)
            async with _leading(lease, http, report) as duties, supervised([*duties, *parts]):
                yield server
    finally:
        await http.close()


async def _with_groups(http: HttpVerbs, settings: RemoteSettings, server: str, report: Callable[[str], None]) -> Verbs:
    """The client that reads and makes groups in the form that the server has for them."""
    chosen = settings.groups
    try:
        support = await group_support(http, trial=settings.makes_groups and not chosen)
        verbs = speaking(http, support, chosen)
    except ApiError as error:
        raise _unusable(server, error) from error
    except GroupsNotServed as error:
        raise CannotStart(f"cannot use {server}: {error}") from error
    report(support.told(chosen or support.choice))
    return verbs


def _unusable(server: str, error: ApiError) -> CannotStart:
    hints = {
        401: "; the server rejects the credentials of this kubeconfig",
        403: f"; echelon {__version__} needs this right: `echelon install` of the same version puts the roles right",
    }
    return CannotStart(f"cannot use {server}: {error}{hints.get(error.code, '')}")


@asynccontextmanager
async def _metrics_served(
    address: Address | None,
    registry: CollectorRegistry,
    caches: Caches,
    debug: DebugPages,
    report: Callable[[str], None],
) -> AsyncIterator[None]:
    """Serve metrics and health while the block runs, if an address is given."""
    if address is None:
        yield
        return
    try:
        async with serve_metrics(registry, address, lambda: caches.synced, debug) as url:
            report(f"serving metrics at {url}/metrics")
            yield
    except CannotListen as error:
        raise CannotStart(str(error)) from error


def _tell_leader(lease: Lease, registry: CollectorRegistry) -> None:
    """As components of Kubernetes do."""
    gauge = Gauge("leader_election_master_status", "Whether this process leads.", ("name",), registry=registry)
    gauge.labels(lease.title.rpartition("/")[2]).set_function(lambda: float(lease.is_held))


def _state(
    settings: RemoteSettings,
    server: str,
    caches: Caches,
    lease: Lease | None,
    parts: Sequence[Component],
    started: float,
    most: int,
) -> dict[str, object]:
    """What `/debug/state` shows."""
    live = settings.live
    leader: dict[str, object] = {"lease": ""}
    if lease is not None:
        leader = {"lease": lease.title, "identity": lease.identity, "holder": lease.holder, "held": lease.is_held}
    return {
        "program": live.program.name,
        "version": __version__,
        "server": server,
        "started": to_time(started),
        "leader": leader,
        "caches": {"synced": caches.synced, "objects": caches.sizes()},
        "configuration": {
            "file": str(live.path or ""),
            "refused": live.refused,
            "restartNeeded": list(live.restart_needed),
            "values": dict(live.values),
        },
        **{part.name: part.state(most) for part in parts if part.state is not None},
    }


def _lease(name: str, verbs: Verbs, clock: Clock) -> Lease | None:
    """The lease of that name with an identity of this process; None without a name."""
    identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
    return Lease(verbs, clock, LEASE_NAMESPACE, name, identity) if name else None


@asynccontextmanager
async def _leading(
    lease: Lease | None, verbs: HttpVerbs, report: Callable[[str], None]
) -> AsyncIterator[list[Component]]:
    """Entered when the lease is acquired; yields the component that renews it; releases the lease at the end.

    The next leader must not meet writes of this one, so those under way are waited for.
    """
    if lease is None:
        yield []
        return
    report(f"waiting for lease {lease.title}")
    try:
        await lease.acquire()
    except ApiError as error:
        raise CannotStart(f"cannot acquire lease {lease.title}: {error}") from error
    try:
        yield [Component("lease", lease.hold, vital=True)]
    finally:
        await verbs.wait_written(_LAST_WRITES_SECONDS)
        await lease.release()


async def _check(
    verbs: Verbs, resources: Sequence[Resource], may_lack: Callable[[Resource], bool], server: str
) -> None:
    """Fail early if the server does not serve a needed kind or refuses this user.

    A program that is newer than its role would else wait for its caches for ever; the one before it goes on to lead.
    """
    try:
        # Kinds that one command adds come first: most servers lack them.
        for resource in sorted(resources, key=lambda one: one.builtin):
            await _check_one(verbs, resource, server, may_lack(resource))
    except ApiError as error:
        raise _unusable(server, error) from error


async def _check_one(verbs: Verbs, resource: Resource, server: str, may_lack: bool) -> None:
    try:
        await verbs.list(resource, options=ListOptions(limit=1))
    except ApiError as error:
        if error.code == 429:
            return  # a kind that has just been defined is served in a moment; caches wait for it
        if error.code != 404:
            raise
        if may_lack:
            return
        if resource.builtin:
            hint = f"start it with --runtime-config={resource.api_version}=true and the feature gates of the kind"
        else:
            hint = "run `echelon crds | kubectl apply --server-side -f -`"
        raise CannotStart(f"{server} does not serve {resource.kind} in {resource.api_version}: {hint}") from error
