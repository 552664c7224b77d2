"""Watchdog of the event loop: tells which code held it, and for how long.

A thread asks the loop for a sign of life and looks at its stack when none comes in time.  It is off unless
`ECHELON_WATCHDOG` names the milliseconds that a turn of the loop may take; what took longer is logged, one line each:

    event loop held for 180 ms (CPU time: loop 171 ms, process 174 ms) at decoding.py:88 decode < create.py:58 create
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

log = logging.getLogger(__name__)

_VARIABLE = "ECHELON_WATCHDOG"
#: Seconds between two signs of life.
_EVERY = 0.02
#: Seconds between two looks at a loop that gives none.
_LOOK_AGAIN = 0.02
#: Seconds after which a loop that is still held is told, and told again.
_TELL_AGAIN = 5.0
#: Callers that are told of a stack.
_FRAMES = 6


@dataclass(frozen=True)
class Held:
    """A turn of the event loop that took too long."""

    seconds: float
    #: CPU time of the loop's thread and of all threads; the rest they waited for a processor.
    loop_cpu: float
    process_cpu: float
    #: Where the loop was, and other threads of this process if it was waiting for them; most frequent first.
    places: tuple[str, ...]

    def __str__(self) -> str:
        cpu = f"CPU time: loop {self.loop_cpu * 1000:.0f} ms, process {self.process_cpu * 1000:.0f} ms"
        return f"event loop held for {self.seconds * 1000:.0f} ms ({cpu}) at {' | '.join(self.places)}"


def _log(held: Held) -> None:
    log.error("%s", held)  # asked for, so told at every verbosity


@contextmanager
def watched(loop: asyncio.AbstractEventLoop, limit: float, report: Callable[[Held], None] = _log) -> Iterator[None]:
    """Report turns of a loop longer than `limit` seconds while the block runs the loop in this thread."""
    ended = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(loop, threading.get_ident(), limit, report, ended), name="watchdog", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def watched_if_asked(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """The same with the limit of the environment; nothing if it names none."""
    text = os.environ.get(_VARIABLE, "")
    if not text.isdecimal():
        yield
        return
    with watched(loop, int(text) / 1000):
        yield


def _watch(
    loop: asyncio.AbstractEventLoop,
    loop_thread: int,
    limit: float,
    report: Callable[[Held], None],
    ended: threading.Event,
) -> None:
    clock = time.pthread_getcpuclockid(loop_thread)
    sign = threading.Event()
    while not ended.wait(_EVERY):
        sign.clear()
        begun = time.monotonic(), time.clock_gettime(clock), time.process_time()
        try:
            loop.call_soon_threadsafe(sign.set)
        except RuntimeError:
            return  # the loop is closed
        if sign.wait(limit):
            continue
        seen: Counter[str] = Counter(_places(loop_thread))
        tell_at = begun[0] + _TELL_AGAIN
        while not sign.wait(_LOOK_AGAIN) and not ended.is_set():
            seen.update(_places(loop_thread))
            if time.monotonic() > tell_at:  # it may never come back
                report(_held(begun, clock, seen))
                tell_at += _TELL_AGAIN
        report(_held(begun, clock, seen))


def _held(begun: tuple[float, float, float], clock: int, seen: Counter[str]) -> Held:
    now = time.monotonic(), time.clock_gettime(clock), time.process_time()
    seconds, loop_cpu, process_cpu = (late - early for early, late in zip(begun, now, strict=True))
    return Held(seconds, loop_cpu, process_cpu, tuple(place for place, _ in seen.most_common(3)))


def _places(loop_thread: int) -> list[str]:
    """Where the loop is; if it runs no code of its own, where the other threads are."""
    frames = sys._current_frames()
    own = _stack(frames.get(loop_thread))
    if own:
        return [own]
    watching = threading.get_ident()
    others = [_stack(frame) for thread, frame in frames.items() if thread not in (loop_thread, watching)]
    return [f"other thread: {stack}" for stack in others if stack]


def _stack(frame: FrameType | None) -> str:
    """The innermost frames, callers last; "" for a thread that waits."""
    told: list[str] = []
    while frame is not None and len(told) < _FRAMES:
        code = frame.f_code
        name = os.path.basename(code.co_filename)
        if not told and (name, code.co_name) in _WAITING:
            return ""
        told.append(f"{name}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " < ".join(told)


#: Innermost frames of threads that run nothing.
_WAITING = {
    ("runners.py", "run"),
    ("base_events.py", "run_until_complete"),
    ("threading.py", "wait"),
    ("thread.py", "_worker"),
    ("commit.py", "_take"),
    ("selectors.py", "select"),
}
