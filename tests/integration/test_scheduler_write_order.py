"""Bindings come first: that they succeeded is said when the server has nothing more important to do."""

from __future__ import annotations

from typing import Any

from echelon.api.scheme import PODS, Object, Resource
from echelon.api.verbs import Patch
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time
from tests.integration.altered_api import AlteredApi


class Journal(AlteredApi):
    """An API on which bindings and patches of pods take a second; it remembers when which write began."""

    def __init__(self, world: SchedulerPlane) -> None:
        self._world = world
        super().__init__(world.verbs)
        self.written: list[tuple[str, float]] = []

    def _note(self, what: str) -> None:
        self.written.append((what, self._world.clock.now()))

    def when(self, what: str) -> list[float]:
        return [at for known, at in self.written if known == what]

    async def bind(self, namespace: str, pod: str, node: str, *, uid: str = "") -> None:
        self._note("bind")
        await self._world.clock.sleep(1.0)
        await self._verbs.bind(namespace, pod, node, uid=uid)

    async def patch(self, resource: Resource, name: str, patch: Patch, *where: str) -> Object:
        self._note(resource.plural)
        if resource is PODS:
            await self._world.clock.sleep(1.0)
        return await self._verbs.patch(resource, name, patch, *where)  # type: ignore[arg-type]

    async def create(self, resource: Resource, *rest: Any) -> Object:
        self._note(resource.plural)
        return await self._verbs.create(resource, *rest)


async def _gangs_of_one(world: SchedulerPlane, count: int) -> Journal:
    """Many gangs, each bound in a second, 64 at a time."""
    journal = Journal(world)
    await world.restart(journal)
    await world.create(make_node("n", cpu=count, pods=count))
    await world.create(*(make_pod_group(f"g{n}", gang=1) for n in range(count)))
    await world.create(*(make_pod(f"p{n}", group=f"g{n}") for n in range(count)))
    await world.settle(60)
    return journal


@in_virtual_time
async def test_good_news_and_events_wait_until_bindings_are_through(world: SchedulerPlane) -> None:
    journal = await _gangs_of_one(world, 140)
    last = max(journal.when("bind")) + 1.0
    assert len(journal.when("podgroups")) >= 140
    assert min(journal.when("podgroups")) == min(journal.when("events")) == last


@in_virtual_time
async def test_good_news_and_events_do_not_wait_for_ever(world: SchedulerPlane) -> None:
    journal = await _gangs_of_one(world, 520)
    first = min(journal.when("bind")) + 1.0
    assert min(journal.when("podgroups")) == first + 3.0
    assert min(journal.when("events")) <= first + 5.0
    for number in range(520):
        assert await world.condition(f"g{number}") == ("True", "Scheduled", "")


@in_virtual_time
async def test_beside_bindings_they_have_every_tenth_turn(world: SchedulerPlane) -> None:
    journal = await _gangs_of_one(world, 640)
    last = max(journal.when("bind"))
    beside = [at for what in ("podgroups", "events") for at in journal.when(what) if at < last]
    meanwhile = [at for at in journal.when("bind") if at >= min(beside)]
    assert 0 < len(beside) <= len(meanwhile) / 9 + 1


@in_virtual_time
async def test_a_group_learns_its_reason_before_all_pods_of_another_learn_theirs(world: SchedulerPlane) -> None:
    journal = Journal(world)
    await world.restart(journal)
    await world.create(make_node("n", cpu=1), make_pod_group("many", gang=100), make_pod_group("few", gang=2))
    await world.pods("many", "m", 100)
    await world.settle(1)
    await world.pods("few", "f", 2)
    await world.settle(60)
    # One of them first says that it waits for its pods.
    assert len(journal.when("podgroups")) == 3
    assert max(journal.when("podgroups")) < max(journal.when("pods")) - 3.0
