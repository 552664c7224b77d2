"""Time as a parameter.

Everything in Echelon that waits or writes timestamps takes a `Clock`.  `RealClock` and the clock of the virtual
event loop are in `runtime.clocks`; `ManualClock` is for tests of pure code.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The only source of time; it may run faster than real time (`--speed`) or jump (virtual time)."""

    def now(self) -> float:
        """Seconds since the Unix epoch, never going backwards within a process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for that many seconds of this clock."""
        ...


class ManualClock:
    """A clock that moves only when told to; sleeping on it advances it."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"cannot advance a clock by {seconds} s: must not be negative")
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        self.advance(max(0.0, seconds))
