"""One log line per decision that matters, with fields that name it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time


def lines(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    return [
        vars(record)["fields"]
        for record in caplog.records
        if record.name == "echelon.scheduler.decisions" and record.message == message
    ]


@in_virtual_time
async def test_groups_that_are_placed_and_blocked_are_told_once(
    world: SchedulerPlane, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await world.create(make_node("n1", cpu=2), make_node("n2", cpu=2), make_pod_group("fits", gang=3))
    await world.create(make_pod_group("wide", gang=9))
    await world.pods("fits", "f", 3)
    await world.pods("wide", "w", 9)
    await world.create(make_pod("single"))
    await world.settle(60)
    [placed] = lines(caplog, "placed")
    assert {key: placed[key] for key in ("kind", "namespace", "name", "members", "nodes", "priority")} == {
        "kind": "PodGroup", "namespace": "default", "name": "fits", "members": 3, "nodes": 2, "priority": 0,
    }  # fmt: skip
    assert placed["ms"] > 0
    told = lines(caplog, "blocked")
    assert {one["name"] for one in told} == {"wide"}
    assert "9 pods" in told[0]["reason"]
    assert len(told) == len({one["reason"] for one in told})


@in_virtual_time
async def test_a_preemption_is_told(world: SchedulerPlane, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await world.create(make_node("n", cpu=4), *(make_pod(f"low-{number}", node="n") for number in range(4)))
    await world.create(make_pod_group("high", gang=3, priority=100))
    await world.pods("high", "h", 3, priority=100)
    await world.settle()
    [told] = lines(caplog, "preempting")
    assert (told["name"], told["victims"], told["units"], told["members"]) == ("high", 3, 3, 3)


@in_virtual_time
async def test_a_reservation_is_told(world: SchedulerPlane, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await world.create(make_node("n", cpu=4), make_pod("old", cpu=3, node="n"), make_pod_group("wide", gang=2))
    await world.pods("wide", "w", 2, cpu=2)
    await world.settle(5)
    await world.create(make_pod("young", cpu=1))
    await world.settle(120)
    [told] = lines(caplog, "reserved")
    assert (told["name"], told["nodes"]) == ("wide", 1)


@in_virtual_time
async def test_pods_without_a_group_are_told_at_debug_level(
    world: SchedulerPlane, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await world.create(make_node("n", cpu=4), make_pod("single"))
    await world.settle()
    assert [one["kind"] for one in lines(caplog, "placed")] == ["Pod"]
