"""Flat PodGroups through the real API: gangs and basic groups, mostly on one node of 4 CPUs."""

from __future__ import annotations

import pytest

from echelon.api.scheme import POD_GROUPS, PODS
from echelon.testing.builders import make_budget, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

SCHEDULED = ("True", "Scheduled", "")


def _is_unschedulable(condition: tuple[str, str, str]) -> bool:
    return condition[:2] == ("False", "Unschedulable") and bool(condition[2])


@pytest.mark.conformance("SCH-1", "SCH-2")
@in_virtual_time
async def test_a_gang_that_fits_is_placed_and_takes_in_later_members(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=3))
    await world.pods("g", "p", 3)
    await world.settle()
    assert await world.scheduled("p0", "p1", "p2")
    assert await world.condition("g") == SCHEDULED
    await world.pods("g", "p", 1, first=3)
    await world.settle()
    assert await world.scheduled("p3")


@pytest.mark.conformance("SCH-3", "SCH-202")
@in_virtual_time
async def test_a_gang_below_its_quorum_waits_and_says_for_what(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=3))
    await world.pods("g", "p", 2)
    await world.settle()
    assert await world.nodes("p0", "p1") == ["", ""]
    fix = "fix: create 1 more pod with spec.schedulingGroup.podGroupName g"
    lower = "or lower its spec.schedulingPolicy.gang.minCount to 2"
    waiting = f"waiting for pods: 2 of 3 exist; {fix}, {lower}"
    assert await world.condition("g") == ("False", "Unschedulable", waiting)
    assert await world.message("p0") == f"PodGroup/g is {waiting}"
    await world.pods("g", "p", 1, first=2)
    await world.settle(1)
    assert await world.scheduled("p0", "p1", "p2")


@pytest.mark.conformance("SCH-4")
@in_virtual_time
async def test_pods_wait_for_their_group_then_for_room(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod("blocker", cpu=2))
    await world.pods("g", "p", 3)
    await world.settle()
    assert (await world.message("p0")).startswith("waiting for PodGroup/g, the group of its pods, to be created; fix")
    await world.create(make_pod_group("g", gang=3))
    await world.settle()
    assert await world.unscheduled("p0", "p1", "p2")
    assert _is_unschedulable(await world.condition("g"))
    await world.delete(PODS, "blocker")
    await world.settle(1)
    assert await world.scheduled("p0", "p1", "p2")
    assert await world.condition("g") == SCHEDULED


@pytest.mark.conformance("SCH-5")
@in_virtual_time
async def test_members_beyond_the_minimum_come_when_there_is_room(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod("blocker", cpu=1))
    names = await world.pods("g", "p", 4)
    await world.create(make_pod_group("g", gang=3))
    await world.settle()
    assert sorted(await world.nodes(*names)) == ["", "n1", "n1", "n1"]
    await world.delete(PODS, "blocker")
    await world.settle(1)
    assert await world.scheduled(*names)


@pytest.mark.conformance("SCH-6", "SCH-7")
@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
@in_virtual_time
async def test_of_two_gangs_whose_pods_come_interleaved_one_is_placed_whole(
    world: SchedulerPlane, first: str, second: str
) -> None:
    await world.create(make_node("n1"), make_pod_group("a", gang=3), make_pod_group("b", gang=3))
    for number in range(3):
        await world.create(make_pod(f"{first}{number}", group=first), make_pod(f"{second}{number}", group=second))
    await world.settle()
    assert await world.scheduled(*(f"{first}{n}" for n in range(3)))
    assert await world.unscheduled(*(f"{second}{n}" for n in range(3)))


@pytest.mark.conformance("SCH-8")
@in_virtual_time
async def test_a_single_pod_and_a_gang_do_not_block_each_other(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=3), make_pod("single", cpu=2))
    await world.pods("g", "p", 3)
    await world.settle()
    assert await world.scheduled("single")
    assert await world.unscheduled("p0", "p1", "p2")


@pytest.mark.conformance("SCH-9", "SCH-203")
@in_virtual_time
async def test_members_of_a_basic_group_are_placed_as_they_come(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("g"))
    for number in range(3):
        await world.pods("g", "p", 1, first=number)
        await world.settle(1)
        assert await world.scheduled(f"p{number}")


@pytest.mark.conformance("SCH-10")
@in_virtual_time
async def test_a_basic_group_is_placed_as_far_as_it_fits(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod("blocker", cpu=2))
    names = await world.pods("g", "p", 3)
    await world.create(make_pod_group("g"))
    await world.settle()
    assert sorted(await world.nodes(*names)) == ["", "n1", "n1"]
    await world.delete(PODS, "blocker")
    await world.settle(1)
    assert await world.scheduled(*names)


@pytest.mark.conformance("SCH-11")
@in_virtual_time
async def test_a_basic_group_evicts_a_lower_priority(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod("low", cpu=2, priority=10), make_pod_group("g", priority=100))
    await world.settle(1)
    names = await world.pods("g", "p", 4, priority=100)
    await world.settle()
    assert await world.scheduled(*names)
    assert await world.gone("low")


@pytest.mark.conformance("SCH-12")
@in_virtual_time
async def test_a_gang_evicts_for_its_minimum_and_then_for_the_rest(world: SchedulerPlane) -> None:
    lows = [f"low{n}" for n in range(4)]
    await world.create(make_node("n1"), *(make_pod(name, priority=10) for name in lows))
    await world.settle(1)
    await world.create(make_pod_group("g", gang=3, priority=100))
    names = await world.pods("g", "p", 4, priority=100)
    await world.settle(30)
    assert await world.scheduled(*names)
    assert await world.gone(*lows)
    assert await world.condition("g") == SCHEDULED


@pytest.mark.conformance("SCH-13", "SCH-14")
@pytest.mark.parametrize("key", ["", "topology.kubernetes.io/zone"])
@in_virtual_time
async def test_the_lowest_priorities_go_first(world: SchedulerPlane, key: str) -> None:
    await world.create(make_node("n1", zone="z1"))
    await world.create(*(make_pod(f"five{n}", priority=5) for n in range(2)))
    await world.create(*(make_pod(f"ten{n}", priority=10) for n in range(2)))
    await world.settle(1)
    await world.create(make_pod_group("g", gang=2, priority=50, key=key))
    await world.pods("g", "p", 2, priority=50)
    await world.settle()
    assert await world.scheduled("p0", "p1", "ten0", "ten1")
    assert await world.gone("five0", "five1")


@pytest.mark.conformance("SCH-15", "SCH-17")
@in_virtual_time
async def test_lowering_the_minimum_of_an_incomplete_gang_starts_it(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=5))
    names = await world.pods("g", "p", 4)
    await world.settle()
    await world.patch(POD_GROUPS, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 6}}}})
    await world.settle()
    assert not any(await world.nodes(*names))
    assert (await world.message("p0")).startswith("PodGroup/g is waiting for pods: 4 of 6 exist")
    await world.patch(POD_GROUPS, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}})
    await world.settle(1)
    assert await world.scheduled(*names)


@pytest.mark.conformance("SCH-16")
@in_virtual_time
async def test_lowering_the_minimum_of_a_blocked_gang_places_what_fits(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=5))
    names = await world.pods("g", "p", 5)
    await world.settle()
    assert await world.unscheduled(*names)
    await world.patch(POD_GROUPS, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}})
    await world.settle()
    assert await world.scheduled(*names[:4])
    assert await world.unscheduled(names[4])


@pytest.mark.conformance("SCH-18")
@in_virtual_time
async def test_a_victim_names_its_preemptor(world: SchedulerPlane) -> None:
    lows = [f"low{n}" for n in range(4)]
    await world.create(make_node("n1"), *(make_pod(name, priority=10) for name in lows))
    await world.settle(1)
    await world.create(make_pod_group("g", gang=3, mode="all", priority=100))
    await world.pods("g", "p", 3, priority=100)
    await world.settle()
    told = [message for name in lows for reason, message in await world.events(name) if reason == "Preempted"]
    assert len(told) == 3
    assert all(message.startswith("Preempted by podgroup default/g ") for message in told)


@pytest.mark.conformance("SCH-26")
@in_virtual_time
async def test_a_blocked_gang_grows_and_is_placed_by_a_new_node(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=2), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2, cpu=2)
    await world.settle()
    assert await world.unscheduled("p0", "p1")
    await world.pods("g", "p", 1, first=2, cpu=2)
    await world.settle()
    assert await world.unscheduled("p0", "p1", "p2")
    await world.create(make_node("n2", cpu=6))
    await world.settle(1)
    assert await world.scheduled("p0", "p1", "p2")
    await world.pods("g", "p", 1, first=3, cpu=2)
    await world.settle(1)
    assert await world.scheduled("p3")


@pytest.mark.conformance("SCH-27", "SCH-48")
@in_virtual_time
async def test_a_basic_group_goes_on_when_a_node_comes(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=2), make_pod_group("g"))
    await world.pods("g", "p", 3, cpu=2)
    await world.settle()
    assert await world.scheduled("p0")
    assert await world.unscheduled("p1", "p2")
    await world.create(make_node("n2", cpu=6))
    await world.settle(1)
    assert await world.scheduled("p1", "p2")


@pytest.mark.conformance("SCH-32", "SCH-33", "SCH-E21")
@pytest.mark.parametrize("gang", [2, None])
@in_virtual_time
async def test_a_gated_member_does_not_hold_up_its_group(world: SchedulerPlane, gang: int | None) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=gang))
    await world.create(make_pod("gated", group="g", gates=("hold",)))
    await world.pods("g", "p", 2)
    await world.settle()
    assert await world.scheduled("p0", "p1")
    assert await world.nodes("gated") == [""]
    await world.patch(PODS, "gated", {"spec": {"schedulingGates": None}})
    await world.settle(1)
    assert await world.scheduled("gated")


@pytest.mark.conformance("SCH-34", "SCH-35")
@pytest.mark.parametrize("gang", [2, None])
@in_virtual_time
async def test_a_gated_member_of_a_group_that_waits_for_room(world: SchedulerPlane, gang: int | None) -> None:
    await world.create(make_node("n1", cpu=2), make_pod_group("g", gang=gang))
    await world.pods("g", "p", 2, cpu=2)
    await world.create(make_pod("gated", group="g", cpu=2, gates=("hold",)))
    await world.settle()
    assert await world.unscheduled("p1")
    await world.create(make_node("n2", cpu=6))
    await world.patch(PODS, "gated", {"spec": {"schedulingGates": None}})
    await world.settle(1)
    assert await world.scheduled("p0", "p1", "gated")


@pytest.mark.conformance("SCH-29")
@in_virtual_time
async def test_members_that_come_while_others_are_placed_follow(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=2), make_node("n2", cpu=6), make_pod_group("g", gang=2))
    for number in range(3):
        await world.submit(make_pod(f"p{number}", group="g", cpu=2))
    await world.settle(1)
    assert await world.scheduled("p0", "p1", "p2")


@pytest.mark.conformance("SCH-52")
@in_virtual_time
async def test_a_new_member_starts_its_own_group_only(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("g1", gang=2))
    await world.create(make_pod("p1", group="g1"), make_pod("p2", group="g2"))
    await world.settle()
    await world.create(make_pod("p3", group="g1"))
    await world.settle(1)
    assert await world.scheduled("p1", "p3")
    assert await world.nodes("p2") == [""]


@in_virtual_time
async def test_a_gang_whose_quorum_needs_the_gated_member_waits_for_it(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=2))
    await world.create(make_pod("gated", group="g", gates=("hold",)), make_pod("free", group="g"))
    await world.settle()
    assert await world.nodes("gated", "free") == ["", ""]
    await world.patch(PODS, "gated", {"spec": {"schedulingGates": None}})
    await world.settle(1)
    assert await world.scheduled("gated", "free")


@pytest.mark.conformance("SCH-42", "SCH-43")
@pytest.mark.parametrize("gang", [2, None])
@in_virtual_time
async def test_a_member_of_a_deleted_group_waits_while_placed_ones_stay(
    world: SchedulerPlane, gang: int | None
) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=gang))
    await world.pods("g", "p", 2)
    await world.settle()
    await world.remove(POD_GROUPS, "g")
    await world.settle()  # watches of two kinds are not ordered: the group must be gone before the pod is seen
    await world.pods("g", "p", 1, first=2)
    await world.settle()
    assert await world.scheduled("p0", "p1")
    assert await world.nodes("p2") == [""]
    assert "waiting for PodGroup" in await world.message("p2")
    await world.create(make_pod_group("g", gang=gang))
    await world.settle(1)
    assert await world.scheduled("p2")


@pytest.mark.conformance("SCH-44", "SCH-45", "SCH-46")
@pytest.mark.parametrize("gang", [3, 4, None])
@in_virtual_time
async def test_pending_members_of_a_deleted_group_go_back_to_waiting(world: SchedulerPlane, gang: int | None) -> None:
    await world.create(make_node("n1", cpu=3), make_pod_group("g", gang=gang))
    await world.pods("g", "p", 4)
    await world.settle()
    await world.remove(POD_GROUPS, "g")
    await world.settle()
    pending = [name for name in ("p0", "p1", "p2", "p3") if await world.nodes(name) == [""]]
    assert len(pending) == (4 if gang == 4 else 1)
    for name in pending:
        assert (await world.message(name)).startswith("waiting for PodGroup/g, the group of its pods, to be created")


@in_virtual_time
async def test_the_reason_a_gang_is_given_is_renewed_within_seconds_of_a_change(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=1), make_pod_group("g", gang=4))
    await world.pods("g", "p", 4)
    await world.settle(1)
    assert "room for 1 " in (await world.condition("g"))[2]
    await world.create(make_node("n2", cpu=1))
    await world.settle(1)
    await world.create(make_node("n3", cpu=1))
    await world.settle(11)
    assert "room for 3 " in (await world.condition("g"))[2]
    await world.create(make_node("n4", cpu=1))
    await world.settle(0.5)
    assert await world.condition("g") == SCHEDULED


async def _end(world: SchedulerPlane, name: str, phase: str) -> None:
    await world.patch(PODS, name, {"status": {"phase": phase}}, status=True)


@in_virtual_time
async def test_a_replacement_late_in_a_gangs_life_need_not_wait_for_those_that_have_succeeded(
    world: SchedulerPlane,
) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=4))
    await world.pods("g", "p", 4)
    await world.settle(1)
    for name in ("p0", "p1"):
        await _end(world, name, "Succeeded")
    await _end(world, "p2", "Failed")
    await world.pods("g", "again", 1)
    await world.settle(2)
    assert await world.scheduled("again0")
    assert world.scheduler is not None
    assert world.scheduler.inconsistencies() == []


@in_virtual_time
async def test_members_that_have_failed_or_are_gone_do_not_count(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("g", gang=4))
    await world.pods("g", "p", 4)
    await world.settle(1)
    await _end(world, "p0", "Succeeded")
    await _end(world, "p1", "Failed")
    await world.delete(PODS, "p2")
    await world.pods("g", "again", 1)
    await world.settle()
    assert (await world.message("again0")).startswith("PodGroup/g is waiting for pods: 2 of 3 exist")
    await world.delete(PODS, "p0")
    await world.settle()
    assert (await world.message("again0")).startswith("PodGroup/g is waiting for pods: 2 of 4 exist")


@in_virtual_time
async def test_a_second_wave_that_is_large_enough_is_a_gang_like_the_first(world: SchedulerPlane) -> None:
    """There is room for two of three newcomers, and the minimum is three."""
    await world.create(make_node("n1"), make_pod_group("g", gang=3))
    await world.pods("g", "p", 3)
    await world.settle(1)
    for name in ("p0", "p1", "p2"):
        await _end(world, name, "Succeeded")
    await world.create(make_pod("blocker", cpu=2))
    await world.settle(1)
    for pod in [make_pod(f"again{n}", group="g") for n in range(3)]:
        await world.submit(pod)
    await world.settle()
    assert await world.unscheduled("again0", "again1", "again2")


@pytest.mark.conformance("SCH-53")
@in_virtual_time
async def test_a_new_group_starts_its_own_pods_only(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod("p1", group="g1"), make_pod("p2", group="g2"))
    await world.create(make_pod_group("g1", gang=1))
    await world.settle()
    assert await world.scheduled("p1")
    assert await world.nodes("p2") == [""]


@in_virtual_time
async def test_what_placement_cannot_honour_keeps_the_pod_pending_by_name_of_the_field(world: SchedulerPlane) -> None:
    disk = [{"name": "data", "csi": {"driver": "disks.example.com"}}]
    await world.create(make_node("n1"), make_pod("p", volumes=disk))
    await world.settle()
    assert await world.unscheduled("p")
    assert "spec.volumes[0].csi" in await world.message("p")


@pytest.mark.conformance("SCH-125")
@in_virtual_time
async def test_pods_under_a_disruption_budget_are_spared(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=3), make_budget("keep", {"app": "low"}, min_available=2))
    await world.create(*(make_pod(f"low{n}", priority=10, labels={"app": "low"}) for n in range(2)))
    await world.create(make_pod("low2", priority=10))
    await world.settle(1)
    await world.create(make_pod_group("g", gang=2, priority=100))
    await world.pods("g", "p", 2, cpu="500m", priority=100)
    await world.settle()
    assert await world.scheduled("p0", "p1", "low0", "low1")
    assert await world.gone("low2")


@in_virtual_time
async def test_a_pod_of_another_scheduler_is_left_alone_but_counted(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=2), make_pod("theirs", schedulerName="other"))
    await world.create(make_pod("fixed", node="n1", schedulerName="other"))
    await world.create(make_pod("big", cpu=2), make_pod("small", cpu=1))
    await world.settle()
    assert await world.nodes("theirs", "big", "small") == ["", "", "n1"]
    assert await world.reason("theirs") == ""


@in_virtual_time
async def test_a_group_that_waits_for_gates_names_them(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=4), make_pod_group("g", gang=3), make_pod("free", group="g"))
    await world.create(*(make_pod(f"gated{n}", group="g", gates=("quota", "data")) for n in range(2)))
    await world.settle()
    said = "1 of 3 exist without scheduling gates, 2 more have the scheduling gates data, quota"
    assert said in (await world.condition("g"))[2]
    assert said in await world.message("free")
    await world.patch(PODS, "gated0", {"spec": {"schedulingGates": None}})
    await world.settle()
    said = "2 of 3 exist without scheduling gates, 1 more has the scheduling gates data, quota"
    assert said in (await world.condition("g"))[2]
