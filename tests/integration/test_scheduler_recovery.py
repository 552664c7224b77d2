"""Trees with disruption mode `all` that lost members: completed where they run, or placed anew as a whole."""

from __future__ import annotations

import asyncio

import pytest

from echelon.api.objects.vocabulary import BLOCK, RACK
from echelon.api.scheme import COMPOSITE_POD_GROUPS, NODES, PODS, Object
from echelon.testing.builders import Mode, make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time


def block(name: str, racks: int = 2, nodes: int = 2) -> list[Object]:
    """Nodes of one pod each."""
    return [
        make_node(f"{name}-r{rack}-{number}", cpu=1, block=name, rack=f"{name}-r{rack}")
        for rack in range(racks)
        for number in range(nodes)
    ]


async def run_two_gangs_in_a_block(world: SchedulerPlane, *, root: Mode = "single", leaf: Mode = "single") -> None:
    """A gang of two gangs of two, each in a rack, together in block b1, which they fill."""
    await world.create(*block("b1"), make_composite("root", gang=2, key=BLOCK, mode=root))
    for name in "xy":
        await world.create(make_pod_group(name, gang=2, parent="root", key=RACK, mode=leaf))
        await world.pods(name, name, 2)
    await world.settle(1)
    assert await world.scheduled("x0", "x1", "y0", "y1")


async def lose(world: SchedulerPlane, pod: str) -> None:
    """A pod is gone with its node, as after the node was deleted."""
    (node,) = await world.nodes(pod)
    await world.delete(NODES, node)
    await world.delete(PODS, pod)


async def domains(world: SchedulerPlane, *pods: str) -> set[str]:
    """The blocks of pods, "" for those that have no node."""
    return {node.partition("-")[0] for node in await world.nodes(*pods)}


@in_virtual_time
async def test_a_gang_of_gangs_that_lost_a_node_is_placed_anew_as_a_whole(world: SchedulerPlane) -> None:
    await run_two_gangs_in_a_block(world, root="all")
    await world.create(*block("b2"))
    await lose(world, "y1")
    await world.pods("y", "again-y", 1)
    await world.settle(5)
    assert await world.gone("x0", "x1", "y0")
    await world.pods("x", "again-x", 2)
    await world.pods("y", "again-y", 1, first=1)
    await world.settle(5)
    assert await domains(world, "again-x0", "again-x1", "again-y0", "again-y1") == {"b2"}


@in_virtual_time
async def test_a_released_tree_says_why_on_its_groups_and_pods_until_it_runs_again(world: SchedulerPlane) -> None:
    await run_two_gangs_in_a_block(world, root="all")
    await world.create(*block("b2"))
    await world.patch(PODS, "x0", {"metadata": {"finalizers": ["test/keep"]}})
    await lose(world, "y1")
    await world.pods("y", "again-y", 1)
    await world.settle(5)
    why = [message for reason, message in await world.events("root") if reason == "Released"]
    assert why == [
        "released 3 pods of CompositePodGroup/root, which cannot be completed: PodGroup/y needs 2 pods in one rack of "
        "b1, but b1-r1 has room for 1 (short of cpu); 3 nodes are short of cpu; as a whole it fits in b2"
    ]
    assert "Released" in [reason for reason, _ in await world.events("x0")]
    for group in ("root", "x", "y"):
        assert (await world.condition(group, "DisruptionTarget"))[:2] == ("True", "ReleasedByScheduler"), group
    pod = await world.pod("x0")
    assert pod is not None
    (mark,) = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert "CompositePodGroup/root, which cannot be completed" in mark["message"]
    await world.patch(PODS, "x0", {"metadata": {"finalizers": None}})
    await world.pods("x", "again-x", 2)
    await world.pods("y", "again-y", 1, first=1)
    await world.settle(20)
    for group in ("root", "x", "y"):
        assert await world.condition(group, "DisruptionTarget") == ("False", "Scheduled", "bound again"), group


@pytest.mark.parametrize(
    ("whole", "released", "kept"),
    [
        pytest.param({"top"}, {"a0", "a1", "b0", "c0", "c1"}, set(), id="the whole tree"),
        pytest.param({"top", "mid", "a", "b"}, {"a0", "a1", "b0", "c0", "c1"}, set(), id="the highest counts"),
        pytest.param({"mid"}, {"a0", "a1", "b0"}, {"c0", "c1"}, id="a middle group"),
        pytest.param({"low"}, {"a0", "a1", "b0"}, {"c0", "c1"}, id="a lower group"),
        pytest.param({"b", "c"}, {"b0"}, {"a0", "a1", "c0", "c1"}, id="a PodGroup"),
        pytest.param({"a", "c"}, set(), {"a0", "a1", "b0", "c0", "c1"}, id="none that lost a member"),
        pytest.param(set(), set(), {"a0", "a1", "b0", "c0", "c1"}, id="none"),
    ],
)
@in_virtual_time
async def test_what_is_released_is_the_highest_group_with_mode_all_above_the_loss(
    world: SchedulerPlane, whole: set[str], released: set[str], kept: set[str]
) -> None:
    """Four levels: top > mid > low > {a, b in racks}, top > c.  b loses a node of its rack."""

    def mode(name: str) -> Mode:
        return "all" if name in whole else "single"

    await world.create(*block("b1", racks=2))
    await world.create(make_composite("top", gang=2, mode=mode("top")))
    await world.create(make_composite("mid", gang=1, parent="top", mode=mode("mid")))
    await world.create(make_composite("low", gang=2, parent="mid", mode=mode("low")))
    await world.create(make_pod_group("a", gang=2, parent="low", key=RACK, mode=mode("a")))
    await world.create(make_pod_group("b", gang=2, parent="low", key=RACK, mode=mode("b")))
    for name in "ab":
        await world.pods(name, name, 2)
    await world.create(make_node("other", cpu=2), make_pod_group("c", gang=2, parent="top", mode=mode("c")))
    await world.pods("c", "c", 2)
    await world.settle(1)
    assert await world.scheduled("a0", "a1", "b0", "b1", "c0", "c1")
    await world.create(*block("b2", racks=2))
    await lose(world, "b1")
    await world.pods("b", "again", 1)
    await world.settle(5)
    assert {name for name in released | kept if await world.gone(name)} == released


@in_virtual_time
async def test_a_tree_whose_lost_pods_do_not_exist_again_yet_waits_for_them(world: SchedulerPlane) -> None:
    await run_two_gangs_in_a_block(world, root="all")
    await world.create(*block("b2"))
    await lose(world, "y1")
    await world.settle(120)
    assert await world.scheduled("x0", "x1", "y0")


@in_virtual_time
async def test_a_tree_with_a_gated_replacement_waits_for_it(world: SchedulerPlane) -> None:
    await run_two_gangs_in_a_block(world, root="all")
    await world.create(*block("b2"), *block("b3"))
    await lose(world, "y1")
    await world.create(make_pod("again", group="y", gates=("hold",)))
    await world.settle(120)
    assert await world.scheduled("x0", "x1", "y0")


@pytest.mark.parametrize("tree", [True, False])
@in_virtual_time
async def test_what_fits_where_it_runs_once_pods_have_left_is_not_released(world: SchedulerPlane, tree: bool) -> None:
    """The replacement comes while the pod that it replaces still has its grace."""
    await world.create(*block("b1", racks=1))
    if tree:
        await world.create(make_composite("root", gang=1, mode="all"))
    await world.create(make_pod_group("x", gang=2, key=RACK, parent="root" if tree else "", mode="all"))
    await world.create(make_pod("x0", group="x"), make_pod("x1", group="x", grace=30))
    await world.settle(1)
    assert await world.scheduled("x0", "x1")
    await world.patch(PODS, "x1", {"metadata": {"finalizers": ["test/keep"]}})
    await world.create(*block("b2"))
    await world.delete(PODS, "x1")
    await world.create(make_pod("again", group="x"))
    await world.settle(25)
    assert await world.scheduled("x0")
    await world.patch(PODS, "x1", {"metadata": {"finalizers": None}})
    await world.delete(PODS, "x1", grace=0)
    await world.settle(2)
    assert await domains(world, "x0", "again") == {"b1"}


@in_virtual_time
async def test_a_pod_that_does_not_leave_in_time_is_not_waited_for(world: SchedulerPlane) -> None:
    await world.create(*block("b1", racks=1), make_pod_group("x", gang=2, key=RACK, mode="all"))
    await world.create(make_pod("x0", group="x"), make_pod("x1", group="x", grace=30))
    await world.settle(1)
    await world.patch(PODS, "x1", {"metadata": {"finalizers": ["test/keep"]}})
    await world.create(*block("b2"))
    await world.delete(PODS, "x1")
    await world.create(make_pod("again", group="x"))
    await world.settle(180)
    assert await world.gone("x0")


@in_virtual_time
async def test_a_tree_that_fits_nowhere_stays_until_there_is_room(world: SchedulerPlane) -> None:
    await run_two_gangs_in_a_block(world, root="all")
    await world.create(*block("b2", racks=1))
    await lose(world, "y1")
    await world.pods("y", "again-y", 1)
    await world.settle(300)
    assert await world.scheduled("x0", "x1", "y0")
    await world.create(*block("b3"))
    await world.settle(1)
    assert await world.gone("x0", "x1", "y0")


@in_virtual_time
async def test_a_tree_that_lost_a_part_it_can_do_without_runs_on(world: SchedulerPlane) -> None:
    await world.create(*block("b1", racks=3), make_composite("root", gang=2, key=BLOCK, mode="all"))
    for name in "xyz":
        await world.create(make_pod_group(name, gang=2, parent="root", key=RACK, mode="all"))
        await world.pods(name, name, 2)
    await world.settle(1)
    await world.create(*block("b2", racks=3))
    await lose(world, "z1")
    await world.pods("z", "again", 1)
    await world.settle(120)
    assert await world.scheduled("x0", "x1", "y0", "y1", "z0")
    assert await world.unscheduled("again0")


@in_virtual_time
async def test_a_unit_is_released_although_the_tree_above_it_holds(world: SchedulerPlane) -> None:
    await world.create(*block("b1", racks=2), make_composite("root", gang=1))
    for name in "xy":
        await world.create(make_pod_group(name, gang=2, parent="root", key=RACK, mode="all"))
        await world.pods(name, name, 2)
    await world.settle(1)
    await world.create(*block("b2", racks=1))
    await lose(world, "y1")
    await world.pods("y", "again", 1)
    await world.settle(5)
    assert await world.gone("y0")
    await world.pods("y", "again", 1, first=1)
    await world.settle(5)
    assert await domains(world, "again0", "again1") == {"b2"}
    assert await domains(world, "x0", "x1") == {"b1"}


@in_virtual_time
async def test_units_that_only_fit_together_are_released_together(world: SchedulerPlane) -> None:
    await run_two_gangs_in_a_block(world, leaf="all")
    await world.create(*block("b2", racks=2, nodes=3))
    await lose(world, "x1")
    await lose(world, "y1")
    await world.pods("x", "again-x", 1)
    await world.pods("y", "again-y", 1)
    await world.settle(5)
    assert await world.gone("x0", "y0")
    await world.pods("x", "again-x", 1, first=1)
    await world.pods("y", "again-y", 1, first=1)
    await world.settle(5)
    assert await domains(world, "again-x0", "again-x1", "again-y0", "again-y1") == {"b2"}


@in_virtual_time
async def test_a_tree_is_released_if_it_may_preempt_where_it_fits(world: SchedulerPlane) -> None:
    await world.create(*block("b1"), make_composite("root", gang=2, key=BLOCK, mode="all", priority=10))
    for name in "xy":
        await world.create(make_pod_group(name, gang=2, parent="root", key=RACK, priority=10))
        await world.pods(name, name, 2, priority=10)
    await world.settle(1)
    await world.create(*block("b2"), *(make_pod(f"low{n}", priority=1) for n in range(4)))
    await world.settle(1)
    await lose(world, "y1")
    await world.pods("y", "again-y", 1, priority=10)
    await world.settle(5)
    assert await world.gone("x0", "x1", "y0")
    await world.pods("x", "again-x", 2, priority=10)
    await world.pods("y", "again-y", 1, first=1, priority=10)
    await world.settle(5)
    assert await domains(world, "again-x0", "again-x1", "again-y0", "again-y1") == {"b2"}


@pytest.mark.parametrize("moment", range(1, 40, 4))
@in_virtual_time
async def test_a_release_that_a_crash_interrupts_is_finished(world: SchedulerPlane, moment: int) -> None:
    """`moment` steps of the event loop after the replacement was created the scheduler is gone."""
    await run_two_gangs_in_a_block(world, root="all")
    await world.create(*block("b2"))
    await lose(world, "y1")
    await world.verbs.create(PODS, make_pod("again-y0", group="y"), "default")
    for _ in range(moment):
        await asyncio.sleep(0)
    await world.restart()
    await world.settle(5)
    for name in ("x0", "x1", "y0"):
        pod = await world.pod(name)
        assert pod is None or "deletionTimestamp" in pod["metadata"]
        if pod is not None:
            # The server was stopped with the scheduler; there is no kubelet that ends the pod.
            await world.delete(PODS, name, grace=0)
    await world.pods("x", "again-x", 2)
    await world.pods("y", "again-y", 1, first=1)
    await world.settle(5)
    assert await domains(world, "again-x0", "again-x1", "again-y0", "again-y1") == {"b2"}


@in_virtual_time
async def test_a_replaced_root_object_does_not_make_its_tree_start_over(world: SchedulerPlane) -> None:
    await run_two_gangs_in_a_block(world, root="all")
    await world.remove(COMPOSITE_POD_GROUPS, "root")
    await world.create(make_composite("root", gang=2, key=BLOCK, mode="all"))
    await world.settle(20)
    assert await world.scheduled("x0", "x1", "y0", "y1")
