"""Storage of the nodes: a claim that asks for no particular storage has a volume for as long as it lives.

    claim ─► work queue ─► PersistentVolume `pvc-UID` ─► claim bound to it        claim gone ─► volume deleted

It serves claims without `storageClassName`, and those whose class has the provisioner `echelon.dev/simulated`.  Others
wait for whoever provides their storage.  Volumes can be reached from every node; on simulated nodes nothing is stored
in them, on process nodes they are directories.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from ..api.errors import ApiError
from ..api.objects import meta
from ..api.objects.subtree import mapping
from ..api.scheme import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, Object, Resource
from ..api.verbs import DeleteOptions, Patch, PatchType, Subresource, Verbs
from ..base.clock import Clock
from ..client.informer import Caches
from ..client.workqueue import WorkQueue

log = logging.getLogger(__name__)

PROVISIONER = "echelon.dev/simulated"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_BOUND = "pv.kubernetes.io/bind-completed"
_CLAIM = "claim"
_WORKERS = 4


class SimulatedVolumes:
    """Provides volumes for claims."""

    def __init__(self, verbs: Verbs, caches: Caches, clock: Clock) -> None:
        self._verbs = verbs
        self._caches = caches
        self._claims = caches.of(VOLUME_CLAIMS)
        self._volumes = caches.of(VOLUMES, {_CLAIM: _claim_of})
        self._classes = caches.of(STORAGE_CLASSES)
        self._queue = WorkQueue(clock)

    async def run(self) -> None:
        """Provide volumes until cancelled."""
        self._claims.add_handler(self._claim_changed, "simulated-volumes")
        self._volumes.add_handler(self._volume_changed, "simulated-volumes")
        self._classes.add_handler(self._class_changed, "simulated-volumes")
        await self._caches.wait_synced()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(_WORKERS):
                    group.create_task(self._work(), name=f"simulated-volumes-{number}")
        finally:
            self._queue.close()

    def _claim_changed(self, old: Object | None, claim: Object | None) -> None:
        changed = claim or old
        if changed is not None:
            self._queue.add(meta.key(changed))

    def _volume_changed(self, old: Object | None, volume: Object | None) -> None:
        for key in _claim_of(volume or old or {}):
            self._queue.add(key)

    def _class_changed(self, _: Object | None, storage_class: Object | None) -> None:
        if storage_class is not None:
            for claim in self._claims.all():
                self._queue.add(meta.key(claim))

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._advance(key)
            except (ApiError, OSError) as error:
                if not isinstance(error, ApiError) or error.code not in (404, 409):
                    log.warning("volume of claim %s: %s", key, error or type(error).__name__)
                self._queue.retry(key)
            except Exception as error:
                self._caches.set_aside.report("simulated-volumes", error, VOLUME_CLAIMS, self._claims.get(key), key)
            else:
                self._queue.forget(key)
            finally:
                self._queue.done(key)

    async def _advance(self, key: str) -> None:
        claim = self._claims.get(key)
        uid = "" if claim is None else meta.uid(claim)
        for volume in self._volumes.find(_CLAIM, key):
            if mapping(volume, "spec", "claimRef").get("uid") != uid and not meta.deleting(volume):
                options = DeleteOptions(uid=meta.uid(volume))
                await self._verbs.delete(VOLUMES, meta.name(volume), "", options)
        if claim is None or meta.deleting(claim) or mapping(claim, "status").get("phase") == "Bound":
            return
        if claim["spec"].get("volumeName") not in (None, _volume_name(claim)) or not self._is_served(claim):
            return
        if self._volumes.get(_volume_name(claim)) is None:
            self._caches.observe(VOLUMES, await self._verbs.create(VOLUMES, _volume(claim)))
        bound = {"phase": "Bound"}
        await self._patch(VOLUMES, _volume_name(claim), "", {"status": bound}, "status")
        name, namespace, spec = meta.name(claim), meta.namespace(claim), claim["spec"]
        about = {"uid": uid, "annotations": {_BOUND: "yes"}}
        body = {"metadata": about, "spec": {"volumeName": _volume_name(claim)}}
        await self._patch(VOLUME_CLAIMS, name, namespace, body)
        status = {**bound, "accessModes": spec["accessModes"], "capacity": spec["resources"]["requests"]}
        await self._patch(VOLUME_CLAIMS, name, namespace, {"metadata": {"uid": uid}, "status": status}, "status")

    def _is_served(self, claim: Object) -> bool:
        name = claim["spec"].get("storageClassName")
        if name is None:
            return True
        found = self._classes.get(name) if name else None
        return found is not None and found.get("provisioner") == PROVISIONER

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


def _claim_of(volume: Object) -> Iterable[str]:
    """The claim of a volume that was made here."""
    claim = mapping(volume, "spec", "claimRef")
    ours = mapping(volume, "metadata", "annotations").get(_PROVISIONED_BY) == PROVISIONER
    return (f"{claim.get('namespace')}/{claim.get('name')}",) if ours else ()
