"""One pod on this machine, from its binding to its removal: the shell around `rules.pod_plan`.

    pod changed ┐                       ┌─ sandbox: files, volumes, shim (`pod_sandbox`)
    shim's state├─► sync ─► plan ───────┼─ containers: start, stop
    probe, timer┘                       └─ status, when it differs from what the pod says

It keeps nothing that is not also on disk or in the pod's status, except back-off and probe counts: so it can be stopped
at any moment, and another one that takes over finds the shim and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import Any

from ....api.errors import ApiError, said
from ....api.objects import meta
from ....api.scheme import PODS, Object
from ....api.verbs import DeleteOptions, Patch, PatchType
from ....base import quantity
from ....base.instants import parse as instant
from ..local_pods import LocalPod
from ..measuring import ProcessTable
from ..rules.attempts import Attempt, all_containers, init_containers, is_sidecar
from ..rules.empty_dirs import on_disk, too_large
from ..rules.kubelet_status import Waiting, Whereabouts, changes, deadline, health_before, identity, is_over, status_of
from ..rules.pod_plan import PodFacts, PodPlan, plan
from ..rules.probe_state import FIELDS, ProbeHealth, ProbeKind
from ..rules.refusals import refusal
from ..rules.restart_backoff import Backoff
from ..shim_lines import ShimFailed
from ..volume_files import BadVolume, has_files, size_of
from .container_requests import CannotStartContainer, facts_for_clients, start_request, stop_signal
from .container_settings import container_setting
from .node_services import NodeServices
from .pod_sandbox import PodSandbox, clear
from .probing import HandlerFailed, Prober, run_handler
from .told_failures import ToldFailures

log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.5, 30.0
_CONFIG_RETRY_SECONDS = 5.0
#: Files of ConfigMaps and Secrets are brought up to date this often.
REFRESH_SECONDS = 30.0
#: As a kubelet: whatever hooks and others have taken of the grace, a container may react to its signal.
LEAST_GRACE_SECONDS = 2.0
#: A probe may find other words for every failure.
_MOST_REMEMBERED = 200
_DEADLINE = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
SHUTDOWN = ("Terminated", "Pod was terminated in response to imminent node shutdown.")


class PodWorker:
    """Use `start`, then `changed` for every version of the pod; it ends by itself when the pod is gone."""

    def __init__(self, services: NodeServices, pod: Object, node: Object) -> None:
        self._services = services
        self.uid = meta.uid(pod)
        self._sandbox = PodSandbox(services, pod, node, self._heard)
        self._pod: Object | None = pod
        self._last = pod
        self._wake = asyncio.Event()
        self._wake.set()
        self._timer: asyncio.TimerHandle | None = None
        self._backoffs: dict[str, Backoff] = {}
        self._probers: dict[str, Prober] = {}
        self._waiting: dict[str, Waiting] = {}
        self._held_until = 0.0
        self._hooks: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._stops: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._ending: asyncio.Task[None] | None = None
        self._failure = ("", "")
        self._grace_end = 0.0
        self._asked_at = 0.0
        self._refresh_at = 0.0
        self._removed = False
        #: In the order in which it was told first.
        self._told: dict[tuple[str, str], None] = {}
        self._told_failures = ToldFailures()
        #: Container → the attempt that was to be started, and was not told of yet; the one whose wait was told of.
        self._unannounced: dict[str, int] = {}
        self._backed_off: dict[str, int] = {}
        self.gone = asyncio.Event()
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
        used = local.uses(processes) if local is not None and self._sandbox.is_up else {}
        for name, limit in self.memory_limits.items():
            number = self._sandbox.running_number(name)
            if number is not None and name in used and used[name].memory_bytes > limit:
                self._sandbox.send(do="kill", container=name, attempt=number, out_of_memory=True)

    async def check_volumes(self) -> None:
        """Evict the pod if one of its empty directories is larger than it may be."""
        if not self._sandbox.is_up or self._failure[0]:
            return
        sizes = {
            name: await asyncio.to_thread(size_of, self._sandbox.directory.volume(name)) for name in on_disk(self._last)
        }
        message = too_large(self._last, sizes)
        if message:
            self._failure = ("Evicted", message)
            self._event("Warning", "Evicted", message)
            self._wake.set()

    def uses_claim(self, namespace: str, name: str) -> bool:
        """Whether the pod has a claim among its volumes and is not over."""
        volumes = self._last["spec"].get("volumes") or ()
        names = [(volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes]
        return meta.namespace(self._last) == namespace and name in names and not is_over(self._last)

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(self._run(), name=f"pod-{meta.name(self._last)}")

    def changed(self, pod: Object | None) -> None:
        """A newer version of the pod; None when it is gone."""
        self._pod = pod
        self._last = pod or self._last
        if meta.uid(self._last) == self.uid:
            self._sandbox.pod = self._last
        self._wake.set()

    def shut_down(self) -> None:
        """The node goes away: end the pod within its grace and say why."""
        if not self._failure[0] and self._pod is not None and not is_over(self._pod):
            self._failure = SHUTDOWN
        self._wake.set()

    def kill(self) -> None:
        """End the pod at once, whatever grace it has left."""
        if self._sandbox.is_up:
            if self._ending is not None:
                self._ending.cancel()
            self._ending = asyncio.create_task(self._sandbox.end(), name="kill")
            self._ending.add_done_callback(lambda _: self._wake.set())

    async def idle(self) -> None:
        """Wait until nothing of the pod runs and its status says so."""
        while not self.gone.is_set() and (self._sandbox.is_up or not (self._pod is None or is_over(self._pod))):
            await self._synced.wait()
            self._synced.clear()

    async def _run(self) -> None:
        retry = _FIRST_RETRY_SECONDS
        try:
            await self._attach()
            while not self.gone.is_set():
                await self._wake.wait()
                self._wake.clear()
                try:
                    await self._sync()
                    retry = _FIRST_RETRY_SECONDS
                except (ApiError, OSError) as error:
                    if not isinstance(error, ApiError) or error.code not in (404, 409):
                        log.warning("pod %s: %s", meta.key(self._last), said(error))
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

    async def _attach(self) -> None:
        """Nothing is decided about a pod before it is known what runs of it."""
        retry = _FIRST_RETRY_SECONDS
        while True:
            try:
                return await self._sandbox.attach()
            except OSError as error:
                log.warning("pod %s: its sandbox cannot be reached now: %s", meta.key(self._last), error)
            await self._services.clock.sleep(retry)
            retry = min(retry * 2, _LAST_RETRY_SECONDS)

    def _let_go(self) -> None:
        """Leave the pod to itself; its shim goes on."""
        for task in (*self._hooks.values(), *self._stops.values(), self._ending):
            if task is not None:
                task.cancel()
        for prober in self._probers.values():
            prober.close()
        self._sandbox.let_go()
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
        if self._sandbox.lost and await self._sandbox.bury() and self._ending is None:
            self._event("Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
        self._forget_what_ended()
        self._begin_the_end_again()
        if is_over(pod):
            await self._after_the_end(pod)
            return
        self._look_for_the_end(pod)
        self._watch_containers(pod)
        facts = self._facts()
        made = self._planned(pod, facts) if self._ending is None else PodPlan()
        if self._ending is None and made.ended is None:
            await self._advance(pod, made)
            facts = self._facts()
        self._tell_back_offs(pod, made)
        if made.ended is not None:
            await self._sandbox.end()
        elif self._refresh_at and self._refresh_at <= facts.now:
            self._refresh_at = facts.now + REFRESH_SECONDS
            await self._services.volumes.refresh(pod, self._sandbox.downward())
        await self._report(pod, facts, made)
        self._set_timer(pod, made)

    def _facts(self) -> PodFacts:
        health: dict[str, ProbeHealth] = {}
        for name in self._sandbox.attempts.of_container:
            latest, prober = self._sandbox.attempts.latest(name), self._probers.get(name)
            if latest is not None and latest.running:
                # Before its probes have begun a container is neither started nor ready.
                begun = prober is not None and prober.attempt == latest.number
                health[name] = prober.health if begun and prober is not None else ProbeHealth(False, False)
        for (name, _), hook in self._hooks.items():
            if not hook.done():
                health[name] = ProbeHealth(started=False, ready=False)
        now = self._services.clock.now()
        return PodFacts(self._sandbox.attempts, now, health, self._backoffs, sandbox=self._sandbox.is_up)

    def _planned(self, pod: Object, facts: PodFacts) -> PodPlan:
        """What is to be done, without what the shim was told to do and has not answered yet."""
        made = plan(pod, facts)
        for name in filter(self._sandbox.is_unanswered, self._sandbox.sent):
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
        elif not self._failure[0] and (latest := deadline(pod)) is not None and latest <= now:
            self._failure = _DEADLINE
        if self._ending is None and (meta.deleting(pod) or self._failure[0]):
            if not meta.deleting(pod):
                self._grace_end = now + float(pod["spec"].get("terminationGracePeriodSeconds", 30))
                self._event("Normal", "Killing", self._failure[1])
            self._ending = asyncio.create_task(self._end(pod), name="end")
            self._ending.add_done_callback(lambda _: self._wake.set())

    def _begin_the_end_again(self) -> None:
        """If it failed, as on a full disk: it is tried again after a while, and the next step begins it."""
        ending = self._ending
        if (
            ending is not None
            and ending.done()
            and not ending.cancelled()
            and (error := ending.exception()) is not None
        ):
            self._ending = None
            raise error

    def _set_timer(self, pod: Object, made: PodPlan) -> None:
        moments = [made.wake_at]
        if self._ending is None:  # else nothing is started any more
            moments += [deadline(pod), self._held_until or None]
        if self._sandbox.is_up and any(has_files(volume) for volume in pod["spec"].get("volumes") or ()):
            self._refresh_at = self._refresh_at or self._services.clock.now() + REFRESH_SECONDS
            moments.append(self._refresh_at)
        due = min((moment for moment in moments if moment is not None), default=None)
        if due is not None:
            self._wake_in(due - self._services.clock.now())

    # -- the sandbox -------------------------------------------------------------------------------------------

    def _heard(self) -> None:
        self._forget_what_ended()
        self._announce_starts()
        if self._sandbox.has_lost_logs:
            self._event("Warning", "LogLost", "output of containers is lost: their logs cannot be written (disk full?)")
        self._wake.set()

    def _announce_starts(self) -> None:
        """Of the containers that the shim was told to start and says that it has, or that it cannot."""
        for name, number in list(self._unannounced.items()):
            latest = self._sandbox.attempts.latest(name)
            if latest is None or latest.number < number:
                continue
            del self._unannounced[name]
            if latest.error:
                self._event("Warning", "Failed", f"Error: {latest.error}", again=True)
            else:
                self._event("Normal", "Started", f"Started container {name}", again=True)

    def _tell_back_offs(self, pod: Object, made: PodPlan) -> None:
        """Once for each attempt that has to wait."""
        for name in made.held_back:
            latest = self._sandbox.attempts.latest(name)
            if latest is not None and self._backed_off.get(name) != latest.number:
                self._backed_off[name] = latest.number
                message = f"Back-off restarting failed container {name} in pod {identity(pod)}"
                self._event("Warning", "BackOff", message, again=True)

    def _forget_what_ended(self) -> None:
        """Probes of containers that have ended, and hooks and stops that are done: a container may restart for ever."""
        for name, prober in list(self._probers.items()):
            if self._sandbox.running_number(name) != prober.attempt:
                prober.close()
                del self._probers[name]
        for tasks in (self._hooks, self._stops):
            for (name, number), task in list(tasks.items()):
                if self._sandbox.running_number(name) != number and (task.done() or tasks is self._hooks):
                    task.cancel()  # a hook that fails now would stop the next attempt
                    del tasks[name, number]

    async def _make_sandbox(self) -> bool:
        """Whether the pod has a sandbox now; if not, the reason was told and it is tried again later."""
        try:
            await self._sandbox.make()
        except BadVolume as error:
            self._event("Warning", "FailedMount", str(error))
        except ShimFailed as error:
            self._event("Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
        else:
            return True
        self._held_until = self._services.clock.now() + _CONFIG_RETRY_SECONDS
        return False

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
        if startable and not self._sandbox.is_up and not await self._make_sandbox():
            return
        if startable:
            await self._start_containers(pod, startable)
        for name in made.stop:
            self._stop_later(pod, name)
        self._watch_containers(pod)

    async def _start_containers(self, pod: Object, wanted: list[tuple[str, int]]) -> None:
        try:
            setting = await container_setting(self._services, self._sandbox, pod)
        except BadVolume as error:
            self._event("Warning", "FailedMount", str(error))
            self._held_until = self._services.clock.now() + _CONFIG_RETRY_SECONDS
            return
        containers = {one["name"]: one for one in all_containers(pod)}
        for name, number in wanted:
            if not self._sandbox.is_up or self._sandbox.sent.get(name, -1) >= number:
                continue
            try:
                request = start_request(pod, containers[name], number, setting)
            except CannotStartContainer as error:
                self._waiting[name] = error.waiting
                reason = "InspectFailed" if error.waiting.reason == "InvalidImageName" else "Failed"
                self._event("Warning", reason, f"Error: {error.waiting.message}")
                self._held_until = self._services.clock.now() + _CONFIG_RETRY_SECONDS
                continue
            facts = facts_for_clients(pod, containers[name], request)
            self._sandbox.directory.write(f"containers/{name}/start.json", facts)
            latest = self._sandbox.attempts.latest(name)
            if latest is not None:
                known = self._backoffs.get(name, Backoff())
                self._backoffs[name] = known.restarted(latest.finished, self._services.clock.now())
            self._warn_of_taken_ports(containers[name])
            self._sandbox.sent[name] = number
            self._sandbox.send(**request)
            self._unannounced[name] = number

    def _warn_of_taken_ports(self, container: Object) -> None:
        """The program may still listen on the address of its pod alone: it is started."""
        tier = self._services.chosen.tier
        for port in self._services.network.taken_ports(container):
            self._event(
                "Warning",
                "PortInUse",
                f"port {port} of container {container['name']} is in use on this machine, and in tier {tier} all pods "
                "share its ports: listen on the address of the pod (status.podIP), take another, or use --tier net",
            )

    def _watch_containers(self, pod: Object) -> None:
        """Begin the hooks and probes of containers that have started."""
        local = self._services.local_pods.of(self.uid)
        if local is None:
            return
        for container in all_containers(pod):
            latest = self._sandbox.attempts.latest(container["name"])
            if latest is None or not latest.running:
                continue
            prober = self._probers.get(container["name"])
            if prober is None or prober.attempt != latest.number:
                self._begin(pod, container, latest, local)

    def _begin(self, pod: Object, container: Object, attempt: Attempt, local: LocalPod) -> None:
        name = container["name"]

        def failed(kind: ProbeKind, problem: str, last: bool) -> None:
            if self._ending is not None and kind != "readiness":
                return  # who is asked to end may close its ports first
            if self._told_failures.takes(self._services.clock.now()):
                self._event("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {problem}", again=True)
            if last:
                text = f"Container {name} failed {kind} probe, will be restarted"
                self._event("Normal", "Killing", text, again=True)
                self._stop_later(pod, name, container[FIELDS[kind]].get("terminationGracePeriodSeconds"))

        before = health_before(pod, name, attempt)
        self._probers[name] = Prober(local, container, attempt, self._services.clock, self._wake.set, failed, before)
        hook = (container.get("lifecycle") or {}).get("postStart")
        if hook and not before.started:
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

    def _stop_later(self, pod: Object, name: str, grace: float | None = None) -> None:
        """Stop a container within this grace, else that of its pod; it may start again."""
        latest = self._sandbox.attempts.latest(name)
        if latest is None or not latest.running or (name, latest.number) in self._stops or self._ending is not None:
            return
        allowed = pod["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
        end = self._services.clock.now() + float(allowed)
        self._stops[name, latest.number] = asyncio.create_task(self._stop(pod, name, latest.number, end))

    async def _stop(self, pod: Object, name: str, number: int, end: float | None = None) -> None:
        """preStop, SIGTERM, SIGKILL at the end of the grace, which may come nearer meanwhile."""
        container = next(one for one in all_containers(pod) if one["name"] == name)
        hook = (container.get("lifecycle") or {}).get("preStop")
        local = self._services.local_pods.of(self.uid)
        if hook and local is not None and self._sandbox.runs(name, number):
            try:
                await self._pre_stop(local, container, hook, end)
            except Exception as error:
                self._event("Warning", "FailedPreStopHook", f"PreStopHook failed: {error}")
        self._sandbox.send(do="signal", container=name, attempt=number, signal=stop_signal(container))
        least = self._services.clock.now() + LEAST_GRACE_SECONDS
        while self._sandbox.runs(name, number):
            left = max(self._left(end), self._left(least))
            if left <= -self._sandbox.patience:
                await self._sandbox.give_up()
            elif left <= 0:
                self._sandbox.send(do="kill", container=name, attempt=number)
                left = 1.0
            await self._sandbox.until_changed(min(left, 1.0))

    async def _pre_stop(self, local: LocalPod, container: Object, hook: Object, end: float | None) -> None:
        """Until the hook is done or the grace over, at least a second."""
        least = self._services.clock.now() + 1.0
        running = asyncio.create_task(run_handler(local, container, hook, None), name="preStop")
        try:
            while not running.done():
                left = max(self._left(end), self._left(least))
                if left <= 0:
                    raise HandlerFailed("it was not done when the grace was over")
                await asyncio.wait({running}, timeout=min(left, 1.0))
            await running
        finally:
            running.cancel()

    def _left(self, end: float | None) -> float:
        return (self._grace_end if end is None else end) - self._services.clock.now()

    async def _end(self, pod: Object) -> None:
        """End the pod: its containers at once, then its sidecars, last first; then the sandbox."""
        await self._until_starts_are_answered()
        sidecars = [one["name"] for one in init_containers(pod) if is_sidecar(one)]
        others = [name for name in self._sandbox.attempts.of_container if name not in sidecars]
        for name in self._sandbox.attempts.of_container:
            if self._sandbox.running_number(name) is not None:
                self._event("Normal", "Killing", f"Stopping container {name}")
        running = [(name, self._sandbox.running_number(name)) for name in others]
        await asyncio.gather(*(self._stop(pod, name, number) for name, number in running if number is not None))
        for name in reversed(sidecars):
            if (number := self._sandbox.running_number(name)) is not None:
                await self._stop(pod, name, number)
        await self._sandbox.end()

    async def _until_starts_are_answered(self) -> None:
        """A container that the shim is about to start has its grace too."""
        while any(map(self._sandbox.is_unanswered, self._sandbox.sent)) and (left := self._left(None)) > 0:
            await self._sandbox.until_changed(min(left, 1.0))

    # -- status and the end ------------------------------------------------------------------------------------

    async def _report(self, pod: Object, facts: PodFacts, made: PodPlan) -> None:
        ended = self._ending is not None and self._ending.done()
        if self._ending is not None and not ended and not self._sandbox.attempts.any_running():
            return  # the last status is written when nothing is left of the pod
        if ended:
            made = replace(made, ended=self._outcome(pod))
            facts = self._facts()
        failure = self._failure if ended or not self._failure[0] else ("", "")
        where = Whereabouts(self._services.network.host, self._sandbox.address, facts.now, self._waiting, failure)
        status = status_of(pod, facts, made, where, sandbox=self._sandbox.is_up)
        if failure == SHUTDOWN:
            disrupted = meta.condition("DisruptionTarget", "True", "TerminationByKubelet", SHUTDOWN[1], facts.now)
            status["conditions"].append(disrupted)
        changed = changes(pod, status)
        if not changed:
            return
        body = {"metadata": {"uid": self.uid}, "status": changed}
        patch = Patch(PatchType.STRATEGIC, body)
        written = await self._services.verbs.patch(PODS, meta.name(pod), patch, meta.namespace(pod), "status")
        self._services.caches.observe(PODS, written)
        if self._pod is pod:
            self.changed(written)

    def _outcome(self, pod: Object) -> Any:
        latest = [self._sandbox.attempts.latest(one["name"]) for one in pod["spec"]["containers"]]
        return "Succeeded" if all(one is not None and one.code == 0 for one in latest) else "Failed"

    async def _after_the_end(self, pod: Object) -> None:
        """The pod has its last status; its files stay for `kubectl logs` until the object goes."""
        await self._sandbox.end()
        if self._sandbox.directory.shim_pid():
            await asyncio.to_thread(clear, self._sandbox.directory)
        self._sandbox.release()
        if meta.deleting(pod) and not self._removed:
            self._removed = True
            options = DeleteOptions(grace_period_seconds=0, uid=self.uid)
            with contextlib.suppress(ApiError):
                await self._services.verbs.delete(PODS, meta.name(pod), meta.namespace(pod), options)

    async def _remove_everything(self) -> None:
        """The object is gone: whatever still runs is killed at once."""
        if self._ending is not None:
            self._ending.cancel()
        await self._sandbox.end()
        await asyncio.to_thread(clear, self._sandbox.directory)
        for tell in self._services.before_removal:
            tell(self.uid)
        await asyncio.to_thread(self._sandbox.directory.remove)
        self._sandbox.release()
        self.gone.set()

    def _event(self, kind: Any, reason: str, message: str, *, again: bool = False) -> None:
        """Tell the same thing once, unless it happened again."""
        if (kind, message) in self._told and not again:
            return
        self._told[kind, message] = None
        if len(self._told) > _MOST_REMEMBERED:
            del self._told[next(iter(self._told))]
        self._services.recorder.record(PODS, self._last, kind, reason, message)
