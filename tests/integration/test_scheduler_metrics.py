"""What the scheduler counts, read as a scrape would read it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import PODS
from echelon.scheduler.reporting.idle_devices import IDLE_DEVICES
from echelon.scheduler.reporting.metrics import _PRIORITIES, _SIZES, COUNTERS, GAUGES, HISTOGRAMS, _class_of
from echelon.scheduler.reporting.topology_report import TOPOLOGY_GAUGES
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

_PROFILE = "default-scheduler"
GPU = "nvidia.com/gpu"


def value(world: SchedulerPlane, name: str, **labels: str) -> float:
    assert world.scheduler is not None
    return world.scheduler.metrics.registry.get_sample_value(name, labels) or 0.0


def pods(world: SchedulerPlane, result: str) -> float:
    return value(world, "scheduler_schedule_attempts_total", result=result, profile=_PROFILE)


def groups(world: SchedulerPlane, result: str) -> float:
    return value(world, "scheduler_podgroup_schedule_attempts_total", result=result, profile=_PROFILE)


def waiting(world: SchedulerPlane, line: str) -> float:
    return value(world, "scheduler_pending_pods", queue=line)


@in_virtual_time
async def test_what_is_bound_is_counted_and_timed(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=4), make_pod_group("g", gang=3))
    await world.pods("g", "p", 3)
    await world.create(make_pod("single"))
    await world.settle()
    assert (pods(world, "scheduled"), groups(world, "scheduled")) == (4, 1)
    assert value(world, "echelon_scheduler_bindings_total", result="bound") == 4
    assert value(world, "echelon_scheduler_verdicts_total", verdict="placed") == 2
    for name, count in {
        "scheduler_scheduling_algorithm_duration_seconds": 1,
        "scheduler_podgroup_scheduling_algorithm_duration_seconds": 1,
        "scheduler_pod_scheduling_sli_duration_seconds": 4,
        "echelon_scheduler_binding_duration_seconds": 4,
        "echelon_scheduler_engine_steps": 2,
    }.items():
        assert value(world, f"{name}_count") == count, name
    ends = {"result": "scheduled", "profile": _PROFILE}
    assert value(world, "scheduler_scheduling_attempt_duration_seconds_count", **ends) == 1
    assert value(world, "scheduler_podgroup_scheduling_attempt_duration_seconds_count", **ends) == 1
    assert sum(waiting(world, line) for line in ("active", "unschedulable", "incomplete", "gated")) == 0


@in_virtual_time
async def test_what_waits_is_told_apart_by_what_it_waits_for(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=1))
    await world.create(make_pod_group("wide", gang=2), make_pod_group("short", gang=3), make_composite("tree", gang=2))
    await world.create(make_pod_group("leaf", gang=1, parent="tree"), make_pod("leaf-0", group="leaf"))
    await world.pods("wide", "w", 2)
    await world.pods("short", "s", 2)
    await world.create(make_pod("gated", group="short", gates=("later",)), make_pod("foreign", schedulerName="other"))
    await world.create(make_pod("large", cpu=8))
    await world.settle(100)
    assert waiting(world, "unschedulable") == 3
    assert waiting(world, "incomplete") == 3
    assert waiting(world, "gated") == 1
    queued = {
        (line, kind): value(world, "scheduler_queued_entities", queue=line, type=kind)
        for line in ("unschedulable", "incomplete")
        for kind in ("pod", "podgroup", "compositepodgroup")
    }
    assert queued == {
        ("unschedulable", "pod"): 1,
        ("unschedulable", "podgroup"): 1,
        ("unschedulable", "compositepodgroup"): 0,
        ("incomplete", "pod"): 0,
        ("incomplete", "podgroup"): 1,
        ("incomplete", "compositepodgroup"): 1,
    }
    assert value(world, "echelon_scheduler_oldest_pending_seconds", type="pod") >= 99
    assert groups(world, "unschedulable") >= 1
    assert pods(world, "unschedulable") >= 3
    assert value(world, "echelon_scheduler_verdicts_total", verdict="blocked") >= 2


@in_virtual_time
async def test_preemption_counts_its_victims(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=4), *(make_pod(f"low-{n}", node="n") for n in range(4)))
    await world.create(make_pod_group("high", gang=3, priority=100))
    await world.pods("high", "h", 3, priority=100)
    await world.settle()
    assert value(world, "scheduler_workload_preemption_attempts_total", result="success") == 1
    assert value(world, "scheduler_workload_preemption_victims_sum") == 3
    assert value(world, "echelon_scheduler_pods_evicted_total") == 3
    assert groups(world, "waiting_on_preemption") == 1
    assert groups(world, "scheduled") == 1


@in_virtual_time
async def test_a_binding_that_is_refused_is_an_error(world: SchedulerPlane) -> None:
    class Refusing:
        def __init__(self) -> None:
            self.left = 1

        def __getattr__(self, name: str) -> object:
            return getattr(world.verbs, name)

        async def bind(self, namespace: str, pod: str, node: str, *, uid: str = "") -> None:
            if self.left:
                self.left -= 1
                raise ApiError(409, "Conflict", "no")
            await world.verbs.bind(namespace, pod, node, uid=uid)

    await world.restart(Refusing())
    await world.create(make_node("n", cpu=4), make_pod("p"))
    await world.settle()
    assert value(world, "echelon_scheduler_bindings_total", result="refused") == 1
    assert (pods(world, "error"), pods(world, "scheduled")) == (1, 1)


@in_virtual_time
async def test_time_to_schedule_is_told_apart_by_size_and_priority(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=4), make_pod("first", cpu=4, node="n"), make_pod_group("g", gang=3))
    await world.pods("g", "p", 3)
    await world.settle(100)
    await world.delete(PODS, "first")
    await world.settle()
    await world.create(make_node("m", cpu=4), make_pod("single", priority=5000))
    await world.settle()
    name = "echelon_scheduler_time_to_schedule_seconds"
    assert value(world, f"{name}_count", size="2-8", priority="0") == 1
    assert 99 <= value(world, f"{name}_sum", size="2-8", priority="0") <= 110
    assert value(world, f"{name}_count", size="1", priority="1000-999999") == 1


@in_virtual_time
async def test_idle_devices_are_counted_while_a_gang_waits_for_them(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=64, gpu=8), make_pod("small", gpu=3, node="n"))
    await world.settle(50)
    idle = "echelon_scheduler_idle_device_seconds_total"
    assert value(world, idle, resource=GPU) == 0
    await world.create(make_pod_group("g", gang=2))
    await world.pods("g", "p", 2, gpu=4)
    await world.settle(1)
    before = value(world, idle, resource=GPU)
    await world.settle(100)
    assert value(world, idle, resource=GPU) - before == pytest.approx(5 * 100, rel=0.02)
    await world.delete(PODS, "small")
    await world.settle(1)
    placed = value(world, idle, resource=GPU)
    await world.settle(100)
    assert value(world, idle, resource=GPU) == placed


@in_virtual_time
async def test_devices_of_cordoned_nodes_and_those_that_nobody_waits_for_are_not_idle(world: SchedulerPlane) -> None:
    cordoned = make_node("c", cpu=64, gpu=8)
    cordoned["spec"]["unschedulable"] = True
    await world.create(cordoned, make_node("n", cpu=64, gpu=8), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2, gpu=6)
    await world.create(make_pod_group("cpu", gang=1))
    await world.pods("cpu", "c", 1, cpu=1000)
    await world.settle(1)
    before = value(world, "echelon_scheduler_idle_device_seconds_total", resource=GPU)
    await world.settle(10)
    after = value(world, "echelon_scheduler_idle_device_seconds_total", resource=GPU)
    assert after - before == pytest.approx(8 * 10, rel=0.02)


@in_virtual_time
async def test_work_of_evicted_pods_is_lost(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=64, gpu=8), make_pod_group("low", gang=2))
    await world.pods("low", "l", 2, gpu=4)
    await world.settle(200)
    await world.create(make_pod_group("high", gang=1, priority=100))
    await world.pods("high", "h", 1, priority=100, gpu=8)
    await world.settle()
    assert value(world, "echelon_scheduler_preempted_pod_seconds_total") == pytest.approx(400, rel=0.02)
    lost = value(world, "echelon_scheduler_preempted_device_seconds_total", resource=GPU)
    assert lost == pytest.approx(1600, rel=0.02)


@in_virtual_time
async def test_the_age_of_a_reservation_is_told(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=4), make_pod("old", cpu=3, node="n"), make_pod_group("wide", gang=2))
    await world.pods("wide", "w", 2, cpu=2)
    await world.settle(5)
    await world.create(make_pod("young", cpu=1))
    await world.settle(120)
    assert value(world, "echelon_scheduler_reservations") == 1
    before = value(world, "echelon_scheduler_oldest_reservation_seconds")
    await world.settle(30)
    assert value(world, "echelon_scheduler_oldest_reservation_seconds") == pytest.approx(before + 30, abs=1)


def test_sizes_and_priorities_have_few_names() -> None:
    sizes = [_class_of(pods, _SIZES, "513+") for pods in (1, 2, 8, 9, 64, 65, 512, 513, 10**6)]
    assert sizes == ["1", "2-8", "2-8", "9-64", "9-64", "65-512", "65-512", "513+", "513+"]
    priorities = [_class_of(one, _PRIORITIES, "1000000+") for one in (-1, 0, 1, 999, 1000, 999_999, 10**6, 2 * 10**9)]
    assert priorities == ["<0", "0", "1-999", "1-999", "1000-999999", "1000-999999", "1000000+", "1000000+"]


def test_the_reference_lists_every_metric() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    for name in (*COUNTERS, *HISTOGRAMS, *GAUGES, *TOPOLOGY_GAUGES, IDLE_DEVICES):
        assert re.search(rf"^\| [^|]*`{name}`[^|]* \|", page, re.MULTILINE), name
