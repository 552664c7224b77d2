"""Large requests run in a worker thread; errors are theirs, and collections are read on the loop."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from echelon.server.objects import off_loop


def test_large_work_runs_in_the_worker_and_small_work_on_the_loop() -> None:
    async def main() -> list[bool]:
        threads = [await off_loop.run(large, threading.get_ident) for large in (False, True)]
        return [thread == threading.get_ident() for thread in threads]

    assert asyncio.run(main()) == [True, False]


@pytest.mark.parametrize("error", [KeyError, RuntimeError])
def test_an_error_of_the_worker_is_raised_and_the_work_not_repeated(error: type[Exception]) -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(threading.get_ident())
        raise error("x")

    with pytest.raises(error):
        asyncio.run(off_loop.run(True, work))
    assert len(calls) == 1


def test_the_worker_reads_on_the_loop() -> None:
    async def main() -> tuple[int, int]:
        return await off_loop.run(True, lambda: off_loop.on_loop(threading.get_ident)), threading.get_ident()

    read, loop = asyncio.run(main())
    assert read == loop


def test_an_error_of_a_read_reaches_the_worker() -> None:
    def work() -> None:
        off_loop.on_loop(lambda: {}["missing"])

    with pytest.raises(KeyError):
        asyncio.run(off_loop.run(True, work))


def test_the_switch_interval_is_shorter_only_during_the_work() -> None:
    before = sys.getswitchinterval()
    assert asyncio.run(off_loop.run(True, sys.getswitchinterval)) < before
    assert sys.getswitchinterval() == before
