"""Simulated nodes: Node objects whose pods start, run and end by the clock alone.

    pods bound to a known node ─► work queue ─► pod_lifecycle.next_step(pod, now) ─► status write, deletion or timer
    nodes ─► heartbeats ─► leases, conditions

One component replaces all kubelets.  It keeps no state about pods: `pod_lifecycle` reads it from their status.  A node
that is lost (annotation `echelon.dev/node-failure`) writes nothing; once back it goes on as if it had run meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ..api.cluster.device_slices import device_classes, slices
from ..api.cluster.pools import Cluster, nodes, runs_processes
from ..api.errors import ApiError
from ..api.objects import meta
from ..api.objects.vocabulary import IN_PLACE_ATTEMPT, NODE_FAILURE
from ..api.scheme import DEVICE_CLASSES, JOB_SETS, NODES, PODS, RESOURCE_SLICES, Object, Resource
from ..api.verbs import DeleteOptions, Patch, PatchType, Subresource, Verbs
from ..base.clock import Clock
from ..client.informer import Caches, by_jobset
from ..client.workqueue import WorkQueue
from . import in_place_restart
from .heartbeats import Heartbeats
from .key_workers import run_workers
from .node_objects import free_address, internal_address, registered
from .pod_lifecycle import Host, Remove, Step, Wait, WriteStatus, next_step

#: Number of concurrent workers, so that the store can commit their writes together.
_WORKERS = 64
_COMPONENT = "simulated-nodes"
_INDEX, _JOBSET = "node", "jobset"


class SimulatedNodes:
    """Runs the nodes of `cluster`, and any other Node that is created meanwhile."""

    def __init__(self, verbs: Verbs, caches: Caches, clock: Clock, cluster: Cluster) -> None:
        self._verbs = verbs
        self._caches = caches
        self._clock = clock
        self._pods = caches.of(PODS, {_INDEX: _node_of, _JOBSET: by_jobset})
        self._jobsets = caches.of(JOB_SETS)
        self._nodes = caches.of(NODES)
        self._queue = WorkQueue(clock)
        self._cluster = cluster
        self._simulated = [node for node in nodes(cluster) if not runs_processes(node)]
        self._heartbeats = Heartbeats(verbs, caches, clock, [meta.name(node) for node in self._simulated])

    async def run(self) -> None:
        """Register the nodes, then run their pods until cancelled."""
        self._pods.add_handler(self._pod_changed, _COMPONENT)
        self._nodes.add_handler(self._node_changed, _COMPONENT)
        self._jobsets.add_handler(self._jobset_changed, _COMPONENT)
        await self._caches.wait_synced()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._register(), name="register-nodes")
                group.create_task(self._heartbeats.run(), name="heartbeats")
                group.create_task(self._workers(), name="simulated-pods")
        finally:
            self._queue.close()

    async def _workers(self) -> None:
        await run_workers(_COMPONENT, _WORKERS, self._queue, self._pods, self._advance, done_if_gone=True)

    def _pod_changed(self, _: Object | None, pod: Object | None) -> None:
        if pod is not None and pod["spec"].get("nodeName"):
            self._queue.add(meta.key(pod))

    def _node_changed(self, old: Object | None, node: Object | None) -> None:
        if node is not None and (old is None or _state(old) != _state(node)):
            for pod in self._pods.find(_INDEX, meta.name(node)):
                self._queue.add(meta.key(pod))

    def _jobset_changed(self, old: Object | None, jobset: Object | None) -> None:
        if jobset is None or not in_place_restart.applies(jobset):
            return
        if old is None or in_place_restart.barrier(old) != in_place_restart.barrier(jobset):
            for pod in self._pods.find(_JOBSET, meta.key(jobset)):
                self._queue.add(meta.key(pod))

    async def _register(self) -> None:
        used = {internal_address(node) for node in self._nodes.all()}
        missing: list[Object] = []
        for node in self._simulated:
            if self._nodes.get(meta.name(node)) is None:
                address = free_address(meta.name(node), used)
                used.add(address)
                missing.append(registered(node, address, self._clock.now()))
        for begin in range(0, len(missing), _WORKERS):
            await asyncio.gather(*(self._create(NODES, node) for node in missing[begin : begin + _WORKERS]))
        await self._offer_devices()

    async def _offer_devices(self) -> None:
        """ResourceSlices for the devices of pools, which go with their nodes, and the classes that the file names."""
        for one in device_classes(self._cluster):
            await self._create(DEVICE_CLASSES, one)
        simulated = {meta.name(node) for node in self._simulated}
        for one in slices(self._cluster):
            node = self._nodes.get(one["spec"]["nodeName"])
            if node is not None and meta.name(node) in simulated:
                one["metadata"]["ownerReferences"] = [meta.owner_reference(node, NODES)]
                await self._create(RESOURCE_SLICES, one)

    async def _create(self, resource: Resource, obj: Object) -> None:
        try:
            self._caches.observe(resource, await self._verbs.create(resource, obj))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _advance(self, key: str) -> None:
        pod = self._pods.get(key)
        node = None if pod is None else self._nodes.get(pod["spec"].get("nodeName", ""))
        if pod is None or node is None or _is_lost(node) or runs_processes(node):
            return
        host = Host(internal_address(node), meta.condition_is(node, "Ready"))
        match self._next_step(pod, host):
            case in_place_restart.Join(attempt, status):
                notes = {"annotations": {IN_PLACE_ATTEMPT: str(attempt)}}
                await self._patch(pod, {"metadata": {"uid": meta.uid(pod), **notes}})
                await self._write(pod, status)
            case WriteStatus(status):
                await self._write(pod, status)
            case Remove():
                options = DeleteOptions(grace_period_seconds=0, uid=meta.uid(pod))
                await self._verbs.delete(PODS, meta.name(pod), meta.namespace(pod), options)
            case Wait(seconds):
                self._queue.add_after(key, seconds)

    def _next_step(self, pod: Object, host: Host) -> Step | in_place_restart.Join:
        now = self._clock.now()
        for key in by_jobset(pod):
            jobset = self._jobsets.get(key)
            if jobset is not None and in_place_restart.applies(jobset):
                return in_place_restart.next_step(pod, jobset, now, host)
        return next_step(pod, now, host)

    async def _write(self, pod: Object, status: Object) -> None:
        await self._patch(pod, {"metadata": {"uid": meta.uid(pod)}, "status": status}, "status")

    async def _patch(self, pod: Object, body: Object, subresource: Subresource = "") -> None:
        patch = Patch(PatchType.STRATEGIC, body)
        written = await self._verbs.patch(PODS, meta.name(pod), patch, meta.namespace(pod), subresource)
        self._caches.observe(PODS, written)


def _is_lost(node: Object) -> bool:
    return meta.annotations(node).get(NODE_FAILURE) == "lost"


def _state(node: Object) -> tuple[bool, bool]:
    """What about a node matters to its pods."""
    return _is_lost(node), meta.condition_is(node, "Ready")


def _node_of(pod: Object) -> Iterable[str]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()
