"""An API server that has bad days, seen from one process: a thin layer over `Verbs`.

    calm      every call passes
    storm     a call may be refused (409, 429, 500), time out before or after it took effect, or just be slow
    watches   end after a while, as on any server; in a storm they also break with 410, or are late
    fuse      after so many calls nothing is answered any more: the process is as good as dead

All chance comes from one seeded stream, so a run repeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from echelon.api.errors import ApiError, expired
from echelon.api.scheme import Object, Resource
from echelon.api.verbs import (
    DeleteOptions,
    ListOptions,
    ObjectList,
    Patch,
    Subresource,
    Verbs,
    WatchEvent,
    WatchOptions,
    WriteOptions,
)
from echelon.base.clock import Clock
from echelon.base.rng import Rng

#: Of so many calls in a storm, one meets each of these fates.
_ONE_IN = 40
_FATES = ("conflict", "busy", "broken", "lost-request", "lost-answer", "slow")
_WATCH_SECONDS = (30, 300)


class Weather:
    """Whether the API has a bad day now; shared by all processes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.until = 0.0

    def storm(self, seconds: float) -> None:
        self.until = max(self.until, self._clock.now() + seconds)

    @property
    def stormy(self) -> bool:
        return self._clock.now() < self.until


class FaultyVerbs:
    """`Verbs` with faults in front."""

    def __init__(self, verbs: Verbs, clock: Clock, weather: Weather, rng: Rng) -> None:
        self._verbs = verbs
        self._clock = clock
        self._weather = weather
        self._rng = rng
        #: How many more calls are answered before the process counts as dead; None for no end.
        self.fuse: int | None = None

    async def _call(self, call: Callable[[], Awaitable[Any]], *, writes: bool) -> Any:
        if self.fuse is not None:
            if self.fuse == 0:
                await asyncio.get_running_loop().create_future()
            self.fuse -= 1
        if not self._weather.stormy:
            return await call()
        fate = self._rng.below(_ONE_IN)
        name = _FATES[fate] if fate < len(_FATES) else ""
        if name == "slow":
            await self._clock.sleep(self._rng.below(50) / 10)
        elif name == "lost-answer":
            await call()
            await self._clock.sleep(self._rng.below(30) / 10)
            raise TimeoutError
        elif name == "lost-request":
            await self._clock.sleep(self._rng.below(100) / 10)
            raise TimeoutError
        elif name and (writes or name != "conflict"):
            raise _REFUSALS[name]()
        return await call()

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return await self._call(lambda: self._verbs.get(resource, name, namespace), writes=False)  # type: ignore[no-any-return]

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions = ListOptions()) -> ObjectList:
        return await self._call(lambda: self._verbs.list(resource, namespace, options), writes=False)  # type: ignore[no-any-return]

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions = WriteOptions()
    ) -> Object:
        return await self._call(lambda: self._verbs.create(resource, obj, namespace, options), writes=False)  # type: ignore[no-any-return]

    async def update(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        return await self._call(  # type: ignore[no-any-return]
            lambda: self._verbs.update(resource, obj, namespace, subresource, options), writes=True
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        return await self._call(  # type: ignore[no-any-return]
            lambda: self._verbs.patch(resource, name, patch, namespace, subresource, options), writes=True
        )

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DeleteOptions()
    ) -> Object:
        return await self._call(lambda: self._verbs.delete(resource, name, namespace, options), writes=True)  # type: ignore[no-any-return]

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str = "",
        annotations: Mapping[str, str] | None = None,
        options: WriteOptions = WriteOptions(),
    ) -> None:
        await self._call(
            lambda: self._verbs.bind(namespace, pod, node, uid=uid, annotations=annotations, options=options),
            writes=True,
        )

    async def evict(self, namespace: str, pod: str, options: DeleteOptions = DeleteOptions()) -> None:
        await self._call(lambda: self._verbs.evict(namespace, pod, options), writes=True)

    async def watch(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncGenerator[WatchEvent, None]:
        shortest, longest = _WATCH_SECONDS
        seconds = float(shortest + self._rng.below(longest - shortest))
        async with aclosing(
            self._verbs.watch(resource, namespace, replace(options, timeout_seconds=seconds))
        ) as events:
            async for event in events:
                if self._weather.stormy:
                    fate = self._rng.below(_ONE_IN * 2)
                    if fate == 0:
                        raise expired("too old resource version")
                    if fate == 1:
                        raise ConnectionResetError("the watch was cut")
                    if fate == 2:
                        await self._clock.sleep(self._rng.below(50) / 10)
                yield event


def _conflict() -> ApiError:
    return ApiError(409, "Conflict", "Operation cannot be fulfilled: the object has been modified")


def _busy() -> ApiError:
    return ApiError(429, "TooManyRequests", "the server has received too many requests, please try again later")


def _broken() -> ApiError:
    return ApiError(500, "InternalError", "an error on the server has prevented the request from succeeding")


_REFUSALS = {"conflict": _conflict, "busy": _busy, "broken": _broken}
