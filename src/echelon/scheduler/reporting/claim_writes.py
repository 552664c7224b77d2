"""Writing claims: devices are allocated and reserved for pods before the pods are bound, and given back if that fails.

    Placing ─► ClaimWriter.prepare ─► per claim: finalizer, then allocation and consumers in one write
                       ├── all written ─► done("")       the pods are bound
                       └── one refused ─► what was written is taken back ─► done(trouble)

Every write names the version that it is based on.  After a conflict the claim is read again; one that another scheduler
has given devices meanwhile is trouble.

A leader before this one may have sent a write that takes devices away, and that has not arrived yet.  A claim with the
devices and consumers that are wanted is therefore written all the same, once: then nothing older can change it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from ...api.errors import ApiError, said
from ...api.objects import meta
from ...api.objects.subtree import items, mapping
from ...api.objects.vocabulary import CLAIM_PROTECTION, PREFIX
from ...api.scheme import RESOURCE_CLAIMS, Object
from ...api.verbs import Patch, PatchType, Subresource, Verbs
from ...client.informer import Caches
from ..devices.allotments import ClaimUse
from .retried_writes import RetriedWrites
from .write_pool import Job

log = logging.getLogger(__name__)

_ATTEMPTS = 5
#: Annotation of a claim: the version that has what a scheduler wanted.  It makes another version of it.
_FOUND_RIGHT = f"{PREFIX}found-right"
#: When more claims than this are known to be written, the oldest ones are forgotten.
_MOST_KNOWN = 100_000


@dataclass(slots=True)
class ClaimWrite:
    """What is to be written to one claim."""

    claim: Object
    #: None for a claim that has its devices.
    allocation: Object | None
    consumers: dict[str, Object] = field(default_factory=dict)


class _Refused(Exception):
    """A claim that cannot be used as decided; the text says why."""


class ClaimWriter:
    """Writes of ResourceClaims, through the line of bindings."""

    def __init__(self, verbs: Verbs, caches: Caches, submit: Callable[[Job], None], retried: RetriedWrites) -> None:
        self._verbs = verbs
        self._caches = caches
        self._submit = submit
        self._retried = retried
        #: The uids of claims that this writer has written, the oldest first.
        self._written: dict[str, None] = {}

    def writes_of(
        self, uses: Collection[ClaimUse], allocation_of: Callable[[ClaimUse], Object | None]
    ) -> list[ClaimWrite]:
        """One write per claim; what was written here, with these consumers and devices, needs none."""
        found: dict[str, ClaimWrite] = {}
        for use in uses:
            write = found.get(use.claim.key)
            if write is None:
                write = found[use.claim.key] = ClaimWrite(use.claim.obj, allocation_of(use))
            write.consumers[use.consumer["uid"]] = use.consumer
        return [write for write in found.values() if self._is_needed(write)]

    def _is_needed(self, one: ClaimWrite) -> bool:
        return meta.uid(one.claim) not in self._written or _changes(one)

    def prepare(self, writes: Collection[ClaimWrite], done: Callable[[str], None]) -> None:
        """Allocate and reserve all claims, or none; `done` is called with what went wrong, "" if nothing did."""
        left, troubles = len(writes), list[str]()

        async def write(one: ClaimWrite) -> None:
            nonlocal left
            try:
                await self._use(one)
            except Exception as error:
                # Also one that nobody expected: else the pods of the gang would never be bound nor refused.
                if not isinstance(error, (_Refused, ApiError, OSError)):
                    log.exception("writing ResourceClaim %s", meta.key(one.claim))
                troubles.append(f"ResourceClaim {meta.key(one.claim)}: {said(error)}")
            left -= 1
            if not left:
                if troubles:
                    # What was refused may have been written all the same; others rely on what was found right.
                    self.give_back([one for one in writes if _changes(one)], lambda: done(troubles[0]))
                else:
                    done("")

        for one in writes:
            self._submit(lambda one=one: write(one))  # type: ignore[misc]

    def give_back(self, writes: Collection[ClaimWrite], done: Callable[[], None]) -> None:
        """Take consumers, and devices that nobody else uses, from claims; retried until it is `done`."""
        if not writes:
            done()
            return
        self._retried.insist_on_all(
            [(f"giving back ResourceClaim {meta.key(one.claim)}", partial(self._release, one)) for one in writes], done
        )

    async def _use(self, one: ClaimWrite) -> None:
        claim = one.claim
        for attempt in range(_ATTEMPTS):
            try:
                if attempt:
                    claim = await self._read(one)
                await self._write_use(one, claim)
            except ApiError as error:
                if error.code != 409 or attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    async def _write_use(self, one: ClaimWrite, claim: Object) -> None:
        if meta.uid(claim) != meta.uid(one.claim):
            raise _Refused("it was replaced by another of its name meanwhile")
        if meta.deleting(claim):
            raise _Refused("it is being deleted")
        known = mapping(claim, "status").get("allocation")
        if one.allocation is not None and known is not None:
            raise _Refused("it was given devices by someone else meanwhile")
        if one.allocation is None and known is None:
            raise _Refused("its devices were taken away meanwhile")
        if one.allocation is not None and CLAIM_PROTECTION not in meta.finalizers(claim):
            body = {"metadata": {"finalizers": [*meta.finalizers(claim), CLAIM_PROTECTION]}}
            claim = await self._patch(claim, body)
        new = _new(claim, one.consumers)
        if one.allocation is None and not new:
            found_right = {_FOUND_RIGHT: claim["metadata"]["resourceVersion"]}
            await self._patch(claim, {"metadata": {"annotations": found_right}})
            return
        status: Object = {"reservedFor": [*items(claim, "status", "reservedFor"), *new.values()]}
        if one.allocation is not None:
            status["allocation"] = one.allocation
        await self._patch(claim, {"status": status}, "status")

    async def _release(self, one: ClaimWrite) -> None:
        for attempt in range(_ATTEMPTS):
            claim = await self._read(one)
            if meta.uid(claim) != meta.uid(one.claim):
                return
            if one.allocation is not None and not _is_ours(claim, one.allocation):
                return  # It has none any more, or others.
            listed = items(claim, "status", "reservedFor")
            left = [user for user in listed if user.get("uid") not in one.consumers]
            if len(left) == len(listed) and (listed or one.allocation is None):
                return
            status: Object = {"reservedFor": left or None}
            if not left:
                status["allocation"] = None
            try:
                await self._patch(claim, {"status": status}, "status")
            except ApiError as error:
                if error.code != 409 or attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    async def _read(self, one: ClaimWrite) -> Object:
        found = await self._verbs.get(RESOURCE_CLAIMS, meta.name(one.claim), meta.namespace(one.claim))
        self._caches.observe(RESOURCE_CLAIMS, found)
        return found

    async def _patch(self, claim: Object, body: Object, subresource: Subresource = "") -> Object:
        metadata = {
            **body.get("metadata", {}),
            "uid": meta.uid(claim),
            "resourceVersion": claim["metadata"]["resourceVersion"],
        }
        patch = Patch(PatchType.MERGE, {**body, "metadata": metadata})
        found = await self._verbs.patch(RESOURCE_CLAIMS, meta.name(claim), patch, meta.namespace(claim), subresource)
        self._caches.observe(RESOURCE_CLAIMS, found)
        self._written[meta.uid(claim)] = None
        if len(self._written) > _MOST_KNOWN:
            del self._written[next(iter(self._written))]
        return found


def _changes(one: ClaimWrite) -> bool:
    """Whether a claim gets devices or consumers that it does not have."""
    return one.allocation is not None or bool(_new(one.claim, one.consumers))


def _is_ours(claim: Object, allocation: Object) -> bool:
    """Whether a claim has exactly the devices of an allocation."""
    known = mapping(claim, "status").get("allocation")
    return known is not None and _devices(known) == _devices(allocation)


def _devices(allocation: Object) -> list[tuple[str, ...]]:
    results = items(allocation, "devices", "results")
    return [tuple(one.get(field) or "" for field in ("driver", "pool", "device")) for one in results]


def _new(claim: Object, consumers: Mapping[str, Object]) -> dict[str, Object]:
    """Consumers that a claim does not name yet."""
    known = {user.get("uid") for user in items(claim, "status", "reservedFor")}
    return {uid: consumer for uid, consumer in consumers.items() if uid not in known}
