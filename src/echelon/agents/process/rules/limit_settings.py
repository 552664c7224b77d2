"""Requests and limits of a container as the kernel takes them, and what a node says about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ....api.scheme import Object
from ....base import quantity

_PERIOD = 100_000
_LEAST_SHARES, _MOST_SHARES = 2, 262_144
_LEAST_QUOTA = 1_000
WATCHED = "memory limits are watched: a container over its limit is killed within about a second"


@dataclass(frozen=True)
class EnforcedLimits:
    """What the kernel of this machine enforces for pods, found by a trial."""

    #: Of control groups; 0 if there are none for us.
    version: int = 0
    #: Whether every shim runs in a scope that systemd makes for it.
    scope: bool = False
    #: Controller → the folder that the groups of pods are made in.
    folders: dict[str, str] = field(default_factory=dict)
    controllers: tuple[str, ...] = ()
    #: Why it is not more.
    problem: str = ""

    @property
    def cpu(self) -> bool:
        return "cpu" in self.controllers

    @property
    def memory(self) -> bool:
        return "memory" in self.controllers

    def told(self) -> dict[str, Any]:
        """For the sandbox of a pod."""
        return {
            "version": self.version,
            "scope": self.scope,
            "folders": self.folders,
            "controllers": list(self.controllers),
        }


def limit_settings(container: Object, enforced: EnforcedLimits) -> list[tuple[str, str, str]]:
    """Controller, file and content, as a kubelet sets them."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    made: list[tuple[str, str, str]] = []
    request, limit = requests.get("cpu", limits.get("cpu", "0")), limits.get("cpu")
    shares = min(_MOST_SHARES, max(_LEAST_SHARES, quantity.parse(request, "cpu") * 1024 // 1000))
    quota = max(_LEAST_QUOTA, quantity.parse(limit, "cpu") * _PERIOD // 1000) if limit is not None else None
    memory = quantity.parse(limits["memory"]) if "memory" in limits else None
    if enforced.version == 2:
        made.append(("cpu", "cpu.weight", str(_weight(shares))))
        made += [("cpu", "cpu.max", f"{quota} {_PERIOD}")] if quota is not None else []
        if memory is not None:
            whole = [("memory.max", memory), ("memory.swap.max", 0), ("memory.oom.group", 1)]
            made += [("memory", name, str(value)) for name, value in whole]
    else:
        made.append(("cpu", "cpu.shares", str(shares)))
        if quota is not None:
            made += [("cpu", "cpu.cfs_period_us", str(_PERIOD)), ("cpu", "cpu.cfs_quota_us", str(quota))]
        made += [("memory", "memory.limit_in_bytes", str(memory))] if memory is not None else []
    return [one for one in made if one[0] in enforced.controllers]


def _weight(shares: int) -> int:
    """The same share of the processors in the scale of version 2."""
    return 1 + (shares - 2) * 9999 // 262_142


def limit_words(enforced: EnforcedLimits) -> tuple[str, str, str]:
    """Status, reason and message of the condition."""
    how = "scopes of systemd" if enforced.scope else f"control groups (version {enforced.version})"
    why = f" ({enforced.problem})" if enforced.problem else ""
    rest = "ephemeral storage limits are not enforced"
    if enforced.cpu and enforced.memory:
        return "True", "ControlGroups", f"CPU and memory limits are enforced by {how}; {rest}"
    if enforced.cpu:
        return "True", "PartlyWatched", f"CPU limits are enforced by {how}; {WATCHED}{why}; {rest}"
    if enforced.memory:
        return "False", "NoCpuLimits", f"memory limits are enforced by {how}; CPU limits are not enforced{why}; {rest}"
    return "False", "Watched", f"{WATCHED}; CPU limits are not enforced{why}; {rest}"


def joined_problems(problems: Collection[str]) -> str:
    return "; ".join(dict.fromkeys(problem for problem in problems if problem))
