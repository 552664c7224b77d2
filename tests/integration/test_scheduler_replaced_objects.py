"""What disappears, comes back under its name or changes hands while the scheduler is at work on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from echelon.api.objects.vocabulary import EVICTED_BY
from echelon.api.scheme import POD_GROUPS, PODS
from echelon.api.verbs import Verbs, WriteOptions
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time
from tests.integration.altered_api import AlteredApi


class Interfering(AlteredApi):
    """An API where something is done to a pod while its binding is on its way."""

    def __init__(self, verbs: Verbs, deeds: dict[str, Any]) -> None:
        super().__init__(verbs)
        self._deeds = deeds
        self.calls: list[tuple[str, str]] = []

    async def bind(
        self, namespace: str, pod: str, node: str, *, uid: str = "", options: WriteOptions = WriteOptions()
    ) -> None:
        self.calls.append((pod, node))
        deed = self._deeds.pop(pod, None)
        if deed is not None:
            await deed()
            await asyncio.sleep(0.5)  # The news of it comes before the answer.
        await self._verbs.bind(namespace, pod, node, uid=uid, options=options)


async def _through(world: SchedulerPlane, deeds: dict[str, Any]) -> Interfering:
    api = Interfering(world.verbs, deeds)
    await world.restart(api)
    await world.settle(1)
    return api


@in_virtual_time
async def test_a_pod_that_another_scheduler_binds_is_left_to_it(world: SchedulerPlane) -> None:
    async def snatch() -> None:
        await world.verbs.bind("default", "p", "n2")

    api = await _through(world, {"p": snatch})
    await world.create(make_node("n1"), make_pod("big", cpu=2, node="n1"), make_node("n2"), make_pod("p"))
    await world.settle(300)
    assert await world.nodes("p") == ["n2"]
    assert len(api.calls) == 1


@in_virtual_time
async def test_the_place_of_a_pod_that_another_scheduler_binds_elsewhere_goes_to_the_waiting_pod(
    world: SchedulerPlane,
) -> None:
    async def snatch() -> None:
        await world.settle(1.5)  # Meanwhile the other finds no room.
        await world.verbs.bind("default", "p", "n2")

    await _through(world, {"p": snatch})
    await world.create(make_node("n1", cpu=1), make_node("n2", cpu=1, unschedulable=True))
    await world.create(make_pod("p"), make_pod("waits"))
    await world.settle(2)
    assert await world.nodes("p", "waits") == ["n2", "n1"]


@in_virtual_time
async def test_a_member_deleted_while_it_is_bound_leaves_no_trace_in_its_gang(world: SchedulerPlane) -> None:
    async def delete() -> None:
        await world.delete(PODS, "p0", grace=0)

    await _through(world, {"p0": delete})
    await world.create(make_node("n1", cpu=4), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2)
    await world.settle(30)
    await world.create(make_pod("p0", group="g"))
    await world.settle(30)
    assert await world.scheduled("p0", "p1")
    assert (await world.condition("g"))[:2] == ("True", "Scheduled")
    assert world.scheduler is not None
    assert world.scheduler.inconsistencies() == []


@in_virtual_time
async def test_a_tree_mended_by_deleting_a_child_is_picked_up_at_once(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=8), make_composite("top", gang=1))
    await world.create(make_pod_group("good", gang=1, parent="top", workload="w"))
    await world.create(make_pod_group("bad", gang=1, parent="top", workload="w", priority=5))
    await world.create(make_pod("p", group="good"))
    await world.settle()
    assert (await world.condition("top"))[1] == "CompositePodGroupError"
    await world.remove(POD_GROUPS, "bad")
    await world.settle()
    assert await world.scheduled("p")


@in_virtual_time
async def test_a_group_made_anew_around_running_pods_says_that_it_is_scheduled(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=8), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2)
    await world.settle()
    await world.remove(POD_GROUPS, "g")
    await world.create(make_pod_group("g", gang=2))
    await world.settle()
    assert (await world.condition("g"))[:2] == ("True", "Scheduled")


@in_virtual_time
async def test_a_preemptor_that_is_being_deleted_gives_its_place_back(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=1), make_pod("low", priority=1))
    await world.settle()
    high = make_pod("high", priority=100)
    high["metadata"]["finalizers"] = ["example.com/slow"]
    await world.patch(PODS, "low", {"metadata": {"finalizers": ["example.com/slow"]}})
    await world.create(high)
    await world.settle(2)
    await world.delete(PODS, "high")
    await world.settle(2)
    await world.patch(PODS, "low", {"metadata": {"finalizers": None}})
    await world.create(make_pod("next", priority=1))
    await world.settle()
    assert await world.nodes("next") == ["n1"]


@in_virtual_time
async def test_a_pod_that_gets_other_labels_while_it_is_bound_is_timed_from_its_decision(world: SchedulerPlane) -> None:
    async def relabel() -> None:
        await world.patch(PODS, "p", {"metadata": {"labels": {"app": "other"}}})

    await _through(world, {"p": relabel})
    await world.create(make_node("n1"), make_pod("p"))
    await world.settle()
    assert await world.scheduled("p")
    assert world.scheduler is not None
    name, ends = "scheduler_scheduling_attempt_duration_seconds_sum", {"result": "scheduled"}
    taken = world.scheduler.metrics.registry.get_sample_value(name, {**ends, "profile": "default-scheduler"})
    assert taken == 0.5


@pytest.mark.parametrize(("scheduler", "gone"), [("echelon", True), ("another-scheduler", False)])
@in_virtual_time
async def test_a_scheduler_that_starts_goes_on_with_evictions_of_its_own_name_only(
    world: SchedulerPlane, scheduler: str, gone: bool
) -> None:
    await world.stop()
    await world.create(make_node("n1"), make_pod("victim", node="n1"))
    # Without a time, as any client may have written it.
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    evicted_by = {"annotations": {EVICTED_BY: scheduler}}
    await world.patch(PODS, "victim", {"metadata": evicted_by, "status": {"conditions": [mark]}}, status=True)
    world.start()
    await world.create(make_pod("next"))
    await world.settle()
    assert await world.scheduled("next")
    assert await world.gone("victim") is gone


@in_virtual_time
async def test_many_waiting_pods_all_get_a_reason_and_hold_up_none_that_fits(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=4))
    for number in range(2, 32):
        await world.submit(make_pod_group(f"g{number}", gang=number))
        for member in range(number):
            await world.submit(make_pod(f"g{number}-{member}", group=f"g{number}", cpu=5))
    await world.submit(make_pod("small"))
    await world.settle()
    assert await world.nodes("small") == ["n1"]
    for number in range(2, 32):
        status, reason, message = await world.condition(f"g{number}")
        assert (status, reason) == ("False", "Unschedulable")
        assert f"{number} pods" in message, message


@in_virtual_time
async def test_a_group_made_anew_under_its_running_pods_says_so_although_more_of_it_waits(
    world: SchedulerPlane,
) -> None:
    await world.create(make_node("n1", cpu=2), make_pod_group("g", gang=2))
    await world.pods("g", "p", 3)
    await world.settle(1)
    await world.remove(POD_GROUPS, "g")
    await world.create(make_pod_group("g", gang=2))
    await world.settle(30)
    assert (await world.condition("g"))[:2] == ("True", "Scheduled")
    assert await world.unscheduled("p2")
