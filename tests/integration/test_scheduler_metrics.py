"""What the scheduler counts, read as a scrape would read it."""

from __future__ import annotations

from pathlib import Path

from echelon.api.errors import ApiError
from echelon.scheduler.reporting.metrics import COUNTERS, GAUGES, HISTOGRAMS
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

_PROFILE = "default-scheduler"


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


def test_the_reference_lists_every_metric() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    for name in (*COUNTERS, *HISTOGRAMS, *GAUGES):
        assert f"| `{name}` |" in page, name
