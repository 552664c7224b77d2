"""A control plane with a scheduler and nothing else, in virtual time: the stage for scheduler tests.

    @in_virtual_time
    async def test_a_gang_is_placed(world: SchedulerPlane) -> None:
        await world.create(make_node("n1", cpu=4), make_pod_group("g", gang=2))
        await world.pods("g", "p", 2)
        assert await world.scheduled("p0", "p1")

Pods end when a test says so: there are no agents and no controllers.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from ..api.errors import ApiError
from ..api.objects import meta
from ..api.scheme import COMPOSITE_POD_GROUPS, EVENTS, POD_GROUPS, PODS, PRIORITY_CLASSES, Object, Resource, by_kind
from ..api.verbs import DeleteOptions, Patch, PatchType, Verbs
from ..base.clock import Clock
from ..base.rng import Rng
from ..client.events import Recorder
from ..client.informer import Caches
from ..runtime.clocks import LoopClock
from ..runtime.virtual_time import run
from ..scheduler.loop import Scheduler, Settings
from ..server.objects.object_cache import header_of
from ..server.pipeline import Pipeline
from ..store.memory import open_memory
from .builders import make_pod

#: Long enough for everything that can happen to have happened, retries by back-off included.
SETTLE_SECONDS = 10.0


class SchedulerPlane:
    """The API, and a scheduler that can be stopped and started again."""

    def __init__(self, verbs: Verbs, clock: Clock, settings: Settings, acting: Verbs | None = None) -> None:
        self.verbs = verbs
        #: What the scheduler acts through, which may have fewer rights than a test.
        self.acting = acting or verbs
        self.clock = clock
        self._settings = settings
        self._tasks: list[asyncio.Task[None]] = []
        self.caches: Caches | None = None
        self.scheduler: Scheduler | None = None
        self.recorder: Recorder | None = None

    def start(self, verbs: Verbs | None = None) -> None:
        """Start a scheduler that knows nothing but what the API tells it."""
        through = verbs or self.acting
        caches = self.caches = Caches(through, self.clock)
        recorder = self.recorder = Recorder(through, self.clock, "default-scheduler")
        self.scheduler = Scheduler(through, caches, self.clock, recorder, self._settings)
        self._tasks = [asyncio.create_task(part) for part in (caches.run(), recorder.run(), self.scheduler.run())]

    async def stop(self) -> None:
        """End it as a crash would: whatever was not written is lost."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    async def restart(self, through: Any = None) -> None:
        """End the scheduler as a crash would and start another, which speaks to the API `through` something."""
        await self.stop()
        self.start(through)

    @property
    def is_up(self) -> bool:
        return bool(self._tasks)

    # -- doing -----------------------------------------------------------------------------------------

    async def create(self, *objects: Object) -> None:
        for obj in objects:
            await self.submit(obj)
            await asyncio.sleep(0)

    async def submit(self, obj: Object) -> Object:
        """Create one object and return before anyone could react to it."""
        classed = await self._with_class(obj)
        return await self.verbs.create(_resource(obj), classed, meta.namespace(obj))

    async def pods(self, group: str, prefix: str, count: int, first: int = 0, **spec: Any) -> list[str]:
        """Members of a group, named prefix0, prefix1, …; their names."""
        names = [f"{prefix}{number}" for number in range(first, first + count)]
        await self.create(*(make_pod(name, group=group, **spec) for name in names))
        return names

    async def _with_class(self, obj: Object) -> Object:
        """The object with its priority said by a class, as admission wants it."""
        spec = obj.get("spec") or {}
        if spec.get("priority") is None or spec.get("priorityClassName"):
            return obj
        policy = spec.get("preemptionPolicy", "PreemptLowerPriority")
        name = f"priority-{spec['priority']}-{policy.lower()}"
        body = {
            "apiVersion": PRIORITY_CLASSES.api_version,
            "kind": PRIORITY_CLASSES.kind,
            "metadata": {"name": name},
            "value": spec["priority"],
            "preemptionPolicy": policy,
        }
        with suppress(ApiError):
            await self.verbs.create(PRIORITY_CLASSES, body)
        return {**obj, "spec": {**spec, "priorityClassName": name}}

    async def delete(self, resource: Resource, *names: str, grace: int | None = None) -> None:
        namespace = "default" if resource.namespaced else ""
        for name in names:
            await self.verbs.delete(resource, name, namespace, DeleteOptions(grace_period_seconds=grace))

    async def remove(self, resource: Resource, name: str) -> None:
        """Delete an object for good, whoever protects it; not every server protects every kind."""
        await self.delete(resource, name)
        with suppress(ApiError):
            await self.patch(resource, name, {"metadata": {"finalizers": None}})

    async def patch(self, resource: Resource, name: str, body: Object, status: bool = False) -> None:
        namespace = "default" if resource.namespaced else ""
        await self.verbs.patch(resource, name, Patch(PatchType.MERGE, body), namespace, "status" if status else "")

    async def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        await asyncio.sleep(seconds)

    # -- seeing ----------------------------------------------------------------------------------------

    async def pod(self, name: str) -> Object | None:
        try:
            return await self.verbs.get(PODS, name, "default")
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    async def nodes(self, *names: str) -> list[str]:
        """Where pods are, "" for nowhere."""
        found = [await self.pod(name) for name in names]
        return [(pod or {}).get("spec", {}).get("nodeName", "") for pod in found]

    async def scheduled(self, *names: str) -> bool:
        return all(await self.nodes(*names))

    async def unscheduled(self, *names: str) -> bool:
        """Whether pods are pending and say that they cannot be placed."""
        reasons = [await self.reason(name) for name in names]
        return not any(await self.nodes(*names)) and set(reasons) == {"Unschedulable"}

    async def gone(self, *names: str) -> bool:
        return all([await self.pod(name) is None for name in names])

    async def reason(self, pod: str) -> str:
        found = meta.find_condition(await self.pod(pod) or {}, "PodScheduled")
        return str((found or {}).get("reason", ""))

    async def message(self, pod: str) -> str:
        found = meta.find_condition(await self.pod(pod) or {}, "PodScheduled")
        return str((found or {}).get("message", ""))

    async def condition(self, group: str, type_: str = "") -> tuple[str, str, str]:
        """(status, reason, message) of a PodGroup's or, failing that, a CompositePodGroup's condition."""
        for resource, own in (
            (POD_GROUPS, "PodGroupInitiallyScheduled"),
            (COMPOSITE_POD_GROUPS, "CompositePodGroupInitiallyScheduled"),
        ):
            try:
                obj = await self.verbs.get(resource, group, "default")
            except ApiError:
                continue
            found = meta.find_condition(obj, type_ or own) or {}
            return found.get("status", ""), found.get("reason", ""), found.get("message", "")
        raise AssertionError(f"no group is called {group}")

    async def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, message) of the events about an object."""
        listed = await self.verbs.list(EVENTS, "default")
        return [(e["reason"], e["message"]) for e in listed.items if e["involvedObject"]["name"] == name]


def _resource(obj: Object) -> Resource:
    found = by_kind(obj["apiVersion"], obj["kind"])
    assert found is not None, f"no such kind: {obj['apiVersion']} {obj['kind']}"
    return found


def in_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test that takes a `SchedulerPlane` in virtual time; other parameters come from pytest."""

    async def body(args: tuple[Any, ...], arguments: dict[str, Any]) -> None:
        clock = LoopClock()
        store = open_memory(header_of)
        pipeline = Pipeline(store, clock, Rng(1))
        await pipeline.bootstrap()
        world = SchedulerPlane(pipeline, clock, Settings())
        world.start()
        try:
            await test(world, *args, **arguments)
        finally:
            await world.stop()
            await store.close()

    @functools.wraps(test)
    def runner(*args: Any, **arguments: Any) -> None:
        run(body(args, arguments))

    # pytest must not look for a fixture of this name: the world is made here.
    runner.__signature__ = _without_first(test)  # type: ignore[attr-defined]
    return runner


def _without_first(test: Callable[..., Any]) -> Any:
    signature = inspect.signature(test)
    return signature.replace(parameters=list(signature.parameters.values())[1:], return_annotation=None)
