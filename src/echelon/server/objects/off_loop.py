"""Long work of single requests, off the event loop: large bodies are read, decoded and validated in one worker thread.

One thread, so that the event loop competes with one other at most.  The loop alone changes the store, so the worker
reads collections there (`on_loop`); single records it may read itself.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: Bodies of more bytes take longer than one step of the loop may.
LARGE = 32 * 1024
#: How long the worker keeps the interpreter when the loop wants it.  A request takes the interpreter about ten times,
#: so Python's 5 ms would make 50 ms of each.
_SWITCH_SECONDS = 0.0005
#: How long the worker waits for a read on the loop; longer only if the loop has ended.
_READ_SECONDS = 60.0

_worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-bodies")
#: In the worker: the loop that waits for it.
_home = threading.local()


async def run(large: bool | None, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """The result of `work`, from the worker thread if it is about something large."""
    if not large:
        return work(*args, **named)
    loop = asyncio.get_running_loop()

    def at_work() -> T:
        _home.loop = loop
        usual = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            return work(*args, **named)
        finally:
            sys.setswitchinterval(usual)
            _home.loop = None

    return await loop.run_in_executor(_worker, at_work)


def on_loop(read: Callable[[], T]) -> T:
    """The result of `read`, which the worker leaves to the loop; elsewhere it is just called."""
    loop: asyncio.AbstractEventLoop | None = getattr(_home, "loop", None)
    if loop is None:
        return read()
    result: Future[T] = Future()

    def answer() -> None:
        try:
            result.set_result(read())
        except BaseException as error:
            result.set_exception(error)

    loop.call_soon_threadsafe(answer)
    return result.result(_READ_SECONDS)
