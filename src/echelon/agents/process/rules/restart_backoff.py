"""When a container that has ended may start again: at once the first time, then after 10, 20, 40 … 300 seconds.

As a kubelet does, which forgets it when it is restarted itself, and when a container has run for ten minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_SECONDS, LAST_SECONDS = 10.0, 300.0
_FORGET_SECONDS = 2 * LAST_SECONDS


@dataclass(frozen=True)
class Backoff:
    """Of one container: the delay after its next end, and when it last grew."""

    delay: float = 0.0
    since: float = 0.0

    def restart_at(self, finished: float) -> float:
        return finished if finished - self.since > _FORGET_SECONDS else finished + self.delay

    def delay_after(self, finished: float) -> float:
        return self.restart_at(finished) - finished

    def restarted(self, finished: float, now: float) -> Backoff:
        """After it was started again."""
        forgotten = finished - self.since > _FORGET_SECONDS
        delay = FIRST_SECONDS if forgotten or not self.delay else min(self.delay * 2, LAST_SECONDS)
        return Backoff(delay, now)
