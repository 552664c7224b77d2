"""What pods and this machine use: measured every few seconds, as rates between the last two measurements."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

from ....api.running_pods import PodUse, Use
from ..local_pods import LocalPods
from ..measuring import ContainerUse, ProcessTable

_INTERVAL_SECONDS = 15.0
#: A first look soon after the start, so that `kubectl top` has something to say.
_FIRST_SECONDS = 2.0
_TICKS = os.sysconf("SC_CLK_TCK")
_BILLION = 10**9


@dataclass(frozen=True)
class _Sample:
    at: float
    #: Uid of a pod → container → use since its start.
    pods: dict[str, dict[str, ContainerUse]]
    machine: ContainerUse


class Samples:
    """The last two measurements."""

    def __init__(self, pods: LocalPods, now: Callable[[], float]) -> None:
        self._pods = pods
        self._now = now
        self._before: _Sample | None = None
        self._last: _Sample | None = None

    async def run(self) -> None:
        wait = _FIRST_SECONDS
        while True:
            self._before, self._last = self._last, await asyncio.to_thread(self._measured)
            await asyncio.sleep(wait)
            wait = _INTERVAL_SECONDS if self._before is not None else _FIRST_SECONDS

    def pod(self, uid: str) -> PodUse | None:
        if self._last is None or self._before is None or uid not in self._last.pods:
            return None
        seconds = self._last.at - self._before.at
        before, last = self._before.pods.get(uid, {}), self._last.pods[uid]
        used = {name: _rate(before.get(name), use, seconds) for name, use in last.items()}
        return PodUse(used, self._last.at, seconds) if used else None

    def node(self, name: str) -> PodUse | None:
        """All process nodes are this machine: each uses what the whole machine does."""
        if self._last is None or self._before is None:
            return None
        seconds = self._last.at - self._before.at
        return PodUse({name: _rate(self._before.machine, self._last.machine, seconds)}, self._last.at, seconds)

    def _measured(self) -> _Sample:
        processes = ProcessTable.read()
        uses = {pod.directory.uid: pod.uses(processes) for pod in self._pods.all()}
        return _Sample(self._now(), uses, _machine())


def _rate(before: ContainerUse | None, last: ContainerUse, seconds: float) -> Use:
    since = last.cpu_nanoseconds - (before.cpu_nanoseconds if before is not None else 0)
    return Use(max(0, int(since / max(seconds, 0.001))), last.memory_bytes)


def _machine() -> ContainerUse:
    with open("/proc/stat") as file:
        user, nice, system, _idle, _wait, irq, soft = map(int, file.readline().split()[1:8])
    with open("/proc/meminfo") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}
    busy = (user + nice + system + irq + soft) * (_BILLION // _TICKS)
    return ContainerUse(busy, sizes["MemTotal"] - sizes["MemAvailable"], 0)
