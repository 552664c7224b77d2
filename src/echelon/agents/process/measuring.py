"""What the processes of containers use, from /proc."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from .shim.container_process import MARK

_TICK_NANOSECONDS = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ContainerUse:
    """Of a container: CPU time since its start, and resident memory without pages of files."""

    cpu_nanoseconds: int
    memory_bytes: int
    processes: int


@dataclass
class ProcessEntry:
    """A process of this machine."""

    parent: int
    ticks: int
    pages: int


@dataclass(frozen=True)
class ProcessTable:
    """All processes of this machine at one moment: read once for all pods."""

    entries: Mapping[int, ProcessEntry]
    children: Mapping[int, list[int]]

    @classmethod
    def read(cls) -> ProcessTable:
        entries = _processes()
        children: dict[int, list[int]] = {}
        for pid, process in entries.items():
            children.setdefault(process.parent, []).append(pid)
        return cls(entries, children)


def measure(roots: Mapping[str, int], shim: int, processes: ProcessTable) -> dict[str, ContainerUse]:
    """Container → use.  `roots` are the main processes, by the pids of the machine; orphans hang below the shim."""
    table, children = processes.entries, processes.children
    owner = {pid: name for name, pid in roots.items()}
    for orphan in children.get(shim, ()):
        if orphan not in owner and (name := _container_of(orphan)) in roots:
            owner[orphan] = name
    found: dict[str, ContainerUse] = {}
    for name in roots:
        pids = [pid for start, whose in owner.items() if whose == name for pid in _tree(start, children, table)]
        ticks = sum(table[pid].ticks for pid in pids)
        pages = sum(table[pid].pages for pid in pids)
        found[name] = ContainerUse(ticks * _TICK_NANOSECONDS, pages * _PAGE, len(pids))
    return found


def _tree(root: int, children: Mapping[int, list[int]], table: Mapping[int, ProcessEntry]) -> list[int]:
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        if pid in table:
            found.append(pid)
        todo += children.get(pid, ())
    return found


def _processes() -> dict[int, ProcessEntry]:
    table: dict[int, ProcessEntry] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            with open(f"/proc/{name}/statm", "rb") as file:
                sizes = file.read().split()
        except OSError:
            continue
        # Children that were waited for count with their parent.
        ticks = sum(int(field) for field in fields[11:15])
        table[int(name)] = ProcessEntry(int(fields[1]), ticks, max(0, int(sizes[1]) - int(sizes[2])))
    return table


def _container_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return ""
    mark = next((entry for entry in entries if entry.startswith(MARK.encode() + b"=")), b"")
    parts = mark.decode(errors="replace").split("/")
    return parts[1] if len(parts) == 3 else ""
