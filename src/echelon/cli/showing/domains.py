"""What `echelon topology` says of a cluster: its domains as a tree, with nodes and amounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...api.cluster.topology_levels import Levels
from ...api.objects import meta, pod_amounts
from ...api.objects.subtree import mapping
from ...api.objects.vocabulary import HOSTNAME
from ...api.scheme import Object
from ...base import quantity
from ..output import counting_order
from .snapshot import by_number

_ENDED = ("Succeeded", "Failed")
#: Amounts that every node has; other resources without a domain of their own, as storage, are not shown.
_COMMON = ("cpu", "memory")


@dataclass(frozen=True)
class NodeAmounts:
    """A node with what it has and what is free of it; nothing is free on a node that takes no pods."""

    name: str
    labels: Mapping[str, str]
    takes_pods: bool
    total: Mapping[str, int]
    free: Mapping[str, int]


@dataclass(frozen=True)
class DomainEntry:
    """A domain with the domains in it; at the top the whole cluster, with an empty key."""

    key: str
    #: "" for nodes that lack the label.
    name: str
    nodes: int
    #: Nodes that take no pods: cordoned or not ready.
    unavailable: int
    total: Mapping[str, int]
    free: Mapping[str, int]
    children: tuple[DomainEntry, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """As JSON has it: amounts as quantities, without what is empty."""
        own: dict[str, Any] = {"key": self.key, "name": self.name} if self.key else {}
        own |= {"nodes": self.nodes} | ({"unavailable": self.unavailable} if self.unavailable else {})
        for field, amounts in (("total", self.total), ("free", self.free)):
            own[field] = {name: quantity.spelt(name, amount) for name, amount in amounts.items()}
        return own | ({"children": [child.as_data() for child in self.children]} if self.children else {})


def amounts_of(nodes: Iterable[Object], pods: Iterable[Object], *, common: bool) -> list[NodeAmounts]:
    """Devices of each node, and CPU and memory if `common` is asked for, less what pods there request."""
    used: dict[str, Counter[str]] = {}
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if name and (pod.get("status") or {}).get("phase") not in _ENDED:
            sums = used.setdefault(name, Counter())
            for resource, amount in pod_amounts.total(pod["spec"], "requests").items():
                sums[resource] += quantity.parse(amount, resource)
    return [_node(node, used.get(meta.name(node), Counter()), common) for node in sorted(nodes, key=by_number)]


def _node(node: Object, used: Mapping[str, int], common: bool) -> NodeAmounts:
    status = node.get("status") or {}
    listed = status.get("allocatable") or status.get("capacity") or {}
    total = {
        name: quantity.parse(listed[name], name)
        for name in sorted(listed, key=lambda name: ("/" not in name, name))
        if "/" in name or (common and name in _COMMON)
    }
    ready = (meta.find_condition(node, "Ready") or {}).get("status", "True") == "True"
    takes_pods = ready and not mapping(node, "spec").get("unschedulable")
    free = {name: max(0, amount - used.get(name, 0)) if takes_pods else 0 for name, amount in total.items()}
    return NodeAmounts(meta.name(node), meta.labels(node), takes_pods, total, free)


def domains_of(nodes: Sequence[NodeAmounts], levels: Levels, *, with_nodes: bool) -> DomainEntry:
    """The tree of all nodes; single nodes where they are asked for, or where there is no other level."""
    keys = [key for key in levels.keys if key != HOSTNAME]
    return _domain("", "", nodes, keys, with_nodes or not keys)


def _domain(key: str, name: str, nodes: Sequence[NodeAmounts], keys: Sequence[str], with_nodes: bool) -> DomainEntry:
    children: list[DomainEntry] = []
    if keys:
        inside: dict[str, list[NodeAmounts]] = {}
        for node in nodes:
            inside.setdefault(node.labels.get(keys[0], ""), []).append(node)
        # Nodes without the label come last; they may have narrower ones.
        values = sorted(inside, key=lambda value: (not value, counting_order(value)))
        children = [_domain(keys[0], value, inside[value], keys[1:], with_nodes) for value in values]
        if len(inside) == 1 and "" in inside:
            children = list(children[0].children)  # nobody here has the label: one level less
    elif with_nodes and key != HOSTNAME:
        children = [_domain(HOSTNAME, node.name, [node], (), with_nodes) for node in nodes]
    return DomainEntry(
        key,
        name,
        len(nodes),
        sum(not node.takes_pods for node in nodes),
        _sum(node.total for node in nodes),
        _sum(node.free for node in nodes),
        tuple(children),
    )


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in amounts:
        for name, amount in one.items():
            found[name] = found.get(name, 0) + amount
    return {name: found[name] for name in sorted(found, key=lambda name: ("/" not in name, name))}
