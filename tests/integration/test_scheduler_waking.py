"""Freed room wakes the roots that it can matter to, at once, and no others."""

from __future__ import annotations

from echelon.api.objects.vocabulary import RACK
from echelon.api.scheme import NODES, PODS
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

#: Long enough for back-off to have grown to its longest, and not a moment at which it ends.
_LONG = 200.5
#: Not long enough for a reason to be renewed, for which the engine is asked in any case.
_SHORT = 5.0
#: Much shorter than any back-off by then.
_A_MOMENT = 0.1


async def _full_nodes(world: SchedulerPlane, count: int, racks: int = 1, priority: int = 0) -> None:
    for number in range(count):
        await world.create(
            make_node(f"n{number}", cpu=4, rack=f"r{number % racks}"),
            make_pod(f"full{number}", cpu=4, node=f"n{number}", priority=priority),
        )


async def _gang(world: SchedulerPlane, name: str, size: int, cpu: str = "3", key: str = "") -> list[str]:
    await world.create(make_pod_group(name, gang=size, key=key))
    return await world.pods(name, name, size, cpu=cpu)


def _asked(world: SchedulerPlane) -> float:
    """How often the engine was asked."""
    assert world.scheduler is not None
    return world.scheduler.metrics.registry.get_sample_value("echelon_scheduler_engine_steps_count") or 0.0


async def _ends(world: SchedulerPlane, *names: str) -> float:
    """Some pods end; how many decisions that led to."""
    before = _asked(world)
    await world.delete(PODS, *names, grace=0)
    await world.settle(_A_MOMENT)
    return _asked(world) - before


@in_virtual_time
async def test_a_gang_is_not_asked_about_before_as_much_is_free_as_it_needs_and_then_at_once(
    world: SchedulerPlane,
) -> None:
    await _full_nodes(world, 4)
    pods = await _gang(world, "g", 3)
    await world.settle(_LONG)
    assert await _ends(world, "full0") == 0
    assert await _ends(world, "full1") == 0
    assert await _ends(world, "full2") == 1
    assert await world.scheduled(*pods)


@in_virtual_time
async def test_nor_before_that_is_so_in_one_rack_if_it_needs_it_there(world: SchedulerPlane) -> None:
    await _full_nodes(world, 6, racks=2)
    pods = await _gang(world, "g", 2, key=RACK)
    await world.settle(_LONG)
    assert await _ends(world, "full0", "full1") == 0
    assert await _ends(world, "full2") == 1
    assert await world.scheduled(*pods)


@in_virtual_time
async def test_a_tree_waits_for_all_it_needs(world: SchedulerPlane) -> None:
    await _full_nodes(world, 4)
    await world.create(
        make_composite("tree", gang=2, key=RACK),
        make_pod_group("a", gang=2, parent="tree"),
        make_pod_group("b", gang=1, parent="tree"),
    )
    pods = [*await world.pods("a", "a", 2, cpu="3"), *await world.pods("b", "b", 1, cpu="3")]
    await world.settle(_LONG)
    assert await _ends(world, "full0", "full1") == 0
    assert await _ends(world, "full3") >= 1
    assert await world.scheduled(*pods)


@in_virtual_time
async def test_a_node_that_a_pod_may_not_use_does_not_wake_it_and_one_that_it_may_does(world: SchedulerPlane) -> None:
    await _full_nodes(world, 1)
    await world.create(make_pod("waits", cpu=3))
    await world.settle(_LONG)
    before = _asked(world)
    await world.create(make_node("small", cpu=2), make_node("shut", cpu=8, unschedulable=True))
    await world.settle(_A_MOMENT)
    assert _asked(world) == before
    await world.patch(NODES, "shut", {"spec": {"unschedulable": None}})
    await world.settle(_A_MOMENT)
    assert await world.nodes("waits") == ["shut"]


@in_virtual_time
async def test_of_many_roots_that_the_room_could_help_one_is_decided_and_the_others_see_that_it_is_gone(
    world: SchedulerPlane,
) -> None:
    await _full_nodes(world, 2)
    names = [f"p{number:02}" for number in range(20)]
    for number, name in enumerate(names):
        await world.create(make_pod(name, cpu=f"{3000 + number}m"))
    await world.settle(_SHORT)
    assert await _ends(world, "full0") == 1
    assert await world.nodes(*names) == ["n0", *[""] * 19]


@in_virtual_time
async def test_the_end_of_a_pod_that_could_have_been_evicted_wakes_no_root(world: SchedulerPlane) -> None:
    await _full_nodes(world, 2, priority=100)
    for name in ("x", "y"):
        await world.create(make_node(name, cpu=4), make_pod(f"on-{name}", cpu=4, node=name, priority=10))
    await world.create(make_pod_group("g", gang=3, priority=50))
    pods = await world.pods("g", "g", 3, cpu="3", priority=50)
    await world.settle(_LONG)
    assert await _ends(world, "on-x") == 0
    assert await _ends(world, "full0") >= 1
    assert await world.gone("on-y")
    assert await world.scheduled(*pods)


@in_virtual_time
async def test_a_gang_that_is_no_longer_held_to_a_rack_by_a_node_that_is_gone_is_asked_about_at_once(
    world: SchedulerPlane,
) -> None:
    await world.create(make_node("n0", cpu=1, rack="r0"), make_node("n1", cpu=4, rack="r1"))
    await world.create(make_pod_group("g", gang=2, key=RACK), make_pod("there", group="g", node="n0", cpu=1))
    await world.create(make_pod("waits", group="g", cpu=1))
    await world.settle(_LONG)
    assert await world.nodes("waits") == [""]
    await world.delete(NODES, "n0")
    await world.settle(_A_MOMENT)
    assert await world.nodes("waits") == ["n1"]
