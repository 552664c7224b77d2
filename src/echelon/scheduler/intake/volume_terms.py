"""What a pod's PersistentVolumeClaims ask of its node, in the words of kube-scheduler.

    PersistentVolumeClaim ─┐
    PersistentVolume       ├─► Volumes.of(pod) ─► Asked   nodes that reach its volumes, claims it must have alone,
    StorageClass          ─┘                              and what it still waits for

A bound claim restricts its pod to the nodes from which its volume can be reached.  A claim that is not bound leaves the
pod pending until the volume controller binds it; one that is bound on first use (WaitForFirstConsumer) gets its volume
when the pod has a node (`volumes.late_binding`).

Nodes attach a limited number of volumes.  A volume takes one from the node of its pod, and the pod has it, so that it
is free again when the pod goes; as soon as two pods on a node share it, the node has one less instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...api.objects.subtree import items, mapping
from ...api.views.pod_views import PodView
from ...api.views.storage_views import (
    ClaimView,
    CsiDriverView,
    CsiNodeView,
    StorageCapacityView,
    StorageClassView,
    VolumeView,
)
from ...engine import EVERYWHERE, LARGEST, Node, NodeTerm, Peers, PodTerm, Requirement, Shape
from ..volumes.late_binding import ATTACHED, LateBinding, VolumeChoice
from ..volumes.volume_facts import class_of, driver_of
from ..volumes.zone_labels import within_zones
from .pod_shape import node_terms

V = TypeVar("V", ClaimView, VolumeView, StorageClassView, CsiDriverView, CsiNodeView, StorageCapacityView)

_BOUND = "pv.kubernetes.io/bind-completed"
_ALONE = "ReadWriteOncePod"


@dataclass(frozen=True, slots=True)
class Asked:
    """What claims ask of a node; an empty record asks nothing."""

    reach: tuple[tuple[NodeTerm, ...], ...] = ()
    waits: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    #: Volumes that take from what a node can attach, or from the free volumes that it reaches.
    requests: tuple[tuple[str, int], ...] = ()
    #: Claims that no other pod may use at the same time.
    alone: tuple[str, ...] = ()


NOTHING = Asked()


class Volumes:
    """Claims, volumes and classes as they are now, and which pods name which claim."""

    def __init__(self) -> None:
        self._claims: dict[str, ClaimView] = {}
        self._volumes: dict[str, VolumeView] = {}
        self._classes: dict[str, StorageClassView] = {}
        self._users: dict[str, dict[str, None]] = {}
        #: By the name of a volume: the claims that name it.
        self._bound_to: dict[str, dict[str, None]] = {}
        self._pods: dict[str, PodView] = {}
        self.late = LateBinding()
        #: Where the pods with claims are, and by node and claim those that use it there.
        self._places: dict[str, str] = {}
        self._on_node: dict[str, dict[str, dict[str, None]]] = {}
        #: Pods that share volumes on their nodes now, or do not any more: they take another amount.
        self.regrouped: dict[str, None] = {}

    @property
    def in_use(self) -> bool:
        """Whether any pod names a claim."""
        return bool(self._pods)

    def settle(self) -> list[str]:
        """The nodes that have other amounts of volumes than at the last call."""
        stale, self.late.stale = self.late.stale, {}
        return list(stale)

    # ---- volumes that several pods on a node share

    def place(self, uid: str, node: str) -> None:
        """A pod has this place now, "" for none; `regrouped` are those that take another amount for it."""
        before = self._places.get(uid, "")
        if uid not in self._pods or before == node:
            return
        self._places[uid] = node
        for key in _claim_keys(self._pods[uid]):
            if before:
                here = self._on_node[before][key]
                del here[uid]
                self._regroup(before, here, uid, others=len(here) == 1)
                if not here:
                    del self._on_node[before][key]
                    if not self._on_node[before]:
                        del self._on_node[before]
            if node:
                here = self._on_node.setdefault(node, {}).setdefault(key, {})
                here[uid] = None
                self._regroup(node, here, uid, others=len(here) == 2)

    def _regroup(self, node: str, here: Mapping[str, None], uid: str, *, others: bool) -> None:
        """A pod came to those that use a volume on a node, or left them; for `others` this makes a difference."""
        if not self.late.has_limits:
            return
        if here.keys() - {uid}:
            self.regrouped[uid] = None
        if others:
            self.regrouped.update(here)
            self.late.stale[node] = None

    def _is_shared_on(self, key: str, node: str) -> bool:
        return len(self._on_node.get(node, {}).get(key, ())) >= 2

    def amounts(self, name: str, labels: Mapping[str, str]) -> dict[str, int]:
        """Volumes that a node has for pods: what several pods on it share is the node's and counts once."""
        found = self.late.amounts(name, labels)
        shared = [key for key in self._on_node.get(name, ()) if self.late.has_limits and self._is_shared_on(key, name)]
        for claim in filter(None, map(self._claims.get, shared)):
            for attached, amount in self._attached(claim):
                if found.get(attached, LARGEST) != LARGEST:
                    found[attached] = max(found[attached] - amount, 0)
        return found

    def _attached(self, claim: ClaimView) -> tuple[tuple[str, int], ...]:
        """What the volume of a claim takes from what its node can attach."""
        if _is_bound(claim):
            volume = self._volumes.get(claim.spec.volume_name)
            return self.late.attached(driver_of(volume)) if volume is not None else ()
        return tuple(one for one in self.late.asked(claim).requests if one[0].startswith(ATTACHED))

    # ---- changes; each returns the uids of the pods that may ask for something else now

    def on_claim(self, old: ClaimView | None, new: ClaimView | None) -> list[str]:
        key = _current(old, new).key
        before = self._claims.pop(key, None)
        if new is not None:
            self._claims[key] = new
        if _claim_facts(before) == _claim_facts(new):
            return []
        self._name_volume(key, before, new)
        concerned = self._given_up((key,))[1] if new is None or _is_bound(new) else []
        self._want(key)
        self._touch_places(key)
        return self._users_of((key, *concerned))

    def _name_volume(self, key: str, before: ClaimView | None, new: ClaimView | None) -> None:
        if before is not None and before.spec.volume_name:
            named = self._bound_to[before.spec.volume_name]
            del named[key]
            if not named:
                del self._bound_to[before.spec.volume_name]
        if new is not None and new.spec.volume_name:
            self._bound_to.setdefault(new.spec.volume_name, {})[key] = None

    def _want(self, key: str) -> None:
        """Say what a claim wants that gets its volume late, or that it wants nothing."""
        claim = self._claims.get(key)
        is_late = claim is not None and key in self._users and not _is_bound(claim) and self.late.is_late(claim)
        self.late.want(key, claim if is_late else None)

    def _touch_places(self, key: str) -> None:
        """The nodes of the pods that use a claim have other amounts if they share its volume."""
        if self.late.has_limits:
            self.late.stale.update(dict.fromkeys(filter(None, map(self._places.get, self._users.get(key, ())))))

    def _users_of(self, claims: Iterable[str]) -> list[str]:
        return [uid for key in dict.fromkeys(claims) for uid in self._users.get(key, ())]

    def take(self, choices: Iterable[VolumeChoice]) -> list[str]:
        """These claims are about to be bound so; the uids of the pods that ask for something else for it."""
        listed = list(choices)
        concerned = self.late.take(listed)
        chosen = [one.claim.key for one in listed]
        for key in chosen:
            self._touch_places(key)
        return self._users_of((*chosen, *concerned))

    def give_up(self, keys: Iterable[str]) -> list[str]:
        """These claims are not bound as was decided; the uids of the pods that ask for something else for it."""
        gone, concerned = self._given_up(keys)
        return self._users_of((*gone, *concerned))

    def _given_up(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Of these claims those for which something was chosen, and other claims that this concerns."""
        gone, concerned = list[str](), list[str]()
        for key in keys:
            others = self.late.give_up(key)
            if others is not None:
                gone.append(key)
                concerned += others
                self._touch_places(key)
        return gone, concerned

    def on_volume(self, old: VolumeView | None, new: VolumeView | None) -> list[str]:
        name = _current(old, new).name
        before = self._volumes.pop(name, None)
        if new is not None:
            self._volumes[name] = new
        if before is not None and new is not None and _volume_facts(before) == _volume_facts(new):
            self.late.replace_volume(new)
            return []
        concerned = self.late.put_volume(new, _reach(new)[0]) if new is not None else self.late.remove_volume(name)
        bound = self._bound_to.get(name, {})
        for key in bound:
            self._touch_places(key)
        for key in concerned:
            self._want(key)
        return self._users_of((*bound, *concerned))

    def on_capacity(self, old: StorageCapacityView | None, new: StorageCapacityView | None) -> list[str]:
        return self._users_of(self.late.put_capacity(_current(old, new).key, new))

    def on_driver(self, old: CsiDriverView | None, new: CsiDriverView | None) -> list[str]:
        name = _current(old, new).name
        self.late.put_driver(name, new)
        classes = [one.name for one in self._classes.values() if one.provisioner == name]
        return [uid for one in classes for uid in self._users_of_class(one)]

    def on_csi_node(self, old: CsiNodeView | None, new: CsiNodeView | None) -> list[str]:
        if old is not None and new is not None and old.limits == new.limits:
            return []
        before = self.late.limited
        self.late.put_limits(_current(old, new).name, new)
        return list(self._pods) if self.late.limited != before else []

    def on_class(self, old: StorageClassView | None, new: StorageClassView | None) -> list[str]:
        name = _current(old, new).name
        self._classes.pop(name, None)
        if new is not None:
            self._classes[name] = new
        self.late.put_class(name, new)
        for key in self._users:
            self._want(key)
        return self._users_of_class(name)

    def _users_of_class(self, name: str) -> list[str]:
        """The pods of claims of a class that are not bound."""
        claims = ((key, self._claims.get(key)) for key in self._users)
        waiting = [
            key for key, claim in claims if claim is not None and not _is_bound(claim) and class_of(claim) == name
        ]
        return self._users_of(waiting)

    def enter(self, pod: PodView) -> list[str]:
        """A pod is there; the uids of those that now share a claim which they must have alone.

        A thousand pods may share a claim: those that came before the second know already that they are not alone.
        """
        others: dict[str, None] = {}
        for key in _claim_keys(pod):
            users = self._users.setdefault(key, {})
            users[pod.uid] = None
            if len(users) == 2 and self._is_exclusive(key):
                others |= users
            self._want(key)
            self._pods[pod.uid] = pod
        return [uid for uid in others if uid != pod.uid]

    def leave(self, pod: PodView) -> list[str]:
        """A pod is gone; the uids of those that now have a claim alone."""
        others: dict[str, None] = {}
        for key in _claim_keys(pod):
            users = self._users.get(key, {})
            users.pop(pod.uid, None)
            if len(users) == 1 and self._is_exclusive(key):
                others |= users
            if not users:
                self._users.pop(key, None)
            self._want(key)
        self.place(pod.uid, "")
        self._places.pop(pod.uid, None)
        self.regrouped.pop(pod.uid, None)
        self._pods.pop(pod.uid, None)
        return list(others)

    def _is_exclusive(self, key: str) -> bool:
        return _is_exclusive(self._claims.get(key))

    # ---- what a pod asks

    def of(self, pod: PodView) -> Asked:
        claims = list(dict.fromkeys(_claimed(pod)))
        return self._asked(pod, claims) if claims else NOTHING

    def _asked(self, pod: PodView, claims: list[tuple[str, bool]]) -> Asked:
        reach: dict[tuple[NodeTerm, ...], None] = {}
        waits: list[str] = []
        alone: list[str] = []
        unsupported: list[str] = []
        requests = Counter[str]()
        for name, ephemeral in claims:
            key = _key(pod.namespace, name)
            claim = self._claims.get(key)
            reason = self._waits_for(pod, name, claim, ephemeral)
            if reason or claim is None:
                waits.append(reason)
                continue
            if _is_bound(claim):
                volume = self._volumes[claim.spec.volume_name]
                terms, odd = _reach(volume)
                taken = self._attached(claim)
            else:
                late = self.late.asked(claim)
                terms, odd, taken = late.reach, [], late.requests
            if self._is_shared_on(key, self._places.get(pod.uid, "")):
                taken = tuple(one for one in taken if not one[0].startswith(ATTACHED))
            requests.update(dict(taken))
            reach |= {} if terms is None else {terms: None}
            unsupported += odd
            # One user needs no rule, and rules make pods unequal.
            if _is_exclusive(claim) and len(self._users.get(key, ())) > 1:
                alone.append(name)
        return Asked(
            tuple(reach),
            tuple(dict.fromkeys(waits)),
            tuple(unsupported),
            tuple(sorted(requests.items())),
            tuple(sorted(set(alone))),
        )

    def plan(self, places: Mapping[str, Node]) -> list[VolumeChoice] | str:
        """Volumes for the claims of pods with these places that are bound late; or the node that lacks one."""
        wanted = [
            (claim, node.name, node.labels)
            for uid, node in places.items()
            if uid in self._pods
            for name, _ in _claimed(self._pods[uid])
            if (claim := self._claims.get(_key(self._pods[uid].namespace, name))) is not None and not _is_bound(claim)
        ]
        if not wanted:
            return []
        found = self.late.choose(wanted)
        return found if isinstance(found, str) else list(found.values())

    def _waits_for(self, pod: PodView, name: str, claim: ClaimView | None, ephemeral: bool) -> str:
        """Why a claim keeps its pod waiting, "" if it does not."""
        if claim is None:
            whose = "waiting for ephemeral volume controller to create the " if ephemeral else ""
            return f'{whose}persistentvolumeclaim "{name}"' + ("" if ephemeral else " not found")
        if ephemeral and not claim.controlled_by(pod.uid):
            return f"PVC {pod.namespace}/{name} was not created for pod {pod.namespace}/{pod.name}"
        if claim.deleting:
            return f'persistentvolumeclaim "{name}" is being deleted'
        volume = claim.spec.volume_name
        if claim.status.phase == "Lost":
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        if _is_bound(claim):
            return "" if volume in self._volumes else "pvc(s) bound to non-existent pv(s)"
        if volume or not self.late.is_late(claim):
            return "pod has unbound immediate PersistentVolumeClaims"
        return ""


def applied(shape: Shape, namespace: str, asked: Asked) -> Shape:
    """A shape with what its claims ask for."""
    if asked == NOTHING:
        return shape
    apart = tuple(
        PodTerm(EVERYWHERE, Peers((Requirement(_label(claim), "Exists"),), (namespace,))) for claim in asked.alone
    )
    amounts = dict(shape.requests)
    for name, amount in asked.requests:
        amounts[name] = amounts.get(name, 0) + amount
    return replace(
        shape,
        requests=tuple(sorted(amounts.items())) if asked.requests else shape.requests,
        volumes=asked.reach,
        waits=asked.waits,
        unsupported=(*shape.unsupported, *asked.unsupported),
        anti_affinity=(*shape.anti_affinity, *apart),
    )


def labels_of(asked: Asked) -> tuple[tuple[str, str], ...]:
    """What others know a pod by beside its labels: claims that it must have alone."""
    return tuple((_label(claim), "") for claim in asked.alone)


def _label(claim: str) -> str:
    """No label of a pod can be called so."""
    return f"{_ALONE} claim {claim}"


# ---- reading objects


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _claimed(pod: PodView) -> Iterator[tuple[str, bool]]:
    """The names of a pod's claims, and whether they live and die with it."""
    for volume in items(pod.obj, "spec", "volumes"):
        if volume.get("persistentVolumeClaim") is not None:
            yield mapping(volume, "persistentVolumeClaim").get("claimName") or "", False
        elif volume.get("ephemeral") is not None:
            yield f"{pod.name}-{volume['name']}", True


def _claim_keys(pod: PodView) -> dict[str, None]:
    return {_key(pod.namespace, name): None for name, _ in _claimed(pod)}


def _is_exclusive(claim: ClaimView | None) -> bool:
    return claim is not None and _ALONE in claim.spec.access_modes


def _is_bound(claim: ClaimView) -> bool:
    return bool(claim.spec.volume_name) and _BOUND in claim.annotations


def _volume_facts(volume: VolumeView) -> tuple[Any, ...]:
    return volume.spec, volume.labels, volume.deleting, volume.status.phase


def _claim_facts(claim: ClaimView | None) -> tuple[Any, ...] | None:
    if claim is None:
        return None
    return claim.spec, claim.annotations, claim.deleting, claim.status.phase == "Lost", claim.controller


def _current(old: V | None, new: V | None) -> V:
    """The newest version of an object that an event is about."""
    current = new or old
    assert current is not None
    return current


def _reach(volume: VolumeView) -> tuple[tuple[NodeTerm, ...] | None, list[str]]:
    """The nodes a volume can be reached from; None for all."""
    selector = volume.spec.node_affinity.required
    terms: tuple[NodeTerm, ...] | None = None
    odd: list[str] = []
    if selector is not None:
        terms, odd = node_terms(selector, f"PersistentVolume {volume.name} spec.nodeAffinity.required")
    return within_zones(terms, volume.labels), odd
