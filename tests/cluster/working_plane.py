"""A server that serves all kinds, with our controllers, scheduler and simulated nodes at work on it.

On a real cluster the custom kinds are made first, and Jobs and the clean-up are kube-controller-manager's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from echelon.agents.simulated_nodes import SimulatedNodes
from echelon.api.cluster.pools import Cluster, nodes, parse
from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.schema.crd_manifests import custom_resource_definitions
from echelon.api.scheme import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, NODES, PODS, TRAIN_JOBS, Resource
from echelon.api.verbs import DeleteOptions, Verbs, WriteOptions
from echelon.client.informer import Caches
from echelon.controllers.registry import CLUSTER_CONTROLLERS, cluster_controllers
from echelon.runtime import components
from echelon.runtime.clocks import RealClock
from echelon.runtime.supervision import supervised
from echelon.scheduler.loop import Settings

from .conftest import Side

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
CLUSTER = parse(
    "pools: [{name: train, counts: {rack: 2, node: 2}, capacity: {cpu: 16, memory: 64Gi, nvidia.com/gpu: 8}}]", "here"
)
_PATIENCE_SECONDS = 240.0


async def with_all_kinds(side: Side) -> Verbs:
    """A server that serves the custom kinds, and the runtimes to train on."""
    if side.name == "real":
        for definition in custom_resource_definitions():
            with suppress(ApiError):
                await side.verbs.create(CRDS, definition, "", WriteOptions(field_validation="Strict"))
        for resource in (JOB_SETS, TRAIN_JOBS, CLUSTER_TRAINING_RUNTIMES):
            await until(lambda resource=resource: _is_served(side.verbs, resource))
    for runtime in builtin_runtimes():
        with suppress(ApiError):
            await side.verbs.create(CLUSTER_TRAINING_RUNTIMES, runtime)
    return side.verbs


async def _is_served(verbs: Verbs, resource: Resource) -> bool:
    try:
        await verbs.list(resource)
    except ApiError:
        return False
    return True


async def until(look: Any) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not await look():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.2)


@asynccontextmanager
async def at_work_on(side: Side) -> AsyncIterator[Verbs]:
    """Our controllers, scheduler and simulated nodes at work; on our own server all that a cluster needs besides."""
    kinds = await with_all_kinds(side)
    clock = RealClock(4)
    caches = Caches(kinds, clock)
    chosen = cluster_controllers(caches, CLUSTER_CONTROLLERS) if side.name == "real" else None
    running = components.controllers(kinds, caches, clock, chosen)
    running += components.scheduler(kinds, caches, clock, Settings())[1]
    running.append(components.Component("nodes", SimulatedNodes(kinds, caches, clock, CLUSTER).run))
    async with supervised([*running, components.Component("caches", caches.run)]):
        yield kinds
    await _remove_nodes(kinds, CLUSTER)


async def _remove_nodes(verbs: Verbs, cluster: Cluster) -> None:
    for pod in (await verbs.list(PODS)).items:
        if pod["spec"].get("nodeName"):
            with suppress(ApiError):
                await verbs.delete(PODS, meta.name(pod), meta.namespace(pod), DeleteOptions(grace_period_seconds=0))
    for node in nodes(cluster):
        with suppress(ApiError):
            await verbs.delete(NODES, meta.name(node))
