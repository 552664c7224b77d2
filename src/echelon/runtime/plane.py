"""The embedded control plane: store, API server, controllers, scheduler and simulated nodes in one process.

store ─ Pipeline (Verbs) ─┬─ HTTPS server ── kubectl and every other client
                          └─ caches ─ controllers, scheduler, simulated nodes   (in process, no HTTP)
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import uvloop
from prometheus_client import generate_latest

from ..agents.process.machine import NoProcessNodes
from ..agents.process.pod_network import GATEWAY
from ..agents.process.process_nodes import ProcessNodes, ProcessSettings, prepare_process_nodes
from ..agents.process.serving.served_pods import ServedPods
from ..api.cluster.pools import nodes, runs_processes
from ..api.objects import meta
from ..api.objects.builtin_runtimes import builtin_runtimes
from ..api.scheme import NODES, SERVICE_ACCOUNTS, Object
from ..api.verbs import Verbs
from ..base.clock import Clock
from ..base.rng import Rng
from ..client.informer import Caches
from ..server.https_server import AddressRefused, Server, serve
from ..server.objects.object_cache import header_of
from ..server.pipeline import Pipeline
from ..store.interface import Store, StoreBusy, StoreFailed
from ..store.sqlite import open_sqlite
from . import data_directory
from .components import Component, assemble, levels_of
from .config import PlaneSettings
from .durable_clock import BadClockFile, DurableClock, open_clock
from .gc_tuning import collecting_rarely
from .operations.metrics_server import metrics_registry
from .supervision import supervised
from .watchdog import watched_if_asked

T = TypeVar("T")


class CannotStart(Exception):
    """The plane could not start; the message is for the user."""


@dataclass(frozen=True)
class Plane:
    """A running control plane."""

    verbs: Verbs
    caches: Caches
    clock: Clock
    url: str
    kubeconfig: Path
    #: The nodes of this machine, if there are any.
    process_nodes: ProcessNodes | None = None


def run_program(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on uvloop, with the garbage collector tuned for large caches."""
    with (
        collecting_rarely(),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        watched_if_asked(runner.get_loop()),
    ):
        return runner.run(main)


@asynccontextmanager
async def running(settings: PlaneSettings) -> AsyncIterator[Plane]:
    """A control plane that runs while the block runs; on exit every accepted write is finished.

    A component that fails is started again: see `supervision`.
    """
    async with AsyncExitStack() as stack:
        store = _open(settings)
        stack.push_async_callback(store.close)
        clock = _clock(settings)
        stack.callback(clock.close)
        pipeline = Pipeline(
            store,
            clock,
            Rng(secrets.randbits(64)),
            job_workloads=settings.job_workloads,
            disabled_features=settings.disabled_features,
        )
        await pipeline.bootstrap(builtin_runtimes())
        registry, synced = metrics_registry(), asyncio.Event()
        try:
            server = await serve(
                pipeline,
                replace(settings.server, also_at=(GATEWAY,)) if _own_nodes(settings) else settings.server,
                clock,
                lambda: generate_latest(registry),
                {"informer-sync": lambda: "" if synced.is_set() else "caches are not synced yet"},
            )
        except (AddressRefused, OSError, ValueError) as error:
            raise CannotStart(str(error)) from error
        stack.push_async_callback(server.stop)
        caches = Caches(pipeline, clock, registry)
        cluster = settings.cluster if settings.nodes == "simulated" else None
        parts = assemble(
            pipeline,
            caches,
            clock,
            cluster,
            settings.levels or (levels_of(settings.cluster) if cluster is not None else None),
            settings.scheduler_names,
            registry,
            settings.controllers,
            job_workloads=settings.job_workloads,
        )
        local = await _process_nodes(settings, pipeline, caches, clock, server)
        if local is not None:
            served = ServedPods(local.local_pods, local.names)
            server.serve_pods(served)
            parts += [Component("process-nodes", local.run), Component("pod-use", served.run)]
        await stack.enter_async_context(
            supervised([*parts, Component("expiry", pipeline.run), Component("clock", clock.run)])
        )
        await caches.wait_synced()
        await _wait_for_nodes(caches, settings)
        synced.set()
        yield Plane(pipeline, caches, clock, server.url, settings.kubeconfig_path, local)


def _own_nodes(settings: PlaneSettings) -> list[Object]:
    """The nodes whose pods run as processes of this machine."""
    return [node for node in nodes(settings.cluster) if settings.nodes != "none" and runs_processes(node)]


async def _process_nodes(
    settings: PlaneSettings, pipeline: Pipeline, caches: Caches, clock: Clock, server: Server
) -> ProcessNodes | None:
    own = _own_nodes(settings)
    if not own:
        return None
    processes = settings.processes or ProcessSettings(settings.data)

    async def issue_token(pod: Object, audience: str, seconds: int) -> str:
        name = pod["spec"].get("serviceAccountName") or "default"
        account = await pipeline.get(SERVICE_ACCOUNTS, name, meta.namespace(pod))
        return server.issue_token(account, pod, audience, seconds)

    try:
        return await prepare_process_nodes(
            pipeline, caches, clock, own, processes, issue_token, (server.host, server.port)
        )
    except NoProcessNodes as error:
        raise CannotStart(str(error)) from error


def _open(settings: PlaneSettings) -> Store:
    try:
        data_directory.prepare(settings.data)
        return open_sqlite(settings.data, header_of)
    except (StoreBusy, StoreFailed, data_directory.Unsafe) as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(f"{settings.data}: {error.strerror}") from error


def _clock(settings: PlaneSettings) -> DurableClock:
    try:
        return open_clock(settings.data, settings.speed)
    except BadClockFile as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(f"{settings.data}: {error.strerror}") from error


async def _wait_for_nodes(caches: Caches, settings: PlaneSettings) -> None:
    """Wait until all nodes are registered."""
    if settings.nodes == "none":
        return
    there = asyncio.Event()
    known = caches.of(NODES)
    known.add_handler(lambda _old, _new: there.set() if len(known) >= settings.cluster.size else None)
    await there.wait()
