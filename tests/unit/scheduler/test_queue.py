"""Order and sleep of roots."""

from __future__ import annotations

import asyncio

from echelon.runtime.clocks import LoopClock
from echelon.runtime.virtual_time import run
from echelon.scheduler.queueing.queue import ANY_ROOM, Queue, Rank


async def _drain(queue: Queue) -> list[int]:
    return [(await queue.take())[0] for _ in range(len(queue))]


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
            assert (await queue.take())[0] == 1
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
        assert (await queue.take())[0] == 1
        assert clock.now() - before == 60

    run(body())


def test_room_wakes_those_it_can_help_and_no_others() -> None:
    async def body() -> None:
        clock = LoopClock()
        queue, start = Queue(clock), clock.now()
        queue.sleep(1, (0, "", 1, "a"), 50, awaits=ANY_ROOM)
        queue.sleep(2, (0, "", 2, "b"), 50, awaits=None)
        queue.wake()
        assert (await queue.take())[0] == 1
        assert clock.now() == start
        assert (await queue.take())[0] == 2
        assert round(clock.now() - start) == 50

    run(body())


def test_a_sleeper_that_is_dropped_does_not_come_back() -> None:
    async def body() -> None:
        queue = Queue(LoopClock())
        queue.sleep(1, (0, "", 1, "a"), 1, awaits=ANY_ROOM)
        queue.sleep(2, (0, "", 2, "b"), 5, awaits=ANY_ROOM)
        queue.drop(1)
        assert await asyncio.wait_for(queue.take(), 60) == (2, False)

    run(body())


def _rank(number: int) -> Rank:
    return (0, "", number, "")


def _crowd(size: int) -> Queue:
    """Roots 1 to `size`, all asleep until room appears."""
    queue = Queue(LoopClock())
    for number in range(1, size + 1):
        queue.sleep(number, _rank(number), 1000, awaits=ANY_ROOM)
    return queue


def test_a_new_root_does_not_wait_for_a_crowd_that_was_woken() -> None:
    async def body() -> None:
        queue = _crowd(500)
        queue.wake()
        queue.add(501, _rank(501))
        assert 501 in [(await queue.take())[0] for _ in range(8)]

    run(body())


def test_among_few_the_order_is_strict_whoever_was_woken() -> None:
    async def body() -> None:
        queue = _crowd(10)
        queue.wake()
        queue.add(11, _rank(11))
        assert await _drain(queue) == list(range(1, 12))

    run(body())


def test_the_last_of_a_crowd_has_its_turn_however_often_the_first_are_woken() -> None:
    async def body() -> None:
        queue, seen = _crowd(100), set[int]()
        for turn in range(1000):
            if turn % 10 == 0:
                queue.wake()
            root, _ = await queue.take()
            seen.add(root)
            queue.sleep(root, _rank(root), 1000, awaits=ANY_ROOM)
        assert len(seen) == 100

    run(body())


def test_reasons_are_given_when_no_root_waits_for_a_decision_and_now_and_then_besides() -> None:
    async def body() -> None:
        queue = Queue(LoopClock())
        queue.owe_reason(1, _rank(1))
        queue.owe_reason(2, _rank(2))
        for number in range(10, 20):
            queue.add(number, _rank(number))
        taken = [await queue.take() for _ in range(12)]
        assert [turn for turn, (_, told) in enumerate(taken, 1) if told] == [7, 12]
        assert [root for root, told in taken if told] == [1, 2]

    run(body())


def test_a_root_without_its_reason_is_tried_when_room_appears() -> None:
    async def body() -> None:
        queue = Queue(LoopClock())
        queue.owe_reason(1, _rank(1))
        queue.wake()
        assert await queue.take() == (1, False)
        queue.cancel_reason(1)
        assert not queue.reasons_owed

    run(body())
