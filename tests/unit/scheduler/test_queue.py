"""Order and sleep of roots."""

from __future__ import annotations

import asyncio

from echelon.runtime.clock import LoopClock
from echelon.runtime.virtual import run
from echelon.scheduler.queue import Queue


async def _drain(queue: Queue) -> list[int]:
    return [await queue.take() for _ in range(len(queue))]


def test_priority_goes_before_age_before_arrival_before_name() -> None:
    async def body() -> None:
        queue = Queue(LoopClock())
        queue.add(1, (0, "2026-01-01T00:00:01Z", 1, "b"))
        queue.add(2, (-5, "2026-01-01T00:00:09Z", 2, "a"))
        queue.add(3, (0, "2026-01-01T00:00:01Z", 1, "a"))
        queue.add(4, (0, "2026-01-01T00:00:00Z", 9, "z"))
        assert await _drain(queue) == [2, 4, 3, 1]

    run(body())


def test_a_root_is_in_it_once_under_its_latest_rank() -> None:
    async def body() -> None:
        queue = Queue(LoopClock())
        queue.add(1, (0, "", 1, "a"))
        queue.add(2, (-1, "", 2, "b"))
        queue.add(1, (-2, "", 1, "a"))
        assert await _drain(queue) == [1, 2]

    run(body())


def test_back_off_doubles_and_starts_again_after_success() -> None:
    async def body() -> None:
        clock, rank = LoopClock(), (0, "", 1, "a")
        queue, waits = Queue(clock), []
        for number in range(5):
            if number == 3:
                queue.succeeded(1)
            before = clock.now()
            queue.back_off(1, rank)
            assert await queue.take() == 1
            waits.append(round(clock.now() - before))
        assert waits == [1, 2, 4, 1, 2]

    run(body())


def test_a_root_may_fail_ten_thousand_times() -> None:
    async def body() -> None:
        clock, rank = LoopClock(), (0, "", 1, "a")
        queue = Queue(clock)
        for _ in range(10_000):
            queue.back_off(1, rank)
        before = clock.now()
        assert await queue.take() == 1
        assert clock.now() - before == 60

    run(body())


def test_room_wakes_those_it_can_help_and_no_others() -> None:
    async def body() -> None:
        clock = LoopClock()
        queue, start = Queue(clock), clock.now()
        queue.sleep(1, (0, "", 1, "a"), 50, wants_room=True)
        queue.sleep(2, (0, "", 2, "b"), 50, wants_room=False)
        queue.wake()
        assert await queue.take() == 1
        assert clock.now() == start
        assert await queue.take() == 2
        assert round(clock.now() - start) == 50

    run(body())


def test_a_sleeper_that_is_dropped_does_not_come_back() -> None:
    async def body() -> None:
        queue = Queue(LoopClock())
        queue.sleep(1, (0, "", 1, "a"), 1, wants_room=True)
        queue.sleep(2, (0, "", 2, "b"), 5, wants_room=True)
        queue.drop(1)
        assert await asyncio.wait_for(queue.take(), 60) == 2

    run(body())
