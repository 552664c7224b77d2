"""Requests in flight: who is taken in, and in which order they begin."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from echelon.server.http.requests.in_flight import InFlight, Place, TooManyRequests


async def test_beyond_the_limit_a_client_with_its_share_is_told_to_wait_and_a_new_one_is_taken_in() -> None:
    flight = InFlight(10)
    for _ in range(10):
        await flight.enter("greedy")
    with pytest.raises(TooManyRequests):
        await flight.enter("greedy")
    for _ in range(5):
        await flight.enter("modest")
    with pytest.raises(TooManyRequests):
        await flight.enter("modest")
    assert flight.held == 15
    for _ in range(7):
        flight.leave("greedy")
    await flight.enter("modest")


async def test_a_client_alone_may_use_the_whole_limit_and_is_taken_in_again_when_one_leaves() -> None:
    flight = InFlight(3)
    for _ in range(3):
        await flight.enter("only")
    with pytest.raises(TooManyRequests):
        await flight.enter("only")
    flight.leave("only")
    await flight.enter("only")


async def test_without_a_limit_all_are_taken_in() -> None:
    flight = InFlight(0)
    await asyncio.gather(*(flight.enter("only") for _ in range(2_000)))
    assert flight.held == 2_000


async def test_the_request_of_a_client_begins_before_the_many_that_another_sent_earlier() -> None:
    flight, order = InFlight(0), list[str]()

    async def request(client: str) -> None:
        place = Place()
        await place.take(flight, client)
        order.append(client)
        place.leave()

    await asyncio.gather(*(request("greedy") for _ in range(300)), request("modest"))
    assert order.index("modest") <= 17
    assert flight.held == 0


async def test_others_come_to_turn_between_the_requests_of_one_client() -> None:
    flight, turns = InFlight(0), list[int]()
    begun = 0

    async def request() -> None:
        nonlocal begun
        await flight.enter("greedy")
        begun += 1

    async def count() -> None:
        while begun < 200:
            turns.append(begun)
            await asyncio.sleep(0)

    await asyncio.gather(*(request() for _ in range(200)), count())
    steps = [later - earlier for earlier, later in itertools.pairwise(turns)]
    assert max(steps) <= 16


async def test_a_request_that_is_cancelled_while_it_waits_gives_its_place_back() -> None:
    flight = InFlight(0)
    waiting = [asyncio.create_task(flight.enter("only")) for _ in range(40)]
    await asyncio.sleep(0)
    waiting[-1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert flight.held == 39
