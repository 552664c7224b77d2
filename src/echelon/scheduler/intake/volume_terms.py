"""What a pod's PersistentVolumeClaims ask of its node, in the words of kube-scheduler.

    PersistentVolumeClaim ─┐
    PersistentVolume       ├─► Volumes.of(pod) ─► Asked   nodes that reach its volumes, claims it must have alone,
    StorageClass          ─┘                              and what it still waits for

A bound claim restricts its pod to the nodes from which its volume can be reached.  A claim that is not bound leaves the
pod pending until the volume controller binds it.  Binding on first use (WaitForFirstConsumer) is the scheduler's task;
it is not supported yet, and the reason says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...api.objects.subtree import items, mapping
from ...api.views.pod_views import PodView
from ...api.views.storage_views import ClaimView, StorageClassView, VolumeView
from ...engine import EVERYWHERE, NodeTerm, Peers, PodTerm, Requirement, Shape
from .pod_shape import node_terms

V = TypeVar("V", ClaimView, VolumeView, StorageClassView)

_BOUND = "pv.kubernetes.io/bind-completed"
#: Before there was a field for it, this named the class.
_CLASS = "volume.beta.kubernetes.io/storage-class"
_ALONE = "ReadWriteOncePod"
_LATER = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True)
class Asked:
    """What claims ask of a node; an empty record asks nothing."""

    reach: tuple[tuple[NodeTerm, ...], ...] = ()
    waits: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
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

    # ---- changes; each returns the uids of the pods that may ask for something else now

    def on_claim(self, old: ClaimView | None, new: ClaimView | None) -> list[str]:
        key = _current(old, new).key
        before = self._claims.pop(key, None)
        if new is not None:
            self._claims[key] = new
        return [] if _claim_facts(before) == _claim_facts(new) else list(self._users.get(key, ()))

    def on_volume(self, old: VolumeView | None, new: VolumeView | None) -> list[str]:
        name = _current(old, new).name
        before = self._volumes.pop(name, None)
        if new is not None:
            self._volumes[name] = new
        if before is not None and new is not None and _reach(before) == _reach(new):
            return []
        claims = [key for key, claim in self._claims.items() if claim.spec.volume_name == name]
        return [uid for key in claims for uid in self._users.get(key, ())]

    def on_class(self, old: StorageClassView | None, new: StorageClassView | None) -> list[str]:
        name = _current(old, new).name
        self._classes.pop(name, None)
        if new is not None:
            self._classes[name] = new
        waiting = [key for key, claim in self._claims.items() if not _is_bound(claim) and _class_of(claim) == name]
        return [uid for key in waiting for uid in self._users.get(key, ())]

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
        return list(others)

    def _is_exclusive(self, key: str) -> bool:
        return _is_exclusive(self._claims.get(key))

    # ---- what a pod asks

    def of(self, pod: PodView) -> Asked:
        claims = list(_claimed(pod))
        return self._asked(pod, claims) if claims else NOTHING

    def _asked(self, pod: PodView, claims: list[tuple[str, bool]]) -> Asked:
        reach: dict[tuple[NodeTerm, ...], None] = {}
        waits: list[str] = []
        alone: list[str] = []
        unsupported: list[str] = []
        for name, ephemeral in claims:
            key = _key(pod.namespace, name)
            claim = self._claims.get(key)
            reason = self._waits_for(pod, name, claim, ephemeral)
            if reason or claim is None:
                waits.append(reason)
                continue
            terms, odd = _reach(self._volumes[claim.spec.volume_name])
            reach |= {} if terms is None else {terms: None}
            unsupported += odd
            # One user needs no rule, and rules make pods unequal.
            if _is_exclusive(claim) and len(self._users.get(key, ())) > 1:
                alone.append(name)
        return Asked(tuple(reach), tuple(dict.fromkeys(waits)), tuple(unsupported), tuple(sorted(set(alone))))

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
        storage_class = self._classes.get(_class_of(claim))
        if storage_class is None or storage_class.volume_binding_mode != _LATER or volume:
            return "pod has unbound immediate PersistentVolumeClaims"
        return f'persistentvolumeclaim "{name}" is unbound, and binding on first use ({_LATER}) is not supported yet'


def applied(shape: Shape, namespace: str, asked: Asked) -> Shape:
    """A shape with what its claims ask for."""
    if asked == NOTHING:
        return shape
    apart = tuple(
        PodTerm(EVERYWHERE, Peers((Requirement(_label(claim), "Exists"),), (namespace,))) for claim in asked.alone
    )
    return replace(
        shape,
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


def _class_of(claim: ClaimView) -> str:
    return claim.annotations.get(_CLASS) or claim.spec.storage_class_name


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
    if selector is None:
        return None, []
    return node_terms(selector, f"PersistentVolume {volume.name} spec.nodeAffinity.required")
