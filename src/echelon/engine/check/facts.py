"""What the judge knows of a cluster: free amounts, node filters and domains, read from the records node by node.

All of it is written again from the definitions: `check` shares no code with the search, so that an error there cannot
hide here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..cluster.view import ClusterView, Node, Running
from ..records.demand import (
    JOB_RANK,
    LARGEST,
    OWN_KEY,
    Composite,
    Exclusive,
    Group,
    Leaf,
    NodeTerm,
    Requirement,
    Shape,
    Taint,
    Toleration,
    given,
)
from ..records.verdict import Domain

Amounts = dict[str, int]
#: Identity of a domain: every value from the widest level down to its key.
Identity = tuple[str | None, ...]


class Facts:
    """The cluster without the evictable pods of the units in `gone`."""

    def __init__(self, view: ClusterView, gone: frozenset[int] = frozenset()) -> None:
        self.view = view
        self.levels = view.levels
        self.nodes: dict[str, Node] = {}
        for name in view.node_names():
            node = view.node(name)
            assert node is not None
            self.nodes[name] = node
        self.staying = [pod for pod in view.all_running() if not (pod.unit in gone and pod.evictable)]
        self._free: dict[str, Amounts] = {}
        self._slots: dict[Shape, dict[str, int]] = {}
        self._holders: dict[Exclusive, dict[Identity, set[int]]] = {}
        self._pods_on: dict[str, list[Running]] = {}
        for pod in self.staying:
            self._pods_on.setdefault(pod.node, []).append(pod)

    def free(self, name: str) -> Amounts:
        """Free amounts of every resource that a node offers or that its pods request."""
        found = self._free.get(name)
        if found is None:
            node = self.nodes[name]
            found = self._free[name] = {resource: has(node, resource) for resource in node.allocatable}
            for pod in self._pods_on.get(name, ()):
                for resource, amount in pod.requests:
                    found[resource] = found.get(resource, given(resource)) - amount
        return found

    def slots(self, shape: Shape) -> Mapping[str, int]:
        """For each node with room: how many pods of a shape it takes, pod rules apart."""
        known = self._slots.get(shape)
        if known is None:
            counts = ((name, self._slots_on(shape, node)) for name, node in self.nodes.items())
            known = self._slots[shape] = {name: count for name, count in counts if count}
        return known

    def _slots_on(self, shape: Shape, node: Node) -> int:
        if not fits(shape, node):
            return 0
        free = self.free(node.name)
        asked = [(resource, amount) for resource, amount in shape.requests if amount > 0]
        left = (free.get(resource, given(resource)) // amount for resource, amount in asked)
        return max(0, min(left, default=1 << 31))

    def domain(self, name: str, key: str) -> Identity | None:
        """The domain of a key that a node is in, None if it lacks the label."""
        node = self.nodes.get(name)
        if node is None or not node.labels.get(key):
            return None
        if key not in self.levels:
            return (node.labels[key],)
        return tuple(node.labels.get(level) or None for level in self.levels[: self.levels.index(key) + 1])

    def lies_in(self, name: str, path: Domain) -> bool:
        """Whether a node has the values of a path: levels from the widest down, then other keys."""
        labels = self.nodes[name].labels
        own = [labels[level] for level in self.levels if labels.get(level)]
        others = [value for key, value in labels.items() if key not in self.levels]
        same = 0
        while same < min(len(own), len(path)) and own[same] == path[same]:
            same += 1
        return all(value in others for value in path[same:])

    def holders(self, exclusive: Exclusive) -> dict[Identity, set[int]]:
        """By domain, the groups that hold it exclusively under the same claim."""
        found = self._holders.get(exclusive)
        if found is None:
            found = self._holders[exclusive] = {}
            for pod in self.staying:
                domain = self.domain(pod.node, exclusive.key) if pod.exclusive == exclusive else None
                if domain is not None:
                    found.setdefault(domain, set()).add(pod.group)
        return found


# ---- the tree


def groups_of(group: Group) -> list[Group]:
    """A group and all groups below it."""
    below = group.children if isinstance(group, Composite) else ()
    return [group, *(each for child in below for each in groups_of(child))]


def waiting(leaf: Leaf) -> list[tuple[int, Shape]]:
    """The members of a leaf that are to be placed, in their order."""
    return [(member, pods.shape) for pods in leaf.classes for member in pods.members]


def supply(leaf: Leaf) -> list[tuple[Shape, int]]:
    """The shapes of a leaf's members to place, each with their number."""
    found: dict[Shape, int] = {}
    for pods in leaf.classes:
        found[pods.shape] = found.get(pods.shape, 0) + len(pods.members)
    return [(shape, number) for shape, number in found.items() if number]


def members_to_place(root: Group) -> int:
    """How many members of a tree are to be placed."""
    return sum(number for each in groups_of(root) if isinstance(each, Leaf) for _, number in supply(each))


def satisfied(group: Group) -> bool:
    """Whether a group holds by its bound members alone."""
    if isinstance(group, Leaf):
        return len(group.bound) >= group.min_count
    return sum(map(satisfied, group.children)) >= group.min_groups


def keys(group: Group) -> list[str]:
    """The keys for which all pods of a group must share a domain."""
    alone = group.exclusive.key if isinstance(group, Leaf) and group.exclusive else None
    return [key for key in dict.fromkeys((group.topology, alone)) if key]


def bound_nodes(group: Group) -> list[str]:
    return [bound.node for each in groups_of(group) if isinstance(each, Leaf) for bound in each.bound]


# ---- node fit


def has(node: Node, resource: str) -> int:
    return min(node.allocatable.get(resource, given(resource)), LARGEST)


def fits(shape: Shape, node: Node) -> bool:
    """Whether a node admits a shape at all, free amounts apart."""
    countable = all(amount <= LARGEST for _, amount in shape.requests)
    if not countable or shape.unsupported or shape.waits or not (reached(shape, node) and equipped(shape, node)):
        return False
    return tolerated(shape, node) and selected(shape, node)


def reached(shape: Shape, node: Node) -> bool:
    """Whether a node can reach all volumes of a shape."""
    return all(any(_matches(term, node) for term in terms) for terms in shape.volumes)


def equipped(shape: Shape, node: Node) -> bool:
    """Whether a node can reach the devices that a shape has been given."""
    return all(any(_matches(term, node) for term in terms) for terms in shape.devices)


def tolerated(shape: Shape, node: Node) -> bool:
    return all(covered(taint, shape) for taint in hard_taints(node))


def hard_taints(node: Node) -> list[Taint]:
    taints = [taint for taint in node.taints if taint.effect != "PreferNoSchedule"]
    if node.unschedulable:
        taints.append(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    return taints


def covered(taint: Taint, shape: Shape) -> bool:
    return any(_covers(toleration, taint) for toleration in shape.tolerations)


def selected(shape: Shape, node: Node) -> bool:
    return chosen(shape, node) and near(shape, node)


def chosen(shape: Shape, node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in shape.node_selector)


def near(shape: Shape, node: Node) -> bool:
    return shape.node_terms is None or any(_matches(term, node) for term in shape.node_terms)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    right_effect = toleration.effect in ("", taint.effect)
    if toleration.operator == "Exists":
        return right_effect and toleration.key in ("", taint.key)
    return right_effect and (toleration.key, toleration.value) == (taint.key, taint.value)


def _matches(term: NodeTerm, node: Node) -> bool:
    if not term.labels and not term.fields:
        return False
    names = {"metadata.name": node.name}
    return all(_holds(requirement, node.labels) for requirement in term.labels) and all(
        requirement.operator in ("In", "NotIn") and requirement.key in names and _holds(requirement, names)
        for requirement in term.fields
    )


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    try:
        number, limit = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return number > limit if requirement.operator == "Gt" else number < limit


def in_the_way(pod: Running, exclusive: Exclusive) -> bool:
    """Whether a running pod belongs to a Job of the rank, and has no domain of the key alone itself."""
    said = dict(pod.identity.labels) if pod.identity is not None else {}
    return said.get(JOB_RANK) == str(exclusive.rank) and said.get(OWN_KEY) != exclusive.key
