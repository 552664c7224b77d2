"""Topology levels: which node labels form domains, from wide to narrow, and which nodes contradict that order.

    configured keys ─┐
    Topology objects ─┼─► choose_levels ─► Levels ─► the scheduler's view, `echelon topology`, `echelon doctor`
    labels of nodes ──┘   the first that there is

Labels of one family are in the order of the family.  Families, and several Topology objects, are merged as their
domains nest on nodes.  A domain is a path of values, so a value may be used again in another domain of a wider level;
only where few values are is it taken for a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..objects import name_formats
from ..objects.vocabulary import BLOCK, HOSTNAME, RACK, REGION, ZONE

#: Labels that clouds and operators put on nodes, each family from wide to narrow.
FAMILIES: tuple[tuple[str, ...], ...] = (
    (REGION, ZONE, BLOCK, RACK),
    tuple(f"cloud.google.com/gce-topology-{part}" for part in ("block", "subblock", "host")),
    tuple(f"topology.k8s.aws/network-node-layer-{number}" for number in (1, 2, 3)),
    tuple(f"oci.oraclecloud.com/rdma.{part}" for part in ("hpc_island_id", "network_block_id", "local_block_id")),
    tuple(f"network.topology.nvidia.com/{part}" for part in ("core", "spine", "leaf", "accelerator")),
)
#: Where levels came from, if not from Topology objects.
CONFIGURED = "configured"
NODE_LABELS = "node labels"
#: Nodes that a message names for a place.
_NODES_TOLD = 3


@dataclass(frozen=True)
class LabelledNode:
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class TopologyObject:
    """Levels that a Topology object of Kueue or KAI lists, from wide to narrow."""

    title: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Contradiction:
    """A domain that lies in two domains of a wider level, while most others lie in one."""

    narrow: str
    value: str
    wide: str
    #: The wider domains with the nodes in each, the one with most nodes first.
    places: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def odd_nodes(self) -> tuple[str, ...]:
        """The nodes that are not where most nodes of the domain are."""
        return tuple(name for _, names in self.places[1:] for name in names)

    def __str__(self) -> str:
        there = "; ".join(f"{value or 'none'}: {some(nodes)}" for value, nodes in self.places)
        return f"{self.narrow}={self.value} is in {len(self.places)} domains of {self.wide} ({there})"


@dataclass(frozen=True)
class Reversal:
    """Two levels in the wrong order: each domain of the wider lies in one domain of the narrower."""

    narrow: str
    wide: str
    #: Values that show it, and nodes with them.
    example: str
    odd_nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.wide} is listed as wider than {self.narrow}, but nodes have it inside ({self.example})"


@dataclass(frozen=True)
class Reuse:
    """Values of a level that most wider domains use again: each is a domain of its own."""

    narrow: str
    wide: str
    used_again: int
    values: int

    def __str__(self) -> str:
        return (
            f"{self.used_again} of {self.values} values of {self.narrow} are in several domains of {self.wide}; "
            "each is a domain of its own"
        )


@dataclass(frozen=True)
class Levels:
    #: From wide to narrow; the hostname is last.
    keys: tuple[str, ...]
    #: `CONFIGURED`, `NODE_LABELS`, or the titles of Topology objects.
    source: str = NODE_LABELS
    contradictions: tuple[Contradiction | Reversal, ...] = ()
    reused: tuple[Reuse, ...] = ()
    #: By key: nodes that lack a label which others have.
    unlabelled: tuple[tuple[str, tuple[str, ...]], ...] = ()


def read_levels(text: str) -> tuple[str, ...]:
    """The keys of a comma-separated list, completed by the hostname; ValueError says what is wrong with it."""
    return completed([part.strip() for part in text.split(",")])


def completed(keys: Sequence[str]) -> tuple[str, ...]:
    """Configured keys with the hostname last; ValueError says what is wrong with them."""
    for number, key in enumerate(keys):
        wrong = name_formats.label_key(key) if key else ["must not be empty"]
        if wrong:
            raise ValueError(f"{key or f'level {number + 1}'}: {wrong[0]}")
        if key in keys[:number]:
            raise ValueError(f"{key}: is listed twice")
    if HOSTNAME in keys[:-1]:
        raise ValueError(f"{HOSTNAME}: is the narrowest level, list it last or leave it out")
    return (*keys, HOSTNAME) if HOSTNAME not in keys else tuple(keys)


def choose_levels(
    nodes: Iterable[LabelledNode], configured: Sequence[str] | None = None, objects: Sequence[TopologyObject] = ()
) -> Levels:
    """The configured levels, else those of Topology objects, else known labels that nodes carry."""
    if configured is not None:
        chosen, source = _Merger([configured], _alike(nodes, configured)), CONFIGURED
        keys = tuple(key for key in configured if key != HOSTNAME)
    else:
        lists = [one.keys for one in objects if one.keys] or FAMILIES
        source = ", ".join(one.title for one in objects if one.keys) or NODE_LABELS
        known = dict.fromkeys(key for each in lists for key in each)
        chosen = _Merger([[key for key in each if key != HOSTNAME] for each in lists], _alike(nodes, known))
        keys = tuple(key for key in chosen.order() if source != NODE_LABELS or chosen.carries(key))
    odd = [one for wide, narrow in chosen.neighbours(keys) for one in chosen.nesting(wide, narrow)]
    bare = ((key, chosen.lacking(key)) for key in keys if chosen.carries(key))
    return Levels(
        (*keys, HOSTNAME),
        source,
        tuple(one for one in odd if not isinstance(one, Reuse)),
        tuple(one for one in odd if isinstance(one, Reuse)),
        tuple((key, names) for key, names in bare if names),
    )


def topology_labels(labels: Mapping[str, str], keys: Iterable[str]) -> tuple[str, ...]:
    """What `choose_levels` reads of a node: nodes that are equal in this stand for one another."""
    return tuple([labels.get(key, "") for key in keys])


#: Nodes with the same labels, by these labels.
_Alike = list[tuple[Mapping[str, str], list[str]]]


def _alike(nodes: Iterable[LabelledNode], keys: Iterable[str]) -> _Alike:
    found: dict[tuple[str, ...], list[str]] = {}
    order = tuple(keys)
    for node in nodes:
        found.setdefault(topology_labels(node.labels, order), []).append(node.name)
    return [(dict(zip(order, values, strict=True)), names) for values, names in found.items()]


class _Merger:
    """Merges lists of keys into one order, and compares that order with the labels of nodes."""

    def __init__(self, lists: Sequence[Sequence[str]], alike: _Alike) -> None:
        self._lists = lists
        self._alike = alike

    def carries(self, key: str) -> bool:
        return any(labels.get(key) for labels, _ in self._alike)

    def neighbours(self, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Each key with the nearest wider one that any of its nodes has too."""
        for number, narrow in enumerate(keys):
            for wide in reversed(keys[:number]):
                if any(labels.get(wide) and labels.get(narrow) for labels, _ in self._alike):
                    yield wide, narrow
                    break

    def lacking(self, key: str) -> tuple[str, ...]:
        return tuple(sorted(name for labels, names in self._alike if not labels.get(key) for name in names))

    def order(self) -> tuple[str, ...]:
        """Each list keeps its order; of the first keys of the lists the one with the widest domains comes next."""
        rest, merged = [list(keys) for keys in self._lists if keys], list[str]()
        while rest:
            heads = list(dict.fromkeys(keys[0] for keys in rest))
            # Lists that contradict each other leave no free head: then the first list wins.
            free = [key for key in heads if not any(key in keys[1:] for keys in rest)] or heads[:1]
            chosen = min(free, key=lambda key: (self._inside_others(key, free), self._domains(key), free.index(key)))
            merged.append(chosen)
            rest = [left for keys in rest if (left := [key for key in keys if key != chosen])]
        return tuple(merged)

    def _inside_others(self, key: str, others: Sequence[str]) -> int:
        """In how many of the others its domains lie, which do not lie in its own."""
        return sum(self._nests(key, other) and not self._nests(other, key) for other in others if other != key)

    def _nests(self, inner: str, outer: str) -> bool:
        """Whether each domain of one key lies in one domain of another, on nodes that have both."""
        around: dict[tuple[str, ...], tuple[str, ...]] = {}
        for labels, _ in self._alike:
            if labels.get(inner) and labels.get(outer):
                path, wider = self._path(labels, inner), self._path(labels, outer)
                if around.setdefault(path, wider) != wider:
                    return False
        return bool(around)

    def _domains(self, key: str) -> int:
        return len({self._path(labels, key) for labels, _ in self._alike if labels.get(key)})

    def _path(self, labels: Mapping[str, str], key: str) -> tuple[str, ...]:
        keys = next(keys for keys in self._lists if key in keys)
        return tuple([labels.get(one, "") for one in keys[: keys.index(key) + 1]])

    def nesting(self, wide: str, narrow: str) -> list[Contradiction | Reversal | Reuse]:
        """What is odd about two levels that follow each other."""
        places: dict[str, dict[str, list[str]]] = {}
        inside: dict[str, dict[str, None]] = {}
        for labels, names in self._alike:
            if value := labels.get(narrow):
                outer = labels.get(wide, "")
                places.setdefault(value, {}).setdefault(outer, []).extend(names)
                if outer:
                    inside.setdefault(outer, {})[value] = None
        split = {value: there for value, there in sorted(places.items()) if len(there) > 1}
        if not split:
            return []
        apart = {value: named for value, there in split.items() if len(named := sorted(filter(None, there))) > 1}
        if apart and not _ordered_by_family(wide, narrow) and all(len(values) == 1 for values in inside.values()):
            value, named = next(iter(apart.items()))
            seen = tuple(split[value][outer][0] for outer in named)
            return [Reversal(narrow, wide, f"{narrow}={value} has {wide}={some(named)}", seen)]
        if 2 * len(split) > len(places) and not any("" in there for there in split.values()):
            return [Reuse(narrow, wide, len(split), len(places))]
        return [Contradiction(narrow, value, wide, _by_size(there)) for value, there in split.items()]


def _by_size(places: Mapping[str, Sequence[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    ordered = sorted(places.items(), key=lambda one: (-len(one[1]), one[0]))
    return tuple((outer, tuple(sorted(names))) for outer, names in ordered)


def _ordered_by_family(wide: str, narrow: str) -> bool:
    return any(wide in family and narrow in family and family.index(wide) < family.index(narrow) for family in FAMILIES)


def some(names: Sequence[str], most: int = _NODES_TOLD) -> str:
    """The first of many names."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
