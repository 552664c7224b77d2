"""Roots that want a decision: by priority, then age, then name; blocked ones sleep until something can help them.

    add ─► active ─► take ─► (decided) ─► done
                               └────────► sleep: woken by `wake`, or when its back-off ends

A blocked root never stands in the way: it is not in `active`.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass

from ..base.clock import Clock

_FIRST_BACKOFF_SECONDS = 1.0
_LAST_BACKOFF_SECONDS = 60.0
#: After so many the last is reached.
_DOUBLINGS = 6

#: (-priority, age, name): the smallest goes first.
Rank = tuple[int, str, int, str]


@dataclass(slots=True)
class _Sleeper:
    rank: Rank
    until: float
    #: Whether room appearing somewhere can help it; if not, only its own change or the clock does.
    wants_room: bool


class Queue:
    """Each root is in it at most once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[Rank, int]] = []
        self._active: dict[int, Rank] = {}
        self._asleep: dict[int, _Sleeper] = {}
        self._attempts: dict[int, int] = {}
        self._alarms: list[tuple[float, int]] = []
        self._arrived = asyncio.Event()
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_at = 0.0

    def __len__(self) -> int:
        return len(self._active)

    def is_active(self, root: int) -> bool:
        """Whether it is in line for a decision."""
        return root in self._active

    def wants_room(self, root: int) -> bool:
        """Whether it was blocked and sleeps."""
        sleeper = self._asleep.get(root)
        return sleeper is not None and sleeper.wants_room

    @property
    def asleep(self) -> int:
        return len(self._asleep)

    def add(self, root: int, rank: Rank) -> None:
        """This root wants a decision now."""
        self._asleep.pop(root, None)
        if self._active.get(root) == rank:
            return
        self._active[root] = rank
        heapq.heappush(self._heap, (rank, root))
        self._arrived.set()

    def sleep(self, root: int, rank: Rank, seconds: float, *, wants_room: bool) -> None:
        """Nothing to be done for this root before `seconds` have passed or it is woken."""
        if root in self._active:
            return
        until = self._clock.now() + seconds
        self._asleep[root] = _Sleeper(rank, until, wants_room)
        heapq.heappush(self._alarms, (until, root))
        self._set_alarm()

    def back_off(
        self, root: int, rank: Rank, at_most: float = _LAST_BACKOFF_SECONDS, *, wants_room: bool = True
    ) -> None:
        """Sleep twice as long as after the failure before, unless room appears and helps."""
        failures = self._attempts.get(root, 0)
        # Whoever waits on a busy cluster fails thousands of times; beyond the longest sleep there is nothing to count.
        self._attempts[root] = min(failures + 1, _DOUBLINGS)
        seconds = min(_FIRST_BACKOFF_SECONDS * 2**failures, _LAST_BACKOFF_SECONDS, at_most)
        self.sleep(root, rank, seconds, wants_room=wants_room)

    def succeeded(self, root: int) -> None:
        """The next failure of this root is its first again."""
        self._attempts.pop(root, None)

    def drop(self, root: int) -> None:
        """This root is no more."""
        self._active.pop(root, None)
        self._asleep.pop(root, None)
        self._attempts.pop(root, None)

    def wake(self) -> None:
        """Room has appeared somewhere."""
        ready = [(root, sleeper.rank) for root, sleeper in self._asleep.items() if sleeper.wants_room]
        for root, rank in ready:
            self.add(root, rank)

    async def take(self) -> int:
        """The first root, as soon as there is one."""
        while True:
            while self._heap:
                rank, root = heapq.heappop(self._heap)
                # A root that was dropped or re-ranked has left a stale entry behind.
                if self._active.get(root) == rank:
                    del self._active[root]
                    return root
            self._arrived.clear()
            await self._arrived.wait()

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def _set_alarm(self) -> None:
        while self._alarms and not self._due(*self._alarms[0]):
            heapq.heappop(self._alarms)
        if not self._alarms:
            return
        soonest = self._alarms[0][0]
        if self._alarm is not None and not self._alarm.done():
            if self._alarm_at <= soonest:
                return
            self._alarm.cancel()
        self._alarm_at = soonest
        self._alarm = asyncio.get_running_loop().create_task(self._ring(soonest), name="scheduler-queue-alarm")

    def _due(self, at: float, root: int) -> bool:
        sleeper = self._asleep.get(root)
        return sleeper is not None and sleeper.until == at

    async def _ring(self, at: float) -> None:
        await self._clock.sleep(at - self._clock.now())
        now = self._clock.now()
        while self._alarms and self._alarms[0][0] <= now:
            due, root = heapq.heappop(self._alarms)
            if self._due(due, root):
                self.add(root, self._asleep[root].rank)
        self._alarm = None
        self._set_alarm()
