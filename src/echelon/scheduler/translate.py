"""From API objects to the engine's view, one event at a time.

    informer handlers (old, new) ─► Translator ─► ClusterView   nodes, what holds capacity, units, budgets
                                        │      └► Forest        groups, and pods by what they want
                                        └──────► Listener       which root changed, whether room appeared, who is gone

An event that changes nothing scheduling looks at costs a comparison.  The loop's own steps come in here too
(assume, nominate, evict), so that view and forest always agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from ..api import meta, vocabulary
from ..api.scheme import (
    COMPOSITE_POD_GROUPS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    WORKLOADS,
    Object,
    Resource,
)
from ..base import quantity
from ..base.clock import Clock
from ..base.instants import parse
from ..client.informer import Caches, Handler
from ..engine.demand import Exclusive, Identity, Shape, Taint
from ..engine.view import ClusterView, Node, Running, Unit
from . import company, shape, volumes
from .budgets import Budgets
from .hierarchy import Forest, Group, Ids, Member

#: What the queue holds: the top of a tree, or a pod without a group.
Root = Group | Member

_NO_INDEX = 1 << 31


class Listener(Protocol):
    """Who wants to know what an event meant."""

    def touched(self, root: Root) -> None:
        """Something about this tree or pod changed."""

    def room(self) -> None:
        """Capacity may have grown somewhere, or be had by other evictions than before."""

    def gone(self, member: Member) -> None:
        """A pod ended or was removed; it holds nothing any more."""

    def displaced(self, member: Member) -> None:
        """The node at which room was being made for this pod is gone."""


class Translator:
    """Keeps view and forest in step with the caches."""

    def __init__(self, view: ClusterView, caches: Caches, clock: Clock, listener: Listener) -> None:
        self.view = view
        self._ids = Ids()
        self.forest = Forest(self._ids)
        self.members: dict[int, Member] = {}
        self._caches = caches
        self._clock = clock
        self._listener = listener
        self._budgets = Budgets(self._ids)
        self._volumes = volumes.Volumes()
        self._shapes = shape.Shapes()
        self._namespaces: dict[str, dict[str, str]] = {}
        #: Whose coming could let pods in.
        self._wished = company.Wished()
        self._handlers: dict[Resource, Handler] = {
            NAMESPACES: self._on_namespace,
            NODES: self._on_node,
            POD_DISRUPTION_BUDGETS: self._on_budget,
            STORAGE_CLASSES: lambda old, new: self._on_storage(self._volumes.on_class(old, new)),
            VOLUMES: lambda old, new: self._on_storage(self._volumes.on_volume(old, new)),
            VOLUME_CLAIMS: lambda old, new: self._on_storage(self._volumes.on_claim(old, new)),
            WORKLOADS: self._on_workload,
            COMPOSITE_POD_GROUPS: lambda old, new: self._on_group(COMPOSITE_POD_GROUPS.kind, old, new),
            POD_GROUPS: lambda old, new: self._on_group(POD_GROUPS.kind, old, new),
            PODS: self._on_pod,
        }
        for resource in self._handlers:
            caches.of(resource)

    def listen(self) -> None:
        """Begin to follow the caches; what they hold already comes first."""
        for resource, handler in self._handlers.items():
            self._caches.of(resource).add_handler(handler)

    def read(self) -> None:
        """Take in what the caches hold now, once."""
        for resource, handler in self._handlers.items():
            for obj in self._caches.of(resource).all():
                handler(None, obj)

    def roots(self) -> list[Root]:
        """The top of every tree, and pods without a group."""
        groups = [group for group in self.forest.groups() if self.forest.is_root(group)]
        return [*groups, *(member for member in self.members.values() if member.group is None)]

    def root_of(self, member: Member) -> Root:
        return self.forest.root(member.group) if member.group is not None else member

    # -- steps of the loop -----------------------------------------------------------------------------

    def assume(self, places: Mapping[int, str]) -> None:
        """Decided: these members hold their places from now on, until the watch confirms or the binding fails."""
        now = self._clock.now()
        members = [self.members[number] for number in places]
        for member, node in zip(members, places.values(), strict=True):
            member.assumed, member.nominated, member.reserved = node, "", ""
            member.since = now
        self._hold(*members)
        self.forest.refile(*members)

    def forget(self, member: Member) -> None:
        """The binding failed: it holds nothing.  A pod that is gone has been forgotten already."""
        if member.assumed and not member.node and member.id in self.members:
            member.assumed = ""
            self._release(member)
            self.forest.refile(member)
            self._listener.room()

    def nominate(self, member: Member, node: str) -> None:
        """Keep a place for it while others leave."""
        member.nominated = node
        member.since = self._clock.now()
        self._hold(member)

    def withdraw(self, member: Member) -> None:
        if member.nominated:
            member.nominated = ""
            if not member.place:
                self._release(member)

    def reserve(self, member: Member, node: str) -> None:
        """Keep a place for it until others have ended by themselves."""
        member.reserved = node
        self._hold(member)

    def unreserve(self, member: Member) -> None:
        if member.reserved:
            member.reserved = ""
            if not member.spot:
                self._release(member)

    def evict(self, member: Member) -> None:
        """Its eviction has begun: it is nobody's victim again and no longer counts for its group."""
        member.evicting = True
        if member.spot:
            self._hold(member)
        self.forest.refile(member)

    # -- namespaces, nodes and budgets -----------------------------------------------------------------------------

    def _on_namespace(self, old: Object | None, new: Object | None) -> None:
        name = meta.name(new or old or {})
        labels = dict(meta.labels(new)) if new is not None else {}
        if self._namespaces.get(name, {}) == labels:
            return
        if new is not None:
            self._namespaces[name] = labels
        else:
            del self._namespaces[name]
        known = [member for member in self.members.values() if member.namespace == name]
        for member in known:
            member.identity = self._identity(member.obj)
            if member.spot:
                self._hold(member)
        if known:
            self._listener.room()

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            name = meta.name(old)
            self.view.remove_node(name)
            for member in [self.members[pod.pod] for pod in self.view.pods_on(name) if pod.coming]:
                # Others of its root were told of with it.
                if name in (member.nominated, member.reserved):
                    self._listener.displaced(member)
            if self._wished:
                # A domain less to spread over can let somebody in.
                self._listener.room()
            return
        if old is not None and _node_facts(old) == _node_facts(new):
            return
        node = node_of(new)
        if self.view.node(node.name) != node:
            self.view.put_node(node)
            self._listener.room()

    def _on_budget(self, old: Object | None, new: Object | None) -> None:
        namespace = meta.namespace(new or old or {})
        if new is None:
            assert old is not None
            self.view.remove_budget(self._budgets.remove(old))
            covers_others = True
        else:
            covers_others = self._budgets.put(new)
        if covers_others:
            for member in self.members.values():
                if member.place and member.namespace == namespace:
                    self._hold(member)
        self._count_budgets(namespace)

    def _count_budgets(self, namespace: str) -> None:
        for budget in self._budgets.allowances(namespace):
            self.view.put_budget(budget)

    def _on_storage(self, users: list[str]) -> None:
        """Claims of these pods ask for something else now."""
        for uid in users:
            member = self.members.get(self._ids.of(uid))
            if member is not None:
                self._reshape(member, member.obj)
                if member.place or member.nominated:
                    self._hold(member)
                self.forest.refile(member)
                self._listener.touched(self.root_of(member))

    # -- groups ----------------------------------------------------------------------------------------

    def _on_workload(self, old: Object | None, new: Object | None) -> None:
        workload = new or old
        assert workload is not None
        if old is not None and new is not None and old["spec"] == new["spec"]:
            return
        for group in self.forest.of_workload(meta.namespace(workload), meta.name(workload)):
            root = self.forest.root(group)
            root.layout = None
            self._listener.touched(root)

    def _on_group(self, kind: str, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            known = self.forest.find(kind, old)
            former = self.forest.root(known) if known is not None else None
            removed = self.forest.remove(kind, old)
            if removed is not None:
                self._regroup(removed)
            if former is not None and former is not removed:
                self._listener.touched(former)
            return
        if old is not None and _group_facts(old) == _group_facts(new):
            self.forest.refresh(kind, new)
            return
        before = self.forest.find(kind, new)
        former = self.forest.root(before) if before is not None else None
        group = self.forest.put(kind, new)
        self._regroup(group)
        if former is not None and former is not self.forest.root(group):
            self._listener.touched(former)

    def _regroup(self, group: Group) -> None:
        """A group changed: its placed pods may belong to other units, its trees may be others."""
        held = False
        for leaf in group.leaves():
            for member in leaf.members.values():
                if member.spot:
                    self._hold(member)
                    held = True
        if held:
            self._listener.room()
        root = self.forest.root(group)
        self._listener.touched(root)
        if group.obj is None:
            for child in list(group.children.values()):
                self._listener.touched(self.forest.root(child))

    # -- pods ------------------------------------------------------------------------------------------

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        uid = meta.uid(new) if new is not None else None
        ended = new is not None and _ended(new)
        if old is not None:
            other = uid != meta.uid(old)
            if other or ended:
                self._drop_pod(old)
            if other:
                self._count_success(old, done=False)
        if new is None:
            return
        if ended:
            self._count_success(new, done=new["status"]["phase"] == "Succeeded")
            return
        member = self.members.get(self._ids.of(uid))
        if member is None:
            self._add_pod(new)
        else:
            self._change_pod(member, new)

    def _add_pod(self, pod: Object) -> None:
        self._on_storage(self._volumes.enter(pod))
        member = Member(
            id=self._ids.of(meta.uid(pod)),
            uid=meta.uid(pod),
            obj=pod,
            shape=self._shape(pod),
            role=_role(pod),
            priority=int(pod["spec"].get("priority") or 0),
            rank=_rank(pod),
            node=pod["spec"].get("nodeName") or "",
            identity=self._identity(pod),
            scheduler=pod["spec"].get("schedulerName") or "",
            seen=self._clock.now(),
        )
        self.members[member.id] = member
        self._wish(member)
        group = _group_name(pod)
        if group:
            self.forest.enter(member, group)
        if member.node:
            member.since = _started(pod, self._clock.now())
            self._hold(member)
        self._listener.touched(self.root_of(member))

    def _change_pod(self, member: Member, pod: Object) -> None:
        old, member.obj = member.obj, pod
        relabelled = meta.labels(old) != meta.labels(pod)
        if not relabelled and old["spec"] == pod["spec"] and meta.deleting(old) == meta.deleting(pod):
            return
        asked = member.shape.requests
        if relabelled or {**old["spec"], "nodeName": ""} != {**pod["spec"], "nodeName": ""}:
            self._reshape(member, pod)
        node = pod["spec"].get("nodeName") or ""
        if node and node == member.assumed and not meta.deleting(pod) and not relabelled:
            # Our own binding, confirmed: nothing has changed for anyone.
            member.node, member.assumed = node, ""
            return
        if relabelled or (member.node and member.shape.requests != asked):
            self._listener.room()
        if node and not member.node:
            if not member.assumed:
                member.since = self._clock.now()
            member.node, member.assumed, member.nominated, member.reserved = node, "", "", ""
        if member.spot:
            self._hold(member)
        self.forest.refile(member)
        self._listener.touched(self.root_of(member))

    def _drop_pod(self, pod: Object) -> None:
        number = self._ids.of(meta.uid(pod))
        self._ids.drop(meta.uid(pod))
        member = self.members.pop(number, None)
        if member is None:
            return
        self._unwish(member)
        self._on_storage(self._volumes.leave(pod))
        root = self.root_of(member)
        held = bool(member.spot)
        self._release(member)
        self.forest.leave(member)
        self._listener.gone(member)
        if isinstance(root, Group):
            self._listener.touched(root)
        if held:
            self._listener.room()

    def _count_success(self, pod: Object, *, done: bool) -> None:
        """Members that have succeeded count for their group as long as they are there."""
        group = _group_name(pod)
        if not group:
            return
        count = self.forest.succeed if done else self.forest.forget
        changed = count(meta.namespace(pod), group, meta.uid(pod))
        if changed is not None:
            self._listener.touched(self.forest.root(changed))

    def _shape(self, pod: Object) -> Shape:
        plain = self._shapes.of(pod)
        found = volumes.applied(plain, meta.namespace(pod), self._volumes.of(pod))
        return plain if found is plain else self._shapes.one(found)

    def _reshape(self, member: Member, pod: Object) -> None:
        """Its spec or its labels changed."""
        self._unwish(member)
        member.shape, member.identity = self._shape(pod), self._identity(pod)
        self._wish(member)

    def _identity(self, pod: Object) -> Identity:
        identity = company.identity_of(pod, self._namespaces.get(meta.namespace(pod), {}))
        more = volumes.labels_of(self._volumes.of(pod))
        return replace(identity, labels=(*identity.labels, *more)) if more else identity

    # -- what holds capacity ---------------------------------------------------------------------------

    def _hold(self, *members: Member) -> None:
        """Enter pods into the view where they take up room."""
        view, room = self.view, False
        entries, left, covered = list[Running](), list[int](), dict[str, None]()
        for member in members:
            unit = self._unit_of(member)
            former = view.running(member.id)
            view.put_unit(unit)
            running = self._running(member, unit.id)
            entries.append(running)
            if self._wished and (former is None or former.coming) and member.place:
                room = room or self._wished.means(member.identity)
            if former is not None and former.unit != unit.id:
                left.append(former.unit)
            if running.budgets:
                covered[member.namespace] = None
        view.bind_all(entries)
        for former_unit in left:
            self._retire_unit(former_unit)
        for namespace in covered:
            self._count_budgets(namespace)
        if room:
            self._listener.room()

    def _running(self, member: Member, unit: int) -> Running:
        """A pod as what takes up room."""
        placed, group, shape = bool(member.node or member.assumed), member.group, member.shape
        return Running(
            pod=member.id,
            node=member.spot,
            requests=shape.requests,
            unit=unit,
            started=member.since,
            group=group.id if group is not None else -1,
            exclusive=exclusive_of(group),
            budgets=self._budgets.cover(member.id, member.obj) if placed else (),
            # A place that is only reserved repels others, but nobody counts on who is not there yet.
            evictable=not member.leaving and (placed or bool(member.nominated)),
            identity=member.identity,
            repels=shape.anti_affinity,
            coming=not placed,
            wishes=company.wishes_of(shape) if shape.wishes or shape.affinity else (),
        )

    def _wish(self, member: Member) -> None:
        self._wished.count(company.wanted(member), 1)

    def _unwish(self, member: Member) -> None:
        self._wished.count(company.wanted(member), -1)

    def _release(self, member: Member) -> None:
        running = self.view.running(member.id)
        if running is None:
            return
        self.view.unbind(member.id)
        self._retire_unit(running.unit)
        if running.budgets:
            self._budgets.uncover(member.id, member.namespace)
            self._count_budgets(member.namespace)

    def _retire_unit(self, unit: int) -> None:
        if not self.view.pods_of(unit):
            self.view.remove_unit(unit)

    def _unit_of(self, member: Member) -> Unit:
        """The highest ancestor that is evicted as a whole, else the pod; its priority is that of the root."""
        whole: Group | None = None
        priority = member.priority
        group = member.group
        for _ in range(8):  # A cycle must not hold us up; valid trees are half as deep.
            if group is None:
                break
            if group.policy is not None:
                priority = group.policy.priority
                whole = group if group.policy.whole else whole
            group = group.parent
        if whole is None or not (member.place or member.nominated):
            return Unit(member.id, priority, f"Pod/{member.name}")
        assert whole.obj is not None
        owner = meta.controller_of(whole.obj)
        name = f"{owner['kind']}/{owner['name']}" if owner else f"{whole.key.kind}/{whole.key.name}"
        return Unit(whole.id, priority, name)


def node_of(node: Object) -> Node:
    """A Node as the engine sees it."""
    spec = node.get("spec") or {}
    status = node.get("status") or {}
    allocatable = status.get("allocatable") or status.get("capacity") or {}
    return Node(
        name=meta.name(node),
        labels=dict(meta.labels(node)),
        allocatable={name: quantity.parse(amount, name) for name, amount in sorted(allocatable.items())},
        taints=tuple(Taint(t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()),
        unschedulable=bool(spec.get("unschedulable")),
    )


def exclusive_of(group: Group | None) -> Exclusive | None:
    """Whether a PodGroup takes domains for itself, among groups of its own priority."""
    if group is None or group.policy is None or not group.policy.exclusive:
        return None
    return Exclusive(group.policy.exclusive, group.policy.priority)


def _node_facts(node: Object) -> tuple[Any, ...]:
    status = node.get("status") or {}
    return meta.labels(node), node.get("spec"), status.get("allocatable"), status.get("capacity")


def _group_facts(group: Object) -> tuple[Any, ...]:
    return meta.uid(group), group["spec"], meta.annotations(group), meta.controller_of(group)


def _group_name(pod: Object) -> str:
    return (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or ""


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _role(pod: Object) -> str:
    """What makes members different parts of one job: their controller, else their replicated job."""
    owner = meta.controller_of(pod)
    if owner is not None:
        return str(owner["uid"])
    return meta.labels(pod).get(vocabulary.REPLICATED_JOB_NAME, "")


def _rank(pod: Object) -> tuple[int, str, str]:
    index = meta.annotations(pod).get(vocabulary.COMPLETION_INDEX, "")
    created = pod["metadata"].get("creationTimestamp") or ""
    return (int(index) if index.isdigit() else _NO_INDEX, created, meta.name(pod))


def _started(pod: Object, now: float) -> float:
    started = (pod.get("status") or {}).get("startTime")
    return parse(started) if started else now
