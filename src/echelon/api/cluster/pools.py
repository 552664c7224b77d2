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

`parse` reads such a file (through `cluster_file`), `nodes` makes the Node objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import product
from math import prod

from ..objects.vocabulary import BLOCK, HOSTNAME, RACK, REGION, ZONE
from ..scheme import NODES, Object

#: Default capacity for pods.
_PODS_PER_NODE = "110"


@dataclass(frozen=True)
class Level:
    """A topology level: the short name used in `counts`, and the node label that carries its value."""

    name: str
    key: str


@dataclass(frozen=True)
class Pool:
    name: str
    #: Count per parent, wide to narrow, ending with `node`.
    counts: Mapping[str, int]
    capacity: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()

    @property
    def size(self) -> int:
        return prod(self.counts.values())


@dataclass(frozen=True)
class Cluster:
    levels: tuple[Level, ...]
    pools: tuple[Pool, ...]

    @property
    def size(self) -> int:
        """The number of nodes."""
        return sum(pool.size for pool in self.pools)


#: The levels of a file that declares none.
WELL_KNOWN_LEVELS = (Level("region", REGION), Level("zone", ZONE), Level("block", BLOCK), Level("rack", RACK))


class BadCluster(ValueError):
    """An invalid cluster file; the message begins with file, line and key."""


def parse(text: str, source: str) -> Cluster:
    """The cluster of a file; `source` is the file name in error messages."""
    from .cluster_file import read  # imported here, because it imports the records above

    return read(text, source)


@cache
def default_cluster() -> Cluster:
    """The cluster without a cluster file: 2 blocks × 3 racks × 4 nodes with 8 GPUs."""
    text = resources.files("echelon.api").joinpath("data", "cluster.yaml").read_text()
    return parse(text, "cluster.yaml")


def nodes(cluster: Cluster) -> list[Object]:
    """All Node objects, named by their path: `gpu-b0-r1-n2`.  Label values are paths too, so they are unique."""
    return [node for pool in cluster.pools for node in _nodes_of(pool, {one.name: one.key for one in cluster.levels})]


def _nodes_of(pool: Pool, keys: Mapping[str, str]) -> Iterator[Object]:
    short = _abbreviations(tuple(pool.counts))
    capacity = {"pods": _PODS_PER_NODE, **pool.capacity}
    for place in product(*(range(count) for count in pool.counts.values())):
        path = pool.name
        labels: dict[str, str] = {}
        for level, ordinal in zip(pool.counts, place, strict=True):
            path += f"-{short[level]}{ordinal}"
            if level in keys:
                labels[keys[level]] = path
        labels[HOSTNAME] = path
        yield {
            "apiVersion": NODES.api_version,
            "kind": NODES.kind,
            "metadata": {"name": path, "labels": labels | dict(pool.labels)},
            "spec": {"taints": [dict(taint) for taint in pool.taints]} if pool.taints else {},
            "status": {"capacity": capacity, "allocatable": capacity},
        }


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
