"""From API objects to the engine's view, one event at a time.

    informer handlers (old, new) ─► Translator ─► ClusterView   nodes, what holds capacity, units, budgets
                                        │      └► Forest        groups, and pods by their state
                                        └──────► Listener       which root changed, whether room appeared, what is gone

An event that changes nothing that scheduling reads costs a comparison.  Nodes, groups and budgets are taken in here,
pods in `pod_events`.  The loop's own steps come in here too (assume, nominate, evict): view and forest always agree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from ...api.scheme import Object
from ...api.views.cluster_views import BudgetView, NamespaceView, NodeView
from ...api.views.device_views import DeviceClassView, DeviceTaintRuleView, ResourceClaimView, ResourceSliceView
from ...api.views.group_views import CompositePodGroupView, GroupView, PodGroupView, WorkloadView
from ...api.views.pod_views import PodView
from ...api.views.storage_views import (
    ClaimView,
    CsiDriverView,
    CsiNodeView,
    StorageCapacityView,
    StorageClassView,
    VolumeView,
)
from ...base.clock import Clock
from ...client.informer import Caches
from ...engine import ClusterView
from ..devices.allotments import Allotment
from ..volumes.late_binding import VolumeChoice
from .disruption_budgets import Budgets
from .forest import Forest, Ids
from .group_tree import GroupNode, Member, Root
from .holdings import Holdings
from .object_facts import group_facts, node_facts, node_of
from .pod_events import Listener, Pods

#: Kinds that a server may not serve.
_OPTIONAL = (DeviceClassView, DeviceTaintRuleView, ResourceSliceView, ResourceClaimView)


class Translator:
    """Keeps view and forest in step with the caches."""

    def __init__(self, view: ClusterView, caches: Caches, clock: Clock, listener: Listener) -> None:
        ids = Ids()
        self.view = view
        self.forest = Forest(ids)
        self._holdings = Holdings(view, Budgets(ids), listener.room)
        self._nodes = caches.views(NodeView)
        self._groups = caches.views(PodGroupView)
        self._pods = Pods(ids, self.forest, self._holdings, clock, listener, self._find_group, self._recount)
        self.members = self._pods.members
        self.claims, self.volumes = self._pods.claims, self._pods.volumes
        self._caches = caches
        self._clock = clock
        self._listener = listener
        #: In the order in which they are read: what later kinds refer to comes first.
        self._handlers: dict[type, Callable[[Any, Any], None]] = {
            NamespaceView: self._pods.on_namespace,
            NodeView: self._on_node,
            BudgetView: self._on_budget,
            StorageClassView: self._pods.on_storage_class,
            CsiDriverView: self._pods.on_csi_driver,
            CsiNodeView: self._pods.on_csi_node,
            StorageCapacityView: self._pods.on_storage_capacity,
            VolumeView: self._pods.on_volume,
            ClaimView: self._pods.on_claim,
            DeviceClassView: self._pods.on_device_class,
            DeviceTaintRuleView: self._pods.on_taint_rule,
            ResourceSliceView: self._pods.on_slice,
            ResourceClaimView: self._pods.on_resource_claim,
            WorkloadView: self._on_workload,
            CompositePodGroupView: self._on_group,
            PodGroupView: self._on_group,
            PodView: self._pods.on_pod,
        }
        for view_type in self._handlers:
            caches.views(view_type, may_lack=view_type in _OPTIONAL)

    def listen(self) -> None:
        """Begin to follow the caches; what they hold already comes first."""
        for view_type, handler in self._handlers.items():
            self._caches.views(view_type).add_handler(handler, "scheduler")

    def read(self) -> None:
        """Take in what the caches hold now, once."""
        for view_type, handler in self._handlers.items():
            views: list[Any] = self._caches.views(view_type).all()
            for one in views:
                handler(None, one)

    def roots(self) -> list[Root]:
        """The top of every tree, and pods without a group."""
        groups = [group for group in self.forest.groups() if self.forest.is_root(group)]
        return [*groups, *(member for member in self.members.values() if member.group is None)]

    def root_of(self, member: Member) -> Root:
        return self.forest.root_of(member)

    # -- steps of the loop -----------------------------------------------------------------------------

    def assume(
        self,
        places: Mapping[int, str],
        devices: Collection[Allotment] = (),
        volumes: Collection[VolumeChoice] = (),
    ) -> None:
        """These members hold the places that were decided, until the watch confirms them or the binding fails."""
        now = self._clock.now()
        members = [self.members[number] for number in places]
        for member, node in zip(members, places.values(), strict=True):
            member.assumed, member.nominated, member.reserved = node, "", ""
            member.since = now
        self.claims.give(devices)
        self._pods.placed(*members)
        told = devices or volumes or self.volumes.regrouped
        deciding = {self.root_of(member).id for member in members} if told else ()
        self._pods.settle_devices(places, deciding)
        self._pods.settle_volumes(places, deciding)
        if volumes:
            self._pods.bind_volumes(volumes, places, deciding)
        self._holdings.hold(*members)
        self.forest.refile(*members)

    def forget(self, member: Member) -> None:
        """The binding failed: it holds nothing.  A pod that is gone has been forgotten already."""
        if member.assumed and not member.node and member.id in self.members:
            member.assumed = ""
            self._holdings.release(member)
            self._pods.placed(member)
            root = self.root_of(member).id
            self._pods.settle_devices((member.id,), (root,))
            self._pods.settle_volumes((member.id,), (root,))
            self.forest.refile(member)
            self._listener.room()

    def take_volumes(self, choices: Collection[VolumeChoice]) -> None:
        """These claims are about to be bound so."""
        self._pods.bind_volumes(choices, (), ())

    def give_up_volumes(self, claims: Collection[str], members: Collection[Member]) -> None:
        """These claims do not get the volumes that were chosen for them; the roots of the members know."""
        self._pods.give_up_volumes(claims, {self.root_of(member).id for member in members})

    def take_back_devices(self, claims: Collection[str], members: Collection[Member]) -> None:
        """These claims do not get the devices that were chosen for them; the roots of the members know."""
        self.claims.take_back(claims)
        self._pods.settle_devices((), {self.root_of(member).id for member in members})

    def set_leaving(self, claims: Collection[str], *, leaving: bool) -> None:
        """Devices are being taken from these claims, or have been: until then nobody uses them."""
        self.claims.set_leaving(claims, leaving=leaving)
        self._pods.settle_devices()

    def nominate(self, member: Member, node: str) -> None:
        """Keep a place for it while others leave."""
        member.nominated = node
        member.since = self._clock.now()
        self._holdings.hold(member)

    def withdraw(self, member: Member) -> None:
        if member.nominated:
            member.nominated = ""
            if not member.place:
                self._holdings.release(member)

    def reserve(self, member: Member, node: str) -> None:
        """Keep a place for it until others have ended by themselves."""
        member.reserved = node
        self._holdings.hold(member)

    def unreserve(self, member: Member) -> None:
        if member.reserved:
            member.reserved = ""
            if not member.spot:
                self._holdings.release(member)

    def evict(self, member: Member) -> None:
        """Its eviction has begun: it cannot be a victim again and no longer counts for its group."""
        member.evicting = True
        if member.spot:
            self._holdings.hold(member)
        self.forest.refile(member)

    # -- nodes and budgets -----------------------------------------------------------------------------

    def _on_node(self, old: NodeView | None, new: NodeView | None) -> None:
        if new is None:
            assert old is not None
            name = old.name
            self.view.remove_node(name)
            self.volumes.late.remove_node(name)
            for member in [self.members[pod.pod] for pod in self.view.pods_on(name) if pod.coming]:
                # One call clears the places of its whole root.
                if name in (member.nominated, member.reserved):
                    self._listener.displaced(member)
            # One domain less, to spread over or to be bound to by members there, can make a pod fit.
            self._listener.room()
            return
        if old is not None and node_facts(old) == node_facts(new):
            return
        self._put_node(new)

    def _put_node(self, view: NodeView) -> None:
        node, more = node_of(view), self.claims.amounts(view.name)
        self.volumes.late.put_node(node.name, node.labels)
        if self.volumes.late.counts_volumes:
            more |= self.volumes.amounts(node.name, node.labels)
        if more:
            node = replace(node, allocatable={**node.allocatable, **more})
        if self.view.node(node.name) != node:
            self.view.put_node(node)
            self._listener.room()

    def _recount(self, name: str) -> None:
        """A node has other devices or volumes than before, or others of them are in use."""
        node = self._nodes.get(name)
        if node is not None and self.view.node(name) is not None:
            self._put_node(node)

    def _find_group(self, key: str) -> Object | None:
        group = self._groups.get(key)
        return None if group is None else group.obj

    def _on_budget(self, old: BudgetView | None, new: BudgetView | None) -> None:
        if new is None:
            assert old is not None
            self._holdings.remove_budget(old)
            namespace, covers_others = old.namespace, True
        else:
            namespace, covers_others = new.namespace, self._holdings.put_budget(new)
        if covers_others:
            for member in self.members.values():
                if member.place and member.namespace == namespace:
                    self._holdings.hold(member)
        self._holdings.count_budgets(namespace)

    # -- groups ----------------------------------------------------------------------------------------

    def _on_workload(self, old: WorkloadView | None, new: WorkloadView | None) -> None:
        workload = new or old
        assert workload is not None
        if old is not None and new is not None and old.spec == new.spec:
            return
        for group in self.forest.of_workload(workload.namespace, workload.name):
            root = self.forest.root(group)
            root.layout = None
            self._listener.touched(root)

    def _on_group(self, old: GroupView | None, new: GroupView | None) -> None:
        if new is None:
            assert old is not None
            known = self.forest.find(old)
            former = self.forest.root(known) if known is not None else None
            removed = self.forest.remove(old)
            if removed is not None:
                self._regroup(removed)
            if former is not None and former is not removed:
                self._listener.touched(former)
            return
        if old is not None and group_facts(old) == group_facts(new):
            self.forest.refresh(new)
            return
        before = self.forest.find(new)
        former = self.forest.root(before) if before is not None else None
        group = self.forest.put(new)
        self._regroup(group)
        if former is not None and former is not self.forest.root(group):
            self._listener.touched(former)

    def _regroup(self, group: GroupNode) -> None:
        """A group changed: its placed pods may belong to other units, its trees may be others."""
        held = False
        for leaf in group.leaves():
            self._pods.identify(leaf)
            for member in leaf.members.values():
                if member.spot:
                    self._holdings.hold(member)
                    held = True
        if held:
            self._listener.room()
        root = self.forest.root(group)
        self._listener.touched(root)
        if group.view is None:
            for child in list(group.children.values()):
                self._listener.touched(self.forest.root(child))
