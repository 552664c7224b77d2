"""Finds out at the start which limits the kernel enforces for pods here, by trying it:

    a scope of systemd per pod  ─►  else control groups below our own  ─►  else memory is watched and CPU is not limited

Groups are made only where Echelon is at home: in the root of the tree that it sees, in a group that systemd delegated,
or in one that its user owns.  In a group that somebody else manages, it makes none.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from ..rules.limit_settings import EnforcedLimits, joined_problems
from ..shim.cgroups import remove_abandoned
from ..shim.launch import program

_CONTROLLERS = ("cpu", "memory", "cpuacct")
_SECONDS = 20.0


async def choose_limits(data: Path) -> EnforcedLimits:
    """For the pods of a data directory."""
    scope = scope_command()
    problem = ""
    if scope:
        offered = EnforcedLimits(2, scope=True, controllers=("cpu", "memory"))
        tried = await _tried(offered, scope)
        if tried.cpu and tried.memory:
            return tried
        problem = tried.problem
    version, places, foreign = own_places(_text("/proc/self/mountinfo"), _text("/proc/self/cgroup"))
    problems = [problem, *foreign]
    if not places:
        return EnforcedLimits(problem=joined_problems(problems) or "this machine has no control groups")
    await asyncio.to_thread(remove_abandoned, set(places.values()))
    folders = {controller: f"{place}/{_group_of(data)}" for controller, place in places.items()}
    found = await _tried(EnforcedLimits(version, folders=folders, controllers=tuple(folders)))
    return EnforcedLimits(
        found.version,
        folders={one: folders[one] for one in found.controllers},
        controllers=found.controllers,
        problem=joined_problems([*problems, found.problem]),
    )


def _group_of(data: Path) -> str:
    return f"echelon-{crc32(os.fsencode(data.resolve())):08x}"


def scope_command() -> list[str]:
    """How a program is started in a scope of its own; empty where systemd does not run."""
    tool = shutil.which("systemd-run")
    if tool is None or not os.path.isdir("/run/systemd/system"):
        return []
    whose = [] if os.geteuid() == 0 else ["--user"]
    return [tool, *whose, "--scope", "--quiet", "--collect", "-p", "Delegate=yes", "--"]


async def _tried(offered: EnforcedLimits, before: list[str] | None = None) -> EnforcedLimits:
    sandbox = json.dumps({"uid": f"trial-{os.getpid()}", "limits": offered.told()})
    process = await asyncio.create_subprocess_exec(
        *(before or ()),
        *program("limits_trial", sandbox),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, said = await asyncio.wait_for(process.communicate(), _SECONDS)
    except TimeoutError:
        process.kill()
        return EnforcedLimits(problem="the trial of limits did not end")
    if process.returncode != 0:
        return EnforcedLimits(problem=said.decode(errors="replace").strip()[-200:] or "the trial of limits failed")
    answer: dict[str, Any] = json.loads(out)
    problems = [f"{name}: {why}" for name, why in answer["problems"].items() if name != "cpuacct"]
    working = tuple(answer["working"])
    return EnforcedLimits(
        offered.version if working else 0, offered.scope, offered.folders, working, joined_problems(problems)
    )


def own_places(mounts: str, membership: str) -> tuple[int, dict[str, str], list[str]]:
    """Version, controller → the folder in which we may make groups, and why some controllers have none.

    From the text of /proc/self/mountinfo and /proc/self/cgroup.
    """
    paths: dict[str, str] = {}
    for line in membership.splitlines():
        _, trees, path = line.split(":", 2)
        paths |= dict.fromkeys(trees.split(","), path)
    found: dict[str, str] = {}
    problems: list[str] = []
    version = 0
    for tree, kind, root, mount in _mounted(mounts):
        if version == 2 and kind == 1:
            break  # what is left of version 1 has other controllers
        path = paths.get(tree, "/")
        if path != root and not path.startswith(root.rstrip("/") + "/"):
            continue
        folder = mount + path[len(root.rstrip("/")) :].rstrip("/")
        if kind == 2:
            offered = _text(f"{folder}/cgroup.controllers").split()
            names = [name for name in _CONTROLLERS if name in offered]
        else:
            names = [tree]
        if names and not is_home(path, root, folder):
            problems.append(f"{' and '.join(names)}: the control group {path} of Echelon is managed by somebody else")
            continue
        for name in names:
            found.setdefault(name, folder)
            version = max(version, kind)
    return (version, found, problems) if found else (0, {}, problems)


def _mounted(mounts: str) -> Iterator[tuple[str, int, str, str]]:
    """Controller ("" for all), version, root and mount point of every tree; version 2 first."""
    found = []
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        root, mount = left.split()[3:5]
        kind, _, options = right.split()[:3]
        if kind == "cgroup2":
            found.append(("", 2, root, mount))
        elif kind == "cgroup":
            found += [(name, 1, root, mount) for name in options.split(",") if name in _CONTROLLERS]
    return iter(sorted(found, key=lambda one: (-one[1], one[0])))


def is_home(path: str, root: str, folder: str) -> bool:
    """Whether the groups below a folder are ours to make."""
    if path in ("/", root):
        return os.access(folder, os.W_OK)
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(folder, name) == b"1":
                return os.access(folder, os.W_OK)
        except OSError:
            continue
    try:
        owner = os.stat(folder).st_uid
    except OSError:
        return False
    return owner == os.geteuid() != 0


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
