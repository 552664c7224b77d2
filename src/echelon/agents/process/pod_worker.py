"""One pod on this machine, from its binding to its removal: the shell around `rules.pod_plan`.

    pod changed ┐                       ┌─ sandbox: files, volumes, shim
    shim's state├─► sync ─► plan ───────┼─ containers: start, stop
    probe, timer┘                       └─ status, when it differs from what the pod says

It keeps nothing that is not also on disk or in the pod's status, except back-off and probe counts: so it can be stopped
at any moment, and another one that takes over finds the shim and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...api.errors import ApiError
from ...api.objects import meta
from ...api.scheme import CONFIG_MAPS, PODS, SECRETS, Object
from ...api.verbs import DeleteOptions, Patch, PatchType, Verbs
from ...base import quantity
from ...base.clock import Clock
from ...base.instants import parse as instant
from ...client.events import Recorder
from ...client.informer import Caches
from .container_requests import CannotStartContainer, ContainerSetting, start_request
from .hosts_files import HostsFiles
from .images import Images
from .local_pods import LocalPod, LocalPods
from .machine import ChosenTier
from .measuring import ProcessTable
from .pod_directories import NodeDirectory, PodDirectory
from .pod_network import PodNetwork
from .probing import Prober, run_handler
from .resources.gpu_shares import GpuShares
from .resources.limit_choice import scope_command
from .rules.attempts import Attempt, Attempts, all_containers, attempts_from, init_containers, is_sidecar
from .rules.container_env import DownwardFacts
from .rules.empty_dirs import in_memory, on_disk, too_large
from .rules.host_names import host_name, network_name
from .rules.kubelet_status import Waiting, Whereabouts, status_of
from .rules.limit_settings import EnforcedLimits
from .rules.pod_plan import PodFacts, PodPlan, plan
from .rules.probe_state import ProbeHealth, ProbeKind
from .rules.refusals import NodePowers, refusal
from .rules.restart_backoff import Backoff
from .shim.cgroups import remove_pod_groups
from .shim.main import kill_marked
from .shim_lines import ShimFailed, ShimLine, start_shim
from .termination_messages import termination_message
from .volume_files import BadVolume, VolumeFiles, has_files, size_of

log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.5, 30.0
_CONFIG_RETRY_SECONDS = 5.0
#: Files of ConfigMaps and Secrets are brought up to date this often.
REFRESH_SECONDS = 30.0
_DEADLINE = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
SHUTDOWN = ("Terminated", "Pod was terminated in response to imminent node shutdown.")


@dataclass(frozen=True)
class NodeServices:
    """What the workers of all pods share."""

    verbs: Verbs
    caches: Caches
    clock: Clock
    recorder: Recorder
    directory: NodeDirectory
    network: PodNetwork
    local_pods: LocalPods
    chosen: ChosenTier
    powers: NodePowers
    images: Images
    volumes: VolumeFiles
    names: HostsFiles
    #: So many shims start at a time.
    starting: asyncio.Semaphore
    default_directory: str
    #: What every container finds in its environment.
    node_env: Mapping[str, str]
    limits: EnforcedLimits
    gpus: GpuShares
    #: Called with the uid of a pod before its files go.
    before_removal: list[Callable[[str], None]] = field(default_factory=list)

    @property
    def ahead(self) -> float:
        """Seconds that the cluster's clock is ahead of the machine's."""
        return self.clock.now() - time.time()


class PodWorker:
    """Use `start`, then `changed` for every version of the pod; it ends by itself when the pod is gone."""

    def __init__(self, services: NodeServices, pod: Object, node: Object) -> None:
        self._services = services
        self.uid = meta.uid(pod)
        self.directory = services.directory.pod(self.uid)
        self._pod: Object | None = pod
        self._last = pod
        self._node = node
        self._wake = asyncio.Event()
        self._wake.set()
        self._timer: asyncio.TimerHandle | None = None
        self._line: ShimLine | None = None
        self._lost = False
        self._attempts = Attempts()
        self._records: list[dict[str, Any]] = []
        self._sent: dict[str, int] = {}
        self._messages: dict[tuple[str, int], str] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._probers: dict[str, Prober] = {}
        self._waiting: dict[str, Waiting] = {}
        self._held_until = 0.0
        self._volumes: dict[str, str] | None = None
        self._hooks: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._stops: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._ending: asyncio.Task[None] | None = None
        self._failure = ("", "")
        self._grace_end = 0.0
        self._asked_at = 0.0
        self._refresh_at = 0.0
        self._removed = False
        self._told: set[tuple[str, str]] = set()
        self.address = ""
        self.gone = asyncio.Event()
        #: Set and replaced whenever the shim tells something.
        self._news = asyncio.Event()
        #: Set after every step.
        self._synced = asyncio.Event()

    @property
    def memory_limits(self) -> dict[str, int]:
        """Container → bytes that it may use, for those with a limit."""
        limits = {one["name"]: (one.get("resources") or {}).get("limits") or {} for one in all_containers(self._last)}
        return {name: quantity.parse(found["memory"]) for name, found in limits.items() if "memory" in found}

    def check_memory(self, processes: ProcessTable) -> None:
        """Kill containers that are over their limit."""
        local = self._services.local_pods.of(self.uid)
        used = local.uses(processes) if local is not None and self._line is not None else {}
        for name, limit in self.memory_limits.items():
            number = self._running_number(name)
            if number is not None and name in used and used[name].memory_bytes > limit:
                self._send(do="kill", container=name, attempt=number, out_of_memory=True)

    async def check_volumes(self) -> None:
        """Evict the pod if one of its empty directories is larger than it may be."""
        if self._line is None or self._failure[0]:
            return
        sizes = {name: await asyncio.to_thread(size_of, self.directory.volume(name)) for name in on_disk(self._last)}
        message = too_large(self._last, sizes)
        if message:
            self._failure = ("Evicted", message)
            self._event("Warning", "Evicted", message)
            self._wake.set()

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(self._run(), name=f"pod-{meta.name(self._last)}")

    def changed(self, pod: Object | None) -> None:
        """A newer version of the pod; None when it is gone."""
        self._pod = pod
        self._last = pod or self._last
        self._wake.set()

    def shut_down(self) -> None:
        """The node goes away: end the pod within its grace and say why."""
        if not self._failure[0] and self._pod is not None and not _is_over(self._pod):
            self._failure = SHUTDOWN
        self._wake.set()

    def kill(self) -> None:
        """End the pod at once, whatever grace it has left."""
        if self._line is not None:
            if self._ending is not None:
                self._ending.cancel()
            self._ending = asyncio.create_task(self._end_sandbox(), name="kill")
            self._ending.add_done_callback(lambda _: self._wake.set())

    async def idle(self) -> None:
        """Wait until nothing of the pod runs and its status says so."""
        while not self.gone.is_set() and (self._line is not None or not (self._pod is None or _is_over(self._pod))):
            await self._synced.wait()
            self._synced.clear()

    async def _run(self) -> None:
        retry = _FIRST_RETRY_SECONDS
        try:
            try:
                await self._attach()
            except OSError as error:
                log.warning("pod %s: %s", meta.key(self._last), error)
                self._lost = True
            while not self.gone.is_set():
                await self._wake.wait()
                self._wake.clear()
                try:
                    await self._sync()
                    retry = _FIRST_RETRY_SECONDS
                except (ApiError, OSError) as error:
                    if not isinstance(error, ApiError) or error.code not in (404, 409):
                        log.warning("pod %s: %s", meta.key(self._last), error or type(error).__name__)
                    if isinstance(error, OSError):
                        self._event("Warning", "FailedSync", f"Error syncing pod: {error.strerror or error}")
                    self._wake_in(retry)
                    retry = min(retry * 2, _LAST_RETRY_SECONDS)
                except Exception as error:
                    self._services.caches.set_aside.report("process-nodes", error, PODS, self._last, self.uid)
                    self._wake_in(_LAST_RETRY_SECONDS)
                self._synced.set()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Leave the pod to itself; its shim goes on."""
        for task in (*self._hooks.values(), *self._stops.values(), self._ending):
            if task is not None:
                task.cancel()
        for prober in self._probers.values():
            prober.close()
        if self._line is not None:
            self._line.close()
        if self._timer is not None:
            self._timer.cancel()

    def _wake_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._wake.set)

    # -- one step ----------------------------------------------------------------------------------------------

    async def _sync(self) -> None:
        pod = self._pod
        if pod is None or meta.uid(pod) != self.uid:
            await self._remove_everything()
            return
        if self._lost:
            await self._sandbox_lost()
        if _is_over(pod):
            await self._after_the_end(pod)
            return
        self._look_for_the_end(pod)
        self._watch_containers(pod)
        facts = self._facts()
        made = self._planned(pod, facts) if self._ending is None else PodPlan()
        if self._ending is None and made.ended is None:
            await self._advance(pod, made)
            facts = self._facts()
        if made.ended is not None:
            await self._end_sandbox()
        elif self._refresh_at and self._refresh_at <= facts.now:
            self._refresh_at = facts.now + REFRESH_SECONDS
            await self._services.volumes.refresh(pod, self._downward())
        await self._report(pod, facts, made)
        self._set_timer(pod, made)

    def _facts(self) -> PodFacts:
        health: dict[str, ProbeHealth] = {}
        for name in self._attempts.of_container:
            latest, prober = self._attempts.latest(name), self._probers.get(name)
            if latest is not None and latest.running:
                # Before its probes have begun a container is neither started nor ready.
                begun = prober is not None and prober.attempt == latest.number
                health[name] = prober.health if begun and prober is not None else ProbeHealth(False, False)
        for (name, _), hook in self._hooks.items():
            if not hook.done():
                health[name] = ProbeHealth(started=False, ready=False)
        now = self._services.clock.now()
        return PodFacts(self._attempts, now, health, self._backoffs, sandbox=self._line is not None)

    def _planned(self, pod: Object, facts: PodFacts) -> PodPlan:
        """What is to be done, without what the shim was told to do and has not answered yet."""
        made = plan(pod, facts)
        for name, number in self._sent.items():
            latest = self._attempts.latest(name)
            if self._line is not None and (latest is None or latest.number < number):
                made.held_back.pop(name, None)
                made.start = [one for one in made.start if one[0] != name]
        return made

    def _look_for_the_end(self, pod: Object) -> None:
        """Begin to end the pod if it is deleted, late, or its node goes away."""
        now = self._services.clock.now()
        if meta.deleting(pod):
            # The timestamp has whole seconds, cut off: nobody is killed before the time.
            left = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            self._asked_at = min(self._asked_at or now, instant(pod["metadata"]["deletionTimestamp"]) - left + 1.0)
            self._grace_end = self._asked_at + left
        elif not self._failure[0] and (deadline := _deadline(pod)) is not None and deadline <= now:
            self._failure = _DEADLINE
        if self._ending is None and (meta.deleting(pod) or self._failure[0]):
            if not meta.deleting(pod):
                self._grace_end = now + float(pod["spec"].get("terminationGracePeriodSeconds", 30))
                self._event("Normal", "Killing", self._failure[1])
            self._ending = asyncio.create_task(self._end(pod), name="end")

    def _set_timer(self, pod: Object, made: PodPlan) -> None:
        moments = [made.wake_at, _deadline(pod) if self._ending is None else None]
        if self._held_until:
            moments.append(self._held_until)
        if self._line is not None and any(has_files(volume) for volume in pod["spec"].get("volumes") or ()):
            self._refresh_at = self._refresh_at or self._services.clock.now() + REFRESH_SECONDS
            moments.append(self._refresh_at)
        due = min((moment for moment in moments if moment is not None), default=None)
        if due is not None:
            self._wake_in(due - self._services.clock.now())

    # -- the sandbox -------------------------------------------------------------------------------------------

    async def _attach(self) -> None:
        """Find what an earlier worker left: a shim that runs, or the records of one that is gone."""
        sandbox = self.directory.read("sandbox.json")
        if sandbox is None:
            return
        self.address = sandbox["address"]
        self._services.network.keep(self.uid, self.address)
        self._services.names.keep(self._last, self.address, self.directory.hosts)
        if self.directory.shim_pid():
            with contextlib.suppress(OSError):
                await self._connect()
                return
        self._take_state(self.directory.read("state.json") or {})
        self._lost = not (self.directory.read("state.json") or {}).get("stopped")

    async def _connect(self) -> None:
        heard = asyncio.Event()

        def changed(state: Any) -> None:
            if state is None:
                self._line = None
                self._lost = True
                self._tell_news()
            else:
                self._take_state(state)
            heard.set()
            self._wake.set()

        self._line = await ShimLine.open(self.directory, changed)
        await heard.wait()

    def _take_state(self, state: dict[str, Any]) -> None:
        self._tell_news()
        self._lost = self._lost and not state.get("stopped")
        if state.get("lost_log_bytes"):
            self._event("Warning", "LogLost", "output of containers is lost: their logs cannot be written (disk full?)")
        self._records = state.get("attempts") or []
        self._attempts = self._with_messages(attempts_from(self._records, self._services.ahead))
        for known in self._attempts.of_container.values():
            for attempt in known:
                if not attempt.running:
                    self._finished(attempt)

    def _tell_news(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _finished(self, attempt: Attempt) -> None:
        prober = self._probers.get(attempt.container)
        if prober is not None and prober.attempt == attempt.number:
            prober.close()
            del self._probers[attempt.container]

    def _with_messages(self, found: Attempts) -> Attempts:
        containers = {one["name"]: one for one in all_containers(self._last)}
        return Attempts(
            {
                name: tuple(
                    one if one.running else replace(one, message=self._message(containers.get(name) or {}, one))
                    for one in known
                )
                for name, known in found.of_container.items()
            }
        )

    def _message(self, container: Object, attempt: Attempt) -> str:
        key = attempt.container, attempt.number
        if key not in self._messages:
            self._messages[key] = termination_message(self.directory, container, attempt)
        return self._messages[key]

    async def _sandbox_lost(self) -> None:
        """The shim was killed: what ran in it is dead, as a container runtime would report it."""
        self._lost = False
        await asyncio.to_thread(clear, self.directory)
        state = self.directory.read("state.json") or {}
        if state.get("stopped"):
            self._take_state(state)
            return
        records = [_killed(record) for record in state.get("attempts") or ()]
        if records:
            self.directory.write("state.json", {"stopped": True, "attempts": records})
        self._take_state({"stopped": True, "attempts": records})
        self._sent.clear()
        if self._ending is None:
            self._event("Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")

    async def _make_sandbox(self, pod: Object) -> bool:
        """Whether the pod has a sandbox now; if not, the reason was told and it is tried again later."""
        services = self._services
        try:
            self.directory.make()
            self.address = services.network.allocate(self.uid, network_name(pod))
            self._volumes = await services.volumes.prepare(pod, self._downward())
            await services.network.start()
            services.names.keep(pod, self.address, self.directory.hosts)
            self.directory.hostname.write_text(host_name(pod) + "\n")
            self.directory.write("sandbox.json", self._sandbox(pod))
            async with services.starting:
                await start_shim(self.directory, scope_command() if services.limits.scope else [])
            await self._connect()
        except BadVolume as error:
            self._event("Warning", "FailedMount", str(error))
        except ShimFailed as error:
            self._event("Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
        else:
            return True
        self._held_until = services.clock.now() + _CONFIG_RETRY_SECONDS
        return False

    def _sandbox(self, pod: Object) -> dict[str, Any]:
        services = self._services
        return {
            "uid": self.uid,
            "namespace": meta.namespace(pod),
            "name": meta.name(pod),
            "node": pod["spec"]["nodeName"],
            "tier": services.chosen.tier,
            "user_namespace": services.chosen.user_namespace,
            "address": self.address,
            "hostname": host_name(pod),
            "hosts": str(self.directory.hosts),
            "hostname_file": str(self.directory.hostname),
            "past": self._records,
            "limits": services.limits.told(),
            "memory_volumes": [(str(self.directory.volume(name)), most) for name, most in in_memory(pod).items()],
            **services.network.sandbox(),
        }

    async def _end_sandbox(self) -> None:
        """End the shim and with it every process of the pod."""
        line, self._line = self._line, None
        if line is not None:
            line.send(do="stop")
            await line.ended()
            self._lost = False
            self._take_state(self.directory.read("state.json") or {})

    # -- containers --------------------------------------------------------------------------------------------

    async def _advance(self, pod: Object, made: PodPlan) -> None:
        now = self._services.clock.now()
        if made.start and self._held_until > now:
            return
        self._held_until = 0.0
        refused = {}
        for container in all_containers(pod):
            problem = refusal(pod, container, self._services.powers)
            if problem is not None:
                refused[container["name"]] = problem
                self._event("Warning", "Failed", f"Error: {problem.message}")
        self._waiting = refused
        startable = [(name, number) for name, number in made.start if name not in refused]
        if startable and self._line is None and not await self._make_sandbox(pod):
            return
        if startable:
            await self._start_containers(pod, startable)
        for name in made.stop:
            self._stop_later(pod, name)
        self._watch_containers(pod)

    async def _start_containers(self, pod: Object, wanted: list[tuple[str, int]]) -> None:
        setting = await self._setting(pod)
        containers = {one["name"]: one for one in all_containers(pod)}
        for name, number in wanted:
            if self._line is None or self._sent.get(name, -1) >= number:
                continue
            try:
                request = start_request(pod, containers[name], number, setting)
            except CannotStartContainer as error:
                self._waiting[name] = error.waiting
                reason = "InspectFailed" if error.waiting.reason == "InvalidImageName" else "Failed"
                self._event("Warning", reason, f"Error: {error.waiting.message}")
                self._held_until = self._services.clock.now() + _CONFIG_RETRY_SECONDS
                continue
            self.directory.write(f"containers/{name}/start.json", {"cwd": request["cwd"]})
            latest = self._attempts.latest(name)
            if latest is not None:
                known = self._backoffs.get(name, Backoff())
                self._backoffs[name] = known.restarted(latest.finished, self._services.clock.now())
            self._sent[name] = number
            self._line.send(**request)
            self._told.discard(("Normal", f"Started container {name}"))
            self._event("Normal", "Started", f"Started container {name}", again=True)

    async def _setting(self, pod: Object) -> ContainerSetting:
        services = self._services
        if self._volumes is None:
            self._volumes = await services.volumes.prepare(pod, self._downward())
        objects = await self._referenced(pod)
        namespace = meta.namespace(pod)
        return ContainerSetting(
            self.directory,
            services.chosen.tier,
            self._downward(),
            lambda kind, name: objects.get((kind, name)),
            self._volumes,
            services.images,
            services.default_directory,
            lambda name: services.names.resolve_from(namespace, name),
            services.directory.private,
            services.node_env,
            services.limits,
            services.gpus.take(pod),
        )

    async def _referenced(self, pod: Object) -> dict[tuple[str, str], Object]:
        """The ConfigMaps and Secrets that environments name."""
        wanted: set[tuple[str, str]] = set()
        for container in all_containers(pod):
            for source in container.get("envFrom") or ():
                wanted |= {("ConfigMap", source["configMapRef"]["name"])} if "configMapRef" in source else set()
                wanted |= {("Secret", source["secretRef"]["name"])} if "secretRef" in source else set()
            for variable in container.get("env") or ():
                origin = variable.get("valueFrom") or {}
                for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
                    if key in origin:
                        wanted.add((kind, origin[key].get("name", "")))
        found: dict[tuple[str, str], Object] = {}
        for kind, name in wanted:
            try:
                resource = CONFIG_MAPS if kind == "ConfigMap" else SECRETS
                got = await self._services.verbs.get(resource, name, meta.namespace(pod))
                found[kind, name] = {**got, "kind": kind}
            except ApiError as error:
                if error.code != 404:
                    raise
        return found

    def _downward(self) -> DownwardFacts:
        allocatable = (self._node.get("status") or {}).get("allocatable") or {}
        return DownwardFacts(self._services.network.host, self.address, allocatable)

    def _watch_containers(self, pod: Object) -> None:
        """Begin the hooks and probes of containers that have started."""
        local = self._services.local_pods.of(self.uid)
        if local is None:
            return
        for container in all_containers(pod):
            latest = self._attempts.latest(container["name"])
            if latest is None or not latest.running:
                continue
            prober = self._probers.get(container["name"])
            if prober is None or prober.attempt != latest.number:
                self._begin(pod, container, latest, local)

    def _begin(self, pod: Object, container: Object, attempt: Attempt, local: LocalPod) -> None:
        name = container["name"]

        def failed(kind: ProbeKind, problem: str, last: bool) -> None:
            self._event("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {problem}")
            if last:
                text = f"Container {name} failed {kind} probe, will be restarted"
                self._event("Normal", "Killing", text)
                self._stop_later(pod, name)

        before = _was_started(pod, name, attempt)
        self._probers[name] = Prober(
            local, container, attempt, self._services.clock, self._wake.set, failed, started_before=before
        )
        hook = (container.get("lifecycle") or {}).get("postStart")
        if hook and not before:
            self._hooks[name, attempt.number] = asyncio.create_task(self._post_start(pod, container, hook, local))

    async def _post_start(self, pod: Object, container: Object, hook: Object, local: LocalPod) -> None:
        try:
            await run_handler(local, container, hook, None)
        except Exception as error:
            self._event("Warning", "FailedPostStartHook", f"PostStartHook failed: {error}")
            self._stop_later(pod, container["name"])
        finally:
            self._wake.set()

    # -- stopping ----------------------------------------------------------------------------------------------

    def _stop_later(self, pod: Object, name: str) -> None:
        """Stop a container within the grace of its pod; it may start again."""
        latest = self._attempts.latest(name)
        if latest is None or not latest.running or (name, latest.number) in self._stops:
            return
        grace = float(pod["spec"].get("terminationGracePeriodSeconds", 30))
        end = self._services.clock.now() + grace
        self._stops[name, latest.number] = asyncio.create_task(self._stop(pod, name, latest.number, end))

    async def _stop(self, pod: Object, name: str, number: int, end: float | None = None) -> None:
        """preStop, SIGTERM, SIGKILL at the end of the grace, which may come nearer meanwhile."""
        container = next(one for one in all_containers(pod) if one["name"] == name)
        hook = (container.get("lifecycle") or {}).get("preStop")
        local = self._services.local_pods.of(self.uid)
        if hook and local is not None and self._runs(name, number):
            try:
                await run_handler(local, container, hook, max(1.0, self._left(end)))
            except Exception as error:
                self._event("Warning", "FailedPreStopHook", f"PreStopHook failed: {error}")
        self._send(do="signal", container=name, attempt=number, signal=_stop_signal(container))
        while self._runs(name, number):
            left = self._left(end)
            if left <= 0:
                self._send(do="kill", container=name, attempt=number)
                left = 1.0
            await self._until_changed(min(left, 1.0))

    def _left(self, end: float | None) -> float:
        return (self._grace_end if end is None else end) - self._services.clock.now()

    async def _until_changed(self, seconds: float) -> None:
        """Until the shim tells something new, at most so long."""
        news = self._news
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), seconds)

    def _runs(self, name: str, number: int) -> bool:
        latest = self._attempts.latest(name)
        return self._line is not None and latest is not None and latest.number == number and latest.running

    def _send(self, **command: Any) -> None:
        if self._line is not None:
            self._line.send(**command)

    async def _end(self, pod: Object) -> None:
        """End the pod: its containers at once, then its sidecars, last first; then the sandbox."""
        sidecars = [one["name"] for one in init_containers(pod) if is_sidecar(one)]
        others = [name for name in self._attempts.of_container if name not in sidecars]
        for name in self._attempts.of_container:
            if self._running_number(name) is not None:
                self._event("Normal", "Killing", f"Stopping container {name}")
        running = [(name, self._running_number(name)) for name in others]
        await asyncio.gather(*(self._stop(pod, name, number) for name, number in running if number is not None))
        for name in reversed(sidecars):
            if (number := self._running_number(name)) is not None:
                await self._stop(pod, name, number)
        await self._end_sandbox()
        self._wake.set()

    def _running_number(self, name: str) -> int | None:
        latest = self._attempts.latest(name)
        return latest.number if latest is not None and latest.running else None

    # -- status and the end ------------------------------------------------------------------------------------

    async def _report(self, pod: Object, facts: PodFacts, made: PodPlan) -> None:
        ended = self._ending is not None and self._ending.done()
        if self._ending is not None and not ended and not self._attempts.any_running():
            return  # the last status is written when nothing is left of the pod
        if ended:
            self._ending.result() if self._ending is not None else None
            made = replace(made, ended=self._outcome(pod))
            facts = self._facts()
        failure = self._failure if ended or not self._failure[0] else ("", "")
        where = Whereabouts(self._services.network.host, self.address, facts.now, self._waiting, failure)
        status = status_of(pod, facts, made, where, sandbox=self._line is not None)
        if failure == SHUTDOWN:
            status["conditions"].append(_disrupted(facts.now))
        changes = _changes(pod, status)
        if not changes:
            return
        body = {"metadata": {"uid": self.uid}, "status": changes}
        patch = Patch(PatchType.STRATEGIC, body)
        written = await self._services.verbs.patch(PODS, meta.name(pod), patch, meta.namespace(pod), "status")
        self._services.caches.observe(PODS, written)
        if self._pod is pod:
            self.changed(written)

    def _outcome(self, pod: Object) -> Any:
        latest = [self._attempts.latest(one["name"]) for one in pod["spec"]["containers"]]
        return "Succeeded" if all(one is not None and one.code == 0 for one in latest) else "Failed"

    async def _after_the_end(self, pod: Object) -> None:
        """The pod has its last status; its files stay for `kubectl logs` until the object goes."""
        await self._end_sandbox()
        if self.directory.shim_pid():
            await asyncio.to_thread(clear, self.directory)
        self._release()
        if meta.deleting(pod) and not self._removed:
            self._removed = True
            options = DeleteOptions(grace_period_seconds=0, uid=self.uid)
            with contextlib.suppress(ApiError):
                await self._services.verbs.delete(PODS, meta.name(pod), meta.namespace(pod), options)

    async def _remove_everything(self) -> None:
        """The object is gone: whatever still runs is killed at once."""
        if self._ending is not None:
            self._ending.cancel()
        await self._end_sandbox()
        await asyncio.to_thread(clear, self.directory)
        for tell in self._services.before_removal:
            tell(self.uid)
        await asyncio.to_thread(self.directory.remove)
        self._release()
        self.gone.set()

    def _release(self) -> None:
        self._services.network.release(self.uid)
        self._services.names.forget(self.uid)
        self._services.gpus.release(self.uid)

    def _event(self, kind: Any, reason: str, message: str, *, again: bool = False) -> None:
        """Tell the same thing once, unless it happened again."""
        if (kind, message) in self._told and not again:
            return
        self._told.add((kind, message))
        self._services.recorder.record(PODS, self._last, kind, reason, message)


def clear(directory: PodDirectory) -> None:
    """Whatever still runs of a pod whose shim is gone, and its control groups."""
    kill_marked(directory.uid + "/")
    remove_pod_groups(directory.read("sandbox.json") or {})


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _deadline(pod: Object) -> float | None:
    allowed, begin = pod["spec"].get("activeDeadlineSeconds"), (pod.get("status") or {}).get("startTime")
    return None if allowed is None or not begin else instant(begin) + float(allowed)


def _stop_signal(container: Object) -> int:
    name = (container.get("lifecycle") or {}).get("stopSignal") or "SIGTERM"
    return int(getattr(signal, name, signal.SIGTERM))


def _was_started(pod: Object, name: str, attempt: Attempt) -> bool:
    """Whether the status says that this attempt has passed its startup probe and hooks before."""
    status = pod.get("status") or {}
    for one in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if one.get("name") == name:
            return bool(one.get("started")) and one.get("restartCount") == attempt.number
    return False


def _killed(record: dict[str, Any]) -> dict[str, Any]:
    """The record of an attempt whose sandbox is gone."""
    if record["code"] is not None:
        return {**record, "past": True}
    return {
        **record,
        "past": True,
        "code": 128 + signal.SIGKILL,
        "signal": int(signal.SIGKILL),
        "finished": time.time(),
    }


def _disrupted(now: float) -> Object:
    return meta.condition("DisruptionTarget", "True", "TerminationByKubelet", SHUTDOWN[1], now)


def _changes(pod: Object, status: Object) -> Object:
    """The fields that differ from what the pod says; none if nothing does."""
    known = pod.get("status") or {}
    changed = {key: value for key, value in status.items() if key != "conditions" and known.get(key) != value}
    conditions = []
    for condition in status["conditions"]:
        old = meta.find_condition(pod, condition["type"]) or {}
        if any(old.get(field) != value for field, value in condition.items()):
            conditions.append(condition)
    if conditions:
        changed["conditions"] = conditions
    return changed
