"""The watchdog tells which code held the event loop."""

from __future__ import annotations

import asyncio
import time

import uvloop

from echelon.runtime.watchdog import Held, watched


def _run(seconds: float) -> list[Held]:
    """What is reported of a loop that computes for some seconds, between two waits."""
    reported: list[Held] = []

    async def main() -> None:
        await asyncio.sleep(0.05)
        _compute(seconds)
        await asyncio.sleep(0.1)

    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with runner, watched(runner.get_loop(), 0.1, reported.append):
        runner.run(main())
    return reported


def _compute(cpu_seconds: float) -> None:
    end = time.thread_time() + cpu_seconds
    while time.thread_time() < end:
        pass


def test_a_step_that_is_too_long_is_told_with_the_code_that_took_it() -> None:
    (held,) = [one for one in _run(0.4) if one.loop_cpu > 0.1]
    assert held.seconds >= held.loop_cpu
    assert held.process_cpu >= held.loop_cpu > 0.2
    assert "_compute < test_watchdog.py" in held.places[0]
    assert str(held).startswith("event loop held for ")


def test_short_steps_are_not_told() -> None:
    assert [held for held in _run(0.0) if held.loop_cpu > 0.1] == []
