"""Exclusive JobSets whose pods another scheduler places: leaders, followers, and what becomes of them.

The other scheduler is ours under a foreign name: it knows pods and their affinity, and no groups are made for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from echelon.api.cluster.pools import parse
from echelon.api.objects import meta
from echelon.api.scheme import NODES, POD_GROUPS, PODS, Object
from echelon.controllers.nodes.lost_pods import LostPodController
from tests.controller_plane import for_training, in_virtual_time
from tests.integration.test_jobset_preemption import Islands, islands, jobset, restarts

OTHER = "kube-scheduler-of-another"


def elsewhere(made: Object) -> Object:
    for entry in made["spec"]["replicatedJobs"]:
        entry["template"]["spec"]["template"]["spec"]["schedulerName"] = OTHER
    return made


async def cordon(world: Islands, end: str, *, unschedulable: bool = True) -> None:
    """The nodes whose names end so, once there are any."""

    async def joined() -> bool:
        return bool(await world.plane.all(NODES))

    await world.plane.until(joined)
    for node in await world.plane.all(NODES):
        if meta.name(node).endswith(end):
            await world.plane.patch(NODES, meta.name(node), {"spec": {"unschedulable": unschedulable}})


def on_islands(number: int, story: Callable[[Islands], Awaitable[None]]) -> None:
    in_virtual_time(
        lambda plane: story(Islands(plane)),
        controllers=lambda caches: [*for_training(caches), LostPodController(caches)],
        cluster=parse(islands(number), "islands"),
        scheduler=True,
        scheduler_names=(OTHER,),
    )


@pytest.mark.conformance("JS-S01", "JS-S04")
def test_high_takes_both_islands_from_low_with_leaders_and_followers() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(elsewhere(jobset("low", "low", 2, 60)), 4)
        assert await world.plane.all(POD_GROUPS) == []
        assert sorted(where for (where,) in (await world.homes("low")).values()) == ["tpu-i0", "tpu-i1"]
        await world.start(elsewhere(jobset("high", "high", 2, 20)), 4)
        assert sorted(where for (where,) in (await world.homes("high")).values()) == ["tpu-i0", "tpu-i1"]
        high, low = await world.completed("high", "low")
        assert restarts(high) == (0, 0)
        assert restarts(low)[1] == 0

    on_islands(2, story)


@pytest.mark.conformance("JS-S03")
def test_a_second_jobset_of_equal_priority_waits_for_an_island() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(elsewhere(jobset("first", "low", 1, 60, pods=1, tpus=1)), 1)
        await world.plane.create(elsewhere(jobset("second", "low", 1, 5, pods=1, tpus=1)))
        await world.plane.wait(30)
        (waiting,) = await world.pods("second")
        assert "nodeName" not in waiting["spec"]
        await world.completed("first", "second")

    on_islands(1, story)


def test_followers_come_after_their_leader_and_the_job_says_what_it_waits_for() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await cordon(world, "")
        await world.plane.create(elsewhere(jobset("js", "low", 1, 5)))
        await world.plane.wait(10)
        assert len(await world.pods("js")) == 1
        assert "FailedCreate" in await world.plane.reasons("js-workers-0")
        await cordon(world, "", unschedulable=False)
        await world.completed("js")

    on_islands(1, story)


@pytest.mark.conformance("JS-U22")
def test_followers_of_a_leader_that_moved_are_made_anew_where_it_is_now() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await cordon(world, "-n1")
        made = elsewhere(jobset("js", "low", 1, 100))
        job = made["spec"]["replicatedJobs"][0]["template"]["spec"]
        job |= {"backoffLimit": 6, "podFailurePolicy": {"rules": [{"action": "Ignore", **_disrupted()}]}}
        await world.start(made, 1)
        ((before,),) = (await world.homes("js")).values()
        (leader,) = await world.running("js")
        await cordon(world, f"{before}-n0")
        await world.plane.delete(PODS, meta.name(leader))

        async def moved() -> bool:
            return list((await world.homes("js")).values()) not in ([], [[before]])

        await world.plane.until(moved)
        await cordon(world, "", unschedulable=False)
        await world.until_running("js", 2)
        ((after,),) = (await world.homes("js")).values()
        assert after != before
        (done,) = await world.completed("js")
        assert restarts(done) == (0, 0)

    on_islands(2, story)


def _disrupted() -> Object:
    return {"onPodConditions": [{"type": "DisruptionTarget"}]}
