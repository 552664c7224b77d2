"""Process nodes: Node objects of this machine whose pods really run.

    nodes ─► registered, leases renewed, conditions say the tier and what limits are enforced
    pods bound to them ─► a `PodWorker` each

Pods outlive a crash of Echelon: their shims go on, and workers find them again.  When the plane is stopped on purpose,
all pods are ended within their grace and nothing is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...api.errors import ApiError, said
from ...api.objects import meta
from ...api.objects.vocabulary import ARCH, NODE_LEASES, OS, RUNS
from ...api.running_pods import LogTails
from ...api.scheme import LEASES, NODES, PODS, SERVED_VERSION, VOLUME_CLAIMS, Object
from ...api.verbs import Patch, PatchType, Verbs
from ...base.clock import Clock
from ...client.events import Recorder
from ...client.informer import Caches
from .. import node_objects
from .hosts_files import HostsFiles
from .images import Images
from .local_pods import LocalPods
from .machine import ChosenTier, Tier, capacity, choose_tier, node_info, shared
from .measuring import ProcessTable
from .pod_directories import NodeDirectory, PodDirectory, remove_tree
from .pod_network import PodNetwork
from .pods.node_services import NodeServices
from .pods.pod_sandbox import clear
from .pods.pod_worker import PodWorker
from .resources.gpu_shares import GpuShares
from .resources.limit_choice import choose_limits
from .rules.limit_settings import EnforcedLimits, limit_words
from .rules.node_conditions import network_words, node_conditions, tier_words
from .rules.refusals import NodePowers
from .serving.api_relay import ApiRelay
from .serving.log_tails import FileLogTails
from .volume_files import IssueToken, VolumeFiles

log = logging.getLogger(__name__)

_RENEW_SECONDS, _LEASE_SECONDS = 10.0, 40
_SHIMS_AT_ONCE = 2 * (os.cpu_count() or 1)
_INDEX = "process-node"
#: How often containers with a memory limit are looked at.
_MEMORY_SECONDS = 1.0
#: A shim that nobody needs has so long to end its pod by itself.
_SHIM_SECONDS = 3.0
#: How often the network of the pods is looked at.
_NETWORK_SECONDS = 1.0
#: How often the sizes of empty directories are looked at, as a kubelet does.
VOLUME_SECONDS = 10.0


@dataclass(frozen=True)
class ProcessSettings:
    """How pods run on this machine; `--help` of `up` explains each."""

    #: The data directory of the plane.
    directory: Path
    tier: Tier | Literal["auto"] = "auto"
    images: Images = field(default_factory=Images)
    host_paths: bool = False
    #: Where containers begin that do not say where; "" for an empty directory of their own.
    default_directory: str = field(default_factory=os.getcwd)
    #: Overrides what is found.
    capacity: dict[str, str] = field(default_factory=dict)
    #: Whether nobody will come back to the directory: pods end soon after an Echelon that was killed.
    temporary: bool = False


async def prepare_process_nodes(
    verbs: Verbs,
    caches: Caches,
    clock: Clock,
    nodes: Sequence[Object],
    settings: ProcessSettings,
    issue_token: IssueToken | None = None,
    server: tuple[str, int] | None = None,
) -> ProcessNodes:
    """Find out what this machine allows and has; nodes without a capacity share it.  May raise NoProcessNodes."""
    chosen = await choose_tier(settings.tier)
    limits = await choose_limits(settings.directory)
    found = {**await capacity(), **settings.capacity}
    unsized = sum(not _has_capacity(node) for node in nodes)
    sized = [node if _has_capacity(node) else _with_capacity(node, shared(found, unsized)) for node in nodes]
    return ProcessNodes(verbs, caches, clock, sized, settings, chosen, limits, issue_token, server)


def _has_capacity(node: Object) -> bool:
    return "cpu" in node["status"]["capacity"]


def _with_capacity(node: Object, amounts: dict[str, str]) -> Object:
    whole = {**node["status"]["capacity"], **amounts}
    return {**node, "status": {**node["status"], "capacity": whole, "allocatable": whole}}


class ProcessNodes:
    """Runs `nodes`, and the pods that are bound to them."""

    def __init__(
        self,
        verbs: Verbs,
        caches: Caches,
        clock: Clock,
        nodes: Sequence[Object],
        settings: ProcessSettings,
        chosen: ChosenTier,
        limits: EnforcedLimits,
        issue_token: IssueToken | None = None,
        server: tuple[str, int] | None = None,
    ) -> None:
        self._verbs = verbs
        self._caches = caches
        self._clock = clock
        self._wanted = {meta.name(node): node for node in nodes}
        self.chosen = chosen
        self._limits = limits
        self._network_lost = False
        self._pods = caches.of(PODS, {_INDEX: _node_of})
        self._nodes = caches.of(NODES)
        self._leases = caches.of(LEASES)
        self._claims = caches.of(VOLUME_CLAIMS)
        self._recorder = Recorder(verbs, clock, "kubelet")
        directory = NodeDirectory(settings.directory)
        self._directory = directory
        self._network = PodNetwork(directory, chosen)
        self._relay = ApiRelay(self._network, chosen, server) if server is not None else None
        self.local_pods = LocalPods(directory, self._network)
        names = HostsFiles(caches, self._network.predict)
        root = chosen.user_namespace or os.geteuid() == 0
        powers = NodePowers(chosen.tier, 0 if root else os.geteuid(), 0 if root else os.getegid(), settings.host_paths)
        self._services = NodeServices(
            verbs,
            caches,
            clock,
            self._recorder,
            directory,
            self._network,
            self.local_pods,
            chosen,
            powers,
            settings.images,
            VolumeFiles(verbs, directory, issue_token, host_paths=settings.host_paths),
            names,
            asyncio.Semaphore(_SHIMS_AT_ONCE),
            settings.default_directory,
            self._relay.environment if self._relay is not None else {},
            limits,
            GpuShares(directory, nodes),
            settings.temporary,
        )
        self._workers: dict[str, tuple[PodWorker, asyncio.Task[None]]] = {}
        self._stopping = False
        #: Those that pods still use.
        self._deleted_claims: list[Object] = []

    @property
    def tier_described(self) -> str:
        """The tier and why it is not a better one, for the user who started the plane."""
        return tier_words(self.chosen)

    @property
    def described(self) -> str:
        """The same and which limits are enforced."""
        return f"{self.tier_described}; {limit_words(self._limits)[2]}"

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._wanted)

    def log_tails(self, *, complete: bool) -> LogTails:
        """What all containers write from now on and have written; without `complete` only the newest lines of each."""
        tails = FileLogTails(self.local_pods, complete=complete)
        self._services.before_removal.append(tails.keep)
        return tails

    def kill(self) -> None:
        """End what still runs at once, whatever grace it has."""
        for worker, _ in self._workers.values():
            worker.kill()

    async def run(self) -> None:
        """Until cancelled; then every pod is ended within its grace."""
        self._stopping = False
        try:
            await self._caches.wait_synced()
            await self._network.start()
            await self._register()
            await self._remove_strangers()
            self._pods.add_handler(self._pod_changed, "process-nodes")
            self._claims.add_handler(self._claim_changed, "process-nodes")
            async with asyncio.TaskGroup() as group:
                group.create_task(self._heartbeats(), name="process-heartbeats")
                group.create_task(self._services.names.run(), name="hosts-files")
                group.create_task(self._watch_memory(), name="memory-limits")
                group.create_task(self._watch_network(), name="pod-network")
                group.create_task(self._watch_volumes(), name="volume-limits")
                group.create_task(self._recorder.run(), name="process-events")
                if self._relay is not None:
                    group.create_task(self._relay.run(), name="api-relay")
        except asyncio.CancelledError:
            await self._end_all_pods()
            # Of an Echelon that was killed before, if this one is stopped before it has found them.
            for directory in list(self._directory.pods()):
                await asyncio.to_thread(_end_shim, directory)
            for claim in self._deleted_claims:  # nobody would know of them later
                await asyncio.to_thread(remove_tree, self._held(claim))
            await self._network.end()
            raise
        finally:
            for _, task in self._workers.values():
                task.cancel()
            self._workers.clear()
            self._network.close()

    # -- pods --------------------------------------------------------------------------------------------------

    def _pod_changed(self, old: Object | None, pod: Object | None) -> None:
        known = pod or old
        assert known is not None
        uid = meta.uid(known)
        # First: the new one may have no node yet.
        if old is not None and pod is not None and meta.uid(old) != uid and meta.uid(old) in self._workers:
            self._workers[meta.uid(old)][0].changed(None)
        if known["spec"].get("nodeName") not in self._wanted:
            return
        if uid in self._workers:
            self._workers[uid][0].changed(pod)
        elif pod is not None and not self._stopping and self._concerns(pod):
            self._adopt(pod)

    def _concerns(self, pod: Object) -> bool:
        """Whether there is anything to do: a pod that is over needs a worker only for its files and its removal."""
        over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        return not over or meta.deleting(pod) or self._directory.pod(meta.uid(pod)).path.exists()

    def _adopt(self, pod: Object) -> None:
        node = self._nodes.get(pod["spec"]["nodeName"]) or self._wanted[pod["spec"]["nodeName"]]
        worker = PodWorker(self._services, pod, node)
        task = worker.start()
        self._workers[worker.uid] = worker, task
        task.add_done_callback(lambda _: self._workers.pop(worker.uid, None))

    async def _watch_memory(self) -> None:
        """End containers that use more memory than they may, as the kernel of a node with cgroups would."""
        while True:
            await asyncio.sleep(_MEMORY_SECONDS)
            limited = [worker for worker, _ in self._workers.values() if worker.memory_limits]
            if not limited or self._limits.memory:
                continue
            processes = await asyncio.to_thread(ProcessTable.read)
            for worker in limited:
                worker.check_memory(processes)

    async def _watch_volumes(self) -> None:
        while True:
            await asyncio.sleep(VOLUME_SECONDS)
            self._remove_deleted_claims()
            for worker in [worker for worker, _ in self._workers.values()]:
                await worker.check_volumes()

    async def _watch_network(self) -> None:
        """Say that the network is gone, and make it anew; the pods that were in it end by themselves."""
        while True:
            await asyncio.sleep(_NETWORK_SECONDS)
            if not self._network.is_lost():
                continue
            try:
                await self._tell_network(lost=True)
                await self._network.replace_lost()
                await self._tell_network(lost=False)
            except (ApiError, OSError) as error:
                log.warning("the network of the pods: %s", said(error))

    async def _tell_network(self, *, lost: bool) -> None:
        self._network_lost = lost
        for name in self._wanted:
            node = self._nodes.get(name)
            if node is not None:
                kind: Literal["Normal", "Warning"] = "Warning" if lost else "Normal"
                reason, message = network_words(lost=lost)
                self._recorder.record(NODES, node, kind, reason, message)
                await self._tell_conditions(name, node)

    async def _remove_strangers(self) -> None:
        """Files and processes of pods that were deleted while nobody looked."""
        known = {meta.uid(pod) for pod in self._pods.all()}
        for directory in list(self._directory.pods()):
            if directory.uid not in known:
                await asyncio.to_thread(_wipe_out, directory)
                self._services.gpus.release(directory.uid)

    def _claim_changed(self, claim: Object | None, new: Object | None) -> None:
        """What a claim held goes with it, once no pod has it mounted any more."""
        if claim is not None and (new is None or meta.uid(new) != meta.uid(claim)):
            self._deleted_claims.append(claim)
            self._remove_deleted_claims()

    def _remove_deleted_claims(self) -> None:
        workers = [worker for worker, _ in self._workers.values()]
        for claim in list(self._deleted_claims):
            namespace, name = meta.namespace(claim), meta.name(claim)
            if not any(worker.uses_claim(namespace, name) for worker in workers):
                self._deleted_claims.remove(claim)
                asyncio.get_running_loop().run_in_executor(None, remove_tree, self._held(claim))

    def _held(self, claim: Object) -> Path:
        return self._directory.claim(meta.namespace(claim), meta.name(claim), meta.uid(claim))

    async def _end_all_pods(self) -> None:
        self._stopping = True
        live = [(worker, task) for worker, task in self._workers.values()]
        for worker, _ in live:
            worker.shut_down()
        beat = asyncio.create_task(self._recorder.run())
        try:
            await asyncio.gather(*(worker.idle() for worker, _ in live), return_exceptions=True)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._recorder.flush(), 2.0)
        finally:
            beat.cancel()

    # -- nodes -------------------------------------------------------------------------------------------------

    async def _register(self) -> None:
        for name, node in self._wanted.items():
            wanted = self._registered(node)
            known = self._nodes.get(name)
            if known is None:
                self._caches.observe(NODES, await self._verbs.create(NODES, wanted))
                continue
            labels = Patch(PatchType.MERGE, {"metadata": {"labels": wanted["metadata"]["labels"]}})
            await self._verbs.patch(NODES, name, labels)
            status = Patch(PatchType.STRATEGIC, {"status": wanted["status"]})
            self._caches.observe(NODES, await self._verbs.patch(NODES, name, status, "", "status"))

    def _registered(self, node: Object) -> Object:
        info = {**node_info(), "kubeletVersion": SERVED_VERSION}
        labels = {OS: "linux", ARCH: info["architecture"], **meta.labels(node), RUNS: "processes"}
        status = {
            **node["status"],
            "conditions": self._conditions(self._nodes.get(meta.name(node)) or node),
            "addresses": [
                {"type": "InternalIP", "address": self._network.host},
                {"type": "Hostname", "address": meta.name(node)},
            ],
            "nodeInfo": info,
        }
        return {**node, "metadata": {**node["metadata"], "labels": labels}, "status": status}

    def _conditions(self, node: Object) -> list[Object]:
        return node_conditions(node, self.chosen, self._limits, self._clock.now(), network_lost=self._network_lost)

    async def _heartbeats(self) -> None:
        while True:
            for name in self._wanted:
                try:
                    await self._beat(name)
                except (ApiError, OSError) as error:
                    log.warning("process node %s: %s", name, said(error))
            await self._clock.sleep(_RENEW_SECONDS)

    async def _beat(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or meta.deleting(node):
            return
        now = self._clock.now()
        wanted = node_objects.lease(node, now, _LEASE_SECONDS, simulated=False)
        if self._leases.get(f"{NODE_LEASES}/{name}") is None:
            self._caches.observe(LEASES, await self._verbs.create(LEASES, wanted, NODE_LEASES))
        else:
            patch = Patch(PatchType.MERGE, {"spec": wanted["spec"]})
            self._caches.observe(LEASES, await self._verbs.patch(LEASES, name, patch, NODE_LEASES))
        await self._tell_conditions(name, node)

    async def _tell_conditions(self, name: str, node: Object) -> None:
        changed = [one for one in self._conditions(node) if _differs(node, one)]
        if changed:
            body = Patch(PatchType.STRATEGIC, {"status": {"conditions": changed}})
            self._caches.observe(NODES, await self._verbs.patch(NODES, name, body, "", "status"))


def _differs(node: Object, condition: Object) -> bool:
    known = meta.find_condition(node, condition["type"])
    return known is None or any(known.get(key) != condition[key] for key in ("status", "reason", "message"))


def _wipe_out(directory: PodDirectory) -> None:
    _end_shim(directory)
    clear(directory)
    directory.remove()


def _end_shim(directory: PodDirectory) -> None:
    """And with it all processes of its pod."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        pid = directory.shim_pid()
        if pid:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        deadline = time.monotonic() + _SHIM_SECONDS
        while directory.shim_pid() and time.monotonic() < deadline:
            time.sleep(0.01)


def _node_of(pod: Object) -> Iterable[str]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()
