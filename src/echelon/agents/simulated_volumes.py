"""Storage of the nodes: a claim that asks for no particular storage has a volume for as long as it lives.

    claim ─► work queue ─► PersistentVolume `pvc-UID` ─► claim bound to it        claim gone ─► volume deleted

It serves claims without `storageClassName`, and those whose class has the provisioner `echelon.dev/simulated`; if the
class binds on first use, when the scheduler has selected a node.  A volume that names an unbound claim is bound to it.
Others wait for whoever provides their storage.  Volumes can be reached from every node; on simulated nodes nothing is
stored in them, on process nodes they are directories.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..api.objects import meta
from ..api.objects.subtree import mapping
from ..api.scheme import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, Object, Resource
from ..api.verbs import DeleteOptions, Patch, PatchType, Subresource, Verbs
from ..base.clock import Clock
from ..client.informer import Caches
from ..client.workqueue import WorkQueue
from .key_workers import run_workers

PROVISIONER = "echelon.dev/simulated"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_BOUND = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_CLAIM, _MEANT_FOR = "claim", "meant-for"
_WORKERS = 4
_COMPONENT = "simulated-volumes"


class SimulatedVolumes:
    """Provides volumes for claims."""

    def __init__(self, verbs: Verbs, caches: Caches, clock: Clock) -> None:
        self._verbs = verbs
        self._caches = caches
        self._claims = caches.of(VOLUME_CLAIMS)
        self._volumes = caches.of(VOLUMES, {_CLAIM: _claim_of, _MEANT_FOR: _named_claim})
        self._classes = caches.of(STORAGE_CLASSES)
        self._queue = WorkQueue(clock)

    async def run(self) -> None:
        """Provide volumes until cancelled."""
        self._claims.add_handler(self._claim_changed, _COMPONENT)
        self._volumes.add_handler(self._volume_changed, _COMPONENT)
        self._classes.add_handler(self._class_changed, _COMPONENT)
        await self._caches.wait_synced()
        try:
            await run_workers(_COMPONENT, _WORKERS, self._queue, self._claims, self._advance)
        finally:
            self._queue.close()

    def _claim_changed(self, old: Object | None, claim: Object | None) -> None:
        changed = claim or old
        if changed is not None:
            self._queue.add(meta.key(changed))

    def _volume_changed(self, old: Object | None, volume: Object | None) -> None:
        for key in _named_claim(volume or old or {}):
            self._queue.add(key)

    def _class_changed(self, _: Object | None, storage_class: Object | None) -> None:
        if storage_class is not None:
            for claim in self._claims.all():
                self._queue.add(meta.key(claim))

    async def _advance(self, key: str) -> None:
        claim = self._claims.get(key)
        uid = "" if claim is None else meta.uid(claim)
        for volume in self._volumes.find(_CLAIM, key):
            if mapping(volume, "spec", "claimRef").get("uid") != uid and not meta.deleting(volume):
                options = DeleteOptions(uid=meta.uid(volume))
                await self._verbs.delete(VOLUMES, meta.name(volume), "", options)
        if claim is None or meta.deleting(claim) or mapping(claim, "status").get("phase") == "Bound":
            return
        chosen = next((meta.name(one) for one in self._volumes.find(_MEANT_FOR, key) if _is_meant(one, claim)), "")
        if not chosen:
            chosen = _volume_name(claim)
            if claim["spec"].get("volumeName") not in (None, chosen) or not self._is_served(claim):
                return
            if self._volumes.get(chosen) is None:
                self._caches.observe(VOLUMES, await self._verbs.create(VOLUMES, _volume(claim)))
        await self._bind(claim, chosen)

    async def _bind(self, claim: Object, volume: str) -> None:
        uid, bound = meta.uid(claim), {"phase": "Bound"}
        await self._patch(VOLUMES, volume, "", {"status": bound}, "status")
        name, namespace, spec = meta.name(claim), meta.namespace(claim), claim["spec"]
        about = {"uid": uid, "annotations": {_BOUND: "yes"}}
        body = {"metadata": about, "spec": {"volumeName": volume}}
        await self._patch(VOLUME_CLAIMS, name, namespace, body)
        status = {**bound, "accessModes": spec["accessModes"], "capacity": spec["resources"]["requests"]}
        await self._patch(VOLUME_CLAIMS, name, namespace, {"metadata": {"uid": uid}, "status": status}, "status")

    def _is_served(self, claim: Object) -> bool:
        name = claim["spec"].get("storageClassName")
        if name is None:
            return True
        found = self._classes.get(name) if name else None
        if found is None or found.get("provisioner") != PROVISIONER:
            return False
        return found.get("volumeBindingMode") != "WaitForFirstConsumer" or _SELECTED_NODE in meta.annotations(claim)

    async def _patch(
        self, resource: Resource, name: str, namespace: str, body: Object, subresource: Subresource = ""
    ) -> None:
        patch = Patch(PatchType.MERGE, body)
        self._caches.observe(resource, await self._verbs.patch(resource, name, patch, namespace, subresource))


def _volume_name(claim: Object) -> str:
    return f"pvc-{meta.uid(claim)}"


def _volume(claim: Object) -> Object:
    spec = claim["spec"]
    reference = {
        "apiVersion": VOLUME_CLAIMS.api_version,
        "kind": VOLUME_CLAIMS.kind,
        "namespace": meta.namespace(claim),
        "name": meta.name(claim),
        "uid": meta.uid(claim),
    }
    named = {"storageClassName": spec["storageClassName"]} if spec.get("storageClassName") else {}
    return {
        "apiVersion": VOLUMES.api_version,
        "kind": VOLUMES.kind,
        "metadata": {"name": _volume_name(claim), "annotations": {_PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": reference,
            "csi": {"driver": PROVISIONER.replace("/", "."), "volumeHandle": meta.uid(claim)},
            "persistentVolumeReclaimPolicy": "Delete",
            **named,
        },
    }


def _named_claim(volume: Object) -> Iterable[str]:
    """The claim that a volume names."""
    claim = mapping(volume, "spec", "claimRef")
    return (f"{claim.get('namespace')}/{claim.get('name')}",) if claim.get("name") else ()


def _is_meant(volume: Object, claim: Object) -> bool:
    uid = mapping(volume, "spec", "claimRef").get("uid")
    return not meta.deleting(volume) and uid in (None, "", meta.uid(claim))


def _claim_of(volume: Object) -> Iterable[str]:
    """The claim of a volume that was made here."""
    claim = mapping(volume, "spec", "claimRef")
    ours = mapping(volume, "metadata", "annotations").get(_PROVISIONED_BY) == PROVISIONER
    return (f"{claim.get('namespace')}/{claim.get('name')}",) if ours else ()
