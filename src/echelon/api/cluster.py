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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .scheme import Object


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


@dataclass(frozen=True)
class Cluster:
    levels: tuple[Level, ...]
    pools: tuple[Pool, ...]
