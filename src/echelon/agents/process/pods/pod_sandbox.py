"""The sandbox of one pod: its files, its address, and the shim under which its containers run.

    PodWorker ─► make ─► volumes, names, sandbox.json ─► shim ─► start, signal, kill ─► containers
              ◄─ changed ◄─ the shim's state: the attempts of each container ◄┘

A shim outlives its worker: the next one finds it by its files (`attach`).  What ran under a shim that was killed is
dead, and recorded so (`bury`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....api.objects import meta
from ....api.scheme import Object
from ..pod_directories import PodDirectory
from ..resources.limit_choice import scope_command
from ..rules.attempts import Attempt, Attempts, all_containers, attempts_from
from ..rules.container_env import DownwardFacts
from ..rules.empty_dirs import in_memory
from ..rules.host_names import inner_host_name, network_name
from ..rules.kubelet_status import is_over
from ..rules.resolver_file import resolver_file
from ..shim.cgroups import remove_pod_groups
from ..shim.main import kill_descendants, kill_marked
from ..shim_lines import ShimLine, start_shim
from .node_services import NodeServices
from .termination_messages import termination_message

#: What does not mean that there is no other side of a connection; the last one: others stand before it already.
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN)


class PodSandbox:
    """What there is of a pod on this machine, and what its containers did so far."""

    #: Seconds that a shim may take to begin to talk, and to kill what runs in it: then it is killed itself.
    patience = 30.0

    def __init__(self, services: NodeServices, pod: Object, node: Object, changed: Callable[[], None]) -> None:
        """`changed` is called whenever the shim has told something, or is gone."""
        self._services = services
        #: Its newest version.
        self.pod = pod
        self._node = node
        self._changed = changed
        self.uid = meta.uid(pod)
        self.directory = services.directory.pod(self.uid)
        self.address = ""
        self.attempts = Attempts()
        #: The attempt of each container that the shim was last told to start.
        self.sent: dict[str, int] = {}
        #: Whether the shim is gone without having said its last word.
        self.lost = False
        #: Whether output of containers could not be written to their logs.
        self.has_lost_logs = False
        self._line: ShimLine | None = None
        #: To a shim that was told to stop and has not ended yet.
        self._leaving: ShimLine | None = None
        #: Whether the last state that was taken is the last one of its shim.
        self._heard_end = False
        self._records: list[dict[str, Any]] = []
        self._messages: dict[tuple[str, int], str] = {}
        self._volumes: dict[str, str] | None = None
        #: Set and replaced whenever the shim tells something.
        self._news = asyncio.Event()

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self._line is not None

    def running_number(self, name: str) -> int | None:
        """The attempt of a container that runs; None if none does."""
        latest = self.attempts.latest(name)
        return latest.number if latest is not None and latest.running else None

    def runs(self, name: str, number: int) -> bool:
        return self.is_up and self.running_number(name) == number

    def is_unanswered(self, name: str) -> bool:
        """Whether the shim was told to start a container and has not said that it did."""
        latest = self.attempts.latest(name)
        return self.is_up and name in self.sent and (latest is None or latest.number < self.sent[name])

    async def until_changed(self, seconds: float) -> None:
        """Until the shim tells something new, at most so long."""
        news = self._news
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()

    def downward(self) -> DownwardFacts:
        allocatable = (self._node.get("status") or {}).get("allocatable") or {}
        return DownwardFacts(self._services.network.host, self.address, allocatable)

    async def volumes(self) -> dict[str, str]:
        """The files of its volumes, by name; made if an earlier worker did that."""
        if self._volumes is None:
            self._volumes = await self._services.volumes.prepare(self.pod, self.downward())
        return self._volumes

    # -- doing -------------------------------------------------------------------------------------------------

    def send(self, **command: Any) -> None:
        if self._line is not None:
            self._line.send(**command)

    async def attach(self) -> None:
        """Find what an earlier worker left: a shim that runs, or the records of one that is gone.

        OSError if this cannot be known now: of a shim that runs more must not be lost than the way to it.
        """
        sandbox = self.directory.read("sandbox.json")
        if sandbox is None:
            return
        self.address = sandbox["address"]
        if not is_over(self.pod):  # else it has given its address back, and another pod may have it
            self._services.network.keep(self.uid, self.address)
            self._services.names.keep(self.pod, self.address, self.directory.hosts)
        if self.directory.shim_pid():
            try:
                await self._connect()
                return
            except OSError as error:
                if error.errno in _SHORTAGES:
                    raise
        state = self.directory.read("state.json") or {}
        self._take_state(_of_the_past(state) if state.get("stopped") else state)
        self.lost = not state.get("stopped")

    async def make(self) -> None:
        """Files and a shim; raises BadVolume or ShimFailed if there cannot be any."""
        services, pod = self._services, self.pod
        self.sent.clear()
        self.directory.make()
        self.address = services.network.allocate(self.uid, network_name(pod))
        self._volumes = await services.volumes.prepare(pod, self.downward())
        await services.network.start()
        services.names.keep(pod, self.address, self.directory.hosts)
        self.directory.hostname.write_text(inner_host_name(pod) + "\n")
        self.directory.resolver.write_text(resolver_file(pod, services.network.resolver_text()))
        self.directory.write("sandbox.json", self._description())
        async with services.starting:
            await start_shim(self.directory, scope_command() if services.limits.scope else [])
        await self._connect()

    async def bury(self) -> bool:
        """The shim was killed: what ran in it is dead, as a container runtime would report it.

        False if it had ended by itself.
        """
        self.lost = False
        await asyncio.to_thread(clear, self.directory)
        state = self.directory.read("state.json") or {}
        if state.get("stopped"):
            self._take_state(_of_the_past(state))
            return False
        records = [_killed(record) for record in state.get("attempts") or ()]
        if records:
            self.directory.write("state.json", {"stopped": True, "attempts": records})
        self._take_state({"stopped": True, "attempts": records})
        self.sent.clear()
        return True

    async def end(self) -> None:
        """End the shim and with it every process of the pod; may be cancelled, and asked for again."""
        line = self._leaving = self._line or self._leaving
        self._line = None
        if line is None:
            return
        line.send(do="stop")
        if not await line.ended(self.patience):
            await self._kill_shim(line)
            await self.bury()
        elif not self._heard_end:  # else the last state has been told, also if the disk is full
            self._take_state(self.directory.read("state.json") or {})
        self.lost = False
        self._leaving = None

    async def give_up(self) -> None:
        """Kill a shim that does not do what it is told; what ran in it is buried as if somebody else had done so."""
        if self._line is not None:
            await self._kill_shim(self._line)

    async def _kill_shim(self, line: ShimLine) -> None:
        """With all that runs in it: nobody would find a daemon without its mark later."""
        pid = self.directory.shim_pid()
        if pid:
            await asyncio.to_thread(kill_descendants, pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await line.ended(self.patience)
        line.close()

    def let_go(self) -> None:
        """Leave the shim to itself; it goes on."""
        for line in (self._line, self._leaving):
            if line is not None:
                line.close()

    def release(self) -> None:
        """Give back what others may have."""
        self._services.network.release(self.uid)
        self._services.names.forget(self.uid)
        self._services.gpus.release(self.uid)

    # -- the shim ----------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        heard = asyncio.Event()

        def changed(state: Any) -> None:
            if state is None:
                self._line = None
                self.lost = True
                self._tell_news()
            else:
                self._take_state(state)
            heard.set()
            self._changed()

        line = self._line = await ShimLine.open(self.directory, changed)
        try:
            async with asyncio.timeout(self.patience):
                await heard.wait()
        except TimeoutError:
            self._line = None
            await self._kill_shim(line)
            raise OSError("the shim did not answer and was killed") from None

    def _take_state(self, state: dict[str, Any]) -> None:
        self._tell_news()
        self._heard_end = bool(state.get("stopped"))
        self.lost = self.lost and not state.get("stopped")
        self.has_lost_logs = bool(state.get("lost_log_bytes"))
        self._records = state.get("attempts") or []
        found = attempts_from(self._records, self._services.ahead)
        known = {(one.container, one.number) for listed in found.of_container.values() for one in listed}
        self._messages = {key: text for key, text in self._messages.items() if key in known}
        self.attempts = self._with_messages(found)

    def _tell_news(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _with_messages(self, found: Attempts) -> Attempts:
        containers = {one["name"]: one for one in all_containers(self.pod)}
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

    def _description(self) -> dict[str, Any]:
        """What the shim must know."""
        services, pod = self._services, self.pod
        own_resolver = services.chosen.tier == "net" or pod["spec"].get("dnsConfig")
        return {
            "uid": self.uid,
            "namespace": meta.namespace(pod),
            "name": meta.name(pod),
            "node": pod["spec"]["nodeName"],
            "tier": services.chosen.tier,
            "user_namespace": services.chosen.user_namespace,
            "address": self.address,
            "hostname": inner_host_name(pod),
            "hosts": str(self.directory.hosts),
            # That of the machine may change, as when a laptop moves: who asks for nothing sees the file itself.
            "resolver": str(self.directory.resolver) if own_resolver else "",
            "hostname_file": str(self.directory.hostname),
            "past": self._records,
            "temporary": services.temporary,
            "limits": services.limits.told(),
            "memory_volumes": [(str(self.directory.volume(name)), most) for name, most in in_memory(pod).items()],
            **services.network.sandbox(),
        }


def clear(directory: PodDirectory) -> None:
    """Whatever still runs of a pod whose shim is gone, and its control groups."""
    kill_marked(directory.uid + "/")
    remove_pod_groups(directory.read("sandbox.json") or {})


def _of_the_past(state: dict[str, Any]) -> dict[str, Any]:
    """What a sandbox that has ended by itself has said: the next one begins with its init containers."""
    return {**state, "attempts": [{**record, "past": True} for record in state.get("attempts") or ()]}


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
