"""A server that serves all kinds, with our controllers, scheduler and simulated nodes at work on it.

On a real cluster the custom kinds are made first, and Jobs and the clean-up are kube-controller-manager's.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from echelon.agents.simulated_nodes import SimulatedNodes
from echelon.api.cluster.pools import Cluster, nodes, parse
from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.schema.crd_manifests import custom_resource_definitions
from echelon.api.scheme import CLUSTER_TRAINING_RUNTIMES, CUSTOM_RESOURCE_DEFINITIONS, JOB_SETS, NODES, PODS, TRAIN_JOBS
from echelon.api.verbs import DeleteOptions, Verbs, WriteOptions
from echelon.client.informer import Caches
from echelon.controllers.registry import CLUSTER_CONTROLLERS, cluster_controllers
from echelon.deploy.options import CONTROLLERS, SCHEDULER
from echelon.runtime import components
from echelon.runtime.clocks import RealClock
from echelon.runtime.supervision import supervised
from echelon.scheduler.loop import Settings

from .conftest import Side
from .waiting import is_served, until

CLUSTER = parse(
    "pools: [{name: train, counts: {rack: 2, node: 2}, capacity: {cpu: 16, memory: 64Gi, nvidia.com/gpu: 8}}]", "here"
)


async def with_all_kinds(side: Side) -> Verbs:
    """A server that serves the custom kinds, and the runtimes to train on."""
    if side.real:
        for definition in custom_resource_definitions():
            with suppress(ApiError):
                await side.verbs.create(
                    CUSTOM_RESOURCE_DEFINITIONS, definition, "", WriteOptions(field_validation="Strict")
                )
        for resource in (JOB_SETS, TRAIN_JOBS, CLUSTER_TRAINING_RUNTIMES):
            await until(functools.partial(is_served, side.verbs, resource))
    for runtime in builtin_runtimes():
        with suppress(ApiError):
            await side.verbs.create(CLUSTER_TRAINING_RUNTIMES, runtime)
    return side.verbs


@asynccontextmanager
async def at_work_on(side: Side) -> AsyncIterator[Verbs]:
    """Our controllers, scheduler and simulated nodes at work; on our own server all that a cluster needs besides."""
    kinds = await with_all_kinds(side)
    clock = RealClock(4)
    controller, scheduler = side.acting_as(CONTROLLERS).verbs, side.acting_as(SCHEDULER).verbs
    controlling, scheduling, watching = (Caches(verbs, clock) for verbs in (controller, scheduler, kinds))
    chosen = cluster_controllers(controlling, CLUSTER_CONTROLLERS) if side.real else None
    running = components.controllers(controller, controlling, clock, chosen)
    running += components.scheduler(scheduler, scheduling, clock, Settings())[1]
    running.append(components.Component("nodes", SimulatedNodes(kinds, watching, clock, CLUSTER).run))
    running += (components.Component("caches", caches.run) for caches in (controlling, scheduling, watching))
    async with supervised(running):
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
