"""The stage of the scheduler tests on a real cluster: the same words as in virtual time, over HTTPS.

The scheduler's own time passes in steps (`stepping`), so that nothing depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    WORKLOADS,
    Object,
    Resource,
    by_kind,
)
from echelon.api.verbs import DeleteOptions, Patch, PatchType, Verbs
from echelon.scheduler.loop import Settings
from echelon.testing.scheduler_plane import SETTLE_SECONDS, SchedulerPlane

from .stepping import SteppedClock

#: What a test may leave behind, in the order in which it can go.
_LEFT = (
    PODS, POD_GROUPS, COMPOSITE_POD_GROUPS, WORKLOADS, POD_DISRUPTION_BUDGETS, EVENTS, NODES, PRIORITY_CLASSES,
    VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
)  # fmt: skip
#: Priority classes of the server itself, and those of every test, whose names say all about them.
_KEPT = ("system-", "priority-")
#: Real time: what never comes has not come by then, on any machine.
_GIVE_UP_SECONDS = 180.0
#: A watch that was cut off is taken up again after a while of the scheduler's time, so that time must pass.
_LAG_SECONDS = 30.0
_ADMISSION_TRIES = 600


class RealPlane(SchedulerPlane):
    def __init__(self, verbs: Verbs, acting: Verbs) -> None:
        self._stepped = SteppedClock()
        super().__init__(verbs, self._stepped, Settings(), acting)

    async def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Let so much of the scheduler's time pass, all that happens meanwhile included."""
        until = self._stepped.now() + seconds
        async with asyncio.timeout(_GIVE_UP_SECONDS):
            await self._rest()
            while self._stepped.step(until):
                await self._rest()

    async def _rest(self) -> None:
        """Until the scheduler has heard of everything and has nothing to do."""
        if not self.is_up:
            return
        assert self.scheduler is not None
        assert self.recorder is not None
        # Those whose sleep has ended come first.
        for _ in range(5):
            await asyncio.sleep(0)
        begin = time.monotonic()
        while True:
            if self.scheduler.at_rest and await self._has_heard() and self.scheduler.at_rest:
                break
            if time.monotonic() - begin > _LAG_SECONDS and self.scheduler.at_rest:
                break
            await asyncio.sleep(0.01)
        await self.recorder.flush()

    async def _has_heard(self) -> bool:
        """Whether the scheduler's caches hold what the server does."""
        assert self.caches is not None
        for resource in self.caches.resources:
            listed = (await self.verbs.list(resource)).items
            known = self.caches.of(resource).all()
            if _versions(listed) != _versions(known):
                return False
        return True

    async def create(self, *objects: Object) -> None:
        """One after the other, each when the scheduler has heard of the one before: watches keep no common order."""
        for obj in objects:
            await self._told_of(await self.submit(obj))

    async def _told_of(self, made: Object) -> None:
        begin = time.monotonic()
        while self.is_up:
            if self._knows(made) or time.monotonic() - begin > _LAG_SECONDS:
                return
            await asyncio.sleep(0.005)

    def _knows(self, made: Object) -> bool:
        assert self.caches is not None
        resource = by_kind(made["apiVersion"], made["kind"])
        if resource not in self.caches.resources:
            return True
        known = self.caches.of(resource).get(meta.key(made))
        return known is not None and meta.uid(known) == meta.uid(made)

    async def submit(self, obj: Object) -> Object:
        """A real server admits by caches of its own, which learn of a new PriorityClass a moment later."""
        for _ in range(_ADMISSION_TRIES):
            try:
                return await super().submit(obj)
            except ApiError as error:
                if "no PriorityClass" not in str(error):
                    raise
                await asyncio.sleep(0.1)
        raise AssertionError(f"{meta.name(obj)} is never admitted")

    # -- a cluster that is used again --------------------------------------------------------------------

    async def clear(self) -> None:
        """Remove whatever an earlier test left, and wait until it is gone."""
        for resource in _LEFT:
            await self._clear(resource)

    async def _clear(self, resource: Resource) -> None:
        deadline = time.monotonic() + _GIVE_UP_SECONDS
        while left := await self._left(resource):
            assert time.monotonic() < deadline, f"{resource.plural} that do not go away: {[meta.name(o) for o in left]}"
            await asyncio.gather(*(self._remove(resource, obj) for obj in left))

    async def _left(self, resource: Resource) -> list[Object]:
        # Pods of tests may be in any namespace, and no others are here.
        namespace = "default" if resource.namespaced and resource is not PODS else ""
        found = (await self.verbs.list(resource, namespace)).items
        return [obj for obj in found if not meta.name(obj).startswith(_KEPT)]

    async def _remove(self, resource: Resource, obj: Object) -> None:
        """Protection is not what is tested, so it is lifted at once."""
        namespace = meta.namespace(obj)
        with suppress(ApiError):
            if obj["metadata"].get("finalizers"):
                bare = Patch(PatchType.MERGE, {"metadata": {"finalizers": None}})
                await self.verbs.patch(resource, meta.name(obj), bare, namespace)
            await self.verbs.delete(resource, meta.name(obj), namespace, DeleteOptions(grace_period_seconds=0))


def _versions(objects: Iterable[Object]) -> dict[str, str]:
    return {meta.uid(obj): obj["metadata"]["resourceVersion"] for obj in objects}
