"""Pods as they come, change and end: each becomes a `Member`, filed in the forest and entered into the view.

    Pod, Namespace, PersistentVolumeClaim … events ─► Pods ─► members   by number, with shape and identity
                                                       │ └──► Forest    by their state
                                                       │ └──► Holdings  those that take up room
                                                       └────► Listener  which root changed, whether room appeared

Namespaces and volumes come in here because a pod's identity and shape depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Protocol

from ...api.scheme import Object
from ...api.views.cluster_views import NamespaceView
from ...api.views.device_views import DeviceClassView, DeviceTaintRuleView, ResourceClaimView, ResourceSliceView
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
from ...engine import Identity, Shape
from ..devices.claim_state import Claims
from ..volumes.late_binding import VolumeChoice
from . import exclusive_terms, pod_affinity, pod_shape, volume_terms
from .forest import Forest, Ids
from .group_tree import GroupNode, Member, Root
from .holdings import Holdings
from .object_facts import rank_of, role_of, started_at


class Listener(Protocol):
    """Is told what an event meant."""

    def touched(self, root: Root) -> None:
        """Something about this tree or pod changed."""

    def room(self) -> None:
        """Capacity may have grown somewhere, or be had by other evictions than before."""

    def gone(self, member: Member) -> None:
        """A pod ended or was removed; it holds nothing any more."""

    def displaced(self, member: Member) -> None:
        """The node at which room was being made for this pod is gone."""


class Pods:
    """All pods that have not ended."""

    def __init__(
        self,
        ids: Ids,
        forest: Forest,
        holdings: Holdings,
        clock: Clock,
        listener: Listener,
        groups: Callable[[str], Object | None],
        recount: Callable[[str], None],
    ) -> None:
        """`groups` finds a PodGroup by `namespace/name`; `recount` is called with a node that has other devices or
        volumes than before."""
        self.members: dict[int, Member] = {}
        self._ids = ids
        self._forest = forest
        self._holdings = holdings
        self._clock = clock
        self._listener = listener
        self.volumes = volume_terms.Volumes()
        self.claims = Claims(groups)
        self._recount = recount
        self._shapes = pod_shape.Shapes()
        self._namespaces: dict[str, dict[str, str]] = {}

    def on_namespace(self, old: NamespaceView | None, new: NamespaceView | None) -> None:
        current = new or old
        assert current is not None
        name, labels = current.name, dict(new.labels) if new is not None else {}
        if self._namespaces.get(name, {}) == labels:
            return
        if new is not None:
            self._namespaces[name] = labels
        else:
            del self._namespaces[name]
        known = [member for member in self.members.values() if member.namespace == name]
        for member in known:
            member.identity = self._identity(member)
            if member.spot:
                self._holdings.hold(member)
        if known:
            self._listener.room()

    def on_storage_class(self, old: StorageClassView | None, new: StorageClassView | None) -> None:
        self._reread(self.volumes.on_class(old, new))

    def on_storage_capacity(self, old: StorageCapacityView | None, new: StorageCapacityView | None) -> None:
        self._reread(self.volumes.on_capacity(old, new))

    def on_csi_driver(self, old: CsiDriverView | None, new: CsiDriverView | None) -> None:
        self._reread(self.volumes.on_driver(old, new))

    def on_csi_node(self, old: CsiNodeView | None, new: CsiNodeView | None) -> None:
        self._reread(self.volumes.on_csi_node(old, new))

    def bind_volumes(self, choices: Collection[VolumeChoice], moving: Collection[int], untold: Collection[int]) -> None:
        """Claims are about to be bound so; see `settle_devices` for the others."""
        self._reread(self.volumes.take(choices), moving, untold)

    def give_up_volumes(self, claims: Collection[str], untold: Collection[int]) -> None:
        """Claims are not bound as was decided."""
        self._reread(self.volumes.give_up(claims), (), untold)

    def on_volume(self, old: VolumeView | None, new: VolumeView | None) -> None:
        self._reread(self.volumes.on_volume(old, new))

    def on_claim(self, old: ClaimView | None, new: ClaimView | None) -> None:
        self._reread(self.volumes.on_claim(old, new))

    def on_slice(self, old: ResourceSliceView | None, new: ResourceSliceView | None) -> None:
        self.claims.on_slice(old, new)
        self.settle_devices()

    def on_taint_rule(self, old: DeviceTaintRuleView | None, new: DeviceTaintRuleView | None) -> None:
        self.claims.on_taint_rule(old, new)
        self.settle_devices()

    def on_device_class(self, old: DeviceClassView | None, new: DeviceClassView | None) -> None:
        self.claims.on_class(old, new)
        self.settle_devices()

    def on_resource_claim(self, old: ResourceClaimView | None, new: ResourceClaimView | None) -> None:
        self.claims.on_claim(old, new)
        self.settle_devices()

    def settle_devices(self, moving: Collection[int] = (), untold: Collection[int] = ()) -> None:
        """Read again what changes of devices concern.

        `moving` members are filed by the caller; roots that are being decided are `untold`.
        """
        stale = self.claims.settle()
        for node in stale.nodes:
            self._recount(node)
        for uid in stale.pods:
            member = self.members.get(self._ids.of(uid))
            if member is None:
                continue
            asked = member.shape
            self._reshape(member, member.pod)
            if member.shape is asked or member.id in moving:
                continue
            if member.spot:
                self._holdings.hold(member)
            self._refiled(member, untold)

    def settle_volumes(self, moving: Collection[int] = (), untold: Collection[int] = ()) -> None:
        """Read again what pods that came to share volumes, or went, concern; see `settle_devices`."""
        if self.volumes.regrouped:
            self._reread((), moving, untold)

    def _refiled(self, member: Member, untold: Collection[int]) -> None:
        """A member asks for something else; while it is being bound, the answer to its binding decides what follows."""
        self._forest.refile(member)
        root = self._forest.root_of(member)
        if root.id not in untold and (member.node or not member.assumed):
            self._listener.touched(root)

    def placed(self, *members: Member) -> None:
        """The places of these members changed."""
        for member in members:
            self.claims.place(member.uid, member.place)
            self.volumes.place(member.uid, member.place)

    def _reread(self, users: Iterable[str], moving: Collection[int] = (), untold: Collection[int] = ()) -> None:
        """Claims of these pods ask for something else now."""
        for node in self.volumes.settle():
            self._recount(node)
        regrouped, self.volumes.regrouped = self.volumes.regrouped, {}
        for uid in dict.fromkeys((*users, *regrouped)):
            member = self.members.get(self._ids.of(uid))
            if member is not None:
                asked, known = member.shape, member.identity
                self._reshape(member, member.pod)
                if member.id in moving or (member.shape is asked and member.identity == known):
                    continue
                if member.spot:
                    self._holdings.hold(member)
                self._refiled(member, untold)

    def on_pod(self, old: PodView | None, new: PodView | None) -> None:
        uid = new.uid if new is not None else None
        ended = new is not None and new.ended
        if old is not None:
            other = uid != old.uid
            if other or ended:
                self._drop_pod(old)
            if other:
                self._count_success(old, done=False)
        if new is None:
            return
        if ended:
            self._count_success(new, done=new.phase == "Succeeded")
            return
        member = self.members.get(self._ids.of(uid))
        if member is None:
            self._add_pod(new)
        else:
            self._change_pod(member, new)

    def _add_pod(self, pod: PodView) -> None:
        others = self.volumes.enter(pod)
        self.volumes.place(pod.uid, pod.spec.node_name)
        self._reread(others)
        self.claims.enter(pod)
        self.claims.place(pod.uid, pod.spec.node_name)
        member = Member(
            id=self._ids.of(pod.uid),
            uid=pod.uid,
            pod=pod,
            shape=self._shape(pod),
            role=role_of(pod),
            priority=pod.spec.priority,
            rank=rank_of(pod),
            node=pod.spec.node_name,
            scheduler=pod.spec.scheduler_name,
            seen=self._clock.now(),
        )
        self.members[member.id] = member
        self._holdings.await_peers(member)
        if pod.group_name:
            self._forest.enter(member, pod.group_name)
        member.identity = self._identity(member)
        if member.node:
            member.since = started_at(pod, self._clock.now())
            self._holdings.hold(member)
        self._listener.touched(self._forest.root_of(member))
        self.settle_devices()

    def _change_pod(self, member: Member, pod: PodView) -> None:
        old = member.pod
        if old.group_name != pod.group_name:
            # Only the label can change.
            self._drop_pod(old)
            self._add_pod(pod)
            return
        member.update(pod)
        self.claims.enter(pod)
        self.claims.place(member.uid, pod.spec.node_name or member.assumed)
        self.volumes.place(member.uid, pod.spec.node_name or member.assumed)
        self.settle_volumes()
        self.settle_devices()
        relabelled = old.labels != pod.labels
        spec, was = pod.obj["spec"], old.obj["spec"]
        if not relabelled and was == spec and old.deleting == pod.deleting:
            return
        asked, spot = member.shape, member.spot
        node = pod.spec.node_name
        if relabelled or ({**was, "nodeName": node} if node else was) != spec:
            self._reshape(member, pod)
        same = member.shape is asked and not relabelled
        if node and node == member.assumed and not pod.deleting and same:
            # Our own binding, confirmed: nothing else has changed.
            member.node, member.assumed = node, ""
            return
        moved = bool(node) and spot not in ("", node)
        if relabelled or moved or (spot and member.shape.requests != asked.requests):
            # Moved: it was bound by something else, and not where a place was kept for it.
            self._listener.room()
        if node and not member.node:
            if not member.assumed:
                member.since = self._clock.now()
            member.node, member.assumed, member.nominated, member.reserved = node, "", "", ""
        if member.spot:
            self._holdings.hold(member)
        self._forest.refile(member)
        self._listener.touched(self._forest.root_of(member))

    def _drop_pod(self, pod: PodView) -> None:
        number = self._ids.of(pod.uid)
        self._ids.drop(pod.uid)
        member = self.members.pop(number, None)
        if member is None:
            return
        self._holdings.stop_awaiting_peers(member)
        self._reread(self.volumes.leave(pod))
        self.claims.leave(pod)
        root = self._forest.root_of(member)
        held = bool(member.spot)
        self._holdings.release(member)
        self._forest.leave(member)
        self._listener.gone(member)
        if isinstance(root, GroupNode):
            self._listener.touched(root)
        if held:
            self._listener.room()
        self.settle_devices()

    def _count_success(self, pod: PodView, *, done: bool) -> None:
        """Members that have succeeded count for their group as long as they exist."""
        if not pod.group_name:
            return
        count = self._forest.succeed if done else self._forest.forget
        changed = count(pod.namespace, pod.group_name, pod.uid)
        if changed is not None:
            self._listener.touched(self._forest.root(changed))

    def _shape(self, pod: PodView) -> Shape:
        plain = self._shapes.of(pod)
        found = volume_terms.applied(plain, pod.namespace, self.volumes.of(pod))
        found = pod_shape.with_devices(found, self.claims.of(pod))
        return plain if found is plain else self._shapes.one(found)

    def _reshape(self, member: Member, pod: PodView) -> None:
        """Its spec or its labels changed."""
        self._holdings.stop_awaiting_peers(member)
        member.shape, member.identity = self._shape(pod), self._identity(member)
        self._holdings.await_peers(member)

    def identify(self, group: GroupNode) -> None:
        """A group changed: its pods may be known as others."""
        for member in group.members.values():
            member.identity = self._identity(member)

    def _identity(self, member: Member) -> Identity:
        pod = member.pod
        identity = pod_affinity.identity_of(pod, self._namespaces.get(pod.namespace, {}))
        more = volume_terms.labels_of(self.volumes.of(pod)) + exclusive_terms.labels_of(pod, member.group)
        return replace(identity, labels=(*identity.labels, *more)) if more else identity
