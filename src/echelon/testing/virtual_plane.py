"""A complete control plane in virtual time: the API over a store in memory, and processes that can be killed.

    async with virtual_plane(seed=1) as plane:      # inside runtime.virtual.run
        plane.start("controllers")
        await plane.verbs.create(...)
        await plane.clock.sleep(60)
        await plane.kill("controllers")             # as a crash would: what was not written is lost

Every process has caches of its own, as it would have on a real cluster, and speaks to the API through its own
`Verbs`, so that a test can put faults in between.  The parts are those that `echelon up` runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from ..agents.simulated_nodes import SimulatedNodes
from ..api.cluster.pools import Cluster
from ..api.objects.builtin_runtimes import builtin_runtimes
from ..api.verbs import Verbs
from ..base.clock import Clock
from ..base.rng import Rng
from ..client.informer import Caches
from ..controllers.registry import all_controllers
from ..runtime import components
from ..runtime.clocks import LoopClock
from ..runtime.components import Component
from ..scheduler.loop import Scheduler, Settings
from ..server.objects.object_cache import header_of
from ..server.pipeline import Pipeline
from ..store.interface import Store
from ..store.memory import open_memory

Name = Literal["scheduler", "controllers", "nodes"]
PROCESSES: tuple[Name, ...] = ("scheduler", "controllers", "nodes")
#: Nodes are whatever Node objects a test creates.
_NO_NODES = Cluster(levels=(), pools=())


class Process:
    """One process of the plane, from its start to its end."""

    def __init__(self, name: Name, verbs: Verbs, clock: Clock, settings: Settings) -> None:
        self.name = name
        self.caches = Caches(verbs, clock)
        self.scheduler: Scheduler | None = None
        running: list[Component]
        if name == "scheduler":
            self.scheduler, running = components.scheduler(verbs, self.caches, clock, settings)
        elif name == "controllers":
            chosen = all_controllers(self.caches, random_bytes=Rng(1).random_bytes)
            running = components.controllers(verbs, self.caches, clock, chosen)
        else:
            running = [Component("nodes", SimulatedNodes(verbs, self.caches, clock, _NO_NODES).run)]
        running.append(Component("caches", self.caches.run))
        self._tasks = [asyncio.create_task(part.main(), name=part.name) for part in running]

    def broken(self) -> BaseException | None:
        """Why a part ended by itself or set an object aside, if one did."""
        for error in self.caches.set_aside.errors.values():
            return error
        for task in self._tasks:
            if task.done() and not task.cancelled():
                return task.exception() or RuntimeError(f"{task.get_name()} ended")
        return None

    async def kill(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class VirtualPlane:
    """The API and the processes around it."""

    def __init__(self, store: Store, pipeline: Pipeline, clock: Clock, settings: Settings) -> None:
        self.store = store
        #: The API itself, without faults.
        self.verbs: Verbs = pipeline
        self.clock = clock
        self._settings = settings
        self.processes: dict[Name, Process] = {}

    def start(self, name: Name, through: Callable[[Verbs], Verbs] = lambda verbs: verbs) -> Process:
        """Start a process that knows nothing but what the API tells it; `through` wraps its way there."""
        assert name not in self.processes, f"{name} runs already"
        process = self.processes[name] = Process(name, through(self.verbs), self.clock, self._settings)
        return process

    async def kill(self, name: Name) -> None:
        await self.processes.pop(name).kill()

    def check(self) -> None:
        """Raise what broke a process, if anything did."""
        for process in self.processes.values():
            error = process.broken()
            if error is not None:
                raise AssertionError(f"{process.name} broke: {error!r}") from error


@asynccontextmanager
async def virtual_plane(seed: int, settings: Settings = Settings()) -> AsyncIterator[VirtualPlane]:
    """A bootstrapped API with no process yet; uids and generated names follow from the seed."""
    clock = LoopClock()
    store = open_memory(header_of)
    pipeline = Pipeline(store, clock, Rng(seed))
    await pipeline.bootstrap(builtin_runtimes())
    plane = VirtualPlane(store, pipeline, clock, settings)
    try:
        yield plane
    finally:
        for name in tuple(plane.processes):
            await plane.kill(name)
        await store.close()
