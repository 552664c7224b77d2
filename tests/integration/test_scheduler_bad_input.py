"""What people and servers get wrong: a clear word about it, patience, and no need to start anything again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from echelon.api.errors import ApiError, expired
from echelon.api.objects.vocabulary import HOSTNAME, RACK
from echelon.api.scheme import COMPOSITE_POD_GROUPS, EVENTS, NODES, POD_GROUPS, PODS, Resource
from echelon.api.verbs import Verbs, WatchEvent, WatchOptions
from echelon.base.clock import Clock
from echelon.engine import Demand
from echelon.scheduler.queueing.root_state import RootState
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time
from tests.integration.altered_api import AlteredApi

SCHEDULED = ("True", "Scheduled", "")


@in_virtual_time
async def test_a_root_that_the_scheduler_fails_on_is_set_aside_with_an_event_and_tried_again(
    world: SchedulerPlane,
) -> None:
    await world.create(make_node("n1"))
    await world.settle(1)
    assert world.scheduler is not None
    assert world.caches is not None
    readiness = world.scheduler._readiness
    ask = readiness.demand
    broken = True

    def fails(state: RootState) -> Demand | None:
        if broken and state.root.path in ("default/odd", "default/g"):
            raise ZeroDivisionError("no such thing")
        return ask(state)

    readiness.demand = fails  # type: ignore[method-assign]
    await world.create(make_pod("odd"), make_pod_group("g", gang=1), make_pod("p", group="g"), make_pod("bystander"))
    await world.settle()
    assert await world.scheduled("bystander")
    told = [
        (event["involvedObject"]["kind"], event["involvedObject"]["name"], event["type"], event["message"])
        for event in (await world.verbs.list(EVENTS, "default")).items
        if event["reason"] == "SetAside"
    ]
    why = "scheduler cannot process this object and leaves it aside: ZeroDivisionError: no such thing"
    assert sorted(told) == [("Pod", "odd", "Warning", why), ("PodGroup", "g", "Warning", why)]
    broken = False
    world.caches.set_aside.errors.clear()
    await world.settle(60)
    assert await world.scheduled("odd", "p")


# -- people --------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_group_whose_parent_does_not_exist_says_so_and_goes_on_when_it_does(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=2, parent="nobody"))
    await world.pods("g", "p", 2)
    await world.settle()
    status, reason, message = await world.condition("g")
    assert (status, reason) == ("False", "Unschedulable")
    assert "CompositePodGroup/nobody" in message
    await world.create(make_composite("nobody", gang=1))
    await world.settle(1)
    assert await world.scheduled("p0", "p1")


@in_virtual_time
async def test_a_group_whose_workload_does_not_exist_is_placed_all_the_same(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=2, workload="nobody", template="t"))
    await world.pods("g", "p", 2)
    await world.settle(1)
    assert await world.scheduled("p0", "p1")


@in_virtual_time
async def test_pods_whose_group_is_deleted_wait_for_it_and_say_so(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=1), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2)
    await world.settle()
    await world.remove(POD_GROUPS, "g")
    await world.settle()
    assert await world.message("p0") == (
        "waiting for PodGroup/g, the group of its pods, to be created; fix: create PodGroup g"
    )
    await world.create(make_pod_group("g", gang=1))
    await world.settle(1)
    assert sorted(await world.nodes("p0", "p1")) == ["", "n1"]


@in_virtual_time
async def test_a_tree_whose_root_is_deleted_waits_for_it_and_says_so(world: SchedulerPlane) -> None:
    await world.create(
        make_node("n1", cpu=1), make_composite("root", gang=1), make_pod_group("g", gang=2, parent="root")
    )
    await world.pods("g", "p", 2)
    await world.settle()
    await world.remove(COMPOSITE_POD_GROUPS, "root")
    await world.settle()
    assert "CompositePodGroup/root" in await world.message("p0")


@in_virtual_time
async def test_a_minimum_above_the_members_says_how_many_are_missing(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_composite("root", gang=3), make_pod_group("a", gang=9, parent="root"))
    await world.pods("a", "a", 2)
    await world.settle()
    assert (await world.condition("a"))[2].startswith("waiting for pods: 2 of 9 exist; fix: create 7 more pods")
    assert (await world.condition("root"))[2].startswith("waiting for child groups: 0 of 3 are complete")


def _near_and_far() -> dict[str, Any]:
    """Beside pods of a kind, and not beside them."""
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOSTNAME}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAffinity": required, "podAntiAffinity": required}, "labels": {"app": "x"}}


def _two_places() -> dict[str, Any]:
    """On a node that is two nodes."""
    wanted = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n2"]}]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}}
    return {"affinity": {"nodeAffinity": terms}, "nodeSelector": {HOSTNAME: "n1"}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (_near_and_far(), "(near app=x on the same node) and spec.affinity.podAntiAffinity."),
        (_two_places(), "spec.nodeSelector (kubernetes.io/hostname=n1) and spec.affinity.nodeAffinity."),
    ],
)
@in_virtual_time
async def test_constraints_that_contradict_each_other_are_named(
    world: SchedulerPlane, spec: dict[str, Any], words: str
) -> None:
    await world.create(make_node("n1"), make_node("n2"), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2, **spec)
    await world.create(make_pod("other", cpu=1))
    await world.settle()
    assert await world.unscheduled("p0", "p1")
    assert words in (await world.condition("g"))[2]
    assert await world.scheduled("other"), "what cannot be placed holds nobody up"


@in_virtual_time
async def test_members_pinned_to_two_racks_of_a_gang_that_must_be_in_one_are_refused(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", rack="r1"), make_node("n2", rack="r2"), make_pod_group("g", gang=2, key=RACK))
    for number in (1, 2):
        await world.create(make_pod(f"p{number}", group="g", nodeSelector={HOSTNAME: f"n{number}"}))
    await world.settle()
    assert await world.unscheduled("p1", "p2")
    assert "in one rack" in (await world.condition("g"))[2]


# -- nodes ---------------------------------------------------------------------------------------------------


class Vanishing(AlteredApi):
    """An API on which a node is removed at the very moment a pod is to be bound to it."""

    def __init__(self, world: SchedulerPlane, node: str) -> None:
        super().__init__(world.acting)
        self._world = world
        self._node = node
        self.bound_to: list[str] = []

    async def bind(self, namespace: str, pod: str, node: str, **more: Any) -> None:
        self.bound_to.append(node)
        if node == self._node:
            self._node = ""
            await self._world.delete(NODES, node)
            raise ApiError(404, "NotFound", f'nodes "{node}" not found')
        await self._verbs.bind(namespace, pod, node, **more)


@in_virtual_time
async def test_members_go_elsewhere_when_their_node_vanishes_while_they_are_bound(world: SchedulerPlane) -> None:
    await world.restart(Vanishing(world, "n1"))
    await world.create(*(make_node(f"n{n}", cpu=1) for n in range(3)), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2)
    await world.settle()
    assert sorted(await world.nodes("p0", "p1")) == ["n0", "n2"]
    assert await world.condition("g") == SCHEDULED


@in_virtual_time
async def test_no_pod_is_bound_to_a_node_that_is_known_to_be_gone(world: SchedulerPlane) -> None:
    """Between a decision and its last binding a node can go; on a real server such a binding would be accepted."""
    api = Held(world.acting)
    await world.restart(api)
    names = [f"p{n}" for n in range(100)]
    await world.create(make_node("n1", cpu=100))
    for name in names:
        await world.submit(make_pod(name))
    await world.settle(1)
    under_way = len(api.asked)
    assert 0 < under_way < len(names), "the others are in line"
    await world.delete(NODES, "n1")
    await world.settle(1)
    api.gate.set()
    await world.settle()
    assert len(api.asked) == under_way


class Held(AlteredApi):
    """An API that does not answer bindings before it is told to."""

    def __init__(self, verbs: Verbs) -> None:
        super().__init__(verbs)
        self.gate = asyncio.Event()
        self.asked: list[str] = []

    async def bind(self, namespace: str, pod: str, node: str, **more: Any) -> None:
        self.asked.append(pod)
        await self.gate.wait()
        raise ApiError(404, "NotFound", f'nodes "{node}" not found')


@in_virtual_time
async def test_a_node_that_vanishes_while_room_is_made_on_it_is_given_up(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=1), make_pod("low", priority=1, grace=30))
    await world.settle(1)
    await world.create(make_pod("high", priority=100))
    await world.settle(1)
    assert ((await world.pod("high")) or {})["status"].get("nominatedNodeName") == "n1"
    await world.delete(NODES, "n1")
    await world.create(make_node("n2", cpu=1))
    await world.settle(2)
    assert await world.nodes("high") == ["n2"]


# -- servers -------------------------------------------------------------------------------------------------


class Outage:
    """An API that fails every call in one way for a minute, watches included, and is well again afterwards."""

    #: After so long a client gives a call up.
    _CALL_SECONDS = 30.0

    def __init__(self, verbs: Verbs, clock: Clock, code: int) -> None:
        self._verbs = verbs
        self._clock = clock
        self._code = code
        self._until = 0.0
        self._broken = asyncio.Event()
        self.refused = 0

    def begin(self) -> None:
        self._until = self._clock.now() + 60
        self._broken.set()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._verbs, name)

        async def tried(*args: Any, **more: Any) -> Any:
            await self._fail()
            return await call(*args, **more)

        return tried

    async def _fail(self) -> None:
        if self._clock.now() >= self._until:
            self._broken.clear()
            return
        self.refused += 1
        if not self._code:
            await self._clock.sleep(self._CALL_SECONDS)
            raise TimeoutError
        raise expired("too old") if self._code == 410 else ApiError(self._code, "Trouble", "not now")

    async def watch(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncGenerator[WatchEvent, None]:
        await self._fail()
        async with aclosing(self._verbs.watch(resource, namespace, options)) as events:
            while (event := await self._next(events)) is not None:
                yield event

    async def _next(self, events: AsyncGenerator[WatchEvent, None]) -> WatchEvent | None:
        """The next event, or the trouble if that comes first."""
        coming = asyncio.ensure_future(anext(events, None))
        broken = asyncio.ensure_future(self._broken.wait())
        try:
            await asyncio.wait({coming, broken}, return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                await self._fail()
            return coming.result() if coming.done() else None
        finally:
            coming.cancel()
            broken.cancel()
            await asyncio.gather(coming, broken, return_exceptions=True)


@pytest.mark.parametrize("code", [409, 410, 429, 500, 0], ids=["409", "410", "429", "500", "nothing"])
@in_virtual_time
async def test_a_minute_of_trouble_is_outlived(world: SchedulerPlane, code: int) -> None:
    """A preemption and a gang are under way when it begins, more comes meanwhile; afterwards all is as it should be."""
    api = Outage(world.acting, world.clock, code)
    await world.restart(api)
    await world.create(*(make_node(f"n{n}", cpu=2) for n in range(3)), make_pod("low", cpu=2, priority=1))
    await world.settle(1)
    for obj in [make_pod_group("g", gang=4, priority=9), *(make_pod(f"g{n}", group="g", priority=9) for n in range(4))]:
        await world.submit(obj)
    api.begin()
    await world.submit(make_pod("high", cpu=2, priority=100))
    await world.create(make_pod_group("waits", gang=3))
    await world.pods("waits", "w", 2)
    await world.settle(50)
    assert not await world.scheduled("high")
    assert 3 <= api.refused <= 400, "it keeps trying, and not all the time"
    await world.settle(100)
    assert await world.scheduled("g0", "g1", "g2", "g3", "high")
    assert await world.gone("low")
    assert await world.condition("g") == SCHEDULED
    assert (await world.message("w0")).startswith("PodGroup/waits is waiting for pods: 2 of 3 exist")
    assert world.scheduler is not None
    assert world.scheduler.inconsistencies() == []


@pytest.mark.parametrize("resource", [PODS, POD_GROUPS, NODES], ids=lambda resource: str(resource.plural))
@in_virtual_time
async def test_a_watch_of_one_kind_that_stays_silent_is_caught_up_with(
    world: SchedulerPlane, resource: Resource
) -> None:
    """Only one kind lags: nothing is decided on half of the truth for good."""
    api = Lagging(world.acting, resource)
    await world.restart(api)
    await world.settle(1)
    api.held.clear()
    await world.create(make_node("n1"), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2)
    await world.settle(30)
    api.held.set()
    await world.settle()
    assert await world.scheduled("p0", "p1")
    assert await world.condition("g") == SCHEDULED


class Lagging(AlteredApi):
    """An API whose watch of one kind can be held up."""

    def __init__(self, verbs: Verbs, resource: Resource) -> None:
        super().__init__(verbs)
        self._resource = resource
        self.held = asyncio.Event()
        self.held.set()

    async def watch(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncGenerator[WatchEvent, None]:
        async with aclosing(self._verbs.watch(resource, namespace, options)) as events:
            async for event in events:
                if resource is self._resource:
                    await self.held.wait()
                yield event
