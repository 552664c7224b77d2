"""Preemption through the real API: who must go, who stays, and what everybody is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import EVICTED_BY, RACK, ZONE
from echelon.api.scheme import COMPOSITE_POD_GROUPS, PODS, Object, Resource
from echelon.api.verbs import Patch, Verbs
from echelon.base.clock import Clock
from echelon.testing.builders import make_budget, make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time
from tests.integration.altered_api import AlteredApi

SCHEDULED = ("True", "Scheduled", "")


@dataclass
class Case:
    """Nodes; what runs, as (pod, node, …) in groups or not; then a preemptor; who is gone, who stays."""

    nodes: list[Object]
    victims: list[Object]
    groups: list[Object]
    pods: list[Object]
    gone: set[str]
    kept: set[str] = field(default_factory=set)
    #: Whether the preemptor's pods are placed in the end; names, or all.
    placed: bool | set[str] = True
    #: How many pods must go, where it does not matter which.
    lost: int | None = None


def racks(**sizes: int) -> list[Object]:
    """Nodes of 2 CPUs: racks(a=2) is a0 and a1 in rack a."""
    return [make_node(f"{rack}{n}", cpu=2, rack=rack) for rack, size in sizes.items() for n in range(size)]


def low(name: str, node: str, cpu: int | str = 1, priority: int = 10, **more: Any) -> Object:
    return make_pod(name, node=node, cpu=cpu, priority=priority, **more)


def lows(node: str, count: int, **more: Any) -> list[Object]:
    return [low(f"low-{node}-{n}", node, **more) for n in range(count)]


def high(count: int, cpu: int | str = 1, group: str = "g", priority: int = 100, **more: Any) -> list[Object]:
    return [make_pod(f"high{n}", group=group, cpu=cpu, priority=priority, **more) for n in range(count)]


def gang(count: int | None, **more: Any) -> Object:
    return make_pod_group("g", gang=count, priority=100, **more)


def unsaid(group: Object) -> Object:
    """A group that says nothing about its preemption policy."""
    return {**group, "spec": {name: value for name, value in group["spec"].items() if name != "preemptionPolicy"}}


N3 = [make_node("n", cpu=3)]
FOUR = [make_node(f"n{n}", cpu=1) for n in range(4)]
ALL3 = {f"low-n-{n}" for n in range(3)}
TWO = [make_node("n1", cpu=2), make_node("n2", cpu=2)]


def _victim_group(mode: str, policy: int | None = 3, priority: int = 10) -> Object:
    return make_pod_group("v", gang=policy, mode=mode, priority=priority)  # type: ignore[arg-type]


GROUP_PREEMPTORS = {
    "SCH-121 a gang": Case(N3, lows("n", 3), [gang(3)], high(3), ALL3),
    "SCH-122 a basic group": Case(N3, lows("n", 3), [gang(None)], high(3), ALL3),
    "SCH-126 two nodes": Case(
        TWO, lows("n1", 2) + lows("n2", 2), [gang(4)], high(4),
        {"low-n1-0", "low-n1-1", "low-n2-0", "low-n2-1"},
    ),
    "SCH-127 a higher priority in the way": Case(
        N3, [low("big", "n", priority=500), *lows("n", 2)], [gang(3)], high(3),
        set(), {"big", "low-n-0", "low-n-1"}, False,
    ),
    "SCH-128 the lower of two priorities": Case(
        N3, [low("mid", "n", priority=50), *lows("n", 2)], [gang(2)], high(2), {"low-n-0", "low-n-1"}, {"mid"},
    ),
    "SCH-129 a gang that goes as one": Case(
        N3, [_victim_group("all"), *lows("n", 3, group="v")], [gang(1)], high(1), ALL3,
    ),
    "SCH-130 a basic group that goes as one": Case(
        N3, [_victim_group("all", None), *lows("n", 3, group="v")], [gang(1)], high(1), ALL3,
    ),
    "SCH-131 as many as can be had": Case(
        FOUR, [low("a", "n0"), low("b", "n1"), low("c", "n2", priority=200), low("d", "n3", priority=200)],
        [gang(1)], high(3), {"a", "b"}, {"c", "d"}, {"high0", "high1"},
    ),
    "SCH-134 as many as can be had, basic": Case(
        FOUR, [low("a", "n0"), low("b", "n1"), low("c", "n2", priority=200), low("d", "n3", priority=200)],
        [gang(None)], high(3), {"a", "b"}, {"c", "d"}, {"high0", "high1"},
    ),
    "SCH-132 a group that goes as one and a pod": Case(
        FOUR[:3],
        [_victim_group("all", 2, 50), low("v0", "n0", priority=50, group="v"), low("v1", "n1", priority=50, group="v"),
         low("single", "n2")],
        [gang(3)], high(3), {"v0", "v1", "single"},
    ),
    "SCH-135 the same for a basic group": Case(
        FOUR[:3],
        [_victim_group("all", 2, 50), low("v0", "n0", priority=50, group="v"), low("v1", "n1", priority=50, group="v"),
         low("single", "n2")],
        [gang(None)], high(3), {"v0", "v1", "single"},
    ),
    "SCH-137 policy Never": Case(
        N3, lows("n", 3), [gang(3, never=True)], high(3, preemptionPolicy="Never"), set(), ALL3, False,
    ),
    "SCH-138 policy PreemptLowerPriority": Case(N3, lows("n", 3), [gang(3)], high(3), ALL3),
    "SCH-139 no policy of its own": Case(N3, lows("n", 3), [unsaid(gang(3))], high(3), ALL3),
    "SCH-140 no policy of its own, but pods that say Never": Case(
        N3, lows("n", 3), [unsaid(gang(3))], high(3, preemptionPolicy="Never"), set(), ALL3, False,
    ),
    "SCH-141 only what is in the way": Case(
        TWO, [low("low", "n1", cpu=2)], [gang(2)], high(2, cpu=2), {"low"},
    ),
    "SCH-142 pinned members": Case(
        TWO, [low("five", "n1", priority=5), low("ten", "n1", priority=10)], [gang(2)],
        [
            make_pod(f"high{n}", group="g", priority=100, nodeSelector={"kubernetes.io/hostname": f"n{n + 1}"})
            for n in range(2)
        ],
        {"five"}, {"ten"},
    ),
    "SCH-151 one zone": Case(
        [make_node(f"n{n}", cpu=1, zone="z") for n in range(2)], [low("a", "n0"), low("b", "n1")],
        [gang(2, key=ZONE)], high(2), {"a", "b"},
    ),
    "SCH-152 the zone where it is possible": Case(
        [make_node(f"n{n}", cpu=1, zone=f"z{n // 2}") for n in range(4)],
        [low("a", "n0", priority=200), low("b", "n1", priority=200), low("c", "n2"), low("d", "n3")],
        [gang(2, key=ZONE)], high(2), {"c", "d"}, {"a", "b"},
    ),
    "SCH-154 no zone is possible": Case(
        [make_node(f"n{n}", cpu=1, zone=f"z{n // 2}") for n in range(4)],
        [low("a", "n0", priority=200), low("b", "n1"), low("c", "n2", priority=200), low("d", "n3")],
        [gang(2, key=ZONE)], high(2), set(), {"a", "b", "c", "d"}, False,
    ),
    "SCH-70 in a rack": Case(
        [make_node(f"n{n}", cpu=2, rack="r1") for n in range(3)],
        [low("a", "n0", cpu=2), low("b", "n1", cpu=2)], [gang(3, key=RACK)], high(3, cpu=2), {"a", "b"},
    ),
    "SCH-71 the rack with the fewest victims": Case(
        racks(a=2, b=3, c=1), [low("a", "a0", cpu=2), low("b", "b0", cpu=2), low("c", "b1", cpu=2)],
        [gang(3, key=RACK)], high(3), set(), lost=1,
    ),
    "SCH-72 beside what may not be touched": Case(
        racks(a=2, b=3, c=3),
        [low("a", "a0", cpu=2), low("big", "b0", cpu=2, priority=200), low("b", "b1", cpu=2),
         low("small", "c0", priority=200), low("c", "c1", cpu=2), low("d", "c2", cpu=2)],
        [gang(3, key=RACK)], high(3), set(), {"big", "small"}, lost=1,
    ),
    "SCH-123 a gang over two nodes": Case(
        TWO, [low("one", "n1", cpu=2), low("two", "n2", cpu=1)], [gang(3)], high(3), {"one"}, {"two"},
    ),
    "SCH-124 the lower priority goes": Case(
        TWO, [low("ten", "n1", cpu=2), low("five", "n2", cpu=2, priority=5)], [gang(None)], high(2), {"five"}, {"ten"},
    ),
    "SCH-153 one of two zones": Case(
        [make_node(f"n{n}", cpu=1, zone=f"z{n // 2}") for n in range(4)],
        [low("a", "n0"), low("b", "n1"), low("c", "n2", priority=5), low("d", "n3", priority=5)],
        [gang(2, key=ZONE)], high(2), {"c", "d"}, {"a", "b"},
    ),
    "SCH-149 an extra beside an extra that fits": Case(
        [make_node("n", cpu=4)],
        [make_pod_group("g", gang=2, priority=100),
         *(make_pod(f"running{n}", group="g", node="n", priority=100) for n in range(2)), low("low", "n")],
        [], high(2), {"low"}, {"running0", "running1"},
    ),
    "SCH-150 the same for a basic group": Case(
        [make_node("n", cpu=4)],
        [make_pod_group("g", priority=100),
         *(make_pod(f"running{n}", group="g", node="n", priority=100) for n in range(2)), low("low", "n")],
        [], high(2), {"low"}, {"running0", "running1"},
    ),
    "SCH-157 a tree over two nodes": Case(
        TWO, [low("one", "n1", cpu=2), low("two", "n2", cpu=1)],
        [make_composite("root", priority=100), gang(3, parent="root")], high(3), {"one"}, {"two"},
    ),
    "SCH-167 a tree": Case(
        N3, lows("n", 3), [unsaid(make_composite("root", gang=1, priority=100)), unsaid(gang(3, parent="root"))],
        high(3), ALL3,
    ),
    "SCH-169 a tree with policy PreemptLowerPriority": Case(
        N3, lows("n", 3), [make_composite("root", gang=1, priority=100), gang(3, parent="root")],
        high(3, preemptionPolicy="PreemptLowerPriority"), ALL3,
    ),
    "SCH-172 a tree without a policy, but pods that say Never": Case(
        N3, lows("n", 3), [unsaid(make_composite("root", gang=1, priority=100)), unsaid(gang(3, parent="root"))],
        high(3, preemptionPolicy="Never"), set(), ALL3, False,
    ),
    "SCH-168 a tree with policy Never": Case(
        N3, lows("n", 3),
        [make_composite("root", gang=1, priority=100, never=True), gang(3, parent="root", never=True)],
        high(3, preemptionPolicy="Never"), set(), ALL3, False,
    ),
    "SCH-170 Never with unequal pods": Case(
        N3, lows("n", 3),
        [make_composite("root", gang=1, priority=100, never=True), gang(2, parent="root", never=True)],
        [make_pod(f"high{cpu}", group="g", cpu=cpu, priority=100, preemptionPolicy="Never") for cpu in (2, 1)],
        set(), ALL3, False,
    ),
    "SCH-171 unequal pods": Case(
        N3, lows("n", 3), [make_composite("root", gang=1, priority=100), gang(2, parent="root")],
        [make_pod(f"high{n}", group="g", cpu=cpu, priority=100) for n, cpu in enumerate((2, 1))], ALL3,
    ),
    "SCH-176 half used nodes": Case(
        TWO,
        [make_composite("vc", priority=10), make_pod_group("v", parent="vc", priority=10),
         low("a", "n1", group="v"), low("b", "n2", group="v")],
        [make_composite("root", gang=1, priority=100), gang(4, parent="root")], high(4), {"a", "b"},
    ),
    "SCH-177 half used nodes, basic": Case(
        TWO,
        [make_composite("vc", priority=10), make_pod_group("v", parent="vc", priority=10),
         low("a", "n1", group="v"), low("b", "n2", group="v")],
        [make_composite("root", priority=100), gang(None, parent="root")], high(4), {"a", "b"},
    ),
    "SCH-E14 no order of the pods works": Case(
        [make_node("n1", cpu=10), make_node("n2", cpu=10)], [low("a", "n1", cpu=10), low("b", "n2", cpu=10)],
        [gang(5)],
        [make_pod(f"high{n}", group="g", cpu=cpu, priority=100) for n, cpu in enumerate((6, 4, 4, 3, 3))],
        {"a", "b"},
    ),
    "SCH-E16 the rack with the fewest victims": Case(
        [*(make_node(f"a{n}", cpu=1, rack="r1") for n in range(4)),
         *(make_node(f"b{n}", cpu=1, rack="r2") for n in range(6))],
        [*(low(f"v{n}", f"a{n}") for n in range(4)), *(low(f"w{n}", f"b{n}") for n in range(3))],
        [gang(4, key=RACK)], high(4), set(), {"v0", "v1", "v2", "v3"}, lost=1,
    ),
}  # fmt: skip


def _composite_victims(mode: str) -> list[Object]:
    """Two groups below one composite: v1 on n1 and n2, v2 on n2."""
    return [
        make_composite("vc", mode=mode, priority=10),  # type: ignore[arg-type]
        make_pod_group("v1", parent="vc", priority=10), make_pod_group("v2", parent="vc", priority=10),
        low("a", "n1", cpu=2, group="v1"), low("b", "n2", group="v1"), low("c", "n2", group="v2"),
    ]  # fmt: skip


ON_N1 = [make_pod("high0", cpu=2, priority=100, nodeSelector={"kubernetes.io/hostname": "n1"})]

GROUP_VICTIMS = {
    "SCH-158 a composite that goes as one": Case(TWO, _composite_victims("all"), [], ON_N1, {"a", "b", "c"}),
    "SCH-159 a composite that goes pod by pod": Case(TWO, _composite_victims("single"), [], ON_N1, {"a"}, {"b", "c"}),
    "SCH-160 never for nothing": Case(
        [make_node("n", cpu=2)],
        [make_composite("vc", mode="all", priority=10), make_pod_group("v1", parent="vc", priority=10),
         low("a", "n", group="v1")],
        [], [make_pod("high0", cpu=3, priority=100)], set(), {"a"}, False,
    ),
    "SCH-161 a pod by itself rather than a tree that goes as one": Case(
        N3,
        [make_composite("c", mode="all", priority=10), make_pod_group("v1", parent="c", priority=10),
         low("a", "n", group="v1"), low("b", "n", group="v1"),
         make_pod_group("v2", priority=10), low("alone", "n", group="v2")],
        [gang(1)], high(1), {"alone"}, {"a", "b"},
    ),
    "SCH-162 the composite of the lowest priority": Case(
        N3,
        [make_composite("c1", priority=10), make_pod_group("v1", parent="c1", priority=10), low("a", "n", group="v1"),
         make_composite("c2", priority=20), make_pod_group("v2", parent="c2", priority=20),
         low("b", "n", group="v2", priority=20)],
        [], [make_pod("high0", cpu=2, priority=100)], {"a"}, {"b"},
    ),
    "SCH-165 the highest ancestor that goes as one": Case(
        TWO,
        [make_composite("top", mode="all", priority=10), make_composite("mid", parent="top", priority=10),
         make_pod_group("v1", parent="mid", priority=10), make_pod_group("v2", parent="mid", priority=10),
         low("a", "n1", cpu=2, group="v1"), low("b", "n2", group="v1"), low("c", "n2", group="v2")],
        [], ON_N1, {"a", "b", "c"},
    ),
    "SCH-166 a parent that goes as one below one that does not": Case(
        TWO,
        [make_composite("top", priority=10), make_composite("mid", mode="all", parent="top", priority=10),
         make_pod_group("v1", parent="mid", priority=10), make_pod_group("v2", parent="top", priority=10),
         low("a", "n1", cpu=2, group="v1"), low("b", "n2", group="v1"), low("c", "n2", group="v2")],
        [], ON_N1, {"a", "b"}, {"c"},
    ),
    "SCH-179 a group on two nodes": Case(
        TWO, [_victim_group("all", None), low("a", "n1", cpu=2, group="v"), low("b", "n2", group="v")],
        [], ON_N1, {"a", "b"},
    ),
    "SCH-180 a group on one node": Case(
        [make_node("n1", cpu="500m")],
        [_victim_group("all", None), *(low(f"a{n}", "n1", cpu="250m", group="v") for n in range(2))],
        [], [make_pod("high0", cpu="300m", priority=100)], {"a0", "a1"},
    ),
    "SCH-181 the group of the lower priority": Case(
        TWO,
        [make_pod_group("v", mode="all", priority=10), make_pod_group("w", mode="all", priority=50),
         low("a", "n1", group="v"), low("b", "n2", group="v"),
         low("c", "n1", group="w", priority=50), low("d", "n2", group="w", priority=50)],
        [], [make_pod("high0", priority=100, nodeSelector={"kubernetes.io/hostname": "n1"})], {"a", "b"}, {"c", "d"},
    ),
    "SCH-184 a composite on two nodes": Case(
        TWO,
        [make_composite("vc", mode="all", priority=10), make_pod_group("v", parent="vc", priority=10),
         low("a", "n1", cpu=2, group="v"), low("b", "n2", group="v")],
        [], ON_N1, {"a", "b"},
    ),
    "SCH-185 a composite on one node": Case(
        [make_node("n1", cpu="500m")],
        [make_composite("vc", mode="all", priority=10), make_pod_group("v", parent="vc", priority=10),
         *(low(f"a{n}", "n1", cpu="250m", group="v") for n in range(2))],
        [], [make_pod("high0", cpu="300m", priority=100)], {"a0", "a1"},
    ),
    "SCH-186 the composite of the lower priority": Case(
        TWO,
        [make_composite("c1", mode="all", priority=10), make_pod_group("v", parent="c1", priority=10),
         make_composite("c2", mode="all", priority=50), make_pod_group("w", parent="c2", priority=50),
         low("a", "n1", group="v"), low("b", "n2", group="v"),
         low("c", "n1", group="w", priority=50), low("d", "n2", group="w", priority=50)],
        [], [make_pod("high0", priority=100, nodeSelector={"kubernetes.io/hostname": "n1"})], {"a", "b"}, {"c", "d"},
    ),
    "SCH-187 a composite whose end is not enough": Case(
        [make_node("n1", cpu=2)],
        [make_composite("vc", mode="all", priority=10), make_pod_group("v", parent="vc", priority=10),
         low("a", "n1", group="v"), low("equal", "n1", priority=100)],
        [], [make_pod("high0", cpu=2, priority=100)], set(), {"a", "equal"}, False,
    ),
    "SCH-188 a composite that goes pod by pod": Case(
        TWO,
        [make_composite("vc", priority=10), make_pod_group("v", parent="vc", priority=10),
         low("a", "n1", cpu=2, group="v"), low("b", "n2", group="v")],
        [], ON_N1, {"a"}, {"b"},
    ),
    "SCH-182 not enough, so nobody": Case(
        [make_node("n1", cpu=2)],
        [_victim_group("all", None), low("a", "n1", group="v"), low("equal", "n1", priority=100)],
        [], [make_pod("high0", cpu=2, priority=100)], set(), {"a", "equal"}, False,
    ),
    "SCH-183 a group that goes pod by pod": Case(
        TWO, [_victim_group("single", None), low("a", "n1", cpu=2, group="v"), low("b", "n2", group="v")],
        [], ON_N1, {"a"}, {"b"},
    ),
}  # fmt: skip


def _cases(cases: dict[str, Case]) -> list[object]:
    return [pytest.param(case, id=name, marks=pytest.mark.conformance(name.split()[0])) for name, case in cases.items()]


@pytest.mark.parametrize("case", [*_cases(GROUP_PREEMPTORS), *_cases(GROUP_VICTIMS)])
@in_virtual_time
async def test_which_pods_are_evicted_and_which_stay(world: SchedulerPlane, case: Case) -> None:
    await world.create(*case.nodes, *case.victims)
    await world.settle(2)
    await world.create(*case.groups, *case.pods)
    await world.settle(40)
    for name in case.gone:
        assert await world.gone(name), name
    for name in case.kept:
        assert await world.scheduled(name), name
    if case.lost is not None:
        pods = [victim["metadata"]["name"] for victim in case.victims if victim["kind"] == "Pod"]
        assert [await world.gone(name) for name in pods].count(True) == case.lost
    for pod in case.pods:
        name = pod["metadata"]["name"]
        wanted = case.placed if isinstance(case.placed, bool) else name in case.placed
        assert bool((await world.nodes(name))[0]) == wanted, name
        if not wanted:
            assert await world.unscheduled(name)


@pytest.mark.conformance("SCH-133", "SCH-136")
@pytest.mark.parametrize("policy", [1, None])
@in_virtual_time
async def test_a_unit_of_higher_priority_is_never_touched(world: SchedulerPlane, policy: int | None) -> None:
    await world.create(*FOUR)
    for group, priority, nodes in (("v", 50, ("n0", "n1")), ("w", 200, ("n2", "n3"))):
        await world.create(make_pod_group(group, gang=2, mode="all", priority=priority))
        await world.create(
            *(make_pod(f"{group}{n}", group=group, node=node, priority=priority) for n, node in enumerate(nodes))
        )
    await world.settle(1)
    await world.create(gang(policy), *high(3))
    await world.settle(40)
    assert await world.gone("v0", "v1")
    assert await world.scheduled("w0", "w1", "high0", "high1")
    assert await world.unscheduled("high2")


@pytest.mark.conformance("SCH-155", "SCH-156")
@in_virtual_time
async def test_the_preemptor_keeps_its_places_while_victims_terminate(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"n{n}", cpu=1) for n in range(3)))
    await world.create(low("first", "n0", priority=100))
    await world.create(low("a", "n1", grace=30), low("b", "n2", grace=30))
    await world.settle(1)
    await world.create(make_pod_group("g", gang=2, priority=50), *high(2, priority=50))
    await world.settle(2)
    status, reason, message = await world.condition("g")
    assert (status, reason) == ("False", "Unschedulable")
    assert message == "preempting Pod/a (priority 10), Pod/b (priority 10) to place 2 pods"
    nominated = [((await world.pod(name)) or {})["status"].get("nominatedNodeName") for name in ("high0", "high1")]
    assert sorted(map(str, nominated)) == ["n1", "n2"]
    # Room elsewhere, and someone less important who would like the freed one.
    await world.delete(PODS, "first")
    await world.create(make_pod("lesser", priority=20))
    await world.settle(3)
    assert await world.nodes("high0", "high1") == ["", ""]
    assert not await world.gone("a", "b")
    await world.delete(PODS, "a", "b", grace=0)
    await world.settle(3)
    assert await world.scheduled("high0", "high1")
    assert await world.condition("g") == SCHEDULED


@in_virtual_time
async def test_freed_room_is_not_for_a_lower_priority(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=2), low("a", "n", grace=30), low("b", "n", grace=30))
    await world.settle(1)
    await world.create(gang(2), *high(2))
    await world.settle(1)
    await world.create(make_pod("lesser", priority=50))
    await world.delete(PODS, "a", grace=0)
    await world.settle(3)
    assert await world.nodes("lesser", "high0", "high1") == ["", "", ""]
    await world.delete(PODS, "b", grace=0)
    await world.settle(3)
    assert await world.scheduled("high0", "high1")
    assert await world.unscheduled("lesser")


@in_virtual_time
async def test_no_more_victims_while_the_first_terminate(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=2), low("a", "n", grace=60), low("b", "n", grace=60))
    await world.settle(1)
    await world.create(gang(1), *high(1))
    await world.settle(40)
    marked = [name for name in ("a", "b") if "deletionTimestamp" in ((await world.pod(name)) or {})["metadata"]]
    assert len(marked) == 1


@in_virtual_time
async def test_a_preemptor_whose_victim_never_goes_takes_room_that_appears_elsewhere(world: SchedulerPlane) -> None:
    stays = make_pod("low", cpu=2, priority=10)
    stays["metadata"]["finalizers"] = ["example.com/for-ever"]
    await world.create(make_node("n0", cpu=2), stays)
    await world.settle(1)
    await world.create(gang(1), *high(1, cpu=2))
    await world.settle(300)
    assert await world.unscheduled("high0")
    await world.create(make_node("n1", cpu=2))
    await world.settle(61)
    assert await world.nodes("high0") == ["n1"]


@in_virtual_time
async def test_someone_more_important_takes_a_place_that_was_only_kept(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=1), low("a", "n", grace=30))
    await world.settle(1)
    await world.create(gang(1), *high(1))
    await world.settle(1)
    await world.create(make_pod("top", priority=500))
    await world.settle(1)
    await world.delete(PODS, "a", grace=0)
    await world.settle(3)
    assert await world.scheduled("top")
    assert await world.unscheduled("high0")


@pytest.mark.conformance("SCH-204")
@in_virtual_time
async def test_what_victims_and_their_groups_are_told(world: SchedulerPlane) -> None:
    await world.create(*TWO, make_composite("vc", gang=1, mode="all", priority=10))
    await world.create(make_pod_group("v", gang=2, parent="vc", priority=10))
    await world.create(*(make_pod(f"low{n}", group="v", cpu=2, priority=10, grace=30) for n in range(2)))
    await world.settle(1)
    await world.create(gang(1), *high(1, cpu=2))
    await world.settle(3)
    said = "default-scheduler: preempting to accommodate a higher priority podgroup"
    for name in ("low0", "low1"):
        pod = await world.pod(name) or {}
        condition = next(c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget")
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert condition["message"] == said
        told = dict(await world.events(name))["Preempted"]
        assert told.startswith("Preempted by podgroup default/g ")
    for group in ("vc", "v"):
        assert await world.condition(group, "DisruptionTarget") == ("True", "PreemptionByScheduler", said)
        assert (await world.condition(group))[0] == "True", "once scheduled, always said so"
    await world.delete(PODS, "low0", "low1", grace=0)
    await world.settle(3)
    assert await world.scheduled("high0")
    # It comes back when the other is done.
    await world.create(*(make_pod(f"again{n}", group="v", cpu=2, priority=10) for n in range(2)))
    await world.settle(3)
    assert await world.unscheduled("again0", "again1")
    await world.delete(PODS, "high0")
    await world.settle(3)
    assert await world.scheduled("again0", "again1")
    for group in ("vc", "v"):
        assert (await world.condition(group, "DisruptionTarget"))[0] == "False"


@pytest.mark.conformance("SCH-81")
@in_virtual_time
async def test_an_extra_member_evicts_in_the_rack_of_its_gang(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"r1-{n}", cpu=2, rack="r1") for n in range(3)))
    await world.create(*(make_node(f"r2-{n}", cpu=2, rack="r2") for n in range(2)))
    await world.create(low("low", "r2-0"))
    await world.create(*(low(f"high-in-r1-{n}", f"r1-{n}", cpu=2, priority=300) for n in range(3)))
    await world.settle(1)
    await world.create(gang(3, key=RACK), *high(3))
    await world.settle(3)
    assert {node[:2] for node in await world.nodes("high0", "high1", "high2")} == {"r2"}
    assert await world.scheduled("low")
    await world.create(make_pod("high3", group="g", priority=100))
    await world.settle(5)
    assert (await world.nodes("high3"))[0][:2] == "r2"
    assert await world.gone("low")
    await world.create(make_pod("high4", group="g", priority=100))
    await world.settle(5)
    assert await world.unscheduled("high4")


@pytest.mark.conformance("SCH-108", "SCH-111")
@pytest.mark.parametrize(("policy", "pods"), [(2, 2), (None, 1)])
@in_virtual_time
async def test_a_tree_evicts_in_the_one_rack_it_can_have(world: SchedulerPlane, policy: int | None, pods: int) -> None:
    await world.create(*(make_node(f"r{r}-{n}", cpu=pods, rack=f"r{r}") for r in (1, 2) for n in range(2)))
    await world.create(*(low(f"low{n}", f"r1-{n}", cpu=pods) for n in range(2)))
    await world.create(low("equal", "r2-0", cpu=pods, priority=100))
    await world.settle(1)
    await world.create(make_composite("root", gang=2, key=RACK, priority=100))
    await world.create(*(make_pod_group(g, gang=policy, parent="root", priority=100) for g in "ab"))
    names = [f"{g}{n}" for g in "ab" for n in range(pods)]
    await world.create(*(make_pod(name, group=name[0], priority=100) for name in names))
    await world.settle(5)
    assert {node[:2] for node in await world.nodes(*names)} == {"r1"}
    assert await world.gone("low0", "low1")


@pytest.mark.conformance("SCH-113")
@in_virtual_time
async def test_a_further_group_evicts_only_inside_the_trees_domain(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"r{n}", cpu=2, rack=f"r{n}", zone="z1") for n in (1, 2, 3)))
    await world.create(make_node("r4", cpu=2, rack="r4", zone="z2"))
    await world.create(low("in3", "r3", cpu=2), low("in4", "r4", cpu=2))
    await world.settle(1)
    await world.create(make_composite("root", gang=2, key=ZONE, priority=100))
    for name in ("g1", "g2", "g3", "g4"):
        await world.create(make_pod_group(name, gang=2, key=RACK, parent="root", priority=100))
        await world.create(*(make_pod(f"{name}-{n}", group=name, priority=100) for n in range(2)))
        if name != "g1":
            await world.settle(5)
    assert await world.scheduled("g1-0", "g1-1", "g2-0", "g2-1")
    assert await world.nodes("g3-0", "g3-1") == ["r3", "r3"]
    assert await world.unscheduled("g4-0", "g4-1")
    assert await world.gone("in3")
    assert await world.scheduled("in4")


@pytest.mark.conformance("SCH-163")
@in_virtual_time
async def test_a_group_under_a_budget_is_spared_if_another_will_do(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=3), make_budget("keep", {"app": "kept"}, min_available=2))
    await world.create(make_composite("c1", mode="all", priority=10), make_composite("c2", mode="all", priority=10))
    await world.create(*(make_pod_group(f"v{n}", parent=f"c{n}", priority=10) for n in (1, 2)))
    await world.create(*(low(f"kept{n}", "n", group="v1", labels={"app": "kept"}) for n in range(2)))
    await world.create(low("other", "n", group="v2"))
    await world.settle(1)
    await world.create(make_pod("high0", priority=100))
    await world.settle(5)
    assert await world.scheduled("high0", "kept0", "kept1")
    assert await world.gone("other")


@pytest.mark.conformance("SCH-164")
@in_virtual_time
async def test_of_one_composite_the_pods_under_a_budget_stay(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=2), make_budget("keep", {"app": "kept"}, min_available=1))
    await world.create(make_composite("vc", priority=10))
    await world.create(*(make_pod_group(f"v{n}", parent="vc", priority=10) for n in (1, 2)))
    await world.create(low("kept", "n", group="v1", labels={"app": "kept"}), low("other", "n", group="v2"))
    await world.settle(1)
    await world.create(make_pod("high0", priority=100))
    await world.settle(5)
    assert await world.scheduled("high0", "kept")
    assert await world.gone("other")


@pytest.mark.conformance("SCH-110", "SCH-115")
@in_virtual_time
async def test_a_tree_evicts_where_its_running_members_hold_it(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"r{r}-{n}", cpu=2, rack=f"r{r}", zone="z1") for r in (1, 2) for n in range(2)))
    await world.create(*(make_node(f"r{r}-{n}", cpu=4, rack=f"r{r}", zone="z2") for r in (3, 4) for n in range(2)))
    await world.create(make_composite("root", gang=2, key=ZONE, priority=100))
    await world.create(*(make_pod_group(g, gang=2, key=RACK, parent="root", priority=100) for g in "ab"))
    await world.create(make_pod("a0", group="a", node="r1-0", priority=100))
    await world.create(low("l0", "r1-0"), low("l1", "r1-1", cpu=2), low("l2", "r2-0", cpu=2), low("l3", "r2-1", cpu=2))
    await world.settle(1)
    await world.create(make_pod("a1", group="a", priority=100))
    await world.create(*(make_pod(f"b{n}", group="b", cpu=2, priority=100) for n in range(2)))
    await world.settle(5)
    assert (await world.nodes("a1"))[0][:2] == "r1"
    assert {node[:2] for node in await world.nodes("b0", "b1")} == {"r2"}
    assert await world.gone("l2", "l3")


@pytest.mark.conformance("SCH-112", "SCH-116", "SCH-117", "SCH-119")
@pytest.mark.parametrize("middle", [None, RACK, "topology.kubernetes.io/block"])
@in_virtual_time
async def test_a_tree_of_three_levels_evicts_in_one_zone(world: SchedulerPlane, middle: str | None) -> None:
    await world.create(
        *(make_node(f"r{n}", cpu=4, rack=f"r{n}", block=f"b{n // 2}", zone="z1") for n in range(4)),
        make_node("r9", cpu=4, rack="r9", block="b9", zone="z2"),
    )
    await world.create(*(low(f"low{n}", f"r{n}", cpu=4) for n in range(4)))
    await world.create(low("other", "r9", cpu=4))
    await world.settle(1)
    await world.create(make_composite("root", gang=2, key=ZONE, priority=100))
    await world.create(
        *(make_composite(sub, gang=2, parent="root", key=middle or "", priority=100) for sub in ("s1", "s2"))
    )
    names = []
    for group in ("s1a", "s1b", "s2a", "s2b"):
        await world.create(make_pod_group(group, gang=2, parent=group[:2], key=RACK, priority=100))
        names += [f"{group}-{n}" for n in range(2)]
    await world.create(*(make_pod(name, group=name[:3], priority=100, cpu=2) for name in names if middle != RACK))
    await world.create(*(make_pod(name, group=name[:3], priority=100) for name in names if middle == RACK))
    await world.settle(5)
    assert await world.scheduled(*names, "other")
    for group in ("s1a", "s1b", "s2a", "s2b"):
        assert len(set(await world.nodes(f"{group}-0", f"{group}-1"))) == 1


@pytest.mark.conformance("SCH-114")
@in_virtual_time
async def test_a_tree_evicts_from_the_node_that_only_it_tolerates(world: SchedulerPlane) -> None:
    taint = [{"key": "t", "effect": "NoSchedule"}]
    tolerated = [{"key": "t", "operator": "Exists"}]
    await world.create(make_node("n1", cpu=2, rack="r1", zone="z1", taints=taint))
    await world.create(make_node("n2", cpu=2, rack="r2", zone="z1"), make_node("n3", cpu=3, rack="r3", zone="z2"))
    await world.create(low("low", "n1", cpu=2, tolerations=tolerated))
    await world.settle(1)
    await world.create(make_composite("root", gang=2, key=ZONE, priority=100))
    await world.create(make_pod_group("a", gang=2, parent="root", key=RACK, priority=100))
    await world.create(make_pod_group("b", gang=2, parent="root", priority=100))
    await world.pods("a", "a", 2, priority=100, tolerations=tolerated)
    await world.pods("b", "b", 2, priority=100)
    await world.settle(5)
    assert await world.gone("low")
    assert await world.nodes("a0", "a1") == ["n1", "n1"]
    assert await world.nodes("b0", "b1") == ["n2", "n2"]


@pytest.mark.conformance("SCH-118")
@in_virtual_time
async def test_subtrees_with_a_zone_each_evict_in_both_zones(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"r{n}", cpu=2, rack=f"r{n}", zone=f"z{n // 2}") for n in range(4)))
    await world.create(*(low(f"low{n}", f"r{n}", cpu=2) for n in range(4)))
    await world.settle(1)
    await world.create(make_composite("root", gang=2, priority=100))
    await world.create(*(make_composite(s, gang=2, parent="root", key=ZONE, priority=100) for s in ("s1", "s2")))
    groups = [f"{sub}{n}" for sub in ("s1", "s2") for n in range(2)]
    await world.create(*(make_pod_group(g, gang=2, parent=g[:2], key=RACK, priority=100) for g in groups))
    for group in groups:
        await world.pods(group, f"{group}-", 2, priority=100)
    await world.settle(5)
    assert await world.gone(*(f"low{n}" for n in range(4)))
    racks = {group: set(await world.nodes(f"{group}-0", f"{group}-1")) for group in groups}
    assert all(len(used) == 1 for used in racks.values())
    for sub in ("s1", "s2"):
        assert racks[f"{sub}0"] | racks[f"{sub}1"] in ({"r0", "r1"}, {"r2", "r3"})


@pytest.mark.conformance("SCH-120")
@in_virtual_time
async def test_a_running_member_pins_where_a_tree_of_three_levels_evicts(world: SchedulerPlane) -> None:
    nodes = [f"{zone}-{rack}-{n}" for zone in ("z1", "z2") for rack in ("r1", "r2") for n in range(2)]
    await world.create(*(make_node(name, cpu=2, rack=name[:5], zone=name[:2]) for name in nodes))
    await world.create(make_composite("root", gang=2, key=ZONE, priority=100))
    await world.create(*(make_composite(s, gang=2, parent="root", key=RACK, priority=100) for s in ("s1", "s2")))
    groups = [f"{sub}{n}" for sub in ("s1", "s2") for n in range(2)]
    await world.create(*(make_pod_group(group, gang=2, parent=group[:2], priority=100) for group in groups))
    await world.create(make_pod("s10-0", group="s10", node="z2-r1-0", priority=100))
    await world.create(low("low1", "z2-r1-1"), low("low2", "z2-r2-1"))
    await world.settle(1)
    await world.pods("s10", "s10-", 1, first=1, priority=100)
    for group in groups[1:]:
        await world.pods(group, f"{group}-", 2, priority=100)
    await world.settle(5)
    assert await world.gone("low1", "low2")
    for sub, rack in (("s1", "z2-r1"), ("s2", "z2-r2")):
        pods = [f"{sub}{group}-{n}" for group in range(2) for n in range(2)]
        assert {node[:5] for node in await world.nodes(*pods)} == {rack}


@pytest.mark.conformance("SCH-178")
@in_virtual_time
async def test_victims_whose_root_object_is_gone_can_still_be_preempted(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=2), make_composite("vc", mode="all", priority=10))
    await world.create(make_pod_group("v", parent="vc", priority=10), *(low(f"v{n}", "n", group="v") for n in range(2)))
    await world.settle(1)
    await world.remove(COMPOSITE_POD_GROUPS, "vc")
    await world.settle(1)
    await world.create(gang(2), *high(2))
    await world.settle(5)
    assert await world.gone("v0", "v1")
    assert await world.scheduled("high0", "high1")


@in_virtual_time
async def test_equal_priorities_never_preempt_each_other(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=2))
    for group in ("a", "b"):
        await world.create(make_pod_group(group, gang=2, mode="all", priority=100))
        await world.create(*(make_pod(f"{group}{n}", group=group, priority=100) for n in range(2)))
    await world.settle(120)
    assert await world.scheduled("a0", "a1")
    assert await world.unscheduled("b0", "b1")


@pytest.mark.parametrize("moment", range(1, 60, 6))
@in_virtual_time
async def test_a_preemption_goes_on_after_a_crash(world: SchedulerPlane, moment: int) -> None:
    await world.create(
        *(make_node(f"n{n}", cpu=2) for n in range(4)), make_pod_group("v", gang=4, mode="all", priority=10)
    )
    await world.create(*(make_pod(f"low{n}", group="v", cpu=2, priority=10, grace=5) for n in range(4)))
    await world.settle(2)
    await world.create(gang(2))
    for pod in high(2, cpu=2):
        await world.submit(pod)
    for _ in range(moment):
        await asyncio.sleep(0)
    await world.restart()
    await world.settle(3)
    for name in [f"low{n}" for n in range(4)]:
        if not await world.gone(name):
            await world.delete(PODS, name, grace=0)
    await world.settle(3)
    assert await world.scheduled("high0", "high1")
    assert await world.condition("g") == SCHEDULED


class _SlowToSay(AlteredApi):
    """An API that is slow to write the nominated node of a preemptor."""

    async def patch(self, resource: Resource, name: str, *rest: Any) -> Object:
        if resource is PODS and name.startswith("high"):
            await asyncio.sleep(5)
        return await self._verbs.patch(resource, name, *rest)


@in_virtual_time
async def test_a_crash_before_the_preemptor_was_noted_evicts_no_further_pod(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"n{n}", cpu=2) for n in range(4)))
    lows = [f"low{n}" for n in range(4)]
    await world.create(*(make_pod(name, cpu=2, priority=10, grace=20) for name in lows))
    await world.settle(2)
    await world.restart(_SlowToSay(world.acting))
    await world.settle(1)
    await world.create(gang(2), *high(2, cpu=2))
    await world.settle(1)
    await world.restart()
    await world.settle(5)
    leaving = [name for name in lows if (pod := await world.pod(name)) is not None and meta.deleting(pod)]
    assert len(leaving) == 2
    await world.delete(PODS, *leaving, grace=0)
    await world.settle(3)
    assert await world.scheduled("high0", "high1")


class SkewedClock:
    """The clock of another machine; wrong by two minutes, kube-controller-manager would take its marks for old ones."""

    def __init__(self, clock: Clock, ahead: float) -> None:
        self._clock = clock
        self._ahead = ahead

    def now(self) -> float:
        return self._clock.now() + self._ahead

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class FailingWrites(AlteredApi):
    """Marks only this many pods, or deletes none."""

    def __init__(self, verbs: Verbs, marks: int) -> None:
        super().__init__(verbs)
        self._marks = marks

    async def patch(self, resource: Resource, name: str, patch: Patch, *args: Any, **kwargs: Any) -> Object:
        if resource is PODS and EVICTED_BY in str(patch.body):
            self._marks -= 1
            if self._marks < 0:
                raise ApiError(500, "InternalError", "no more marks")
        return await self._verbs.patch(resource, name, patch, *args, **kwargs)

    async def delete(self, *args: Any, **kwargs: Any) -> Object:
        raise ApiError(500, "InternalError", "no deletions")


@in_virtual_time
async def test_half_marked_victims_are_evicted_whole_though_the_clocks_differ(world: SchedulerPlane) -> None:
    """The scheduler is a minute behind the server: its marks look older than the bindings of the victims."""
    await world.create(make_node("n", cpu=2), make_pod_group("low", gang=2, mode="all", priority=1))
    await world.pods("low", "v", 2, priority=1)
    await world.settle()
    world.clock = SkewedClock(world.clock, ahead=-60)
    await world.restart(FailingWrites(world.acting, marks=1))
    await world.create(make_pod("high", priority=100, cpu=2))
    await world.settle()
    await world.stop()
    await world.delete(PODS, "high", grace=0)
    world.start()
    await world.settle()
    assert await world.gone("v0", "v1")


@in_virtual_time
async def test_a_new_run_of_the_victims_group_is_left_alone_though_the_clocks_differ(world: SchedulerPlane) -> None:
    """The scheduler is a minute ahead of the server: what is bound after its marks looks older than they."""
    await world.create(make_node("n", cpu=2), make_pod_group("low", gang=2, mode="all", priority=1))
    await world.pods("low", "v", 2, priority=1)
    await world.settle()
    world.clock = SkewedClock(world.clock, ahead=60)
    await world.restart(FailingWrites(world.acting, marks=2))
    await world.create(make_pod("high", priority=100, cpu=2))
    await world.settle()
    await world.stop()
    await world.delete(PODS, "v0", grace=0)
    await asyncio.sleep(1.1)  # servers count whole seconds, and on a real one hardly any time passes
    await world.create(make_node("m"), make_pod("again", group="low", priority=1))
    await world.verbs.bind("default", "again", "m")
    world.start()
    await world.settle()
    assert await world.gone("v1")
    assert await world.scheduled("again")
    assert not await world.gone("again")
