"""Controllers and simulated nodes over the real pipeline and a store in memory, in virtual time.

A `ControllerPlane` can be killed at any moment, even right after its n-th write, and started again on the same store.
Pods are placed by the scheduler if there is one, else put on some node at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

from echelon.agents.simulated_nodes import SimulatedNodes
from echelon.agents.simulated_volumes import SimulatedVolumes
from echelon.api.cluster.pools import Cluster, parse
from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.objects.vocabulary import HOSTNAME, OUR_SCHEDULERS
from echelon.api.scheme import EVENTS, JOBS, NAMESPACES, PODS, Object, Resource, by_kind
from echelon.api.verbs import DeleteOptions, Patch, PatchType, Propagation, WatchEvent
from echelon.base.rng import Rng
from echelon.client.events import Recorder
from echelon.client.informer import Caches
from echelon.controllers.garbage import GarbageCollector
from echelon.controllers.groups.protection import CompositePodGroupProtection, PodGroupProtection
from echelon.controllers.job import JobController
from echelon.controllers.jobset import JobSetController
from echelon.controllers.nodes.exclusive_placement import ExclusivePlacementController
from echelon.controllers.runner import Controller, Runner
from echelon.controllers.stage_quota import StageQuotaController
from echelon.controllers.trainjob import TrainJobController
from echelon.runtime import virtual_time
from echelon.runtime.clocks import LoopClock
from echelon.scheduler.loop import Scheduler, Settings
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.memory import open_memory

SMALL = parse("pools: [{name: n, counts: {node: 4}, capacity: {cpu: 1000, memory: 1Ti}}]", "small")
_WRITES = ("create", "update", "patch", "delete", "bind", "evict")

MakeControllers = Callable[[Caches], Sequence[Controller]]


def only_jobs(caches: Caches) -> Sequence[Controller]:
    return [JobController(caches)]


def for_training(caches: Caches) -> Sequence[Controller]:
    """All that a TrainJob needs, from its JobSet to the end of its pods."""
    return [
        JobController(caches),
        JobSetController(caches),
        ExclusivePlacementController(caches),
        TrainJobController(caches, random_bytes=Rng(11).random_bytes),
        StageQuotaController(caches),
        GarbageCollector(caches),
        PodGroupProtection(caches),
        CompositePodGroupProtection(caches),
    ]


class Mortal:
    """The pipeline as seen by a process that dies after so many writes: what comes later is never answered.

    News of the kind `late` arrives five seconds after it happened.
    """

    def __init__(self, pipeline: Pipeline, writes: int | None, late: Resource | None) -> None:
        self._pipeline = pipeline
        self._left = writes
        self._late = late
        self.dead = asyncio.Event()

    async def watch(self, resource: Resource, *args: Any, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        async with aclosing(self._pipeline.watch(resource, *args, **options)) as events:
            async for event in events:
                if resource is self._late:
                    await asyncio.sleep(5)
                yield event

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._pipeline, name)
        if name not in _WRITES:
            return verb

        async def write(*args: Any, **options: Any) -> Any:
            if self._left is not None:
                if self._left == 0:
                    self.dead.set()
                    await asyncio.get_running_loop().create_future()
                self._left -= 1
            return await verb(*args, **options)

        return write


class ControllerPlane:
    def __init__(
        self,
        controllers: MakeControllers = only_jobs,
        cluster: Cluster = SMALL,
        *,
        bind: bool = True,
        scheduler: bool = False,
        scheduler_names: tuple[str, ...] = OUR_SCHEDULERS,
        late: Resource | None = None,
        disabled_features: frozenset[str] = frozenset(),
    ) -> None:
        self.clock = LoopClock()
        self.api = Pipeline(open_memory(header_of), self.clock, Rng(7), disabled_features=disabled_features)
        self._controllers = controllers
        self._cluster = cluster
        self._bind = bind and not scheduler
        self._scheduler = scheduler
        self._scheduler_names = scheduler_names
        self._late = late
        self._task: asyncio.Task[None] | None = None
        self._caches: Caches | None = None

    async def start(self, writes: int | None = None) -> Mortal:
        """Run everything; with `writes`, until that many writes have been made."""
        await self.api.bootstrap(builtin_runtimes())
        verbs = Mortal(self.api, writes, self._late)
        self._task = asyncio.create_task(self._run(verbs))
        return verbs

    async def kill(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def restart(self) -> None:
        await self.kill()
        await self.start()

    async def _run(self, verbs: Any) -> None:
        caches = self._caches = Caches(verbs, self.clock)
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers(caches):
                recorder = Recorder(verbs, self.clock, f"{controller.name}-controller")
                group.create_task(recorder.run())
                group.create_task(Runner(controller, verbs, caches, self.clock, recorder).run())
            group.create_task(SimulatedNodes(verbs, caches, self.clock, self._cluster).run())
            group.create_task(SimulatedVolumes(verbs, caches, self.clock).run())
            if self._bind:
                group.create_task(_bind_everything(verbs, caches))
            if self._scheduler:
                recorder = Recorder(verbs, self.clock, "echelon-scheduler")
                group.create_task(recorder.run())
                levels = (*(level.key for level in self._cluster.levels), HOSTNAME)
                settings = Settings(names=self._scheduler_names, levels=levels)
                group.create_task(Scheduler(verbs, caches, self.clock, recorder, settings).run())
            group.create_task(caches.run())

    # -- what a person would do --------------------------------------------------------------------------

    async def create(self, obj: Object) -> Object:
        resource = by_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        return await self.api.create(resource, obj, meta.namespace(obj) or ("default" if resource.namespaced else ""))

    async def get(self, resource: Resource, name: str) -> Object:
        return await self.api.get(resource, name, "default" if resource.namespaced else "")

    async def find(self, resource: Resource, name: str) -> Object | None:
        return next((obj for obj in await self.all(resource) if meta.name(obj) == name), None)

    async def all(self, resource: Resource, namespace: str = "default") -> list[Object]:
        return (await self.api.list(resource, namespace if resource.namespaced else "")).items

    async def names(self, resource: Resource) -> list[str]:
        return sorted(map(meta.name, await self.all(resource)))

    async def patch(self, resource: Resource, name: str, body: Object, subresource: Any = "") -> Object:
        space = "default" if resource.namespaced else ""
        return await self.api.patch(resource, name, Patch(PatchType.MERGE, body), space, subresource)

    async def delete(self, resource: Resource, name: str, propagation: Propagation | None = "Background") -> Object:
        space = "default" if resource.namespaced else ""
        return await self.api.delete(resource, name, space, DeleteOptions(propagation))

    async def wait(self, seconds: float = 1.0) -> None:
        await self.clock.sleep(seconds)

    async def until(self, holds: Callable[[], Awaitable[bool]], seconds: float = 300) -> None:
        limit = self.clock.now() + seconds
        while not await holds():
            assert self.clock.now() < limit, "it did not come true in time"
            await self.wait(0.5)

    async def until_condition(self, resource: Resource, name: str, type_: str, seconds: float = 3000) -> Object:
        """The object once it has the condition."""

        async def holds() -> bool:
            return meta.condition_is(await self.get(resource, name), type_)

        await self.until(holds, seconds)
        return await self.get(resource, name)

    async def finished(self, job: str, seconds: float = 3000) -> Object:
        """The Job once it has its terminal condition."""

        async def ended() -> bool:
            found = await self.get(JOBS, job)
            return meta.condition_is(found, "Complete") or meta.condition_is(found, "Failed")

        await self.until(ended, seconds)
        return await self.get(JOBS, job)

    async def pods(self, phase: str | None = None) -> list[Object]:
        return [pod for pod in await self.all(PODS) if phase is None or pod["status"]["phase"] == phase]

    async def reasons(self, name: str) -> list[str]:
        """Reasons of the events about an object, oldest first."""
        events = [event for event in await self.all(EVENTS) if event["involvedObject"]["name"] == name]
        return [event["reason"] for event in sorted(events, key=lambda one: int(one["metadata"]["resourceVersion"]))]


async def _bind_everything(verbs: Any, caches: Caches) -> None:
    """The smallest stand-in for a scheduler: the pod's name decides the node."""
    pods, arrived = caches.of(PODS), asyncio.Event()
    caches.of(NAMESPACES)
    pods.add_handler(lambda _, pod: arrived.set() if pod is not None else None)
    while True:
        await arrived.wait()
        arrived.clear()
        for pod in pods.all():
            gated = pod["spec"].get("schedulingGates")
            if not pod["spec"].get("nodeName") and not meta.deleting(pod) and not gated:
                node = f"n-n{sum(map(ord, meta.name(pod))) % 4}"
                with suppress(ApiError):
                    await verbs.bind(meta.namespace(pod), meta.name(pod), node, uid=meta.uid(pod))


def in_virtual_time(scenario: Callable[[ControllerPlane], Awaitable[None]], **options: Any) -> None:
    """Run a scenario on a started plane."""

    async def main() -> None:
        plane = ControllerPlane(**options)
        await plane.start()
        await scenario(plane)
        await plane.kill()

    virtual_time.run(main())
