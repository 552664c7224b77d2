"""Long work takes turns: one slice per turn of the event loop, one client after the other."""

from __future__ import annotations

import asyncio

from echelon.server.objects.turns import RoundRobin, Turns


def test_clients_take_turns_however_much_one_of_them_has_queued() -> None:
    queue = RoundRobin[str]()
    for number in range(5):
        queue.push("greedy", f"greedy-{number}")
    queue.push("modest", "modest-0")
    queue.push("third", "third-0")
    taken = [queue.pop() for _ in range(len(queue))]
    assert taken[:3] == ["greedy-0", "modest-0", "third-0"]
    assert taken[3:] == [f"greedy-{number}" for number in range(1, 5)]


async def test_a_client_with_many_slices_waits_for_one_slice_of_every_other_client() -> None:
    turns, order = Turns(), list[str]()

    async def work(client: str, slices: int) -> None:
        for _ in range(slices):
            await turns.next(client)
            order.append(client)

    await asyncio.gather(*(work("greedy", 10) for _ in range(20)), work("modest", 10))
    last = len(order) - 1 - order[::-1].index("modest")
    assert order[: last + 1].count("greedy") <= 11


async def test_other_work_of_the_loop_comes_between_any_two_slices() -> None:
    turns, order = Turns(), list[str]()

    async def work() -> None:
        for _ in range(10):
            await turns.next()
            order.append("slice")

    async def tick() -> None:
        while order.count("slice") < 30:
            order.append("tick")
            await asyncio.sleep(0)

    await asyncio.gather(work(), work(), work(), tick())
    assert "slice slice" not in " ".join(order)


async def test_a_turn_that_is_no_longer_wanted_is_passed_on() -> None:
    turns = Turns()
    gone = [asyncio.create_task(turns.next("a")) for _ in range(3)]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await asyncio.wait_for(turns.next("b"), 5)
