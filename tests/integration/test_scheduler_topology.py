"""Required topology through the real API, as tables: nodes by rack and zone, pods running, groups asked, result."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from echelon.api.objects.vocabulary import BLOCK, RACK, ZONE
from echelon.api.scheme import PODS, Object
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time


def rack(name: str, nodes: int, zone: str = "", block: str = "", cpu: int = 2) -> list[Object]:
    """Nodes of 2 CPUs in one rack."""
    return [make_node(f"{name}-{n}", cpu=cpu, rack=name, zone=zone, block=block) for n in range(nodes)]


def running(name: str, node: str, cpu: int = 1, **more: object) -> Object:
    return make_pod(name, node=node, cpu=cpu, **more)  # type: ignore[arg-type]


@dataclass
class Case:
    """`pods` are created group by group; `want` is where each pod ends: a rack, a set of racks, or "" for nowhere."""

    nodes: list[Object]
    groups: list[Object]
    #: group -> CPUs of its pods
    pods: dict[str, list[int]]
    want: dict[str, set[str] | str]
    blockers: list[Object] = field(default_factory=list)


RACKS_321 = [*rack("r1", 3), *rack("r2", 2), *rack("r3", 1)]

FLAT = {
    "SCH-67 the only rack with room": Case(
        RACKS_321, [make_pod_group("g", gang=3, key=RACK)], {"g": [1, 1, 1]}, {"g": {"r1"}},
        [running("b0", "r2-0", 2)],
    ),
    "SCH-68 no rack is large enough": Case(
        [*rack("r1", 2), *rack("r2", 1), *rack("r3", 1)],
        [make_pod_group("g", gang=3, key=RACK)], {"g": [2, 2, 2]}, {"g": ""},
    ),
    "SCH-73 the tightest rack": Case(
        [*rack("r1", 2), *rack("r2", 3), *rack("r3", 1)],
        [make_pod_group("g", gang=3, key=RACK)], {"g": [1, 1, 1]}, {"g": {"r1"}},
    ),
    "SCH-75 large first, then small": Case(
        [*rack("r1", 3), *rack("r2", 2)],
        [make_pod_group("a", gang=3, key=RACK), make_pod_group("b", gang=2, key=RACK)],
        {"a": [2, 2, 2], "b": [1, 1]}, {"a": {"r1"}, "b": {"r2"}},
    ),
    "SCH-76 two gangs share a rack": Case(
        [*rack("r1", 3), *rack("r2", 1)],
        [make_pod_group("a", gang=2, key=RACK), make_pod_group("b", gang=3, key=RACK)],
        {"a": [2, 1], "b": [1, 1, 1]}, {"a": {"r1"}, "b": {"r1"}},
    ),
    "SCH-77 a rack of one zone, then a zone": Case(
        [*rack("r1", 2, "z1"), *rack("r2", 1, "z1"), *rack("r3", 3, "z2")],
        [make_pod_group("a", gang=3, key=RACK), make_pod_group("b", gang=3, key=ZONE)],
        {"a": [2, 2, 2], "b": [2, 2, 2]}, {"a": {"r3"}, "b": {"r1", "r2"}},
    ),
    "SCH-78 full after the first": Case(
        rack("r1", 2), [make_pod_group("a", gang=3, key=RACK), make_pod_group("b", gang=2, key=RACK)],
        {"a": [1, 1, 1], "b": [1, 1]}, {"a": {"r1"}, "b": ""},
    ),
    "SCH-82 an equal priority is not moved": Case(
        rack("r1", 2), [make_pod_group("g", gang=3, key=RACK)], {"g": [1, 1, 1]}, {"g": ""},
        [running("b0", "r1-0", 2)],
    ),
    "SCH-83 basic in its only rack": Case(
        rack("r1", 2), [make_pod_group("g", key=RACK)], {"g": [1, 1, 1]}, {"g": {"r1"}},
    ),
    "SCH-86 basic, nothing fits": Case(
        [*rack("r1", 1), *rack("r2", 1)], [make_pod_group("g", key=RACK)], {"g": [3, 3]}, {"g": ""},
    ),
    "SCH-74 beside what runs": Case(
        [*rack("r1", 2), *rack("r2", 3), *rack("r3", 3), *rack("r4", 1)],
        [make_pod_group("g", gang=3, key=RACK)], {"g": [1, 1, 1]}, {"g": {"r1", "r2"}},
        [running("b0", "r2-0", 2), running("b1", "r3-0")],
    ),
    "SCH-88 a basic group in the tightest rack": Case(
        [*rack("r1", 2), *rack("r2", 3)], [make_pod_group("g", key=RACK)], {"g": [1, 1, 1]}, {"g": {"r1", "r2"}},
    ),
    "SCH-89 a basic group stays together": Case(
        [*rack("r1", 3), *rack("r2", 3), *rack("r3", 4)], [make_pod_group("g", key=RACK)],
        {"g": [1, 1, 1]}, {"g": {"r1", "r2", "r3"}},
        [running("b0", "r1-0"), running("b1", "r2-0", 2)],
    ),
    "SCH-91 two basic groups": Case(
        [*rack("r1", 3), *rack("r2", 1)], [make_pod_group("a", key=RACK), make_pod_group("b", key=RACK)],
        {"a": [1, 1], "b": [1, 1]}, {"a": {"r1", "r2"}, "b": {"r1", "r2"}},
    ),
    "SCH-92 two basic groups in one rack": Case(
        rack("r1", 3), [make_pod_group("a", key=RACK), make_pod_group("b", key=RACK)],
        {"a": [1, 1], "b": [1, 1, 1]}, {"a": {"r1"}, "b": {"r1"}},
    ),
    "SCH-E18 the first pod of a basic group does not lock the others out": Case(
        [*rack("r1", 1, cpu=8), *rack("r2", 1)], [make_pod_group("g", key=RACK)], {"g": [1, 1, 1]}, {"g": {"r1"}},
        [running("b0", "r1-0", 2)],
    ),
    "SCH-E19 one value in two zones is two domains": Case(
        [make_node("n1", cpu=2, rack="r1", zone="z1"), make_node("n2", cpu=2, rack="r1", zone="z2")],
        [make_pod_group("g", gang=4, key=RACK)], {"g": [1, 1, 1, 1]}, {"g": ""},
    ),
    "SCH-E1 small pods leave a node to the big one": Case(
        [make_node("n1", rack="r"), make_node("n2", rack="r")],
        [make_pod_group("g", gang=3)], {"g": [2, 2, 4]}, {"g": {"r"}},
    ),
    "SCH-E2 no order of the pods works": Case(
        [make_node("n1", cpu=10, rack="r"), make_node("n2", cpu=10, rack="r")],
        [make_pod_group("g", gang=5)], {"g": [6, 4, 4, 3, 3]}, {"g": {"r"}},
    ),
}  # fmt: skip

TREES = {
    "SCH-96 all children in the root's rack": Case(
        [*rack("r1", 2), *rack("r2", 2)],
        [make_composite("root", gang=2, key=RACK), *(make_pod_group(g, gang=2, parent="root") for g in "ab")],
        {"a": [1, 1], "b": [1, 1]}, {"a": {"r1"}, "b": {"r1"}}, [running("b0", "r2-0", 2)],
    ),
    "SCH-98 no rack holds both basic children": Case(
        [*rack("r1", 1), *rack("r2", 1)],
        [make_composite("root", gang=2, key=RACK), *(make_pod_group(g, parent="root") for g in "ab")],
        {"a": [1], "b": [1]}, {"a": "", "b": ""}, [running("b0", "r1-0"), running("b1", "r2-0")],
    ),
    "SCH-99 one zone, a rack for each": Case(
        [*rack("r1", 1, "z1"), *rack("r2", 1, "z1"), *rack("r3", 2, "z2")],
        [make_composite("root", gang=2, key=ZONE), *(make_pod_group(g, gang=2, parent="root", key=RACK) for g in "ab")],
        {"a": [1, 1], "b": [1, 1]}, {"a": {"r1", "r2"}, "b": {"r1", "r2"}}, [running("b0", "r3-0")],
    ),
    "SCH-103 zone, block, rack": Case(
        [node for n in range(4) for node in rack(f"r{n}", 1, "z1", f"b{n // 2}")] + rack("r9", 1, "z2", "b9"),
        [
            make_composite("root", gang=2, key=ZONE),
            *(make_composite(sub, gang=2, parent="root", key=BLOCK) for sub in ("s1", "s2")),
            *(make_pod_group(f"{sub}{n}", gang=2, parent=sub, key=RACK) for sub in ("s1", "s2") for n in range(2)),
        ],
        {f"{sub}{n}": [1, 1] for sub in ("s1", "s2") for n in range(2)},
        {f"{sub}{n}": {"r0", "r1", "r2", "r3"} for sub in ("s1", "s2") for n in range(2)},
    ),
    "SCH-104 zone, nothing, rack": Case(
        [node for n in range(4) for node in rack(f"r{n}", 1, "z1")] + rack("r9", 1, "z2"),
        [
            make_composite("root", gang=2, key=ZONE),
            *(make_composite(sub, parent="root") for sub in ("s1", "s2")),
            *(make_pod_group(f"{sub}{n}", gang=2, parent=sub, key=RACK) for sub in ("s1", "s2") for n in range(2)),
        ],
        {f"{sub}{n}": [1, 1] for sub in ("s1", "s2") for n in range(2)},
        {f"{sub}{n}": {"r0", "r1", "r2", "r3"} for sub in ("s1", "s2") for n in range(2)},
    ),
    "SCH-106 zone, rack, nothing": Case(
        [*rack("r1", 2, "z1"), *rack("r2", 2, "z1"), *rack("r3", 1, "z2")],
        [
            make_composite("root", gang=2, key=ZONE),
            *(make_composite(sub, gang=2, parent="root", key=RACK) for sub in ("s1", "s2")),
            *(make_pod_group(f"{sub}{n}", gang=2, parent=sub) for sub in ("s1", "s2") for n in range(2)),
        ],
        {f"{sub}{n}": [1, 1] for sub in ("s1", "s2") for n in range(2)},
        {f"{sub}{n}": {"r1", "r2"} for sub in ("s1", "s2") for n in range(2)},
    ),
    "SCH-105 nothing, zone, rack": Case(
        [*rack("r1", 1, "z1"), *rack("r2", 1, "z1"), *rack("r3", 1, "z2"), *rack("r4", 1, "z2"), *rack("r5", 1, "z2")],
        [
            make_composite("root"),
            *(make_composite(sub, gang=2, parent="root", key=ZONE) for sub in ("s1", "s2")),
            *(make_pod_group(f"{sub}{n}", gang=2, parent=sub, key=RACK) for sub in ("s1", "s2") for n in range(2)),
        ],
        {f"{sub}{n}": [1, 1] for sub in ("s1", "s2") for n in range(2)},
        {f"{sub}{n}": {"r1", "r2", "r3", "r4", "r5"} for sub in ("s1", "s2") for n in range(2)},
    ),
    "SCH-E10 the right block for each": Case(
        [
            *rack("r1", 2, "z", "b1", cpu=1), *rack("r2", 2, "z", "b1", cpu=1), *rack("r5", 1, "z", "b1", cpu=1),
            *rack("r3", 2, "z", "b2", cpu=1), *rack("r4", 3, "z", "b2", cpu=1),
        ],
        [
            make_composite("root", gang=2, key=ZONE),
            make_composite("s1", gang=2, parent="root", key=BLOCK),
            make_composite("s2", gang=1, parent="root", key=BLOCK),
            *(make_pod_group(name, gang=2, parent="s1", key=RACK) for name in ("g1", "g2")),
            make_pod_group("g3", gang=3, parent="s2", key=RACK),
        ],
        {"g1": [1, 1], "g2": [1, 1], "g3": [1, 1, 1]}, {"g1": {"r1", "r2"}, "g2": {"r1", "r2"}, "g3": {"r4"}},
    ),
    "SCH-E9 the smaller group in the smaller rack": Case(
        [*rack("big", 6, "z", cpu=1), *rack("small", 5, "z", cpu=1)],
        [
            make_composite("root", gang=2, key=ZONE),
            make_pod_group("p1", gang=4, parent="root", key=RACK),
            make_pod_group("p2", gang=6, parent="root", key=RACK),
        ],
        {"p1": [1] * 4, "p2": [1] * 6}, {"p1": {"small"}, "p2": {"big"}},
    ),
    "SCH-E11 whatever the order of creation": Case(
        [*rack("x", 4, "z", "b", cpu=1), *rack("y", 3, "z", "b", cpu=1)],
        [
            make_composite("root", gang=1, key=ZONE),
            make_composite("sub", gang=2, parent="root", key=BLOCK),
            make_pod_group("small", gang=2, parent="sub", key=RACK),
            make_pod_group("large", gang=4, parent="sub", key=RACK),
        ],
        {"small": [1] * 2, "large": [1] * 4}, {"small": {"y"}, "large": {"x"}},
    ),
}  # fmt: skip


def _cases(cases: dict[str, Case]) -> list[object]:
    """Each case proves the item its name begins with."""
    return [pytest.param(case, id=name, marks=pytest.mark.conformance(name.split()[0])) for name, case in cases.items()]


@pytest.mark.parametrize("case", [*_cases(FLAT), *_cases(TREES)])
@in_virtual_time
async def test_where_groups_go(world: SchedulerPlane, case: Case) -> None:
    racks = {node["metadata"]["name"]: node["metadata"]["labels"].get(RACK, "") for node in case.nodes}
    await world.create(*case.nodes, *case.blockers, *case.groups)
    for group, cpus in case.pods.items():
        await world.create(*(make_pod(f"{group}-{n}", group=group, cpu=cpu) for n, cpu in enumerate(cpus)))
        if not any(g["spec"].get("parentCompositePodGroupName") for g in case.groups):
            await world.settle(1)
    await world.settle()
    keys = {group["metadata"]["name"]: group for group in case.groups}
    for group, cpus in case.pods.items():
        names = [f"{group}-{n}" for n in range(len(cpus))]
        want = case.want[group]
        if not want:
            assert await world.unscheduled(*names), group
            continue
        assert await world.scheduled(*names), (group, await world.message(names[0]))
        used = {racks[node] for node in await world.nodes(*names)}
        assert used <= set(want), group
        topology = (keys[group]["spec"].get("schedulingConstraints") or {}).get("topology") or [{}]
        if topology[0].get("key") == RACK:
            assert len(used) == 1, group


@pytest.mark.conformance("SCH-93")
@in_virtual_time
async def test_a_basic_group_in_a_rack_and_one_in_a_zone(world: SchedulerPlane) -> None:
    await world.create(*rack("r1", 1, "z1"), *rack("r2", 2, "z2"), *rack("r3", 2, "z2"))
    await world.create(make_pod_group("a", key=RACK), make_pod_group("b", key=ZONE))
    await world.pods("b", "b", 3, cpu=2)
    await world.pods("a", "a", 2)
    await world.settle()
    assert len({node[:2] for node in await world.nodes("a0", "a1")}) == 1
    assert {node[:2] for node in await world.nodes("b0", "b1", "b2")} <= {"r2", "r3"}


@pytest.mark.conformance("SCH-90", "SCH-94")
@in_virtual_time
async def test_a_basic_group_whose_rack_is_full_waits_although_another_has_room(world: SchedulerPlane) -> None:
    await world.create(*rack("r2", 1), make_pod_group("a", key=RACK), make_pod_group("b", key=RACK))
    await world.pods("a", "a", 2)
    await world.settle(1)
    await world.create(*rack("r1", 2))
    await world.pods("a", "a", 1, first=2)
    await world.pods("b", "b", 3)
    await world.settle()
    assert await world.nodes("a0", "a1") == ["r2-0", "r2-0"]
    assert await world.unscheduled("a2")
    assert {node[:2] for node in await world.nodes("b0", "b1", "b2")} == {"r1"}


@pytest.mark.conformance("SCH-100")
@in_virtual_time
async def test_tolerations_and_preferences_inside_one_zone(world: SchedulerPlane) -> None:
    taint = [{"key": "t", "effect": "NoSchedule"}]
    await world.create(make_node("n1", cpu=2, rack="r1", zone="z1", taints=taint), *rack("r2", 1, "z1"))
    await world.create(*rack("r3", 1, "z2"), make_node("half", cpu=1, rack="r4", zone="z2"))
    await world.create(make_composite("root", gang=2, key=ZONE))
    await world.create(make_pod_group("a", gang=2, parent="root", key=RACK), make_pod_group("b", gang=2, parent="root"))
    wish = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z2"]}]}
    prefers = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": wish}]}}
    await world.pods("a", "a", 2, tolerations=[{"key": "t", "operator": "Exists"}])
    await world.pods("b", "b", 2, affinity=prefers)
    await world.settle()
    assert await world.nodes("a0", "a1") == ["n1", "n1"]
    assert await world.nodes("b0", "b1") == ["r2-0", "r2-0"]


@pytest.mark.conformance("SCH-107")
@in_virtual_time
async def test_a_running_member_pins_zone_and_rack_of_three_levels(world: SchedulerPlane) -> None:
    for zone in ("z1", "z2"):
        await world.create(*rack(f"{zone}-r1", 2, zone), *rack(f"{zone}-r2", 2, zone))
    await world.create(make_composite("root", gang=2, key=ZONE))
    await world.create(*(make_composite(sub, gang=2, parent="root", key=RACK) for sub in ("s1", "s2")))
    groups = [f"{sub}{n}" for sub in ("s1", "s2") for n in range(2)]
    await world.create(*(make_pod_group(group, gang=2, parent=group[:2]) for group in groups))
    await world.create(make_pod("s10-0", group="s10", node="z2-r1-0"), make_pod("s10-1", group="s10"))
    for group in groups[1:]:
        await world.pods(group, f"{group}-", 2)
    await world.settle()
    first = [f"{group}-{n}" for group in groups[:2] for n in range(2)]
    second = [f"{group}-{n}" for group in groups[2:] for n in range(2)]
    assert {node[:5] for node in await world.nodes(*first)} == {"z2-r1"}
    assert {node[:5] for node in await world.nodes(*second)} == {"z2-r2"}


@pytest.mark.conformance("SCH-97")
@in_virtual_time
async def test_a_running_member_pins_the_domain_of_the_whole_tree(world: SchedulerPlane) -> None:
    await world.create(*rack("r1", 2), *rack("r2", 2), make_composite("root", gang=2, key=RACK))
    await world.create(make_pod_group("a", gang=2, parent="root"), make_pod_group("b", gang=2, parent="root"))
    await world.create(make_pod("a0", group="a", node="r2-0"))
    await world.pods("a", "a", 1, first=1)
    await world.pods("b", "b", 2)
    await world.settle()
    assert all(node.startswith("r2-") for node in await world.nodes("a1", "b0", "b1"))


@pytest.mark.conformance("SCH-101")
@in_virtual_time
async def test_a_running_member_pins_each_level_by_itself(world: SchedulerPlane) -> None:
    await world.create(*rack("r1", 1, "z1"), *rack("r2", 2, "z1"), *rack("r3", 2, "z2"), *rack("r4", 2, "z2"))
    await world.create(make_composite("root", gang=2, key=ZONE))
    await world.create(*(make_pod_group(g, gang=2, parent="root", key=RACK) for g in "ab"))
    await world.create(make_pod("a0", group="a", node="r1-0"))
    await world.pods("a", "a", 1, first=1)
    await world.pods("b", "b", 2, cpu=2)
    await world.settle()
    assert await world.nodes("a1") == ["r1-0"]
    assert sorted(await world.nodes("b0", "b1")) == ["r2-0", "r2-1"]


@pytest.mark.conformance("SCH-102")
@in_virtual_time
async def test_members_running_in_two_domains_of_a_required_key_are_an_error(world: SchedulerPlane) -> None:
    await world.create(*rack("r1", 2, "z1"), *rack("r2", 2, "z2"), make_composite("root", gang=2, key=ZONE))
    await world.create(make_pod_group("a", gang=2, parent="root"), make_pod_group("b", gang=2, parent="root"))
    await world.create(make_pod("a0", group="a", node="r1-0"), make_pod("b0", group="b", node="r2-0"))
    await world.pods("a", "a", 1, first=1)
    await world.pods("b", "b", 1, first=1)
    await world.settle()
    assert [await world.reason(name) for name in ("a1", "b1")] == ["SchedulerError"] * 2
    assert await world.scheduled("a0", "b0")


@pytest.mark.conformance("SCH-69")
@in_virtual_time
async def test_a_gang_in_a_rack_waits_for_room_there(world: SchedulerPlane) -> None:
    await world.create(*rack("r1", 3), running("b0", "r1-0", 2), running("b1", "r1-1", 2))
    await world.create(make_pod_group("g", gang=3, key=RACK))
    await world.pods("g", "p", 3)
    await world.settle()
    assert await world.unscheduled("p0", "p1", "p2")
    await world.delete(PODS, "b0")
    await world.settle(1)
    assert await world.scheduled("p0", "p1", "p2")


@pytest.mark.conformance("SCH-79", "SCH-80")
@in_virtual_time
async def test_later_members_stay_in_the_rack_of_the_gang(world: SchedulerPlane) -> None:
    await world.create(*RACKS_321, make_pod_group("g", gang=3, key=RACK))
    await world.pods("g", "p", 3)
    await world.settle(1)
    assert {node[:2] for node in await world.nodes("p0", "p1", "p2")} == {"r2"}
    await world.pods("g", "p", 1, first=3)
    await world.settle(1)
    assert (await world.nodes("p3"))[0].startswith("r2")
    await world.pods("g", "p", 1, first=4)
    await world.settle()
    assert await world.unscheduled("p4")


@pytest.mark.conformance("SCH-84", "SCH-85")
@in_virtual_time
async def test_a_basic_group_keeps_to_one_rack(world: SchedulerPlane) -> None:
    await world.create(*rack("r1", 1), *rack("r2", 1), make_pod_group("g", key=RACK))
    names = await world.pods("g", "p", 3)
    await world.settle()
    nodes = await world.nodes(*names)
    assert len({node for node in nodes if node}) == 1
    assert nodes.count("") == 1


@pytest.mark.conformance("SCH-87")
@in_virtual_time
async def test_of_a_basic_group_what_fits_is_placed(world: SchedulerPlane) -> None:
    await world.create(*rack("r1", 1), *rack("r2", 1), make_pod_group("g", key=RACK))
    await world.create(make_pod("big", group="g", cpu=3), make_pod("small", group="g"))
    await world.settle()
    assert await world.scheduled("small")
    assert await world.unscheduled("big")


@pytest.mark.conformance("SCH-95")
@in_virtual_time
async def test_a_basic_group_waits_in_its_rack(world: SchedulerPlane) -> None:
    await world.create(*rack("r1", 1), make_pod("blocker", node="r1-0"), make_pod_group("g", key=RACK))
    await world.pods("g", "p", 1)
    await world.settle(1)
    await world.create(*rack("r2", 1))
    await world.pods("g", "p", 1, first=1)
    await world.settle()
    assert await world.nodes("p0", "p1") == ["r1-0", ""]
    await world.delete(PODS, "blocker")
    await world.settle(1)
    assert await world.nodes("p1") == ["r1-0"]


@pytest.mark.conformance("SCH-109")
@in_virtual_time
async def test_an_extra_member_may_not_leave_the_roots_rack(world: SchedulerPlane) -> None:
    await world.create(*rack("r1", 2), make_composite("root", gang=2, key=RACK))
    await world.create(make_pod_group("a", gang=2, parent="root"), make_pod_group("b", gang=2, parent="root"))
    await world.pods("a", "a", 2)
    await world.pods("b", "b", 2)
    await world.settle(1)
    await world.create(*rack("r2", 2))
    await world.pods("a", "a", 1, first=2)
    await world.settle()
    assert await world.unscheduled("a2")


@in_virtual_time
async def test_exclusive_groups_of_one_priority_take_a_rack_each(world: SchedulerPlane) -> None:
    await world.create(*rack("r1", 2), *rack("r2", 2))
    for name in "abc":
        await world.create(make_pod_group(name, gang=1, key=RACK, exclusive=RACK))
        await world.pods(name, name, 1)
        await world.settle(1)
    await world.settle()
    assert {node[:2] for node in await world.nodes("a0", "b0")} == {"r1", "r2"}
    assert await world.unscheduled("c0")
    await world.delete(PODS, "a0")
    await world.settle(1)
    assert await world.scheduled("c0")
