"""Bindings that fail, and schedulers that end in the middle of a gang."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import NODES, PODS, Object, Resource
from echelon.api.verbs import Patch, Verbs, WatchEvent, WriteOptions
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time
from tests.integration.altered_api import AlteredApi

SCHEDULED = ("True", "Scheduled", "")


class Unreliable(AlteredApi):
    """An API whose bindings go wrong as told: pod name -> what its next bindings end in."""

    def __init__(self, verbs: Verbs, trouble: dict[str, list[Exception]], *, lost_answer: bool = False) -> None:
        super().__init__(verbs)
        self._trouble = trouble
        self._lost_answer = lost_answer
        self.calls: Counter[str] = Counter()

    async def bind(
        self, namespace: str, pod: str, node: str, *, uid: str = "", options: WriteOptions = WriteOptions()
    ) -> None:
        self.calls[pod] += 1
        if self._trouble.get(pod):
            if self._lost_answer:
                await self._verbs.bind(namespace, pod, node, uid=uid, options=options)
            raise self._trouble[pod].pop(0)
        await self._verbs.bind(namespace, pod, node, uid=uid, options=options)


class Slow(AlteredApi):
    """An API that takes its time over explanations: by the time one is written, things may have changed."""

    def __init__(self, verbs: Verbs, seconds: float) -> None:
        super().__init__(verbs)
        self._seconds = seconds

    async def patch(self, resource: Resource, name: str, patch: Patch, *where: str) -> Object:
        await asyncio.sleep(self._seconds)
        return await self._verbs.patch(resource, name, patch, *where)  # type: ignore[arg-type]


@in_virtual_time
async def test_an_explanation_that_comes_late_does_not_overwrite_a_binding(world: SchedulerPlane) -> None:
    await _restart(world, Slow(world.acting, 2.0))
    await world.create(make_node("n1", cpu=1), make_pod("blocker", node="n1"))
    names = [f"p{n}" for n in range(40)]
    await world.create(*(make_pod(name) for name in names))
    await world.settle(1)
    await world.create(make_node("n2", cpu=40))
    await world.settle(60)
    for name in names:
        pod = await world.pod(name) or {}
        assert meta.condition_is(pod, "PodScheduled"), name


async def _restart(world: SchedulerPlane, api: Any) -> None:
    await world.restart(api)


REFUSALS = [ApiError(409, "Conflict", "no"), ApiError(500, "InternalError", "broken"), OSError("connection lost")]


@pytest.mark.conformance("SCH-36", "SCH-37", "SCH-38", "SCH-39")
@pytest.mark.parametrize("refusal", REFUSALS, ids=["conflict", "server error", "no answer"])
@pytest.mark.parametrize(("gang", "pods"), [(2, 2), (None, 2), (1, 1), (None, 1)])
@in_virtual_time
async def test_a_member_whose_binding_fails_is_placed_again(
    world: SchedulerPlane, refusal: Exception, gang: int | None, pods: int
) -> None:
    await _restart(world, Unreliable(world.acting, {"p0": [refusal]}))
    await world.create(make_node("n1"), make_pod_group("g", gang=gang))
    names = await world.pods("g", "p", pods)
    await world.settle()
    assert await world.scheduled(*names)
    assert await world.condition("g") == SCHEDULED


@pytest.mark.conformance("SCH-40", "SCH-41")
@pytest.mark.parametrize("gang", [1, None])
@in_virtual_time
async def test_a_failed_binding_beside_a_member_that_does_not_fit(world: SchedulerPlane, gang: int | None) -> None:
    await _restart(world, Unreliable(world.acting, {"p1": [ApiError(409, "Conflict", "no")]}))
    await world.create(make_node("n1", cpu=2), make_pod("p1", group="g", cpu=2), make_pod("p2", group="g", cpu=4))
    await world.create(make_pod_group("g", gang=gang))
    await world.settle()
    assert await world.scheduled("p1")
    assert await world.unscheduled("p2")
    await world.create(make_node("n2", cpu=6))
    await world.settle(1)
    assert await world.scheduled("p1", "p2")


@in_virtual_time
async def test_a_binding_whose_answer_was_lost_counts_and_is_not_repeated(world: SchedulerPlane) -> None:
    api = Unreliable(world.acting, {"p0": [OSError("connection lost")]}, lost_answer=True)
    await _restart(world, api)
    await world.create(make_node("n1", cpu=1), make_pod("p0"), make_pod("p1"))
    await world.settle()
    assert await world.nodes("p0", "p1") == ["n1", ""]
    assert api.calls == {"p0": 1}


@in_virtual_time
async def test_pods_whose_bindings_are_refused_do_not_chase_each_other(world: SchedulerPlane) -> None:
    """The room that one gives back is no reason for the other to try at once, and so on without end."""
    trouble: dict[str, list[Exception]] = {name: [OSError("refused")] * 1000 for name in ("p0", "p1")}
    api = Unreliable(world.acting, trouble)
    await _restart(world, api)
    await world.create(make_node("n1", cpu=1), make_pod("p0"), make_pod("p1"))
    await world.settle(60)
    assert 10 <= api.calls.total() <= 130
    trouble.clear()
    await world.settle(60)
    assert await world.nodes("p0", "p1") == ["n1", ""]


class Mute(AlteredApi):
    """An API that does what it is asked to about pods and, unless it `speaks`, says nothing of it."""

    def __init__(self, verbs: Verbs) -> None:
        super().__init__(verbs)
        self.speaks = asyncio.Event()
        self.speaks.set()

    async def bind(self, *where: str, **more: Any) -> None:
        await self._verbs.bind(*where, **more)
        self._answer()

    async def get(self, *what: Any) -> Object:
        self._answer()
        return await self._verbs.get(*what)

    def _answer(self) -> None:
        if not self.speaks.is_set():
            raise TimeoutError

    async def watch(self, resource: Resource, *where: Any, **more: Any) -> AsyncIterator[WatchEvent]:
        async for event in self._verbs.watch(resource, *where, **more):
            if resource is PODS:
                await self.speaks.wait()
            yield event


@in_virtual_time
async def test_a_place_is_held_until_the_api_says_whether_the_binding_took_place(world: SchedulerPlane) -> None:
    api = Mute(world.acting)
    await _restart(world, api)
    await world.create(make_pod("p0"), make_pod("p1"))
    await world.settle(1)
    api.speaks.clear()
    await world.create(make_node("n1", cpu=1))
    for _ in range(2):
        await world.settle(20)
        assert await world.nodes("p0", "p1") == ["n1", ""]
        api.speaks.set()


@in_virtual_time
async def test_a_gang_that_loses_its_room_while_binding_releases_what_it_holds(world: SchedulerPlane) -> None:
    """The second member's binding fails and another pod gets the room first: the gang must not stay half bound."""
    await _restart(world, Unreliable(world.acting, {"p1": [ApiError(409, "Conflict", "no")]}))
    await world.create(make_node("n1", cpu=2), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2)
    await world.settle(0.1)
    await world.create(make_pod("thief", node="n1"))
    await world.settle()
    assert await world.gone("p0")
    assert await world.nodes("p1") == [""]


@in_virtual_time
async def test_a_gang_half_bound_by_a_crash_is_completed(world: SchedulerPlane) -> None:
    await world.stop()
    await world.create(make_node("n1"), make_pod_group("g", gang=3))
    names = await world.pods("g", "p", 3)
    await world.verbs.bind("default", "p0", "n1")
    world.start()
    await world.settle()
    assert await world.scheduled(*names)
    assert await world.condition("g") == SCHEDULED


@in_virtual_time
async def test_a_gang_half_bound_by_a_crash_that_cannot_be_completed_is_released(world: SchedulerPlane) -> None:
    await world.stop()
    await world.create(make_node("n1", cpu=2), make_composite("root", gang=2))
    await world.create(make_pod_group("a", gang=2, parent="root"), make_pod_group("b", gang=2, parent="root"))
    await world.pods("a", "a", 2)
    await world.pods("b", "b", 2)
    for name in ("a0", "a1"):
        await world.verbs.bind("default", name, "n1")
    world.start()
    await world.settle()
    assert await world.gone("a0", "a1")


@pytest.mark.parametrize("mode", ["single", "all"])
@in_virtual_time
async def test_a_gang_that_never_ran_releases_what_it_holds_although_the_rest_of_its_tree_runs(
    world: SchedulerPlane, mode: Literal["single", "all"]
) -> None:
    await world.stop()
    await world.create(make_node("n1", cpu=3), make_composite("root", gang=1, mode=mode))
    await world.create(make_pod_group("a", gang=2, parent="root"), make_pod_group("b", gang=2, parent="root"))
    await world.pods("a", "a", 2)
    await world.pods("b", "b", 2)
    for name in ("a0", "a1", "b0"):
        await world.verbs.bind("default", name, "n1")
    world.start()
    await world.settle()
    assert await world.gone("b0")
    assert await world.scheduled("a0", "a1")


@in_virtual_time
async def test_a_gang_bound_just_before_a_crash_gets_its_condition_afterwards(world: SchedulerPlane) -> None:
    await world.stop()
    await world.create(make_node("n1"), make_pod_group("g", gang=2))
    for name in await world.pods("g", "p", 2):
        await world.verbs.bind("default", name, "n1")
    world.start()
    await world.settle(1)
    assert await world.condition("g") == SCHEDULED


@pytest.mark.parametrize("moment", range(1, 40, 3))
@in_virtual_time
async def test_a_crash_at_any_moment_leaves_gangs_whole_after_restart(world: SchedulerPlane, moment: int) -> None:
    """`moment` steps of the event loop after the pods were created the scheduler is gone, mid-binding or not."""
    await world.create(*(make_node(f"n{n}", cpu=2) for n in range(8)))
    groups = [f"g{n}" for n in range(4)]
    for group in groups:
        await world.create(make_pod_group(group, gang=4))
        await world.pods(group, f"{group}-", 3)
    await world.settle()
    for group in groups:
        await world.verbs.create(PODS, make_pod(f"{group}-3", group=group), "default")
    for _ in range(moment):
        await asyncio.sleep(0)
    await world.restart()
    await world.settle()
    for group in groups:
        assert await world.scheduled(*(f"{group}-{n}" for n in range(4)))
        assert await world.condition(group) == SCHEDULED


@pytest.mark.conformance("SCH-E17")
@in_virtual_time
async def test_the_survivor_of_a_gang_that_is_disrupted_singly_stays(world: SchedulerPlane) -> None:
    await _anchored_gang(world, "single")
    assert (await world.nodes("p0"))[0] == "r1-0"
    assert await world.unscheduled("again0", "again1", "again2")


@pytest.mark.conformance("SCH-E17")
@in_virtual_time
async def test_the_survivor_of_a_gang_that_is_disrupted_whole_is_released(world: SchedulerPlane) -> None:
    await _anchored_gang(world, "all")
    assert await world.gone("p0")
    await world.pods("g", "last", 1)
    await world.settle(1)
    assert all(node.startswith("r2-") for node in await world.nodes("again0", "again1", "again2", "last0"))


async def _anchored_gang(world: SchedulerPlane, mode: Any) -> None:
    """A gang of 4 in rack r1 loses three members and their nodes; r2 has room for all, r1 only for two more."""
    rack = "topology.kubernetes.io/rack"
    await world.create(*(make_node(f"r1-{n}", cpu=1, rack="r1") for n in range(4)))
    await world.create(make_pod_group("g", gang=4, key=rack, mode=mode))
    names = await world.pods("g", "p", 4)
    await world.settle(1)
    assert await world.nodes("p0") == ["r1-0"]
    await world.delete(PODS, *names[1:])
    await world.delete(NODES, "r1-3")
    await world.create(*(make_node(f"r2-{n}", cpu=1, rack="r2") for n in range(8)))
    await world.pods("g", "again", 3)
    await world.settle()


@in_virtual_time
async def test_a_pod_deleted_while_its_binding_is_on_the_way_leaves_no_trace(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=1), make_pod_group("g", gang=1))
    await world.verbs.create(PODS, make_pod("p", group="g"), "default")
    await world.verbs.delete(PODS, "p", "default")
    await world.create(make_pod("next"))
    await world.settle()
    assert await world.nodes("next") == ["n1"]
    assert (await world.condition("g"))[2].startswith("waiting for pods: 0 of 1 exist")


@in_virtual_time
async def test_a_node_that_vanishes_takes_no_more_pods(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=4), make_pod("p0"))
    await world.settle(1)
    await world.delete(NODES, "n1")
    await world.create(make_pod("p1"))
    await world.settle()
    assert await world.unscheduled("p1")
    await world.create(make_node("n1", cpu=2))
    await world.settle(1)
    assert await world.scheduled("p1")
    await world.create(make_pod("p2"))
    await world.settle()
    assert await world.unscheduled("p2"), "p0 still holds a CPU of the node that came back"
