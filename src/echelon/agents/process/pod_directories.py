"""Where the files of a pod are.  Everything else that deals with a pod on this machine finds them here.

    DATA/pods/UID/                      mode 0700
        sandbox.json                    what the pod is: namespace, name, node, tier, address, host name
        shim.json                       the shim: pid, start time, tier
        state.json                      what the shim remembers of every container
        control.sock                    commands to the shim
        hosts, hostname, resolv.conf    those of the pod in /etc
        logs/CONTAINER/ATTEMPT.log      newest; older pieces are ATTEMPT.log.<UTC time>, which sort by age
        containers/CONTAINER/           termination-log.ATTEMPT, stdin (a FIFO, if the container wants one)
        volumes/NAME/                   emptyDir, ConfigMap, Secret, projected and downward API volumes
        scratch/CONTAINER/              empty; mount points of the container are made here
    DATA/network/                       the holder of the pods' network (tier net)
    DATA/claims/NAMESPACE/NAME-UID/     what a PersistentVolumeClaim holds; lives as long as its volume

All of a pod goes when its object goes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .shim import kernel


@dataclass(frozen=True)
class PodDirectory:
    path: Path

    @property
    def uid(self) -> str:
        return self.path.name

    @property
    def hosts(self) -> Path:
        return self.path / "hosts"

    @property
    def hostname(self) -> Path:
        return self.path / "hostname"

    @property
    def resolver(self) -> Path:
        return self.path / "resolv.conf"

    def volume(self, name: str) -> Path:
        return self.path / "volumes" / name

    def container(self, name: str) -> Path:
        return self.path / "containers" / name

    def scratch(self, container: str) -> Path:
        return self.path / "scratch" / container

    def own(self, container: str) -> Path:
        """Where a container begins that nobody told where (`work`), and what it installs (`packages`)."""
        return self.path / "own" / container

    def termination_log(self, container: str, attempt: int) -> Path:
        return self.container(container) / f"termination-log.{attempt}"

    def log(self, container: str, attempt: int) -> Path:
        return self.path / "logs" / container / f"{attempt}.log"

    def forget_attempts(self, container: str, before: int) -> None:
        """Remove what older attempts have left: a container may restart for ever."""
        for path in (
            *self.log(container, 0).parent.glob("*.log*"),
            *self.container(container).glob("termination-log.*"),
        ):
            numbers = [part for part in path.name.split(".") if part.isdecimal()]
            if numbers and int(numbers[0]) < before:
                path.unlink(missing_ok=True)

    def read(self, name: str) -> dict[str, Any] | None:
        """`sandbox.json`, `shim.json` or `state.json`; None if it is not there."""
        try:
            found: dict[str, Any] = json.loads((self.path / name).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return found

    def write(self, name: str, content: dict[str, Any]) -> None:
        draft = self.path / f"{name}.draft"
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(content))
        draft.rename(self.path / name)

    def shim_pid(self) -> int:
        """The pid of the shim if it runs, 0 if not."""
        identity = self.read("shim.json")
        if identity is None or kernel.start_of(identity["pid"]) != identity["start"]:
            return 0
        pid: int = identity["pid"]
        return pid

    def make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def remove(self) -> None:
        remove_tree(self.path)


@dataclass(frozen=True)
class NodeDirectory:
    """The files of all process nodes of a plane."""

    path: Path

    def pod(self, uid: str) -> PodDirectory:
        return PodDirectory(self.path / "pods" / uid)

    def pods(self) -> Iterator[PodDirectory]:
        """Those that are there, whether their pod still exists or not."""
        folder = self.path / "pods"
        for path in sorted(folder.iterdir()) if folder.exists() else ():
            yield PodDirectory(path)

    def hidden_from_pods(self, needed: Iterable[str]) -> tuple[str, ...]:
        """All of it: the files of other pods, keys, the database with its Secrets, also what is made later.

        If something is in it that pods need, only what is known by name.
        """
        whole = os.path.realpath(self.path)
        if not any(f"{os.path.realpath(path)}/".startswith(f"{whole}/") for path in needed if path):
            return (whole,)
        names = ("pods", "claims", "network", "pki", "kubeconfig", "echelon.db", "echelon.db-wal", "echelon.db-shm")
        return tuple(f"{whole}/{name}" for name in names)

    @property
    def network(self) -> Path:
        return self.path / "network"

    @property
    def claims(self) -> Path:
        return self.path / "claims"

    def claim(self, namespace: str, name: str, uid: str) -> Path:
        return self.claims / namespace / f"{name}-{uid}"


def remove_tree(path: Path) -> None:
    """Also what a container made unreadable for its own user; never what symbolic links lead to."""
    shutil.rmtree(path, ignore_errors=True)
    if not path.is_dir():
        return
    path.chmod(0o700)
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = os.path.join(folder, name)
            if not os.path.islink(inner):
                with contextlib.suppress(OSError):
                    os.chmod(inner, 0o700)
    shutil.rmtree(path, ignore_errors=True)
