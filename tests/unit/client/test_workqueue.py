"""Keyed work in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from echelon.client.workqueue import WorkQueue
from echelon.runtime import virtual_time
from echelon.runtime.clocks import LoopClock


def in_virtual_time(scenario: Callable[[WorkQueue, LoopClock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = LoopClock()
        queue = WorkQueue(clock)
        await scenario(queue, clock)
        queue.close()

    virtual_time.run(main())


def test_a_key_waits_at_most_once() -> None:
    async def scenario(queue: WorkQueue, _: LoopClock) -> None:
        queue.add("a")
        queue.add("b")
        queue.add("a")
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert queue.idle is False
        assert len(queue) == 0

    in_virtual_time(scenario)


def test_a_key_added_while_worked_on_returns_after_done() -> None:
    async def scenario(queue: WorkQueue, _: LoopClock) -> None:
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        assert len(queue) == 0
        queue.done(key)
        assert await queue.get() == "a"

    in_virtual_time(scenario)


def test_the_soonest_delay_of_a_key_counts() -> None:
    async def scenario(queue: WorkQueue, clock: LoopClock) -> None:
        begin = clock.now()
        queue.add_after("a", 30)
        queue.add_after("b", 20)
        queue.add_after("a", 10)
        arrivals = []
        for _ in range(2):
            key = await queue.get()
            arrivals.append((key, round(clock.now() - begin)))
            queue.done(key)
        assert arrivals == [("a", 10), ("b", 20)]
        await asyncio.sleep(60)
        assert queue.idle

    in_virtual_time(scenario)


def test_failures_back_off_until_forgotten() -> None:
    async def scenario(queue: WorkQueue, clock: LoopClock) -> None:
        async def delay() -> float:
            begin = clock.now()
            queue.retry("a")
            queue.done(await queue.get())
            return clock.now() - begin

        first, second, third = await delay(), await delay(), await delay()
        assert first < second < third
        queue.forget("a")
        assert round(await delay(), 3) == round(first, 3)

    in_virtual_time(scenario)
