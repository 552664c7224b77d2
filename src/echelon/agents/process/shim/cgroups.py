"""Control groups of the kernel, in which limits take effect: one per pod, and below it one per attempt of a container.

    DELEGATED/echelon-DATA/UID/CONTAINER.ATTEMPT        where this user may make groups
    SCOPE/CONTAINER.ATTEMPT                             where systemd made a scope for the shim; it goes with the pod

With version 2 all controllers share a folder, with version 1 each has its own.  Groups are removed by the shim; by the
agent, if the shim was killed; by the next agent of any data directory, if their own was removed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: A controller, one of its files, and what to write there.
Setting = tuple[str, str, str]
_SECONDS, _PAUSE = 10.0, 0.005
#: Attribute of the group of a data directory: its path.
_OWNER = "user.echelon.data"


class CgroupFolders:
    """The folders of one group, by controller."""

    def __init__(self, version: int, folders: Mapping[str, str]) -> None:
        self.version = version
        self.folders = dict(folders)

    def below(self, name: str) -> CgroupFolders:
        return CgroupFolders(self.version, {key: f"{folder}/{name}" for key, folder in self.folders.items()})

    @property
    def unique(self) -> list[str]:
        return sorted(set(self.folders.values()))

    def make(self, *, for_others: bool = False) -> None:
        """`for_others`: groups below it get controllers too, which version 2 wants to be said."""
        for folder in self.unique:
            os.makedirs(folder, exist_ok=True)
            if for_others and self.version == 2:
                pass_on(folder, self.folders)

    def set(self, settings: Iterable[Setting]) -> None:
        """Write what there is a controller and a file for."""
        for controller, name, value in settings:
            path = f"{self.folders.get(controller, '')}/{name}"
            if controller in self.folders and os.path.exists(path):
                _write(path, value)

    def join(self) -> None:
        join(self.unique)

    def out_of_memory(self) -> bool:
        """Whether the kernel killed a process of the group for its memory."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return _field(f"{self.folders.get('memory', '')}/{name}", "oom_kill") > 0

    def use(self) -> tuple[int | None, int | None]:
        """Nanoseconds of CPU and bytes of memory without idle pages of files; None where no controller counts them."""
        cpu, memory = None, None
        if self.version == 2 and self.folders:
            cpu = _field(f"{self.unique[0]}/cpu.stat", "usage_usec") * 1000
        elif "cpuacct" in self.folders:
            cpu = _number(f"{self.folders['cpuacct']}/cpuacct.usage")
        if "memory" in self.folders:
            folder = self.folders["memory"]
            whole = _number(f"{folder}/{'memory.current' if self.version == 2 else 'memory.usage_in_bytes'}")
            idle = _field(f"{folder}/memory.stat", "inactive_file" if self.version == 2 else "total_inactive_file")
            memory = max(0, whole - idle)
        return cpu, memory

    def remove(self) -> None:
        """End whatever is in the group and take it away, with all below it."""
        for folder in self.unique:
            remove(folder)


def pod_groups(sandbox: Mapping[str, Any]) -> CgroupFolders | None:
    """The group of a pod as its sandbox says; None where limits have none, or systemd keeps them in a scope."""
    said = sandbox.get("limits") or {}
    return CgroupFolders(said["version"], said["folders"]).below(sandbox["uid"]) if said.get("folders") else None


def make_pod_groups(sandbox: Mapping[str, Any]) -> CgroupFolders | None:
    """In the shim, before it forks: the group that those of its containers are made in."""
    said = sandbox.get("limits") or {}
    if said.get("scope"):
        own = own_scope()
        CgroupFolders(2, {"": f"{own}/shim"}).make()
        join([f"{own}/shim"])
        pass_on(own, said["controllers"])
        return CgroupFolders(2, dict.fromkeys(said["controllers"], own))
    groups = pod_groups(sandbox)
    if groups is not None:
        whole = CgroupFolders(groups.version, said["folders"])
        whole.make(for_others=True)
        for folder in whole.unique:
            with contextlib.suppress(OSError):
                os.setxattr(folder, _OWNER, os.fsencode(os.path.dirname(os.path.dirname(os.getcwd()))))
        groups.make(for_others=True)
    return groups


def remove_pod_groups(sandbox: Mapping[str, Any]) -> None:
    """And the group that holds all pods, if this was the last one."""
    groups = pod_groups(sandbox)
    if groups is None:
        return
    groups.remove()
    for folder in groups.unique:
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(folder))


def remove_abandoned(folders: Iterable[str]) -> None:
    """Groups in these folders whose data directory was removed, after shims were killed that would have seen it."""
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir() and not os.path.exists(os.getxattr(entry.path, _OWNER)):
                        remove(entry.path)


def container_groups(sandbox: Mapping[str, Any], name: str, attempt: int, pid: int) -> CgroupFolders | None:
    """Of a running container, for whoever is outside of it; in a scope they are found by its main process."""
    said = sandbox.get("limits") or {}
    if said.get("scope"):
        try:
            return CgroupFolders(2, dict.fromkeys(said["controllers"], own_scope(pid)))
        except OSError:
            return None
    groups = pod_groups(sandbox)
    return groups.below(f"{name}.{attempt}") if groups is not None else None


def own_scope(pid: int | str = "self") -> str:
    """The folder of a process in the tree of version 2."""
    with open(f"/proc/{pid}/cgroup") as file:
        path = next(line.strip()[3:] for line in file if line.startswith("0::"))
    for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        if os.path.exists(f"{root}{path}/cgroup.procs"):
            return f"{root}{path}".rstrip("/")
    raise OSError("the folder of this control group is not to be found")


def pass_on(folder: str, controllers: Iterable[str]) -> None:
    """Version 2: groups below this one get the controllers."""
    for controller in controllers:
        if controller:
            _write(f"{folder}/cgroup.subtree_control", f"+{controller}")


def join(folders: Sequence[str]) -> None:
    """This process moves there; 0 stands for itself in whatever namespace it is."""
    for folder in folders:
        _write(f"{folder}/cgroup.procs", "0")


def remove(folder: str) -> None:
    pause, deadline = 0.0, time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        _kill(folder)
        with contextlib.suppress(OSError):
            with os.scandir(folder) as entries:
                inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            for path in inner:
                remove(path)
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(pause)  # the kernel takes a moment to let go of what was killed
            pause = _PAUSE
        else:
            return


def _kill(folder: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        with open(f"{folder}/cgroup.procs") as file:
            pids = [int(line) for line in file]
        for pid in pids:
            if pid not in (0, os.getpid()):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _number(path: str) -> int:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def _field(path: str, name: str) -> int:
    try:
        with open(path) as file:
            return next((int(line.split()[1]) for line in file if line.startswith(f"{name} ")), 0)
    except (OSError, ValueError):
        return 0
