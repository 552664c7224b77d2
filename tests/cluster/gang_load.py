"""Gangs that arrive while something happens to those who place them, and what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import POD_GROUPS, PODS, Object
from echelon.api.verbs import DeleteOptions, Verbs, WatchOptions
from echelon.testing.builders import make_pod, make_pod_group

_AT_ONCE = 16


class GangLoad:
    """Gangs of one namespace; follows their pods."""

    def __init__(self, verbs: Verbs, namespace: str, scheduler: str = "echelon") -> None:
        self._verbs = verbs
        self._namespace = namespace
        self._scheduler = scheduler
        #: The pods that were submitted, by gang, and the nodes of those that are bound.
        self.gangs: dict[str, list[str]] = {}
        self.nodes: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        while True:
            with suppress(ApiError):
                found = await self._verbs.list(PODS, self._namespace)
                self._see(found.items)
                options = WatchOptions(resource_version=found.resource_version)
                async for event in self._verbs.watch(PODS, self._namespace, options):
                    self._see([event.object])
            await asyncio.sleep(0.1)

    def _see(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            if node := pod["spec"].get("nodeName"):
                self.nodes[meta.name(pod)] = node
        self._changed.set()

    @property
    def missing(self) -> list[str]:
        return [name for names in self.gangs.values() for name in names if name not in self.nodes]

    async def submit(self, prefix: str, gangs: int, size: int) -> None:
        """All of them become complete at the end, when there is nothing else to do than to watch them being bound."""
        groups = {f"{prefix}-{number}": list[str]() for number in range(gangs)}
        for group, names in groups.items():
            made = make_pod_group(group, gang=size, namespace=self._namespace)
            await self._verbs.create(POD_GROUPS, made, self._namespace)
            names += [f"{group}-{index}" for index in range(size)]
            for begin in range(1, size, _AT_ONCE):
                await asyncio.gather(*(self._create(name, group) for name in names[begin : begin + _AT_ONCE]))
        self.gangs |= groups
        await asyncio.gather(*(self._create(names[0], group) for group, names in groups.items()))

    async def _create(self, name: str, group: str) -> None:
        pod = make_pod(name, group=group, namespace=self._namespace, schedulerName=self._scheduler)
        await self._verbs.create(PODS, pod, self._namespace)

    async def bound(self, count: int, seconds: float = 120.0) -> None:
        """Wait until so many pods are bound."""
        async with asyncio.timeout(seconds):
            while len(self.nodes) < count:
                self._changed.clear()
                await self._changed.wait()

    async def all_bound(self, seconds: float = 180.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self.missing:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{len(self.missing)} pods were never bound: {self.missing[:5]}") from None

    async def clear(self) -> None:
        """Their users take them away."""
        gone = DeleteOptions(grace_period_seconds=0)
        for group, names in self.gangs.items():
            await asyncio.gather(*(self._verbs.delete(PODS, name, self._namespace, gone) for name in names))
            await self._verbs.delete(POD_GROUPS, group, self._namespace)
        self.gangs.clear()
        self.nodes.clear()
