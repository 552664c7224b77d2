"""One that waits to lead: it follows what the leader does, and goes on from there without looking back."""

from __future__ import annotations

import asyncio

from echelon.api.objects import meta
from echelon.api.scheme import PODS
from echelon.api.verbs import DeleteOptions
from echelon.client.events import Recorder
from echelon.client.informer import Caches
from echelon.scheduler.loop import Scheduler, Settings
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time


@in_virtual_time
async def test_a_standby_that_followed_the_leader_takes_over_at_once(world: SchedulerPlane) -> None:
    caches = Caches(world.verbs, world.clock)
    recorder = Recorder(world.verbs, world.clock, "default-scheduler")
    standby = Scheduler(world.verbs, caches, world.clock, recorder, Settings())
    tasks = [asyncio.create_task(part) for part in (caches.run(), recorder.run())]
    await caches.wait_synced()
    standby.follow()

    await world.create(make_node("n", cpu=6), make_pod_group("first", gang=3), make_pod_group("gone", gang=3))
    await world.pods("first", "f", 3)
    await world.pods("gone", "g", 3)
    await world.settle()
    assert await world.scheduled("f0", "f1", "f2", "g0", "g1", "g2")
    await world.stop()
    for name in ("g0", "g1", "g2"):
        await world.verbs.delete(PODS, name, "default", DeleteOptions(grace_period_seconds=0))
    await world.create(make_pod_group("second", gang=2), make_pod("single"))
    await world.pods("second", "s", 2)
    await world.settle()
    assert standby.inconsistencies() == []
    assert not (await world.pod("s0") or {})["spec"].get("nodeName"), "nobody leads"

    before = world.clock.now()
    tasks.append(asyncio.create_task(standby.run()))
    await world.settle(0.5)
    assert world.clock.now() - before < 1.0
    for name in ("s0", "s1", "single"):
        assert meta.condition_is(await world.pod(name) or {}, "PodScheduled"), name
    assert standby.inconsistencies() == []
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
