"""Long work of single requests, off the event loop: large bodies are read, decoded and validated in one worker thread.

One thread, so that the event loop competes with one other at most.  What runs there reads the store while the loop
writes to it: if it stumbles over a change, it runs again on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: Bodies of more bytes take longer than one step of the loop may.
LARGE = 32 * 1024

_worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-bodies")


async def run(large: bool, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """The result of `work`, from the worker thread if it is about something large."""
    if not large:
        return work(*args, **named)
    try:
        return await asyncio.get_running_loop().run_in_executor(_worker, lambda: work(*args, **named))
    except (KeyError, RuntimeError) as error:
        if isinstance(error, RecursionError):
            raise
        return work(*args, **named)
