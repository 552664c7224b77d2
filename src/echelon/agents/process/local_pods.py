"""The pods that run on this machine, for whatever serves them to users: logs, exec, attach, port-forward, metrics.

    LocalPods.find(namespace, name) ─► LocalPod ─┬─ attempt(container, previous=…)     whose log is read
                                                 ├─ exec_command(container, argv)      what to start, and how
                                                 ├─ stdin(container)                   where a container reads from
                                                 ├─ connect(port)                      a socket to the pod
                                                 └─ uses()                             measured CPU and memory

Everything comes from the files of the pod (see `pod_directories`), so it is there again after a restart of Echelon, and
for pods that have ended, until their object is deleted.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .measuring import ContainerUse, ProcessTable, measure
from .pod_directories import NodeDirectory, PodDirectory
from .pod_network import PodNetwork
from .rules.attempts import Attempt, attempts_from
from .shim import kernel
from .shim.cgroups import CgroupFolders, container_groups
from .shim.launch import program
from .shim_lines import connect_in

#: Where the interpreter may need it to begin; nothing else of Echelon's environment gets near a container.
_OWN_ENVIRONMENT = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


class NoSuchContainer(Exception):
    """The pod has no container of that name, or it has not been started."""


class ContainerNotRunning(Exception):
    """The container has ended or not been started; the message says so."""


@dataclass(frozen=True)
class Launch:
    """A program to start so that it runs inside a container.

    Start `argv` with exactly `env`, and TERM where you give it a terminal; the program has the environment of the
    container.  Its standard streams are those of the program, a terminal if you give it one (in a session of its own,
    whose terminal it then is).  It ends with the program's exit code, and with 128 + n after signal n.  Signals that
    are sent to it reach the program.
    """

    argv: list[str]
    env: Mapping[str, str]


@dataclass(frozen=True)
class LocalPod:
    """A pod on this machine."""

    directory: PodDirectory
    network: PodNetwork
    namespace: str
    name: str
    node: str
    tier: str
    address: str
    user_namespace: bool
    sandbox: Mapping[str, Any]

    # -- containers --------------------------------------------------------------------------------------------

    def attempt(self, container: str, *, previous: bool = False, waiting: bool = False) -> Attempt:
        """The newest attempt of a container or the previous one.

        While a container is `waiting` to be started again, its previous attempt is the newest one, as its status says.
        """
        state = self.directory.read("state.json") or {}
        known = attempts_from(state.get("attempts") or (), 0.0)
        found = known.latest(container)
        if previous and not (waiting and found is not None and not found.running):
            found = known.before_latest(container)
        if found is None:
            what = "previous terminated container" if previous else "container"
            raise NoSuchContainer(f'{what} "{container}" in pod "{self.name}" not found')
        return found

    def is_running(self, container: str, number: int | None = None) -> bool:
        """Whether a container runs, or this very attempt of it; not once the files of the pod are gone."""
        try:
            newest = self.attempt(container)
        except NoSuchContainer:
            return False
        return newest.running and number in (None, newest.number) and self.directory.shim_pid() > 0

    # -- exec, attach, port-forward ----------------------------------------------------------------------------

    def exec_command(self, container: str, argv: Iterable[str]) -> Launch:
        """How to run a program in a running container: its namespaces, files, environment and working directory."""
        attempt = self.attempt(container)
        if not attempt.running:
            raise ContainerNotRunning(f'container "{container}" in pod "{self.name}" is not running')
        if kernel.start_of(attempt.pid) != attempt.start:
            raise ContainerNotRunning(f'container "{container}" in pod "{self.name}" is not running')
        cwd = self._started(container).get("cwd", "/")
        where = f"{attempt.pid}:{attempt.start}"
        groups = self._groups(attempt)
        limited = ":".join(groups.unique) if groups is not None else ""
        facts = str(self.directory.path / _started_file(container))
        return Launch(program("enter", where, cwd, self._namespaces(), limited, facts, "--", *argv), _OWN_ENVIRONMENT)

    def _groups(self, attempt: Attempt) -> CgroupFolders | None:
        return container_groups(self.sandbox, attempt.container, attempt.number, attempt.pid)

    def _namespaces(self) -> str:
        if self.tier == "plain":
            return "none"
        names = ["user"] if self.user_namespace else []
        names += ["net"] if self.tier == "net" else []
        return ",".join([*names, "ipc", "uts", "pid", "mnt"])

    def stdin(self, container: str) -> Path | None:
        """A FIFO whose content the container reads; None unless its spec says `stdin: true`."""
        path = self.directory.container(container) / "stdin"
        return path if path.exists() else None

    def has_terminal(self, container: str) -> bool:
        return bool(self._started(container).get("tty"))

    def reads_once(self, container: str) -> bool:
        """Whether its input ends with the first client that was attached to it."""
        return bool(self._started(container).get("stdin_once"))

    def _started(self, container: str) -> Mapping[str, Any]:
        return self.directory.read(_started_file(container)) or {}

    def tell_shim(self, attempt: Attempt, **command: Any) -> None:
        """OSError if there is none any more."""
        told = {**command, "container": attempt.container, "attempt": attempt.number}
        # One that does not answer must not hold up whoever asks: everything else runs in the same thread.
        with connect_in(str(self.directory.path), "control.sock", wait=False) as line:
            line.sendall(json.dumps(told).encode() + b"\n")

    async def connect(self, port: int) -> socket.socket:
        """A connected, non-blocking socket to a port of the pod; OSError if nothing listens."""
        if not self.directory.shim_pid():
            raise OSError(errno.ECONNREFUSED, "the pod does not run")  # and another one may have its address by now
        return await self.network.connect(self.address, port)

    # -- use ---------------------------------------------------------------------------------------------------

    def uses(self, processes: ProcessTable | None = None) -> dict[str, ContainerUse]:
        """Container → what its processes have used, for those that run; two calls give a rate of CPU.

        Who asks for many pods reads the processes of the machine once and passes them.
        """
        running: dict[str, Attempt] = {}
        for record in (self.directory.read("state.json") or {}).get("attempts") or ():
            if record["code"] is None:
                running[record["container"]] = next(
                    iter(attempts_from([record], 0.0).of_container[record["container"]])
                )
        roots = {name: attempt.pid for name, attempt in running.items()}
        found = measure(roots, self.directory.shim_pid(), processes or ProcessTable.read()) if roots else {}
        return {name: self._counted(running[name], use) for name, use in found.items()}

    def _counted(self, attempt: Attempt, seen: ContainerUse) -> ContainerUse:
        """What the kernel counted, where it does: also of processes that have ended meanwhile."""
        groups = self._groups(attempt)
        cpu, memory = groups.use() if groups is not None else (None, None)
        return ContainerUse(
            seen.cpu_nanoseconds if cpu is None else max(cpu, seen.cpu_nanoseconds),
            seen.memory_bytes if memory is None else memory,
            seen.processes,
        )


def _started_file(container: str) -> str:
    return f"containers/{container}/start.json"


class LocalPods:
    """All pods on this machine, by namespace and name."""

    def __init__(self, directory: NodeDirectory, network: PodNetwork) -> None:
        self.directory = directory
        self._network = network

    def find(self, namespace: str, name: str, uid: str) -> LocalPod | None:
        """The pod of an object; None if it never ran here."""
        del namespace, name  # the uid is enough, and a new pod of the same name is another one
        return self.of(uid)

    def of(self, uid: str) -> LocalPod | None:
        directory = self.directory.pod(uid)
        sandbox = directory.read("sandbox.json")
        if sandbox is None:
            return None
        return LocalPod(
            directory,
            self._network,
            sandbox["namespace"],
            sandbox["name"],
            sandbox["node"],
            sandbox["tier"],
            sandbox["address"],
            sandbox["user_namespace"],
            sandbox,
        )

    def all(self) -> list[LocalPod]:
        found = (self.of(directory.uid) for directory in self.directory.pods())
        return [pod for pod in found if pod is not None]
