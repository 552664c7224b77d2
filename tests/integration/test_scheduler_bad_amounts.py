"""Requests and nodes that make little sense, through the real API: refused, or pending with a reason."""

from __future__ import annotations

import pytest

from echelon.api.errors import ApiError
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time


@pytest.mark.parametrize(
    ("memory", "complaint"),
    [
        ("-1Gi", "must be greater than or equal to 0"),
        ("NaN", "quantities must match the regular expression"),
        ("1e1001", "unable to parse quantity's suffix"),
        ("9" * 2000, "unable to parse numeric part of quantity"),
    ],
)
@in_virtual_time
async def test_an_amount_that_is_none_is_refused(world: SchedulerPlane, memory: str, complaint: str) -> None:
    with pytest.raises(ApiError, match=complaint):
        await world.create(make_pod("p", memory=memory))


@pytest.mark.parametrize("memory", ["1Ei", "1e400", "9223372036854775808"])
@in_virtual_time
async def test_a_pod_larger_than_any_node_says_what_it_lacks(world: SchedulerPlane, memory: str) -> None:
    await world.create(make_node("n1", memory="2Ti"), make_pod("p", memory=memory), make_pod("small"))
    await world.settle()
    assert await world.nodes("p") == [""]
    assert "memory" in await world.message("p")
    assert await world.scheduled("small")


@in_virtual_time
async def test_pods_beyond_all_measure_that_others_bound_leave_their_node_full(world: SchedulerPlane) -> None:
    """What they hold adds up to more than 64 bits hold; they came past the scheduler."""
    await world.create(make_node("n1", cpu=64), *(make_pod(f"huge{i}", memory="7Ei", node="n1") for i in range(40)))
    await world.create(make_pod("p", memory="1Mi"), make_pod("q"))
    await world.settle()
    assert await world.nodes("p") == [""]
    assert await world.scheduled("q")


@in_virtual_time
async def test_a_node_without_labels_or_room_takes_nothing_and_breaks_nothing(world: SchedulerPlane) -> None:
    bare = make_node("bare", cpu=0, memory="0", pods=0)
    bare["metadata"]["labels"] = {}
    await world.create(bare, make_pod_group("g", gang=2, key="example.com/nobody-has-it"))
    await world.pods("g", "p", 2)
    await world.settle()
    assert await world.unscheduled("p0", "p1")
    assert "no node has the label example.com/nobody-has-it" in (await world.condition("g"))[2]
    await world.create(make_node("n1", labels={"example.com/nobody-has-it": "here"}))
    await world.settle(1)
    assert await world.scheduled("p0", "p1")
