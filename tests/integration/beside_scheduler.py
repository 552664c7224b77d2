"""What runs beside a scheduler in a `SchedulerPlane`, and whether the scheduler still knows the cluster as it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from echelon.agents.simulated_volumes import SimulatedVolumes
from echelon.client.events import Recorder
from echelon.client.informer import Caches
from echelon.controllers.devices.resource_claims import ResourceClaimController
from echelon.controllers.garbage import GarbageCollector
from echelon.controllers.runner import Runner
from echelon.testing.scheduler_plane import SchedulerPlane


@asynccontextmanager
async def running(*parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these while the block runs."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def claim_controller(world: SchedulerPlane) -> AbstractAsyncContextManager[None]:
    """What kube-controller-manager does with ResourceClaims."""
    caches = Caches(world.verbs, world.clock)
    recorder = Recorder(world.verbs, world.clock, "resourceclaim-controller")
    controllers = (ResourceClaimController(caches), GarbageCollector(caches))
    runners = [Runner(one, world.verbs, caches, world.clock, recorder).run() for one in controllers]
    return running(caches.run(), recorder.run(), *runners)


def volume_controller(world: SchedulerPlane) -> AbstractAsyncContextManager[None]:
    """What binds claims to volumes, and makes volumes."""
    caches = Caches(world.verbs, world.clock)
    return running(caches.run(), SimulatedVolumes(world.verbs, caches, world.clock).run())


def consistent(world: SchedulerPlane) -> bool:
    """Whether what the scheduler has kept is what it would read anew."""
    assert world.scheduler is not None
    found = world.scheduler.inconsistencies()
    assert not found, found
    return True
