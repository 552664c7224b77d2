"""Roots that need a decision: by priority, then age, then name.  Blocked ones sleep until something can help them.

    add ─► active ─► take ─► (decided)
             ▲                 ├────► sleep: until `wake` or the end of its back-off
             └──── woken ──────┴────► owe: its reason is worked out when nothing else waits for a decision

A blocked root never holds up others: it is not in `active`.  It awaits that a certificate becomes void
(`blocked_demands`), or any capacity at all.  When a pod ends, thousands of roots may be woken at once, nearly all in
vain, and again before the last of them had its turn.  So in a crowd some turns go by another order:

| of eight turns | go to |
|---|---|
| two | the first of the roots that were not woken: a new one need not wait until the crowd is through |
| one | the root that was woken longest ago: the end of the line has its turn too |
| one | a root that is owed a reason |
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...base.clock import Clock

_FIRST_BACKOFF_SECONDS = 1.0
_LAST_BACKOFF_SECONDS = 60.0
#: After this many doublings the longest back-off is reached.
_DOUBLINGS = 6

#: Awaited by roots that any new capacity may help; larger numbers are certificates.
ANY_ROOM = 0

#: More woken roots than this are a crowd.
_CROWD = 16
#: Turns, and which of them go by another order.
_TURNS = 8
_FOR_NEW = (1, 5)
_FOR_LONGEST = 3
_FOR_OWED = 7

#: (-priority, age, arrival, name): the smallest goes first.
Rank = tuple[int, str, int, str]


@dataclass(slots=True)
class _Sleeper:
    rank: Rank
    until: float
    #: Whether new capacity can help it; if not, only its own change or the end of its back-off does.
    wants_room: bool


class Queue:
    """Each root is in it at most once."""

    def __init__(self, clock: Clock, on_wake: Callable[[int], None] = lambda root: None) -> None:
        self._clock = clock
        #: Called for each root that capacity or time puts back in line.
        self._on_wake = on_wake
        self._heap: list[tuple[Rank, int]] = []
        self._active: dict[int, Rank] = {}
        #: Roots in line because capacity or time woke them, the longest first; and a heap of the others.
        self._woken: dict[int, None] = {}
        self._new: list[tuple[Rank, int]] = []
        #: Blocked roots that are owed a reason, the longest first; they may be in line besides.
        self._owed: dict[int, Rank] = {}
        self._turn = 0
        self._asleep: dict[int, _Sleeper] = {}
        #: What each root that sleeps or is owed a reason awaits, and the reverse.
        self._awaits: dict[int, int] = {}
        self._awaited: dict[int, dict[int, None]] = {}
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

    def is_asleep(self, root: int) -> bool:
        return root in self._asleep

    def is_owed_reason(self, root: int) -> bool:
        """Whether its reason is still to be worked out."""
        return root in self._owed

    def wants_room(self, root: int) -> bool:
        """Whether it is blocked: asleep until capacity comes, or owed a reason."""
        sleeper = self._asleep.get(root)
        return root in self._owed or (sleeper is not None and sleeper.wants_room)

    @property
    def asleep(self) -> int:
        return len(self._asleep)

    @property
    def reasons_owed(self) -> int:
        """The number of roots that are owed a reason."""
        return len(self._owed)

    def add(self, root: int, rank: Rank) -> None:
        """This root needs a decision now: it is new, or something about it changed."""
        if self._active.get(root) == rank and root not in self._woken:
            return
        self._woken.pop(root, None)
        heapq.heappush(self._new, (rank, root))
        self._enter(root, rank)

    def owe_reason(self, root: int, rank: Rank, awaits: int = ANY_ROOM) -> None:
        """This root is blocked, and its reason is not known yet."""
        self._owed.setdefault(root, rank)
        self._await(root, awaits)
        self._arrived.set()

    def cancel_reason(self, root: int) -> None:
        """This root is not owed a reason any more."""
        self._owed.pop(root, None)
        if root not in self._asleep:
            self._await_nothing(root)

    def is_awaited(self, number: int) -> bool:
        """Whether any root awaits this certificate."""
        return number in self._awaited

    def _await(self, root: int, number: int) -> None:
        self._await_nothing(root)
        self._awaits[root] = number
        self._awaited.setdefault(number, {})[root] = None

    def _await_nothing(self, root: int) -> None:
        number = self._awaits.pop(root, None)
        if number is not None:
            del self._awaited[number][root]
            if not self._awaited[number]:
                del self._awaited[number]

    def _enter(self, root: int, rank: Rank) -> None:
        self._asleep.pop(root, None)
        self._await_nothing(root)
        if self._active.get(root) != rank:
            self._active[root] = rank
            heapq.heappush(self._heap, (rank, root))
            self._arrived.set()

    def _rouse(self, root: int, rank: Rank) -> None:
        """Capacity came, or time passed, that may help this root."""
        if root not in self._active:
            self._woken[root] = None
            self._enter(root, rank)
            self._on_wake(root)

    def sleep(self, root: int, rank: Rank, seconds: float, *, awaits: int | None) -> None:
        """Wait until `seconds` have passed or what it awaits has come; None: no capacity helps it."""
        if root in self._active:
            return
        until = self._clock.now() + seconds
        self._asleep[root] = _Sleeper(rank, until, awaits is not None)
        if awaits is None:
            self._await_nothing(root)
        else:
            self._await(root, awaits)
        heapq.heappush(self._alarms, (until, root))
        self._set_alarm()

    def back_off(
        self, root: int, rank: Rank, at_most: float = _LAST_BACKOFF_SECONDS, *, awaits: int | None = ANY_ROOM
    ) -> None:
        """Sleep twice as long as after the failure before, unless what it awaits comes first."""
        failures = self._attempts.get(root, 0)
        # A root on a busy cluster may fail thousands of times; beyond the longest sleep there is nothing to count.
        self._attempts[root] = min(failures + 1, _DOUBLINGS)
        seconds = min(_FIRST_BACKOFF_SECONDS * 2**failures, _LAST_BACKOFF_SECONDS, at_most)
        self.sleep(root, rank, seconds, awaits=awaits)

    def succeeded(self, root: int) -> None:
        """The next failure of this root counts as its first."""
        self._attempts.pop(root, None)

    def drop(self, root: int) -> None:
        """Forget this root."""
        self._active.pop(root, None)
        self._woken.pop(root, None)
        self._owed.pop(root, None)
        self._asleep.pop(root, None)
        self._attempts.pop(root, None)
        self._await_nothing(root)

    def wake(self, void: Iterable[int] = ()) -> None:
        """Capacity has appeared somewhere and voided these certificates."""
        for number in (ANY_ROOM, *void):
            for root in list(self._awaited.get(number, ())):
                sleeper = self._asleep.get(root)
                self._rouse(root, sleeper.rank if sleeper is not None else self._owed[root])

    def stir(self) -> None:
        """Something happened that may wake roots: `take` looks again."""
        self._arrived.set()

    async def take(self, look: Callable[[], None] = lambda: None) -> tuple[int, bool]:
        """The next root as soon as there is one, and whether it is its turn to get a reason.

        Before one is chosen `look` may wake others.
        """
        while True:
            look()
            if self._active or self._owed:
                return self._next()
            self._arrived.clear()
            await self._arrived.wait()

    def _next(self) -> tuple[int, bool]:
        self._turn = (self._turn + 1) % _TURNS
        explain = bool(self._owed) and (self._turn == _FOR_OWED or not self._active)
        root = next(iter(self._owed)) if explain else self._first()
        if explain:
            del self._owed[root]
        self._active.pop(root, None)
        self._woken.pop(root, None)
        self._await_nothing(root)
        return root, explain

    def _first(self) -> int:
        """By rank, but for some turns in a crowd."""
        if len(self._woken) > _CROWD:
            new = self._top(self._new) if self._turn in _FOR_NEW else None
            if new is not None:
                return new
            if self._turn == _FOR_LONGEST:
                return next(iter(self._woken))
        self._top(self._new)
        first = self._top(self._heap)
        assert first is not None, "every active root is in the heap"
        return first

    def _top(self, heap: list[tuple[Rank, int]]) -> int | None:
        """The first root of a heap that is still in line.  Roots that were taken or re-ranked leave entries behind."""
        while heap:
            rank, root = heap[0]
            if self._active.get(root) == rank and (heap is self._heap or root not in self._woken):
                return root
            heapq.heappop(heap)
        return None

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
                self._rouse(root, self._asleep[root].rank)
        self._alarm = None
        self._set_alarm()
