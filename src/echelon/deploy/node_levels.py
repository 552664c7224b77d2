"""Topology levels that nodes carry: known labels, ordered as they nest, and the nodes that contradict the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..api.objects.vocabulary import BLOCK, HOSTNAME, RACK, REGION, ZONE

#: Labels that clouds and operators put on nodes, each family from wide to narrow.
FAMILIES: tuple[tuple[str, ...], ...] = (
    (REGION, ZONE, BLOCK, RACK),
    tuple(f"cloud.google.com/gce-topology-{part}" for part in ("block", "subblock", "host")),
    tuple(f"topology.k8s.aws/network-node-layer-{number}" for number in (1, 2, 3)),
    tuple(f"oci.oraclecloud.com/rdma.{part}" for part in ("hpc_island_id", "network_block_id", "local_block_id")),
    tuple(f"network.topology.nvidia.com/{part}" for part in ("core", "spine", "leaf", "accelerator")),
)
_KNOWN = tuple(key for family in FAMILIES for key in family)


@dataclass(frozen=True)
class LabelledNode:
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Contradiction:
    """A domain that lies in two domains of a wider level."""

    narrow: str
    value: str
    wide: str
    #: The wider domains with the nodes in each, the one with most nodes first.
    places: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        there = "; ".join(f"{value or 'none'}: {_some(nodes)}" for value, nodes in self.places)
        return f"{self.narrow}={self.value} is in {len(self.places)} domains of {self.wide} ({there})"


@dataclass(frozen=True)
class Levels:
    #: From wide to narrow; the hostname is last.
    keys: tuple[str, ...]
    contradictions: tuple[Contradiction, ...] = ()
    #: By key: nodes that lack a label which others have.
    unlabelled: tuple[tuple[str, tuple[str, ...]], ...] = ()


def find_levels(nodes: Sequence[LabelledNode]) -> Levels:
    """Known labels that nodes carry, those with fewer domains first; equal ones in the order of their family."""
    carried = [key for key in _KNOWN if any(node.labels.get(key) for node in nodes)]
    counts = {key: len({node.labels[key] for node in nodes if node.labels.get(key)}) for key in carried}
    keys = sorted(carried, key=lambda key: (counts[key], _KNOWN.index(key)))
    found = [one for wide, narrow in pairwise(keys) for one in _contradictions(nodes, wide, narrow)]
    bare = [(key, tuple(sorted(node.name for node in nodes if not node.labels.get(key)))) for key in keys]
    return Levels((*keys, HOSTNAME), tuple(found), tuple((key, names) for key, names in bare if names))


def _contradictions(nodes: Sequence[LabelledNode], wide: str, narrow: str) -> list[Contradiction]:
    places: dict[str, dict[str, list[str]]] = {}
    for node in nodes:
        if value := node.labels.get(narrow):
            places.setdefault(value, {}).setdefault(node.labels.get(wide, ""), []).append(node.name)
    return [
        Contradiction(
            narrow,
            value,
            wide,
            tuple(
                (outer, tuple(sorted(names)))
                for outer, names in sorted(there.items(), key=lambda one: (-len(one[1]), one[0]))
            ),
        )
        for value, there in sorted(places.items())
        if len(there) > 1
    ]


def _some(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
