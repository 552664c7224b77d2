"""The stage of the scheduler tests on a real cluster: the same words as in virtual time, over HTTPS, in real time."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from echelon.api import meta
from echelon.api.errors import ApiError
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    EVENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    WORKLOADS,
    Object,
    Resource,
)
from echelon.api.verbs import DeleteOptions, Patch, PatchType, Verbs
from echelon.runtime.clock import RealClock
from echelon.scheduler.loop import Settings
from echelon.testing.world import SETTLE_SECONDS, World

#: What a test may leave behind, in the order in which it can go.
_LEFT = (PODS, POD_GROUPS, COMPOSITE_POD_GROUPS, WORKLOADS, POD_DISRUPTION_BUDGETS, EVENTS, NODES, PRIORITY_CLASSES)
#: Priority classes of the server itself, and those of every test, whose names say all about them.
_KEPT = ("system-", "priority-")
_WATCHED = (PODS, POD_GROUPS, COMPOSITE_POD_GROUPS, NODES)
#: The scheduler's own delays pass this much faster, so that back-off does not make tests long.
_SPEED = 4.0
#: Nothing has changed for this long: nothing will.
_QUIET_SECONDS = 0.8
_GONE_SECONDS = 20.0
_ADMISSION_TRIES = 50


class ClusterWorld(World):
    def __init__(self, verbs: Verbs) -> None:
        super().__init__(verbs, RealClock(_SPEED), Settings())
        self._changed = 0.0

    def start(self, verbs: Verbs | None = None) -> None:
        super().start(verbs)
        assert self.caches is not None
        for resource in _WATCHED:
            self.caches.of(resource).add_handler(self._note)

    def _note(self, _old: Object | None, _new: Object | None) -> None:
        self._changed = time.monotonic()

    async def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Until nothing has changed for a while: in real time nobody knows beforehand how long that takes."""
        begin = time.monotonic()
        while time.monotonic() - max(self._changed, begin) < min(seconds, _QUIET_SECONDS):
            if time.monotonic() - begin > SETTLE_SECONDS:
                return
            await asyncio.sleep(0.05)

    async def submit(self, obj: Object) -> None:
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
        deadline = time.monotonic() + _GONE_SECONDS
        while left := await self._left(resource):
            assert time.monotonic() < deadline, f"{resource.plural} that do not go away: {[meta.name(o) for o in left]}"
            await asyncio.gather(*(self._remove(resource, obj) for obj in left))

    async def _left(self, resource: Resource) -> list[Object]:
        found = (await self.verbs.list(resource, "default" if resource.namespaced else "")).items
        return [obj for obj in found if not meta.name(obj).startswith(_KEPT)]

    async def _remove(self, resource: Resource, obj: Object) -> None:
        """Protection is not what is tested, so it is lifted at once."""
        namespace = meta.namespace(obj)
        with suppress(ApiError):
            if obj["metadata"].get("finalizers"):
                bare = Patch(PatchType.MERGE, {"metadata": {"finalizers": None}})
                await self.verbs.patch(resource, meta.name(obj), bare, namespace)
            await self.verbs.delete(resource, meta.name(obj), namespace, DeleteOptions(grace_period_seconds=0))
