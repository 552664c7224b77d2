"""Virtual time: an event loop that jumps to the next timer as soon as nothing is ready.

With seeded uids, an inline store and no threads, a control plane on this loop repeats byte for byte.  An hour of
cluster time takes only as long as the work done in it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: the program would wait without end."""


class _JumpingSelector(selectors.DefaultSelector):
    """Advances the time instead of sleeping."""

    elapsed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set")
        self.elapsed += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is virtual; use it through `run`."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.elapsed


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
