"""A large gang in a stream of small jobs: room is kept for it, and the others go around it."""

from __future__ import annotations

import pytest

from echelon.api.objects import vocabulary as words
from echelon.api.scheme import NODES, POD_GROUPS, PODS
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

#: A pod that ends by itself.
JOB = {"restartPolicy": "Never"}


class Stream:
    """Small jobs of one slot each: one comes and the oldest one that runs ends, again and again."""

    def __init__(self, world: SchedulerPlane, prefix: str = "s", **spec: object) -> None:
        self._world, self._prefix, self._spec = world, prefix, spec
        self.created = 0
        self.ended: list[str] = []

    @property
    def alive(self) -> list[str]:
        names = [f"{self._prefix}{number}" for number in range(self.created)]
        return [name for name in names if name not in self.ended]

    async def submit(self, count: int) -> None:
        for _ in range(count):
            await self._world.create(make_pod(f"{self._prefix}{self.created}", **JOB, **self._spec))
            self.created += 1
        await self._world.settle(0.5)

    async def end_oldest(self) -> None:
        running = [name for name in self.alive if await self._world.scheduled(name)]
        if running:
            await self._world.delete(PODS, running[0])
            self.ended.append(running[0])
        await self._world.settle(0.5)

    async def flow(self, rounds: int) -> None:
        """A newcomer every 10 s, and one that ends: whatever becomes free is wanted at once."""
        for _ in range(rounds):
            await self.submit(1)
            await self.end_oldest()
            await self._world.settle(9)


async def _nodes(world: SchedulerPlane, count: int, first: int = 0, **labels: str) -> None:
    await world.create(*(make_node(f"n{number}", cpu=1, **labels) for number in range(first, first + count)))


async def _busy(world: SchedulerPlane, nodes: int, jobs: int | None = None) -> Stream:
    """So many nodes, and a small job on each of them or on some."""
    await _nodes(world, nodes)
    stream = Stream(world)
    await stream.submit(nodes if jobs is None else jobs)
    return stream


async def _gang(world: SchedulerPlane, name: str = "big", size: int = 8, **spec: object) -> list[str]:
    await world.create(make_pod_group(name, gang=size, **spec))
    priority = spec.get("priority")
    return await world.pods(name, f"{name}-", size, **JOB, **({"priority": priority} if priority is not None else {}))


async def _starving(world: SchedulerPlane, nodes: int, **spec: object) -> tuple[Stream, list[str]]:
    """A full cluster, a gang that needs all of it, and newcomers that have gone before it."""
    stream = await _busy(world, nodes)
    gang = await _gang(world, size=nodes, **spec)
    await world.settle(2)
    await stream.flow(7)
    return stream, gang


@pytest.mark.conformance("SCH-E20")
@in_virtual_time
async def test_a_gang_of_eight_in_a_stream_of_single_pods_is_placed(world: SchedulerPlane) -> None:
    """Eight pods run, one ends every ten seconds, one comes every ten seconds: 60 s of patience, 80 s of ends."""
    stream, gang = await _starving(world, 8)
    assert await world.unscheduled(*gang)
    await stream.flow(9)
    assert await world.scheduled(*gang)
    assert await world.condition("big") == ("True", "Scheduled", "")


@pytest.mark.conformance("SCH-E20")
@in_virtual_time
async def test_both_sides_are_told_about_a_reservation(world: SchedulerPlane) -> None:
    stream, gang = await _starving(world, 4)
    await world.settle(15)
    waits = (await world.condition("big"))[2]
    assert "of 4 reserved nodes are free, waiting for" in waits
    assert await world.message(gang[0]) == f"PodGroup/big {waits}"
    assert [reason for reason, _ in await world.events("big") if reason == "Reserved"] == ["Reserved"]
    last = stream.alive[-1]
    assert await world.unscheduled(last)
    told = await world.message(last)
    assert "there is room, but it is reserved for PodGroup/big (waiting since " in told, told


@pytest.mark.conformance("SCH-E20")
@in_virtual_time
async def test_small_jobs_keep_flowing_around_a_reservation(world: SchedulerPlane) -> None:
    """Two racks; the gang fits into either, and gets the one where less is in its way."""
    await _nodes(world, 4, rack="r0")
    await _nodes(world, 4, first=4, rack="r1")
    stream = Stream(world)
    await stream.submit(8)
    gang = await _gang(world, size=4, key=words.RACK)
    await stream.flow(7)
    started = len([name for name in stream.alive if await world.scheduled(name)]) + len(stream.ended)
    await stream.flow(6)
    went_on = len([name for name in stream.alive if await world.scheduled(name)]) + len(stream.ended)
    assert went_on > started, "nobody but the gang was served"
    await stream.flow(12)
    assert await world.scheduled(*gang)


@pytest.mark.conformance("SCH-E20")
@in_virtual_time
async def test_two_starving_gangs_are_both_placed(world: SchedulerPlane) -> None:
    stream = await _busy(world, 8)
    first, second = await _gang(world, "one", 4), await _gang(world, "two", 4)
    await stream.flow(22)
    assert await world.scheduled(*first, *second)


@in_virtual_time
async def test_a_single_pod_that_needs_a_whole_node_does_not_starve_either(world: SchedulerPlane) -> None:
    await world.create(make_node("n0", cpu=4))
    stream = Stream(world)
    await stream.submit(4)
    await world.create(make_pod("wide", cpu=4))
    await stream.flow(12)
    assert await world.scheduled("wide")


@in_virtual_time
async def test_room_is_kept_where_pods_end_rather_than_where_services_run(world: SchedulerPlane) -> None:
    await _nodes(world, 2, rack="r0")
    await world.create(*(make_pod(f"service{number}") for number in range(2)))
    await world.settle(1)
    await _nodes(world, 2, first=2, rack="r1")
    stream = Stream(world)
    await stream.submit(2)
    gang = await _gang(world, size=2, key=words.RACK)
    await stream.flow(7)
    await world.settle(15)
    assert "of 2 reserved nodes in r1" in (await world.condition("big"))[2]
    await stream.flow(3)
    assert set(await world.nodes(*gang)) == {"n2", "n3"}


@in_virtual_time
async def test_room_is_kept_where_a_deadline_is_near(world: SchedulerPlane) -> None:
    stream = await _busy(world, 4, jobs=2)
    await world.create(*(make_pod(f"brief{number}", activeDeadlineSeconds=600, **JOB) for number in range(2)))
    await world.settle(1)
    await _gang(world, size=2)
    await stream.flow(7)
    await world.settle(15)
    brief = set(await world.nodes("brief0", "brief1"))
    assert world.scheduler is not None
    assert world.scheduler.reservations.nodes == [brief]


@in_virtual_time
async def test_no_room_is_kept_before_someone_younger_went_first(world: SchedulerPlane) -> None:
    """Nobody takes anything away from the gang, so nothing need be kept for it."""
    await _busy(world, 4)
    await _gang(world, size=4)
    await world.settle(300)
    assert "reserved" not in (await world.condition("big"))[2]


@in_virtual_time
async def test_someone_more_important_may_have_reserved_room_without_evicting_anyone(world: SchedulerPlane) -> None:
    stream, gang = await _starving(world, 4)
    await stream.end_oldest()
    await world.create(make_pod("urgent", priority=1000, preemptionPolicy="Never"))
    await world.settle(2)
    assert await world.scheduled("urgent")
    assert not await world.scheduled(gang[0])


@in_virtual_time
async def test_a_reservation_ends_with_the_gang(world: SchedulerPlane) -> None:
    stream, gang = await _starving(world, 4)
    await stream.end_oldest()
    waiting = [name for name in stream.alive if not await world.scheduled(name)]
    assert waiting
    await world.delete(PODS, *gang)
    await world.settle(2)
    assert await world.scheduled(waiting[0])


@in_virtual_time
async def test_a_reservation_moves_when_its_node_is_cordoned_or_vanishes(world: SchedulerPlane) -> None:
    stream = await _busy(world, 4)
    gang = await _gang(world, size=2)
    await stream.flow(7)
    for name in ("n0", "n1"):
        await world.patch(NODES, name, {"spec": {"unschedulable": True}})
    await stream.flow(8)
    assert await world.scheduled(*gang)
    assert not set(await world.nodes(*gang)) & {"n0", "n1"}


@in_virtual_time
async def test_the_room_of_pods_that_never_end_is_not_kept_for_ever(world: SchedulerPlane) -> None:
    """Three nodes run services: the fourth is kept for the gang for a while, then small jobs have their turn."""
    await _nodes(world, 4)
    await world.create(*(make_pod(f"service{number}") for number in range(3)))
    stream = Stream(world)
    await stream.submit(1)
    gang = await _gang(world, size=4)
    await stream.flow(7)
    await stream.submit(1)
    await world.settle(5)
    assert "reserved" in await world.message(stream.alive[-1])
    await world.settle(660)
    assert world.scheduler is not None
    figures = world.scheduler.metrics.registry
    for event in ("made", "lapsed"):
        assert figures.get_sample_value("echelon_scheduler_reservations_total", {"event": event}) == 1
    assert "ReservationLapsed" in [reason for reason, _ in await world.events("big")]
    for _ in range(6):
        await stream.end_oldest()
        await world.settle(5)
    assert not [name for name in stream.alive if not await world.scheduled(name)]
    assert not await world.scheduled(gang[0])


@in_virtual_time
async def test_a_scheduler_that_starts_anew_keeps_room_again(world: SchedulerPlane) -> None:
    stream, gang = await _starving(world, 4)
    await world.restart()
    await world.settle(3)
    await stream.flow(6)
    assert await world.scheduled(*gang)


@in_virtual_time
async def test_a_gang_for_which_no_place_is_large_enough_reserves_nothing(world: SchedulerPlane) -> None:
    stream = await _busy(world, 4)
    await _gang(world, size=5)
    await stream.flow(12)
    assert "reserved" not in (await world.condition("big"))[2]
    assert await world.scheduled(*stream.alive[:3])


@in_virtual_time
async def test_the_view_with_reservations_is_the_one_a_list_gives(world: SchedulerPlane) -> None:
    await _starving(world, 4)
    assert world.scheduler is not None
    assert len(world.scheduler.reservations) == 1
    assert world.scheduler.inconsistencies() == []
    await world.remove(POD_GROUPS, "big")
    await world.settle(2)
    assert len(world.scheduler.reservations) == 0
    assert world.scheduler.inconsistencies() == []
