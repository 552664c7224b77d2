"""What administrators do and see: `echelon` commands, kubectl, all that there is, all that was refused."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

from .controlplane import ControlPlane
from .process import echelon

#: What a program logs when the server refuses it.
REFUSED = re.compile(r"forbidden|cannot (?:get|list|watch|create|update|patch|delete) resource", re.IGNORECASE)


async def run(plane: ControlPlane, *arguments: str) -> tuple[int, str]:
    async with echelon(*arguments, "--kubeconfig", plane.kubeconfig) as command:
        code = await command.wait()
    return code, "".join(command.said)


def kubectl_now(plane: ControlPlane, *arguments: str, given: str | None = None) -> str:
    """What an administrator's kubectl prints; `given` is its standard input."""
    command: list[str | Path] = [plane.kubectl, "--kubeconfig", plane.kubeconfig, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def kubectl(plane: ControlPlane, *arguments: str) -> str:
    return await asyncio.to_thread(kubectl_now, plane, *arguments)


async def everything(plane: ControlPlane, *, mutating: bool = True) -> set[str]:
    """Names of all objects that may not come and go by themselves; not all servers have `mutating` policies."""
    kinds = "ns,crd,clusterrole,clusterrolebinding,role,rolebinding,sa,deploy,rs,svc,cm,pdb,pod,lease,secret"
    kinds += ",validatingadmissionpolicy,validatingadmissionpolicybinding"
    if mutating:
        kinds += ",mutatingadmissionpolicy,mutatingadmissionpolicybinding"
    return set((await kubectl(plane, "get", kinds, "-A", "-o", "name")).split())


async def refusals(plane: ControlPlane) -> list[str]:
    """The server's own count of requests that its authorizer did not allow, by what it said."""
    lines = (await kubectl(plane, "get", "--raw", "/metrics")).splitlines()
    attempts = [line for line in lines if line.startswith("authorization_attempts_total{")]
    assert attempts
    return [line for line in attempts if 'result="allowed"' not in line]
