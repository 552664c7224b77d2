"""Clocks of running systems: the wall, possibly sped up, and the time of a virtual event loop."""

from __future__ import annotations

import asyncio
import time


class RealClock:
    """The wall clock; with `speed` N every waited second lasts 1/N of a real one, and stamps keep pace."""

    def __init__(self, speed: float = 1.0) -> None:
        if speed <= 0:
            raise ValueError(f"speed must be above 0, not {speed}")
        self._speed = speed
        self._wall_start = time.time()
        self._start = time.monotonic()

    def now(self) -> float:
        return self._wall_start + (time.monotonic() - self._start) * self._speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self._speed)


class LoopClock:
    """The time of the running event loop, counted from `epoch`: virtual on a `VirtualLoop`."""

    def __init__(self, epoch: float = 1_800_000_000.0) -> None:
        self._epoch = epoch

    def now(self) -> float:
        return self._epoch + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
