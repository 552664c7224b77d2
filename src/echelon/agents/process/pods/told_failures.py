"""How many failures of probes are told of a pod, as client-go limits them: one that fails for ever tells little."""

from __future__ import annotations

#: As client-go: so many at once, then one in so many seconds.
_AT_ONCE, _SECONDS_FOR_ONE = 25, 300.0


class ToldFailures:
    def __init__(self) -> None:
        self._left = float(_AT_ONCE)
        self._at = 0.0

    def takes(self, now: float) -> bool:
        """Whether one more is told."""
        self._left = min(float(_AT_ONCE), self._left + max(0.0, now - self._at) / _SECONDS_FOR_ONE)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
