"""Clocks of running planes: real time, possibly sped up, and the time of a virtual event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot() -> float:
    """Seconds that pass also while the machine is suspended, where the system counts them."""
    return time.clock_gettime(_SINCE_BOOT)


class RealClock:
    """Real time from `start` on (None: now); with `speed` N, N seconds of this clock pass in one real second.

    `passed` counts real seconds, and is not set by anybody; None: `time.monotonic`.
    """

    def __init__(
        self, speed: float = 1.0, start: float | None = None, passed: Callable[[], float] | None = None
    ) -> None:
        if speed <= 0:
            raise ValueError(f"speed must be greater than 0, got {speed}")
        self.speed = speed
        self._start = time.time() if start is None else start
        self._passed = passed or time.monotonic
        self._began = self._passed()

    def now(self) -> float:
        return self._start + (self._passed() - self._began) * self.speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self.speed)


class LoopClock:
    """The time of the running event loop, counted from `epoch`: virtual on a `VirtualLoop`."""

    def __init__(self, epoch: float = 1_800_000_000.0) -> None:
        self._epoch = epoch

    def now(self) -> float:
        return self._epoch + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
