"""The heartbeats of simulated nodes: leases that are renewed, conditions that say how a node is.

    Node ─► failing? ── no ──────────► lease renewed now and then, conditions of a node that is well
                     ├─ not-ready ───► the same, but Ready is False
                     └─ lost ────────► one short lease and then nothing, so that it expires

All nodes are in this process, so their heartbeats need no writes: a lease is written for a long time in advance, and a
short one is written only when a node is lost.  However many nodes there are, that is less than one write a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from zlib import crc32

from ..api.cluster.pools import runs_processes
from ..api.errors import ApiError, said
from ..api.objects import meta
from ..api.objects.vocabulary import NODE_FAILURE, NODE_LEASES, SIMULATED
from ..api.scheme import LEASES, NODES, Object
from ..api.verbs import Patch, PatchType, Verbs
from ..base.clock import Clock
from ..base.instants import parse
from ..client.informer import Caches
from ..client.workqueue import WorkQueue
from . import node_objects
from .node_objects import Failure, failure_of

log = logging.getLogger(__name__)

_WORKERS = 8
#: Seconds between two renewals: at least this, and longer the more nodes there are.
_RENEW_SECONDS = 600.0
_RENEW_SECONDS_PER_NODE = 2.0
#: A lease lasts for this many renewals.
_RENEWALS = 3
#: The last lease of a node that is lost, as long as that of a kubelet.
_LAST_LEASE_SECONDS = 40


class Heartbeats:
    """Keeps the leases and conditions of the nodes of these names, and of every other node that was made to fail."""

    def __init__(self, verbs: Verbs, caches: Caches, clock: Clock, names: Collection[str]) -> None:
        self._verbs = verbs
        self._caches = caches
        self._clock = clock
        self._names = frozenset(names)
        self._nodes = caches.of(NODES)
        self._leases = caches.of(LEASES)
        self._queue = WorkQueue(clock)

    async def run(self) -> None:
        """Until cancelled; begins once all caches are filled."""
        self._nodes.add_handler(self._node_changed, "simulated-nodes")
        self._leases.add_handler(self._lease_changed, "simulated-nodes")
        await self._caches.wait_synced()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(_WORKERS):
                    group.create_task(self._work(), name=f"heartbeats-{number}")
        finally:
            self._queue.close()

    def _node_changed(self, _: Object | None, node: Object | None) -> None:
        if node is not None:
            self._queue.add(meta.name(node))

    def _lease_changed(self, old: Object | None, lease: Object | None) -> None:
        """One that is deleted is written again; most changes are our own."""
        if lease is None and old is not None and meta.namespace(old) == NODE_LEASES:
            self._queue.add(meta.name(old))

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            try:
                await self._beat(name)
            except (ApiError, OSError) as error:
                if not isinstance(error, ApiError) or error.code not in (404, 409):
                    log.warning("simulated node %s: %s", name, said(error))
                self._queue.retry(name)
            except Exception as error:
                # One node must not stop the others; it is tried again when it changes.
                self._caches.set_aside.report("simulated-nodes", error, NODES, self._nodes.get(name), name)
            else:
                self._queue.forget(name)
            finally:
                self._queue.done(name)

    async def _beat(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or meta.deleting(node):
            return
        lease = self._leases.get(f"{NODE_LEASES}/{name}")
        if not self._is_ours(node, lease):
            return
        failure = failure_of(node)
        if failure == "lost":
            if lease is None or _seconds(lease) != _LAST_LEASE_SECONDS:
                await self._renew(node, lease, _LAST_LEASE_SECONDS)
            return
        wait = self._seconds_left(name, lease)
        if wait <= 0:
            await self._renew(node, lease, int(self._interval * _RENEWALS))
            wait = self._interval * _share(name)
        await self._report(node, failure)
        self._queue.add_after(name, wait)

    def _is_ours(self, node: Object, lease: Object | None) -> bool:
        if runs_processes(node):
            return False
        named = meta.name(node) in self._names or NODE_FAILURE in meta.annotations(node)
        return named or (lease is not None and SIMULATED in meta.labels(lease))

    @property
    def _interval(self) -> float:
        return max(_RENEW_SECONDS, _RENEW_SECONDS_PER_NODE * len(self._nodes))

    def _seconds_left(self, name: str, lease: Object | None) -> float:
        """Until the lease is to be renewed."""
        if lease is None or _seconds(lease) <= self._interval:
            return 0.0
        return parse(lease["spec"]["renewTime"]) + self._interval * _share(name) - self._clock.now()

    async def _renew(self, node: Object, lease: Object | None, seconds: int) -> None:
        wanted = node_objects.lease(node, self._clock.now(), seconds)
        if lease is None:
            written = await self._verbs.create(LEASES, wanted, NODE_LEASES)
        else:
            patch = Patch(PatchType.MERGE, {"metadata": {"labels": {SIMULATED: "true"}}, "spec": wanted["spec"]})
            written = await self._verbs.patch(LEASES, meta.name(node), patch, NODE_LEASES)
        self._caches.observe(LEASES, written)

    async def _report(self, node: Object, failure: Failure) -> None:
        changed = node_objects.conditions(node, failure, self._clock.now())
        if changed:
            body = {"metadata": {"uid": meta.uid(node)}, "status": {"conditions": changed}}
            patch = Patch(PatchType.STRATEGIC, body)
            self._caches.observe(NODES, await self._verbs.patch(NODES, meta.name(node), patch, "", "status"))


def _seconds(lease: Object) -> int:
    return int((lease.get("spec") or {}).get("leaseDurationSeconds") or 0)


def _share(name: str) -> float:
    """Between a half and one, computed from the name: nodes that registered together renew one after the other."""
    return 0.5 + crc32(name.encode()) / 2**33
