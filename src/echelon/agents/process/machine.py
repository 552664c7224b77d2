"""What this machine has and allows: processors, memory, GPUs, and the tier in which pods can run."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from typing import Literal, get_args

from ...base import quantity
from .resources.gpu_allotment import GPU
from .shim.holder import may_administer
from .shim.launch import program

Tier = Literal["net", "names", "plain"]
TIERS: tuple[Tier, ...] = get_args(Tier)
_SECONDS = 20.0


class NoProcessNodes(Exception):
    """This machine cannot run pods as processes, or not as asked; the message is for the user."""


@dataclass(frozen=True)
class ChosenTier:
    tier: Tier
    #: Why it is not a better one; "" if there is no better one, or it was asked for.
    reason: str
    #: Whether pods are in a user namespace, where this user is root.
    user_namespace: bool


async def choose_tier(asked: Tier | Literal["auto"]) -> ChosenTier:
    """The best tier that this machine allows; one that was asked for and is not possible raises NoProcessNodes."""
    if not sys.platform.startswith("linux"):
        raise NoProcessNodes("process nodes need Linux: use --nodes simulated on this machine")
    nested = not may_administer()
    if asked == "plain":
        return ChosenTier("plain", "", user_namespace=False)
    reasons: list[str] = []
    for tier in TIERS[:-1] if asked == "auto" else (asked,):
        problem = await _tried(tier)
        if not problem:
            return ChosenTier(tier, "; ".join(reasons), user_namespace=nested)
        reasons.append(f"{tier}: {problem}")
    if asked != "auto":
        raise NoProcessNodes(f"--tier {reasons[0]}; --tier auto chooses what this machine allows")
    return ChosenTier("plain", "; ".join(reasons), user_namespace=False)


async def _tried(tier: Tier) -> str:
    """What stands against a tier; "" if nothing does."""
    process = await asyncio.create_subprocess_exec(
        *program("trial", tier), stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        _, said = await asyncio.wait_for(process.communicate(), _SECONDS)
    except TimeoutError:
        process.kill()
        return "the trial did not end"
    return "" if process.returncode == 0 else said.decode(errors="replace").strip() or "the trial failed"


async def capacity() -> dict[str, str]:
    """Processors that this process may use, memory (of the machine or of its cgroup), room for pods, GPUs."""
    found = {
        "cpu": str(len(os.sched_getaffinity(0))),
        "memory": quantity.canonical(f"{_memory_bytes() // 1024}Ki"),
        "ephemeral-storage": quantity.canonical(f"{shutil.disk_usage('/').total // 1024}Ki"),
        "pods": "110",
    }
    gpus = await _gpus()
    return found | ({GPU: str(gpus)} if gpus else {})


def shared(amounts: dict[str, str], nodes: int) -> dict[str, str]:
    """What each of so many nodes of this machine gets: the same part of everything, and room for pods of its own."""
    if nodes <= 1:
        return amounts
    parts: dict[str, str] = {}
    for name, amount in amounts.items():
        part = quantity.parse(amount, name) // nodes
        parts[name] = amount if name == "pods" else quantity.spelt(name, part)
    return parts


def _memory_bytes() -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdecimal():
            total = min(total, int(text))
    return total


async def _gpus() -> int:
    """As nvidia-smi counts them; 0 without it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    process = await asyncio.create_subprocess_exec(
        tool, "-L", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), _SECONDS)
    except TimeoutError:
        process.kill()
        return 0
    return sum(line.startswith(b"GPU ") for line in said.splitlines()) if process.returncode == 0 else 0


def node_info() -> dict[str, str]:
    """The `nodeInfo` of this machine's nodes."""
    system = platform.freedesktop_os_release() if os.path.exists("/etc/os-release") else {}
    return {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "bootID": _first_line("/proc/sys/kernel/random/boot_id"),
        "containerRuntimeVersion": "process://1",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "machineID": _first_line("/etc/machine-id"),
        "operatingSystem": "linux",
        "osImage": system.get("PRETTY_NAME", "Linux"),
        "systemUUID": _first_line("/etc/machine-id"),
    }


def _first_line(path: str) -> str:
    try:
        with open(path) as file:
            return file.readline().strip()
    except OSError:
        return ""
