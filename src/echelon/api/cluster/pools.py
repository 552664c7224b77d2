"""Cluster files: node pools described by topology levels, counts and capacity.

levels:                      # wide to narrow; optional
  - {name: block, key: topology.kubernetes.io/block}
  - {name: rack, key: topology.kubernetes.io/rack}
pools:
  - name: gpu
    counts: {block: 2, rack: 4, node: 4}   # per parent: 2 blocks × 4 racks × 4 nodes
    capacity: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}
    labels: {}
    taints: []
    devices: []              # [{driver: gpu.example.org, class: gpu, count: 8, attributes: {model: a}}]
  - name: here
    counts: {node: 2}
    runs: processes          # pods run on this machine, which the nodes share if they say no capacity
nodes:                       # single nodes; optional
  - name: login
    at: {block: gpu-b0}
    capacity: {cpu: 8}

A count is a number for every parent, or a list with one number for each: {block: 2, rack: [2, 1], node: [4, 4, 2]}.

`parse` reads such a file (through `cluster_file`), or the nodes of a real cluster (through `node_list`); `nodes` makes
the Node objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from ..objects.vocabulary import BLOCK, HOSTNAME, RACK, REGION, RUNS, ZONE
from ..scheme import NODES, Object

#: Default capacity for pods.
_PODS_PER_NODE = "110"


@dataclass(frozen=True)
class Level:
    """A topology level: the short name used in `counts`, and the node label that carries its value."""

    name: str
    key: str


@dataclass(frozen=True)
class DevicesOfPool:
    """Devices that every node of a pool has, offered as a ResourceSlice."""

    driver: str
    count: int
    #: The DeviceClass that is made for the driver, "" for none.
    device_class: str = ""
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Pool:
    name: str
    #: Count per parent, wide to narrow, ending with `node`; a tuple has one count for each parent.
    counts: Mapping[str, int | tuple[int, ...]]
    capacity: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()
    devices: tuple[DevicesOfPool, ...] = ()

    @property
    def size(self) -> int:
        return domains_at(self.counts.values())


def runs_processes(node: Object) -> bool:
    """Whether the pods of a node run as processes of this machine."""
    return (node["metadata"].get("labels") or {}).get(RUNS) == "processes"


def domains_at(counts: Iterable[int | tuple[int, ...]]) -> int:
    """How many domains there are at the last of these levels."""
    total = 1
    for count in counts:
        total = total * count if isinstance(count, int) else sum(count)
    return total


@dataclass(frozen=True)
class Cluster:
    levels: tuple[Level, ...]
    pools: tuple[Pool, ...]
    #: Nodes that are given one by one.
    singles: tuple[Object, ...] = ()

    @property
    def size(self) -> int:
        """The number of nodes."""
        return sum(pool.size for pool in self.pools) + len(self.singles)


#: The levels of a file that declares none.
WELL_KNOWN_LEVELS = (Level("region", REGION), Level("zone", ZONE), Level("block", BLOCK), Level("rack", RACK))


class BadCluster(ValueError):
    """An invalid cluster file; the message begins with file, line and key."""


def parse(text: str, source: str) -> Cluster:
    """The cluster of a file; `source` is the file name in error messages."""
    from . import cluster_file, node_list  # imported here, because they import the records above

    read = node_list.read if node_list.holds_objects(text) else cluster_file.read
    return read(text, source)


@cache
def default_cluster() -> Cluster:
    """The cluster without a cluster file: 2 blocks × 3 racks × 4 nodes with 8 GPUs."""
    text = resources.files("echelon.api").joinpath("data", "cluster.yaml").read_text()
    return parse(text, "cluster.yaml")


def this_machine(name: str) -> Cluster:
    """One node whose pods run as processes, with whatever the machine has."""
    return Cluster((), (), (node_object(name, {RUNS: "processes"}, {}),))


def nodes(cluster: Cluster) -> list[Object]:
    """All Node objects, named by their path: `gpu-b0-r1-n2`.  Label values are paths too, so they are unique."""
    return [node for _, node in nodes_by_pool(cluster)] + [*map(deepcopy, cluster.singles)]


def nodes_by_pool(cluster: Cluster) -> Iterator[tuple[Pool, Object]]:
    """The nodes of pools, each with its pool."""
    keys = {one.name: one.key for one in cluster.levels}
    return ((pool, node) for pool in cluster.pools for node in _nodes_of(pool, keys))


def _nodes_of(pool: Pool, keys: Mapping[str, str]) -> Iterator[Object]:
    short = _abbreviations(tuple(pool.counts))
    for place in _places(pool.counts.values()):
        path = pool.name
        labels: dict[str, str] = {}
        for level, ordinal in zip(pool.counts, place, strict=True):
            path += f"-{short[level]}{ordinal}"
            if level in keys:
                labels[keys[level]] = path
        yield node_object(path, labels | dict(pool.labels), pool.capacity, pool.taints)


def node_object(
    name: str, labels: Mapping[str, str], capacity: Mapping[str, str], taints: Iterable[Object] = ()
) -> Object:
    """A Node with its host name as a label and room for the default number of pods."""
    room = {"pods": _PODS_PER_NODE, **capacity}
    own = [dict(taint) for taint in taints]
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": {HOSTNAME: name} | dict(labels)},
        "spec": {"taints": own} if own else {},
        "status": {"capacity": room, "allocatable": room},
    }


def _places(counts: Iterable[int | tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The ordinals of every node, level by level."""
    places: list[tuple[int, ...]] = [()]
    for count in counts:
        each = (count,) * len(places) if isinstance(count, int) else count
        places = [(*place, ordinal) for place, number in zip(places, each, strict=True) for ordinal in range(number)]
    return places


def _abbreviations(names: tuple[str, ...]) -> dict[str, str]:
    """The shortest unique prefix of each name: `b` and `n`, but `re` and `ra`."""
    return {
        name: next(
            name[:length]
            for length in range(1, len(name) + 1)
            if length == len(name) or not any(other != name and other.startswith(name[:length]) for other in names)
        )
        for name in names
    }
