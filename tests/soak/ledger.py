"""What the store's change log says, kept by hand: the checks' own picture of the cluster.

Nothing of the product's reading of objects is used: pods, nodes and groups are read here again, as plainly as
possible, so that a mistake there is not repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from echelon.store.interface import Change

Tree = dict[str, Any]
GPU = "nvidia.com/gpu"
#: A port of the node, of which there is one.
PORT = "port "
EXCLUSIVE = "echelon.dev/exclusive-topology"
LEVELS = ("topology.kubernetes.io/block", "topology.kubernetes.io/rack", "kubernetes.io/hostname")


@dataclass(frozen=True)
class Term:
    """Pods of the same namespace with these labels, per domain of a key; `skew` only of a spread."""

    key: str
    labels: tuple[tuple[str, str], ...]
    skew: int = 0


@dataclass(frozen=True)
class Pod:
    uid: str
    namespace: str
    name: str
    labels: dict[str, str]
    node: str
    phase: str
    deleting: bool
    priority: int
    preempts: bool
    group: str
    gated: bool
    requests: tuple[tuple[str, int], ...]
    evicted: str
    near: tuple[Term, ...]
    far: tuple[Term, ...]
    spread: tuple[Term, ...]
    tolerates: bool
    chooses: dict[str, str]
    tree: Tree

    @property
    def in_job(self) -> bool:
        return any(owner["kind"] == "Job" for owner in self.tree["metadata"].get("ownerReferences") or ())

    @property
    def ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def holds(self) -> bool:
        """Occupies its node."""
        return bool(self.node) and not self.ended

    @property
    def stays(self) -> bool:
        """Occupies its node and is not on its way out."""
        return self.holds and not self.deleting and not self.evicted

    @property
    def pending(self) -> bool:
        return not self.node and not self.ended and not self.deleting and not self.gated


@dataclass(frozen=True)
class Group:
    kind: str
    uid: str
    name: str
    minimum: int
    key: str
    parent: str
    whole: bool
    priority: int
    exclusive: str
    deleting: bool


@dataclass(frozen=True)
class Node:
    name: str
    domains: dict[str, tuple[str, ...]]
    room: dict[str, int]
    labels: dict[str, str]
    cordoned: bool
    tainted: bool

    def is_chosen_by(self, pod: Pod) -> bool:
        return all(self.labels.get(key) == value for key, value in pod.chooses.items())

    def accepts(self, pod: Pod) -> bool:
        """Whether it may come here, if there is room."""
        return not self.cordoned and (pod.tolerates or not self.tainted) and self.is_chosen_by(pod)


class Ledger:
    """The newest state of everything, and typed pictures of what is checked."""

    def __init__(self) -> None:
        #: plural -> `namespace/name` or `name` -> object
        self.objects: dict[str, dict[str, Tree]] = {}
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.groups: dict[tuple[str, str], Group] = {}
        #: What changed when: ("room", node), ("door", node), ("place", node), ("nodes", ""), ("labels", uid of a pod).
        self._changed: dict[tuple[str, str], float] = {}

    def intrudes(self, pod: Pod, node: str, owner: Pod, home: str) -> bool:
        """Whether a pod on a node is in the domain that the group of another on its node has for itself."""
        group, other = self.leaf(owner), self.leaf(pod)
        if group is None or not group.exclusive or pod.priority != group.priority:
            return False
        if other is group or not (pod.in_job or (other is not None and other.exclusive)):
            return False
        here, there = self.nodes.get(node), self.nodes.get(home)
        return (
            here is not None and there is not None and here.domains[group.exclusive] == there.domains[group.exclusive]
        )

    def take(self, change: Change, now: float) -> tuple[str, Tree | None, Tree | None]:
        """Enter a change; its kind, and the object before and after."""
        _, _, plural, key = change.key.split("/", 3)
        table = self.objects.setdefault(plural, {})
        old = table.get(key)
        new: Tree | None = msgspec.json.decode(change.record.value) if change.record is not None else None
        if new is None:
            table.pop(key, None)
        else:
            table[key] = new
        self._picture(plural, key, new, now)
        return plural, old, new

    def _picture(self, plural: str, key: str, tree: Tree | None, now: float) -> None:
        if plural == "pods":
            was, pod = self.pods.get(key), _pod(tree) if tree else None
            _put(self.pods, key, pod)
            if was is not None and pod is not None and was.uid == pod.uid and was.labels != pod.labels:
                self._changed["labels", pod.uid] = now
        elif plural == "nodes":
            node = _node(tree) if tree else None
            self._note_node(self.nodes.get(key), node, now)
            _put(self.nodes, key, node)
        elif plural in ("podgroups", "compositepodgroups"):
            group = _group(tree) if tree else None
            at = ("PodGroup" if plural == "podgroups" else "CompositePodGroup", key.split("/")[1])
            before = self.groups.get(at)
            if before is not None and group is not None and before.minimum != group.minimum:
                self._changed["minima", ""] = now
            _put(self.groups, at, group)

    def _note_node(self, old: Node | None, new: Node | None, now: float) -> None:
        if old == new:
            return
        if old is None or new is None or new.labels != old.labels:
            self._changed["nodes", ""] = now
        if old is None:
            return
        if new is None or new.room != old.room:
            self._changed["room", old.name] = now
        if new is None or (new.cordoned, new.tainted, new.labels) != (old.cordoned, old.tainted, old.labels):
            self._changed["door", old.name] = now
        if new is None or new.domains != old.domains:
            self._changed["place", old.name] = now

    def changed(self, what: str, name: str = "") -> float:
        """When something about a node or pod last became another."""
        return self._changed.get((what, name), -math.inf)

    # -- trees of groups -------------------------------------------------------------------------------

    def leaf(self, pod: Pod) -> Group | None:
        return self.groups.get(("PodGroup", pod.group)) if pod.group else None

    def parent(self, group: Group) -> Group | None:
        return self.groups.get(("CompositePodGroup", group.parent)) if group.parent else None

    def chain(self, pod: Pod) -> list[Group]:
        """The groups above a pod, leaf first."""
        found: list[Group] = []
        group = self.leaf(pod)
        while group is not None and len(found) < 8:
            found.append(group)
            group = self.parent(group)
        return found

    def root(self, group: Group) -> Group:
        above = self.parent(group)
        return group if above is None else self.root(above)

    def children(self, group: Group) -> list[Group]:
        if group.kind == "PodGroup":
            return []
        return [one for one in self.groups.values() if one.parent == group.name]

    def members(self, group: Group) -> list[Pod]:
        """Pods of a group and of all below it."""
        if group.kind == "PodGroup":
            return [pod for pod in self.pods.values() if pod.group == group.name]
        return [pod for child in self.children(group) for pod in self.members(child)]

    def roots(self) -> Iterator[Group]:
        return (group for group in self.groups.values() if not group.parent)

    def unit(self, pod: Pod) -> Group | None:
        """What is evicted as one with this pod: its highest ancestor of mode `all`."""
        whole = [group for group in self.chain(pod) if group.whole]
        return whole[-1] if whole else None

    def broken_units(self) -> Iterator[Group]:
        """Units that run in part, below their minimum, though the pods that they lack wait."""
        whole = [group for group in self.groups.values() if group.whole]
        for unit in whole:
            above = self.parent(unit)
            if above is not None and any(group.whole for group in self._above(above)):
                continue
            members = self.members(unit)
            if not any(pod.stays for pod in members) or self.counted(unit, _stays_or_succeeded):
                continue
            if self.counted(unit, lambda pod: pod.stays or pod.pending):
                yield unit

    def _above(self, group: Group) -> list[Group]:
        found = [group]
        while (above := self.parent(found[-1])) is not None and len(found) < 8:
            found.append(above)
        return found

    def counted(self, group: Group, counts: Any) -> bool:
        """Whether enough pods, by `counts`, are there at every level."""
        if group.kind == "PodGroup":
            return sum(map(counts, self.members(group))) >= group.minimum
        return sum(self.counted(child, counts) for child in self.children(group)) >= group.minimum

    def is_torn(self, root: Group) -> bool:
        """Whether pods that must share a domain do not, say because a node was moved to another rack."""
        for group in self.subtree(root):
            nodes = [self.nodes.get(pod.node) for pod in self.members(group) if pod.stays]
            if group.key and len({node.domains[group.key] for node in nodes if node is not None}) > 1:
                return True
        return False

    def subtree(self, group: Group) -> list[Group]:
        return [group, *(one for child in self.children(group) for one in self.subtree(child))]

    def used(self) -> dict[str, dict[str, int]]:
        """node -> resource -> amount that pods hold there."""
        found: dict[str, dict[str, int]] = {}
        for pod in self.pods.values():
            if pod.holds:
                here = found.setdefault(pod.node, {})
                for resource, amount in pod.requests:
                    here[resource] = here.get(resource, 0) + amount
        return found


def _stays_or_succeeded(pod: Pod) -> bool:
    return pod.stays or pod.phase == "Succeeded"


def room_for(room: dict[str, int], resource: str) -> int:
    return room.get(resource, 1 if resource.startswith(PORT) else 0)


def _put(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _pod(tree: Tree) -> Pod:
    metadata, spec, status = tree["metadata"], tree["spec"], tree.get("status") or {}
    requests: dict[str, int] = {"pods": 1}
    for container in spec["containers"]:
        asked = (container.get("resources") or {}).get("requests") or {}
        for resource in ("cpu", GPU):
            requests[resource] = requests.get(resource, 0) + _amount(asked.get(resource, 0), resource)
        requests |= {f"{PORT}{port['hostPort']}": 1 for port in container.get("ports") or () if port.get("hostPort")}
    target = [one for one in status.get("conditions") or () if one["type"] == "DisruptionTarget"]
    evicted = target[0].get("message", "") if target and target[0].get("reason") == "PreemptionByScheduler" else ""
    return Pod(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", "default"),
        name=metadata["name"],
        labels=metadata.get("labels") or {},
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        deleting="deletionTimestamp" in metadata,
        priority=spec.get("priority") or 0,
        preempts=spec.get("preemptionPolicy") != "Never",
        group=(spec.get("schedulingGroup") or {}).get("podGroupName") or "",
        gated=bool(spec.get("schedulingGates")),
        requests=tuple(requests.items()),
        evicted=evicted,
        near=_terms(spec, "podAffinity"),
        far=_terms(spec, "podAntiAffinity"),
        spread=tuple(
            Term(one["topologyKey"], _labels(one), one["maxSkew"])
            for one in spec.get("topologySpreadConstraints") or ()
        ),
        tolerates=any(one.get("key") == "repair" for one in spec.get("tolerations") or ()),
        chooses=spec.get("nodeSelector") or {},
        tree=tree,
    )


def _terms(spec: Tree, kind: str) -> tuple[Term, ...]:
    required = ((spec.get("affinity") or {}).get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    return tuple(Term(one["topologyKey"], _labels(one)) for one in required or ())


def _labels(term: Tree) -> tuple[tuple[str, str], ...]:
    return tuple(term["labelSelector"]["matchLabels"].items())


def _amount(text: Any, resource: str) -> int:
    """CPUs in thousandths, everything else as it is."""
    written = str(text)
    if resource == "cpu":
        return int(written[:-1]) if written.endswith("m") else int(written) * 1000
    return int(written)


def _node(tree: Tree) -> Node:
    labels = tree["metadata"]["labels"]
    path: tuple[str, ...] = ()
    domains: dict[str, tuple[str, ...]] = {}
    for key in LEVELS:
        path = (*path, labels[key])
        domains[key] = path
    room = {name: _amount(tree["status"]["allocatable"][name], name) for name in ("cpu", GPU, "pods")}
    spec = tree.get("spec") or {}
    return Node(
        tree["metadata"]["name"], domains, room, labels, bool(spec.get("unschedulable")), bool(spec.get("taints"))
    )


def _group(tree: Tree) -> Group:
    metadata, spec = tree["metadata"], tree["spec"]
    gang = spec["schedulingPolicy"].get("gang") or {}
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or [{"key": ""}]
    return Group(
        kind=tree["kind"],
        uid=metadata["uid"],
        name=metadata["name"],
        minimum=gang.get("minCount") or gang.get("minGroupCount") or 1,
        key=topology[0]["key"],
        parent=spec.get("parentCompositePodGroupName") or "",
        whole="all" in (spec.get("disruptionMode") or {}),
        priority=spec.get("priority") or 0,
        exclusive=(metadata.get("annotations") or {}).get(EXCLUSIVE, ""),
        deleting="deletionTimestamp" in metadata,
    )
