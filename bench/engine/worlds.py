"""Clusters and demands for the benchmarks: regular trees of nodes, gangs with ids of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count, product

from echelon.engine import (
    ClusterView,
    Composite,
    Demand,
    Evict,
    Group,
    Leaf,
    Node,
    Placed,
    PodClass,
    Running,
    Shape,
    Unit,
    Verdict,
)

ZONE = "topology.kubernetes.io/zone"
BLOCK = "topology.kubernetes.io/block"
RACK = "topology.kubernetes.io/rack"
HOST = "kubernetes.io/hostname"
LEVELS = (ZONE, BLOCK, RACK, HOST)
GPU = "nvidia.com/gpu"
GIB = 1 << 30
NOW = 1_000_000.0
#: Ids of pods and units that run before the first demand, apart from those of demands.
RUNNING = 1_000_000_000

_ids = count(1)


def machine(gpus: int = 8, slots: int = 8) -> dict[str, int]:
    """What a node offers: 12 cores and 100 GiB for every slot."""
    return {"cpu": 12_000 * slots, "memory": 100 * GIB * slots, GPU: gpus, "pods": 110}


@cache
def shape(gpus: int = 8, slots: int | None = None) -> Shape:
    """A pod that takes so many GPUs, with the cores and the memory that come with them.

    Equal shapes are one object, as the scheduler makes them.
    """
    size = gpus if slots is None else slots
    return Shape((("cpu", 12_000 * size), ("memory", 100 * GIB * size), (GPU, gpus), ("pods", 1)))


def cluster(nodes: Iterator[tuple[dict[str, str], dict[str, int]]]) -> ClusterView:
    """A view of these nodes (labels, allocatable) with its arrays in place."""
    view = ClusterView(LEVELS)
    for number, (labels, offers) in enumerate(nodes):
        name = f"node-{number:06d}"
        view.put_node(Node(name, {HOST: name, **labels}, offers))
    assert view.node_table.size
    return view


def tree(zones: int, blocks: int, racks: int, nodes: int, gpus: int = 8) -> ClusterView:
    """Equal zones of equal blocks of equal racks of equal nodes."""
    offers = machine(gpus)
    places = product(range(zones), range(blocks), range(racks), range(nodes))
    return cluster(({ZONE: f"z{z}", BLOCK: f"b{b:03d}", RACK: f"r{r:03d}"}, offers) for z, b, r, _ in places)


def racks_of(sizes: list[int], racks_per_block: int) -> ClusterView:
    """Unequal racks, given by their numbers of 8-GPU nodes."""
    offers = machine()
    places = (
        (f"b{rack // racks_per_block:02d}", f"r{rack:03d}") for rack, size in enumerate(sizes) for _ in range(size)
    )
    return cluster(({ZONE: "z0", BLOCK: block, RACK: rack}, offers) for block, rack in places)


def gang(pods: int, one: Shape, key: str | None = None, **fields: object) -> Leaf:
    return mixed_gang([(one, pods)], key, **fields)


def mixed_gang(classes: list[tuple[Shape, int]], key: str | None = None, **fields: object) -> Leaf:
    """All members or none, of one or several shapes."""
    made = tuple(PodClass(one, tuple(next(_ids) for _ in range(pods))) for one, pods in classes)
    size = sum(pods for _, pods in classes)
    return Leaf(next(_ids), size, made, topology=key, **fields)  # type: ignore[arg-type]


def next_id() -> int:
    return next(_ids)


def all_of(children: Sequence[Group], key: str | None = None) -> Composite:
    return Composite(next(_ids), len(children), tuple(children), key)


def occupy(view: ClusterView, nodes: list[str], one: Shape, priority: int, started: float, unit: int) -> None:
    """One unit with a pod of this shape on each of these nodes."""
    view.put_unit(Unit(unit, priority, f"unit-{unit}"))
    for node in nodes:
        view.bind(Running(RUNNING + next(_ids), node, one.requests, unit, started))


def bind(view: ClusterView, demand: Demand, verdict: Verdict) -> None:
    """Let what was decided hold its place, victims gone, as the scheduler does before the next decision."""
    if isinstance(verdict, Evict):
        for unit in verdict.units:
            view.unbind_all([pod.pod for pod in view.pods_of(unit)])
        verdict = verdict.placement
    if not isinstance(verdict, Placed):
        return
    for leaf in demand.leaves():
        for pods in leaf.classes:
            spots = ((member, verdict.assignment.get(member)) for member in pods.members)
            requests, alone = pods.shape.requests, leaf.exclusive
            view.bind_all(Running(m, node, requests, leaf.id, NOW, leaf.id, alone) for m, node in spots if node)
