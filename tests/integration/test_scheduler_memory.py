"""Nothing is remembered of what is gone: after any number of rounds every table of the scheduler has its old size."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Set
from typing import Any
from weakref import WeakKeyDictionary

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import HOSTNAME
from echelon.api.scheme import COMPOSITE_POD_GROUPS, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS
from echelon.testing.builders import make_budget, make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

RACK = "topology.kubernetes.io/rack"
#: Bounded by a number of their own, and the same whoever comes and goes.
BOUNDED = {"Shapes._read", "Shapes._known", "Book._counted", "Book._measured"}


def tables(scheduler: Any) -> dict[str, int]:
    """How much every table of the scheduler's own objects holds, by class and attribute."""
    found: Counter[str] = Counter()
    seen: dict[int, Any] = {}
    stack: list[tuple[str, Any]] = [("", scheduler)]
    while stack:
        where, thing = stack.pop()
        if id(thing) in seen or where in BOUNDED:
            continue
        seen[id(thing)] = thing
        if isinstance(thing, Mapping | WeakKeyDictionary):
            found[where] += len(thing)
            stack += [(f"{where}[]", value) for value in list(thing.values())]
        elif isinstance(thing, list | tuple | Set | deque):
            found[where] += len(thing)
            stack += [(f"{where}[]", value) for value in list(thing)]
        elif type(thing).__module__.startswith("echelon.scheduler"):
            names = [*getattr(thing, "__dict__", ()), *getattr(type(thing), "__slots__", ())]
            stack += [(f"{type(thing).__name__}.{name}", getattr(thing, name, None)) for name in names]
    return {where: size for where, size in found.items() if where.count("[]") == 0}


def _choosy(name: str) -> dict[str, Any]:
    """A pod of a shape that no other pod has."""
    pod = make_pod(name, labels={"job": name})
    among = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"job": name}}}
    pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [among]}}
    spread = {**among, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    pod["spec"]["topologySpreadConstraints"] = [spread]
    return pod


async def _round(world: SchedulerPlane, number: int) -> None:
    """Trees that run, that wait and that succeed, a preemption, a node and a namespace; then all of it goes."""
    await world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"space{number}"}})
    await world.create(make_node(f"x{number}", cpu=4, rack="x"))
    await world.create(make_composite(f"top{number}", gang=1, workload=f"w{number}"))
    await world.create(make_pod_group(f"g{number}", gang=2, parent=f"top{number}", workload=f"w{number}"))
    done = await world.pods(f"g{number}", f"g{number}-", 2)
    await world.create(make_pod_group(f"big{number}", gang=9, key=RACK))
    await world.pods(f"big{number}", f"big{number}-", 9, cpu=4)
    await world.create(_choosy(f"choosy{number}"), make_pod(f"high{number}", cpu=4, priority=100))
    await world.create(make_budget(f"b{number}", {"job": f"choosy{number}"}, min_available=1))
    await world.settle(3)
    for name in done:
        await world.patch(PODS, name, {"status": {"phase": "Succeeded"}}, status=True)
    # Groups go before their pods, as a garbage collector may have it.
    await world.remove(POD_GROUPS, f"g{number}")
    await world.remove(POD_GROUPS, f"big{number}")
    await world.remove(COMPOSITE_POD_GROUPS, f"top{number}")
    await world.settle(1)
    for pod in (await world.verbs.list(PODS, "default")).items:
        await world.delete(PODS, meta.name(pod), grace=0)
    await world.delete(POD_DISRUPTION_BUDGETS, f"b{number}")
    await world.delete(NODES, f"x{number}")
    await world.delete(NAMESPACES, f"space{number}")
    space = await world.verbs.get(NAMESPACES, f"space{number}")
    await world.verbs.update(NAMESPACES, {**space, "spec": {"finalizers": []}}, subresource="finalize")


@in_virtual_time
async def test_every_table_returns_to_its_size(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"n{number}", cpu=4, rack="r") for number in range(3)))
    for number in range(3):
        await _round(world, number)
    await world.settle(90)
    before = tables(world.scheduler)
    for number in range(3, 12):
        await _round(world, number)
    await world.settle(90)
    after = tables(world.scheduler)
    assert {where: (before.get(where), size) for where, size in after.items() if size > before.get(where, 0)} == {}
    assert len(before) > 30
