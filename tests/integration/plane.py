"""A control plane in one process and virtual time: the API pipeline, controllers and simulated nodes.

run(story)    `story` gets a Plane; hours of cluster life take as long as their work
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from echelon.agents.simulated import SimulatedNodes
from echelon.api import cluster, meta
from echelon.api.runtimes import builtin_runtimes
from echelon.api.scheme import EVENTS, NODES, PODS, Object, Resource, by_kind
from echelon.api.verbs import DeleteOptions, Patch, PatchType
from echelon.base.rng import Rng
from echelon.client.events import Recorder
from echelon.client.informer import Caches
from echelon.controllers.job import JobController
from echelon.controllers.jobset import JobSetController
from echelon.controllers.runner import Controller, Runner
from echelon.controllers.trainjob import TrainJobController
from echelon.runtime import virtual
from echelon.runtime.clock import LoopClock
from echelon.server.pipeline import Pipeline
from echelon.server.trees import header_of
from echelon.store.memory import open_memory

NAMESPACE = "default"
SMALL = """
pools:
  - name: gpu
    counts: {block: 1, rack: 2, node: 4}
    capacity: {cpu: 32, memory: 64Gi, nvidia.com/gpu: 8}
"""


class Plane:
    """What a story can do: speak to the API, and let time pass."""

    def __init__(self, pipeline: Pipeline, caches: Caches, clock: LoopClock) -> None:
        self.verbs = pipeline
        self.caches = caches
        self.clock = clock

    async def apply(self, obj: Object) -> Object:
        resource = by_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        return await self.verbs.create(resource, obj, NAMESPACE if resource.namespaced else "")

    async def get(self, resource: Resource, name: str) -> Object:
        return await self.verbs.get(resource, name, NAMESPACE if resource.namespaced else "")

    async def all(self, resource: Resource) -> list[Object]:
        return (await self.verbs.list(resource, NAMESPACE if resource.namespaced else "")).items

    async def names(self, resource: Resource) -> list[str]:
        return sorted(map(meta.name, await self.all(resource)))

    async def set_spec(self, resource: Resource, name: str, **spec: Any) -> Object:
        return await self.verbs.patch(resource, name, Patch(PatchType.MERGE, {"spec": spec}), NAMESPACE)

    async def delete(self, resource: Resource, name: str) -> None:
        await self.verbs.delete(resource, name, NAMESPACE, DeleteOptions("Background"))

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    async def until(self, holds: Callable[[], Awaitable[Any]], what: str, seconds: float = 600) -> Any:
        """What `holds` answers with as soon as it is true; looked at once per virtual second."""
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            if found := await holds():
                return found
            await self.clock.sleep(1)
        raise AssertionError(f"not within {seconds:g} s: {what}")

    async def until_condition(self, resource: Resource, name: str, type_: str, seconds: float = 600) -> Object:
        async def holds() -> Object | None:
            obj = await self.get(resource, name)
            return obj if meta.condition_is(obj, type_) else None

        found: Object = await self.until(holds, f"{resource.kind} {name} to be {type_}", seconds)
        return found

    async def reasons(self, kind: str, name: str) -> list[str]:
        """The reasons of all events about an object, by alphabet."""
        return sorted(e["reason"] for e in await self.all(EVENTS) if _is_about(e, kind, name))


def _is_about(event: Object, kind: str, name: str) -> bool:
    return (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)


async def _bind_everything(plane: Plane) -> None:
    """Bind each pod to the first node: order and policies are the subject here, not placement."""
    while True:
        nodes = await plane.names(NODES)
        for pod in await plane.all(PODS):
            if nodes and not pod["spec"].get("nodeName") and not meta.deleting(pod):
                await plane.verbs.bind(NAMESPACE, meta.name(pod), nodes[0])
        await plane.sleep(0.5)


async def _live(story: Callable[[Plane], Awaitable[None]]) -> None:
    clock = LoopClock()
    pipeline = Pipeline(open_memory(header_of), clock, Rng(7))
    await pipeline.bootstrap(builtin_runtimes())
    caches = Caches(pipeline, clock)
    recorder = Recorder(pipeline, clock, "test")
    controllers: list[Controller] = [JobController(caches), JobSetController(caches), TrainJobController(caches)]
    runners = [Runner(one, pipeline, caches, clock, recorder) for one in controllers]
    nodes = SimulatedNodes(pipeline, caches, clock, cluster.parse(SMALL, "small"))
    plane = Plane(pipeline, caches, clock)
    parts = [caches.run(), recorder.run(), nodes.run(), _bind_everything(plane), *(one.run() for one in runners)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in parts]
        await story(plane)
        for task in tasks:
            task.cancel()


def run(story: Callable[[Plane], Awaitable[None]]) -> None:
    virtual.run(_live(story))
