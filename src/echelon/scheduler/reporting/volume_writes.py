"""Having claims bound for pods that have a node (WaitForFirstConsumer), as kube-scheduler does.

    free volume       PersistentVolume spec.claimRef names the claim ─┐
    volume to be made the claim names the selected node               ┴─► the volume controller or provisioner binds it
                                                                          └─► all bound: done("")   else: taken back

Claims are looked at every second until all are bound, for ten minutes at most, and no longer than their pods, nodes and
volumes are there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial

from ...api.errors import ApiError, said
from ...api.objects import meta
from ...api.objects.subtree import mapping
from ...api.scheme import NODES, VOLUME_CLAIMS, VOLUMES, Object, Resource
from ...api.verbs import Patch, PatchType, Verbs
from ...api.views.storage_views import ClaimView, VolumeView
from ...base.clock import Clock
from ...client.informer import Caches
from ..volumes.late_binding import SELECTED_NODE, VolumeChoice
from .retried_writes import RetriedWrites
from .write_pool import Job

log = logging.getLogger(__name__)

#: As bindTimeoutSeconds of kube-scheduler.
_BIND_SECONDS = 600.0
_LOOK_SECONDS = 1.0
_BOUND_BY_US = "pv.kubernetes.io/bound-by-controller"
_BOUND = "pv.kubernetes.io/bind-completed"


class VolumeWriter:
    """Writes of claims and volumes, through the line of bindings."""

    def __init__(
        self,
        verbs: Verbs,
        caches: Caches,
        clock: Clock,
        submit: Callable[[Job], None],
        later: Callable[[float, Job], None],
        retried: RetriedWrites,
    ) -> None:
        self._verbs = verbs
        self._caches = caches
        self._claims = caches.views(ClaimView)
        self._volumes = caches.views(VolumeView)
        self._nodes = caches.of(NODES)
        self._clock = clock
        self._submit = submit
        self._later = later
        self._retried = retried
        #: Claims whose first write is not answered.
        self._unwritten: set[str] = set()

    def prepare(
        self,
        choices: Collection[VolumeChoice],
        awaited: Collection[VolumeChoice],
        wanted: Callable[[], bool],
        done: Callable[[str], None],
    ) -> None:
        """Have all claims bound, or none; `done` is called with what went wrong, "" if nothing did.

        Those that are `awaited` are being bound for somebody else.  What is no longer `wanted` is given back.
        """
        left, troubles, deadline = len(choices), list[str](), self._clock.now() + _BIND_SECONDS

        def end() -> None:
            if troubles and choices:
                self._give_back(choices, lambda: done(troubles[0]))
            else:
                done(troubles[0] if troubles else "")

        async def write(one: VolumeChoice) -> None:
            nonlocal left
            try:
                await self._write(one)
            except Exception as error:
                # Also one that nobody expected: else the pods of the gang would never be bound nor refused.
                if not isinstance(error, (ApiError, OSError)):
                    log.exception("writing PersistentVolumeClaim %s", one.claim.key)
                troubles.append(f"PersistentVolumeClaim {one.claim.key}: {said(error)}")
            self._unwritten.discard(one.claim.key)
            left -= 1
            if not left:
                await look()

        async def look() -> None:
            if not wanted():
                troubles.append("its pods are gone")
            everything = () if troubles else (*choices, *awaited)
            waiting = [one for one in everything if not self._is_bound(one, troubles)]
            if waiting and not troubles and self._clock.now() >= deadline:
                troubles.append(f"PersistentVolumeClaim {waiting[0].claim.key} was not bound for {_BIND_SECONDS:g} s")
            if waiting and not troubles:
                self._later(_LOOK_SECONDS, look)
            else:
                end()

        self._unwritten.update(one.claim.key for one in choices)
        for one in choices:
            self._submit(lambda one=one: write(one))  # type: ignore[misc]
        if not choices:
            self._submit(look)

    def _is_bound(self, one: VolumeChoice, troubles: list[str]) -> bool:
        claim = self._claims.get(one.claim.key)
        if claim is None or claim.uid != one.claim.uid:
            troubles.append(f"PersistentVolumeClaim {one.claim.key} is gone")
            return False
        if self._nodes.get(one.node) is None:
            troubles.append(f"PersistentVolumeClaim {one.claim.key}: node {one.node} is gone")
            return False
        if claim.spec.volume_name and _BOUND in claim.annotations:
            if one.volume is not None and claim.spec.volume_name != one.volume.name:
                troubles.append(f"PersistentVolumeClaim {claim.key} was bound to another volume")
            return True
        if claim.key not in self._unwritten:
            troubles += self._lost(one, claim)
        return False

    def _lost(self, one: VolumeChoice, claim: ClaimView) -> list[str]:
        """Why a claim that is not bound will not be bound as was written."""
        if one.volume is None:
            lost = claim.annotations.get(SELECTED_NODE) != one.node
            return [f"PersistentVolumeClaim {claim.key}: no volume could be made for node {one.node}"] if lost else []
        volume = self._volumes.get(one.volume.name)
        if volume is None or volume.deleting or volume.uid != one.volume.uid:
            return [f"PersistentVolumeClaim {claim.key}: PersistentVolume {one.volume.name} is gone"]
        reference = volume.spec.claim_ref
        if reference is None or reference.uid != claim.uid:
            return [f"PersistentVolumeClaim {claim.key}: PersistentVolume {volume.name} is no longer set aside for it"]
        return []

    async def _write(self, one: VolumeChoice) -> None:
        claim = one.claim
        if one.volume is None:
            if claim.annotations.get(SELECTED_NODE) != one.node:
                await self._patch(VOLUME_CLAIMS, claim.obj, {"metadata": {"annotations": {SELECTED_NODE: one.node}}})
            return
        if mapping(one.volume.obj, "spec", "claimRef").get("uid") == claim.uid:
            return
        reference = {
            "apiVersion": VOLUME_CLAIMS.api_version,
            "kind": VOLUME_CLAIMS.kind,
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
        }
        body = {"metadata": {"annotations": {_BOUND_BY_US: "yes"}}, "spec": {"claimRef": reference}}
        await self._patch(VOLUMES, one.volume.obj, body)

    def _give_back(self, choices: Collection[VolumeChoice], done: Callable[[], None]) -> None:
        """Claims that are not bound are no longer meant for their node or volume; retried until it is `done`."""
        self._retried.insist_on_all(
            [(f"giving back the volume of {one.claim.key}", partial(self._take_back, one)) for one in choices], done
        )

    async def _take_back(self, one: VolumeChoice) -> None:
        claim = await self._verbs.get(VOLUME_CLAIMS, one.claim.name, one.claim.namespace)
        self._caches.observe(VOLUME_CLAIMS, claim)
        if meta.uid(claim) == one.claim.uid and claim["spec"].get("volumeName"):
            return  # It is bound, and stays so.
        if one.volume is None:
            if meta.annotations(claim).get(SELECTED_NODE) == one.node:
                await self._patch(VOLUME_CLAIMS, claim, {"metadata": {"annotations": {SELECTED_NODE: None}}})
            return
        volume = await self._verbs.get(VOLUMES, one.volume.name)
        if mapping(volume, "spec", "claimRef").get("uid") == one.claim.uid and one.volume.spec.claim_ref is None:
            body: Object = {"metadata": {"annotations": {_BOUND_BY_US: None}}, "spec": {"claimRef": None}}
            await self._patch(VOLUMES, volume, body)

    async def _patch(self, resource: Resource, obj: Object, body: Object) -> None:
        known = {"uid": meta.uid(obj), "resourceVersion": obj["metadata"]["resourceVersion"]}
        patch = Patch(PatchType.MERGE, {**body, "metadata": {**body["metadata"], **known}})
        self._caches.observe(resource, await self._verbs.patch(resource, meta.name(obj), patch, meta.namespace(obj)))
