"""Tries which limits the kernel enforces in a given place, in a process of its own that then ends."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

from .cgroups import CgroupFolders, Setting, make_pod_groups, pass_on

_SETTINGS: dict[str, list[list[Setting]]] = {
    "cpu": [[("cpu", "cpu.cfs_quota_us", "50000")], [("cpu", "cpu.max", "50000 100000")]],
    "memory": [
        [("memory", "memory.limit_in_bytes", str(64 << 20))],
        [("memory", "memory.max", str(64 << 20))],
    ],
    "cpuacct": [[], []],
}


def main(arguments: list[str]) -> None:
    """`limits_trial SANDBOX`: writes the controllers that work and what stands against the others, as JSON."""
    sandbox: dict[str, Any] = json.loads(arguments[0])
    said = sandbox["limits"]
    working: list[str] = []
    problems: dict[str, str] = {}
    for controller in said["controllers"]:
        try:
            _try(sandbox, said, controller)
            working.append(controller)
        except OSError as error:
            problems[controller] = error.strerror or str(error)
    json.dump({"working": working, "problems": problems}, sys.stdout)


def _try(sandbox: dict[str, Any], said: dict[str, Any], controller: str) -> None:
    folders = {controller: said["folders"][controller]} if not said.get("scope") else {}
    if said["version"] == 2 and folders:
        # The group that this one is made in belongs to this user, or the place would not have been offered.
        pass_on(os.path.dirname(folders[controller]), [controller])
    groups = make_pod_groups({**sandbox, "limits": {**said, "folders": folders, "controllers": [controller]}})
    assert groups is not None
    container = groups.below("trial")
    try:
        container.make()
        settings = _SETTINGS[controller][said["version"] - 1]
        for one in settings:
            if not os.path.exists(f"{container.folders[controller]}/{one[1]}"):
                raise OSError(f"there is no {one[1]}")
        container.set(settings)
        _try_to_join(container)
    finally:
        container.remove()
        if folders:
            groups.remove()
            for folder in folders.values():
                with contextlib.suppress(OSError):
                    os.rmdir(folder)


def _try_to_join(container: CgroupFolders) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            container.join()
            code = 0
        except OSError as error:
            code = error.errno or 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, os.strerror(code))
