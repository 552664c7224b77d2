"""Pods whose claims are bound on first use, while claims, volumes, nodes and the volume controller come and go."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import NODES, PODS, VOLUME_CLAIMS, VOLUMES
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

from .beside_scheduler import consistent, volume_controller
from .test_scheduler_late_volumes import LATE, SELECTED, local, provisioned, wanting
from .test_scheduler_volumes import make_class, using

_STEPS = 40
_BOUND = "pv.kubernetes.io/bind-completed"


class Disturbances:
    """One change after the other, drawn by a seed."""

    def __init__(self, world: SchedulerPlane, seed: int) -> None:
        self._world = world
        self._rng = random.Random(seed)
        self._number = 0
        self._claims = ["c"]
        self._volumes: list[str] = []
        self._nodes = ["n0", "n1", "n2"]
        self._controller = AsyncExitStack()
        self._controlled = False
        self.pods: list[str] = []

    async def next(self) -> None:
        changes: list[Callable[[], Awaitable[None]]] = [
            *(
                self._gang,
                self._gang,
                self._claim,
                self._claim,
                self._volume,
                self._volume,
                self._end_pod,
                self._end_pod,
            ),
            *(self._end_volume, self._unselect, self._replace_node, self._switch_controller, self._world.restart),
        ]
        self._number += 1
        with suppress(ApiError):  # what it is about is gone, or may not be changed
            await self._rng.choice(changes)()
        await self._world.settle(self._rng.choice((0.1, 0.5, 1.2, 3, 20)))

    async def end(self) -> None:
        await self._controller.aclose()

    async def _gang(self) -> None:
        number, size = self._number, self._rng.choice((1, 2, 3))
        await self._world.create(make_pod_group(f"g{number}", gang=size))
        for name in [f"p{number}-{one}" for one in range(size)]:
            await self._world.create(make_pod(name, group=f"g{number}", volumes=using(self._rng.choice(self._claims))))
            self.pods.append(name)

    async def _claim(self) -> None:
        name = f"c{self._number}"
        await self._world.create(wanting(name, self._rng.choice(("1Gi", "2Gi")), self._rng.choice(("local", "made"))))
        self._claims.append(name)

    async def _volume(self) -> None:
        name = f"v{self._number}"
        await self._world.create(local(name, self._rng.choice(self._nodes), self._rng.choice(("1Gi", "3Gi"))))
        self._volumes.append(name)

    async def _end_pod(self) -> None:
        if self.pods:
            await self._world.delete(PODS, self.pods.pop(self._rng.randrange(len(self.pods))), grace=0)

    async def _end_volume(self) -> None:
        if self._volumes:
            await self._world.verbs.delete(VOLUMES, self._volumes.pop(self._rng.randrange(len(self._volumes))))

    async def _unselect(self) -> None:
        """As a provisioner says that it has no room there."""
        claim = await self._world.verbs.get(VOLUME_CLAIMS, self._rng.choice(self._claims), "default")
        if not claim["spec"].get("volumeName"):
            body = {"metadata": {"annotations": {SELECTED: None}}}
            await self._world.patch(VOLUME_CLAIMS, meta.name(claim), body)

    async def _replace_node(self) -> None:
        await self._world.verbs.delete(NODES, self._nodes.pop(0))
        self._nodes.append(f"n{self._number}")
        await self._world.create(make_node(self._nodes[-1], cpu=8))

    async def _switch_controller(self) -> None:
        if self._controlled:
            await self._controller.aclose()
        else:
            await self._controller.enter_async_context(volume_controller(self._world))
        self._controlled = not self._controlled


@pytest.mark.parametrize("seed", range(12))
@in_virtual_time
async def test_whatever_comes_and_goes_no_pod_is_bound_before_its_claims(world: SchedulerPlane, seed: int) -> None:
    await world.create(make_class("local", LATE), provisioned(), *(make_node(f"n{n}", cpu=8) for n in range(3)))
    await world.create(wanting("c"))
    disturbed = Disturbances(world, seed)
    try:
        for _ in range(_STEPS):
            await disturbed.next()
            assert consistent(world)
            claims = {meta.name(one): one for one in (await world.verbs.list(VOLUME_CLAIMS, "default")).items}
            for pod in filter(None, [await world.pod(name) for name in disturbed.pods]):
                used = [claims[one["persistentVolumeClaim"]["claimName"]] for one in pod["spec"]["volumes"]]
                assert not pod["spec"].get("nodeName") or all(_BOUND in meta.annotations(one) for one in used)
    finally:
        await disturbed.end()
