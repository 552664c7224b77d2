"""A small life of a cluster in virtual time: whatever happens in whatever order, the invariants hold when it is quiet.

Gangs, trees and single pods of three priorities come and go; nodes come, go and are cordoned; pods end, are deleted
and are made again by a stand-in for their controller; the scheduler is killed and started at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import RACK
from echelon.api.scheme import NODES, POD_GROUPS, PODS, Object
from echelon.api.views.cluster_views import NodeView
from echelon.api.views.object_view import read
from echelon.api.views.placement_views import PlacementSpec
from echelon.base.rng import Rng
from echelon.scheduler.intake.object_facts import node_of
from echelon.scheduler.intake.pod_shape import requests
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

T = TypeVar("T")
PRIORITIES = (0, 50, 100)


class Life:
    """One cluster's story, told by a seeded generator."""

    def __init__(self, world: SchedulerPlane, seed: int) -> None:
        self.world = world
        self.rng = Rng(seed)
        self.count = 0
        #: group -> how many pods its controller keeps, and their priority and size
        self.groups: dict[str, tuple[int, int, int]] = {}

    async def begin(self) -> None:
        for number in range(6):
            await self.world.create(make_node(f"n{number}", cpu=4, rack=f"r{number // 2}"))

    async def step(self) -> None:
        happenings = [
            self.gang, self.gang, self.tree, self.single, self.finish, self.finish, self.lose, self.lose,
            self.cordon, self.grow, self.shrink, self.end_group, self.crash,
        ]  # fmt: skip
        await happenings[self.rng.below(len(happenings))]()
        await self.world.settle(self.rng.below(30) / 10)
        await self.controllers()

    async def gang(self) -> None:
        name = self._name("g")
        size, priority, cpu = 1 + self.rng.below(4), self._priority(), 1 + self.rng.below(2)
        mode = "all" if self.rng.below(2) else "single"
        key = RACK if self.rng.below(2) else ""
        await self.world.create(make_pod_group(name, gang=size, priority=priority, mode=mode, key=key))
        self.groups[name] = (size + self.rng.below(2), priority, cpu)

    async def tree(self) -> None:
        root, priority = self._name("t"), self._priority()
        await self.world.create(make_composite(root, gang=2, priority=priority, mode="all", workload=root))
        for child in range(2 + self.rng.below(2)):
            name = f"{root}-{child}"
            key = RACK if self.rng.below(2) else ""
            await self.world.create(
                make_pod_group(name, gang=2, parent=root, priority=priority, key=key, workload=root)
            )
            self.groups[name] = (2, priority, 1)

    async def single(self) -> None:
        await self.world.create(make_pod(self._name("s"), priority=self._priority(), cpu=1 + self.rng.below(3)))

    async def finish(self) -> None:
        """A running pod, and with it its whole group, comes to its end."""
        pods = [pod for pod in await self._pods() if pod["spec"].get("nodeName")]
        if not pods:
            return
        group = _group(self._pick(pods))
        for pod in pods:
            if group and _group(pod) == group:
                await self._end(pod)
        self.groups.pop(group, None)

    async def lose(self) -> None:
        pods = await self._pods()
        if pods:
            await self._delete(self._pick(pods))

    async def cordon(self) -> None:
        nodes = (await self.world.verbs.list(NODES)).items
        if nodes:
            node = self._pick(nodes)
            cordoned = bool((node.get("spec") or {}).get("unschedulable"))
            await self.world.patch(NODES, meta.name(node), {"spec": {"unschedulable": not cordoned}})

    async def grow(self) -> None:
        """Some new nodes say their zone: with the first and the last of them the levels of the cluster change."""
        number = self.count = self.count + 1
        rack, zone = (f"q{self.rng.below(2)}", "z") if not self.rng.below(4) else (f"r{self.rng.below(4)}", "")
        await self.world.create(make_node(f"m{number}", cpu=1 + self.rng.below(6), rack=rack, zone=zone))

    async def shrink(self) -> None:
        """A node fails: its pods are gone with it."""
        nodes = (await self.world.verbs.list(NODES)).items
        if len(nodes) > 3:
            name = meta.name(self._pick(nodes))
            await self.world.delete(NODES, name)
            for pod in await self._pods():
                if pod["spec"].get("nodeName") == name:
                    await self._delete(pod)

    async def end_group(self) -> None:
        if self.groups:
            name = self._pick(sorted(self.groups))
            del self.groups[name]
            for pod in await self._pods():
                if _group(pod) == name:
                    await self._delete(pod)

    async def crash(self) -> None:
        await self.world.restart()

    async def controllers(self) -> None:
        """Every group gets back the pods it lost."""
        pods = await self._pods()
        for name, (wanted, priority, cpu) in self.groups.items():
            have = sum(_group(pod) == name and not meta.deleting(pod) for pod in pods)
            for _ in range(wanted - have):
                await self.world.create(make_pod(self._name("p"), group=name, priority=priority, cpu=cpu))

    async def quiet(self) -> None:
        """Let everything that can happen happen: victims are gone, back-offs have ended."""
        for _ in range(6):
            await self.world.settle(100)
            await self.controllers()

    # -- invariants ------------------------------------------------------------------------------------

    async def check(self) -> None:
        pods = await self._pods()
        await self._nothing_is_over_committed(pods)
        await self._gangs_are_whole_or_not_there(pods)
        assert self.world.scheduler is not None
        assert self.world.scheduler.inconsistencies() == []
        await self._what_is_pending_does_not_fit()

    async def _nothing_is_over_committed(self, pods: list[Object]) -> None:
        for node in (await self.world.verbs.list(NODES)).items:
            used: dict[str, int] = {}
            for pod in pods:
                if pod["spec"].get("nodeName") == meta.name(node):
                    for resource, amount in requests(read(PlacementSpec, pod["spec"])):
                        used[resource] = used.get(resource, 0) + amount
            allocatable = node_of(NodeView(node)).allocatable
            assert all(amount <= allocatable.get(resource, 0) for resource, amount in used.items()), used

    async def _gangs_are_whole_or_not_there(self, pods: list[Object]) -> None:
        for group in (await self.world.verbs.list(POD_GROUPS, "default")).items:
            name = meta.name(group)
            if name not in self.groups:
                continue
            bound = sum(_group(pod) == name and bool(pod["spec"].get("nodeName")) for pod in pods)
            minimum = group["spec"]["schedulingPolicy"]["gang"]["minCount"]
            whole = bound == 0 or bound >= minimum
            # A gang that ran, lost members and is disrupted singly keeps the rest until there is room again.
            was_whole = meta.condition_is(group, "PodGroupInitiallyScheduled")
            assert whole or was_whole, f"{name}: {bound} of {minimum}"

    async def _what_is_pending_does_not_fit(self) -> None:
        """A scheduler that begins from nothing finds nothing to do."""
        before = await self._places()
        await self.crash()
        await self.world.settle(300)
        assert await self._places() == before

    # -- means -----------------------------------------------------------------------------------------

    async def _places(self) -> dict[str, str]:
        return {meta.name(pod): pod["spec"].get("nodeName", "") for pod in await self._pods()}

    async def _pods(self) -> list[Object]:
        listed = (await self.world.verbs.list(PODS, "default")).items
        return [pod for pod in listed if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]

    async def _end(self, pod: Object) -> None:
        with _gone_is_fine():
            await self.world.patch(PODS, meta.name(pod), {"status": {"phase": "Succeeded"}}, status=True)

    async def _delete(self, pod: Object) -> None:
        with _gone_is_fine():
            await self.world.delete(PODS, meta.name(pod), grace=0)

    def _name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def _priority(self) -> int:
        return PRIORITIES[self.rng.below(len(PRIORITIES))]

    def _pick(self, things: list[T]) -> T:
        return things[self.rng.below(len(things))]


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    """Between looking and acting the scheduler may have evicted a pod."""
    try:
        yield
    except ApiError as error:
        if error.code != 404:
            raise


def _group(pod: Object) -> str:
    return (pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")


@pytest.mark.parametrize("seed", range(6))
@in_virtual_time
async def test_the_invariants_hold_whatever_happens(
    world: SchedulerPlane, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    life = Life(world, seed)
    await life.begin()
    for number in range(60):
        await life.step()
        if number % 20 == 19:
            await life.quiet()
            await life.check()
    assert not [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
