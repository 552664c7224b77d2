"""Trees of groups through the real API: quorum, partial success, conditions on every group, broken layouts."""

from __future__ import annotations

import pytest

from echelon.api.scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, PODS, WORKLOADS, Object
from echelon.testing.builders import (
    composite_template,
    group_template,
    make_composite,
    make_node,
    make_pod,
    make_pod_group,
    make_workload,
)
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

SCHEDULED = ("True", "Scheduled", "")


async def run_gang_of_two_gangs(world: SchedulerPlane) -> None:
    """Gangs a and b below a root that needs both, on a node with room to spare."""
    await world.create(make_node("n1", cpu=20), make_composite("root", gang=2))
    await world.create(make_pod_group("a", gang=2, parent="root"), make_pod_group("b", gang=2, parent="root"))
    await world.pods("a", "a", 2)
    await world.pods("b", "b", 2)
    await world.settle()


@pytest.mark.conformance("SCH-54")
@in_virtual_time
async def test_a_tree_waits_for_its_root_and_needs_no_workload(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=8), make_composite("mid", gang=1, parent="root"))
    await world.create(make_pod_group("pg1", gang=2, parent="mid"))
    await world.pods("pg1", "p", 2, cpu=2)
    await world.settle()
    waiting = (
        "waiting for CompositePodGroup/root, the parent of CompositePodGroup/mid, to be created; "
        "fix: create CompositePodGroup root"
    )
    assert await world.condition("pg1") == ("False", "Unschedulable", waiting)
    assert await world.condition("mid") == ("False", "Unschedulable", waiting)
    assert await world.message("p0") == waiting
    await world.create(make_composite("root", gang=1))
    await world.settle(1)
    assert await world.scheduled("p0", "p1")
    for group in ("root", "mid", "pg1"):
        assert await world.condition(group) == SCHEDULED


@pytest.mark.conformance("SCH-55")
@in_virtual_time
async def test_a_tree_is_placed_when_its_first_node_comes(world: SchedulerPlane) -> None:
    await world.create(make_composite("root", gang=1), make_pod_group("pg1", gang=2, parent="root"))
    await world.pods("pg1", "p", 2, cpu=2)
    await world.settle()
    assert await world.unscheduled("p0", "p1")
    await world.create(make_node("n1", cpu=8))
    await world.settle(1)
    assert await world.scheduled("p0", "p1")


@pytest.mark.conformance("SCH-56", "SCH-57")
@in_virtual_time
async def test_a_gang_of_gangs_waits_for_its_second_group_and_its_last_pod(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=8), make_composite("root", gang=2))
    await world.create(make_pod_group("a", gang=2, parent="root"))
    await world.pods("a", "a", 2, cpu=2)
    await world.pods("b", "b", 1, cpu=2)
    await world.settle()
    assert not any(await world.nodes("a0", "a1", "b0"))
    await world.create(make_pod_group("b", gang=2, parent="root"))
    await world.settle()
    assert not any(await world.nodes("a0", "a1", "b0"))
    assert (await world.condition("b"))[2].startswith("waiting for pods: 1 of 2 exist; fix: create 1 more pod")
    assert (await world.condition("root"))[2].startswith("waiting for child groups: 1 of 2 are complete")
    await world.pods("b", "b", 1, first=1, cpu=2)
    await world.settle(1)
    assert await world.scheduled("a0", "a1", "b0", "b1")


@pytest.mark.conformance("SCH-58")
@in_virtual_time
async def test_lowering_a_leafs_minimum_starts_a_three_level_tree(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=8), make_composite("root", gang=1), make_composite("mid", parent="root"))
    await world.create(make_pod_group("pg1", gang=2, parent="mid"), make_pod("p0", group="pg1"))
    await world.settle()
    assert await world.nodes("p0") == [""]
    await world.patch(POD_GROUPS, "pg1", {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}})
    await world.settle(1)
    assert await world.scheduled("p0")


#: name -> (parent, minimum or None for basic); composites first.
Tree = dict[str, tuple[str, int | None]]
#: PodGroup -> CPUs of its pods.
Pods = dict[str, list[int]]

_NESTED: Tree = {
    "root": ("", 2), "sub1": ("root", 2), "sub2": ("root", None), "sub3": ("root", 2),
    "pg1": ("sub1", 2), "pg2": ("sub1", 2), "pg3": ("sub1", 2), "pg4": ("sub2", None), "pg5": ("sub2", 2),
    "pg6": ("sub3", 2), "pg7": ("sub3", 2),
}  # fmt: skip
_NESTED_PODS = {
    name: [50, 50] if name in ("pg3", "pg7") else [1, 1] for name in _NESTED if name.startswith("pg")
}  # fmt: skip


@pytest.mark.parametrize(
    ("node_cpu", "tree", "pods", "placed"),
    [
        pytest.param(
            20, _NESTED, _NESTED_PODS, {"pg1", "pg2", "pg4", "pg5"},
            id="nested", marks=pytest.mark.conformance("SCH-59"),
        ),
        pytest.param(
            20, {"root": ("", 2), "pg1": ("root", 3), "pg2": ("root", 3), "pg3": ("root", 3)},
            {"pg1": [1, 1, 1], "pg2": [1, 1, 1], "pg3": [100, 1, 1]}, {"pg1", "pg2"},
            id="two of three", marks=pytest.mark.conformance("SCH-60"),
        ),
        pytest.param(
            20, {"root": ("", None), "pg1": ("root", 3), "pg2": ("root", 3)},
            {"pg1": [1, 1, 1], "pg2": [100, 1, 1]}, {"pg1"},
            id="basic root", marks=pytest.mark.conformance("SCH-61"),
        ),
        pytest.param(
            20, {"root": ("", None), "pg1": ("root", None), "pg2": ("root", None)},
            {"pg1": [1, 1], "pg2": [1, 1]}, {"pg1", "pg2"},
            id="basic throughout", marks=pytest.mark.conformance("SCH-62"),
        ),
        pytest.param(
            8, {"root": ("", 2), "pg1": ("root", None), "pg2": ("root", None), "pg3": ("root", None)},
            {"pg1": [1, 1, 1], "pg2": [1, 1, 1], "pg3": [10, 10, 10]}, {"pg1", "pg2"},
            id="basic leaves", marks=pytest.mark.conformance("SCH-63"),
        ),
        pytest.param(
            20, {"root": ("", None), "pg1": ("root", None), "pg2": ("root", None)},
            {"pg1": [50, 50], "pg2": [50, 50]}, set(),
            id="nothing fits", marks=pytest.mark.conformance("SCH-64"),
        ),
        pytest.param(
            4, {"root": ("", 2), "a": ("root", 2), "b": ("root", 2)},
            {"a": [1, 1], "b": [1, 1]}, {"a", "b"}, id="exact fit",
        ),
        pytest.param(
            6, {"root": ("", 2), "p1": ("root", 5), "p2": ("root", 3), "p3": ("root", 3)},
            {"p1": [1] * 5, "p2": [1] * 3, "p3": [1] * 3}, {"p2", "p3"},
            id="the right subset of children", marks=pytest.mark.conformance("SCH-E7"),
        ),
        pytest.param(
            4,
            {"root": ("", 2), "sub1": ("root", None), "sub2": ("root", 1),
             "a": ("sub1", 2), "b": ("sub1", 2), "c": ("sub2", 2)},
            {"a": [1, 1], "b": [1, 1], "c": [1, 1]}, {"a", "c"},
            id="a basic middle leaves room", marks=pytest.mark.conformance("SCH-E8"),
        ),
    ],
)  # fmt: skip
@in_virtual_time
async def test_what_of_a_tree_is_placed(
    world: SchedulerPlane, node_cpu: int, tree: Tree, pods: Pods, placed: set[str]
) -> None:
    await world.create(make_node("n1", cpu=node_cpu), *_groups(tree, pods))
    names = {group: [f"{group}-{n}" for n in range(len(cpus))] for group, cpus in pods.items()}
    for group, cpus in pods.items():
        await world.create(
            *(make_pod(name, group=group, cpu=cpu) for name, cpu in zip(names[group], cpus, strict=True))
        )
    await world.settle(30)
    for group in pods:
        if group in placed:
            assert await world.scheduled(*names[group]), group
            assert await world.condition(group) == SCHEDULED, group
        else:
            assert await world.unscheduled(*names[group]), group
            assert (await world.condition(group))[:2] == ("False", "Unschedulable"), group
    assert ((await world.condition("root")) == SCHEDULED) == bool(placed)


def _groups(tree: Tree, pods: Pods) -> list[Object]:
    leaves = {name: spec for name, spec in tree.items() if name in pods}
    composites = {name: spec for name, spec in tree.items() if name not in pods}
    made = [make_composite(name, parent=parent, gang=gang) for name, (parent, gang) in composites.items()]
    return made + [make_pod_group(name, parent=parent, gang=gang) for name, (parent, gang) in leaves.items()]


@pytest.mark.conformance("SCH-E5")
@in_virtual_time
async def test_extras_never_take_the_room_of_a_siblings_minimum(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_composite("root", gang=2))
    await world.create(make_pod_group("a", gang=2, parent="root"), make_pod_group("b", gang=2, parent="root"))
    a = await world.pods("a", "a", 4)
    b = await world.pods("b", "b", 2)
    await world.settle()
    assert len([node for node in await world.nodes(*a) if node]) == 2
    assert await world.scheduled(*b)


@pytest.mark.conformance("SCH-65")
@in_virtual_time
async def test_a_basic_tree_grows(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=20), make_composite("root"))
    for name in ("pg1", "pg2"):
        await world.create(make_pod_group(name, gang=2, parent="root"))
        await world.pods(name, f"{name}-", 2)
        await world.settle(2)
        assert await world.scheduled(f"{name}-0", f"{name}-1")
    await world.create(make_composite("sub", gang=2, parent="root"), make_pod_group("s1", gang=2, parent="sub"))
    await world.pods("s1", "s1-", 2)
    await world.settle()
    assert await world.nodes("s1-0", "s1-1") == ["", ""]
    await world.create(make_pod_group("s2", gang=2, parent="sub"))
    await world.pods("s2", "s2-", 2)
    await world.settle(2)
    assert await world.scheduled("s1-0", "s1-1", "s2-0", "s2-1")


@pytest.mark.conformance("SCH-E23")
@in_virtual_time
async def test_a_sibling_in_repair_does_not_hold_up_the_others(world: SchedulerPlane) -> None:
    await run_gang_of_two_gangs(world)
    await world.delete(PODS, "b1")
    await world.pods("a", "a", 1, first=2)
    await world.settle()
    assert await world.scheduled("a2")


@in_virtual_time
async def test_after_losing_everything_a_gang_of_gangs_starts_together_or_not_at_all(world: SchedulerPlane) -> None:
    await run_gang_of_two_gangs(world)
    await world.delete(PODS, "a0", "a1", "b0", "b1")
    await world.pods("a", "again", 2)
    await world.settle()
    assert await world.nodes("again0", "again1") == ["", ""]


@in_virtual_time
async def test_a_blocked_tree_says_why_on_every_group_and_its_root(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=3), make_composite("root", gang=2), make_composite("mid", parent="root"))
    await world.create(make_pod_group("a", gang=2, parent="mid"), make_pod_group("b", gang=2, parent="root"))
    await world.pods("a", "a", 2)
    await world.pods("b", "b", 2)
    await world.settle()
    for group in ("root", "mid", "a", "b"):
        status, reason, message = await world.condition(group)
        assert (status, reason) == ("False", "Unschedulable")
        assert message
    assert "FailedScheduling" in [reason for reason, _ in await world.events("root")]
    assert "FailedScheduling" in [reason for reason, _ in await world.events("a0")]
    await world.create(make_node("n2", cpu=1))
    await world.settle(1)
    assert await world.scheduled("a0", "a1", "b0", "b1")
    for group in ("root", "mid", "a", "b"):
        assert await world.condition(group) == SCHEDULED


# -- layouts that are wrong ------------------------------------------------------------------------------


async def _assert_broken(world: SchedulerPlane, said: str, *, groups: tuple[str, ...], pods: tuple[str, ...]) -> None:
    for group in groups:
        status, reason, message = await world.condition(group)
        assert (status, reason) == ("False", "PodGroupError" if group.startswith("pg") else "CompositePodGroupError")
        assert said in message
    for pod in pods:
        assert await world.nodes(pod) == [""]
        assert await world.reason(pod) == "SchedulerError"
        assert said in await world.message(pod)


@in_virtual_time
async def test_a_cycle_is_reported_on_every_group_and_repaired_at_once(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_composite("a", parent="b"), make_composite("b", parent="a"))
    await world.create(make_pod_group("pg", gang=1, parent="b"), make_pod("p", group="pg"))
    await world.settle()
    await _assert_broken(world, "forms the cycle", groups=("a", "b", "pg"), pods=("p",))
    await world.remove(COMPOSITE_POD_GROUPS, "a")
    await world.create(make_composite("a"))
    await world.settle(1)
    assert await world.scheduled("p")
    assert await world.condition("pg") == SCHEDULED


@in_virtual_time
async def test_a_tree_of_five_levels_is_reported(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_composite("c0"))
    await world.create(*(make_composite(f"c{n}", parent=f"c{n - 1}") for n in range(1, 4)))
    await world.create(make_pod_group("pg", parent="c3"), make_pod("p", group="pg"))
    await world.settle()
    await _assert_broken(world, "at level 5", groups=("c0", "c1", "c2", "c3", "pg"), pods=("p",))


@in_virtual_time
async def test_several_workloads_in_one_tree_are_reported(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_composite("root", workload="w1"))
    await world.create(make_pod_group("pg", parent="root", workload="w2"), make_pod("p", group="pg"))
    await world.settle()
    await _assert_broken(world, "belongs to Workload/w2", groups=("root", "pg"), pods=("p",))


@pytest.mark.parametrize(("group", "pod", "said"), [(5, 5, "its root"), (10, 5, "Pod/p has priority 5")])
@in_virtual_time
async def test_mixed_priorities_are_reported(world: SchedulerPlane, group: int, pod: int, said: str) -> None:
    await world.create(make_node("n1"), make_composite("root", priority=10))
    await world.create(make_pod_group("pg", parent="root", priority=group), make_pod("p", group="pg", priority=pod))
    await world.settle()
    await _assert_broken(world, said, groups=("root", "pg"), pods=("p",))


@in_virtual_time
async def test_mixed_schedulers_in_one_tree_are_reported(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_composite("root"), make_pod_group("pg", parent="root"))
    await world.create(make_pod("q", group="pg", schedulerName="other"), make_pod("p", group="pg"))
    await world.settle()
    await _assert_broken(world, "different spec.schedulerName", groups=("root", "pg"), pods=("p",))


@in_virtual_time
async def test_a_tree_must_match_its_workload_once_that_exists(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_composite("root", template="top"))
    await world.create(make_workload("w", composite_template("top", group_template("leaf"))))
    await world.create(make_pod_group("pg", parent="root", template="other"), make_pod("p", group="pg"))
    await world.settle()
    await _assert_broken(world, "Workload/w does not have", groups=("root", "pg"), pods=("p",))
    await world.delete(WORKLOADS, "w")
    await world.settle(1)
    assert await world.scheduled("p")


@in_virtual_time
async def test_a_child_all_of_whose_pods_have_succeeded_still_counts(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_composite("root", gang=2))
    await world.create(*(make_pod_group(name, gang=2, parent="root") for name in "ab"))
    for name in "ab":
        await world.pods(name, name, 2)
    await world.settle(1)
    for name in ("a0", "a1"):
        await world.patch(PODS, name, {"status": {"phase": "Succeeded"}}, status=True)
    await world.patch(PODS, "b1", {"status": {"phase": "Failed"}}, status=True)
    await world.pods("b", "again", 1)
    await world.settle(2)
    assert await world.scheduled("again0")
