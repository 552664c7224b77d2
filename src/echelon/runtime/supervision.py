"""Parts that run beside a block of code: they end with it, and if one breaks, it breaks too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from .components import Component


class ComponentFailed(Exception):
    """A part of the plane ended although nobody asked it to; its error is the cause."""


@asynccontextmanager
async def supervised(parts: Iterable[Component]) -> AsyncIterator[None]:
    """Run the parts for as long as the block lasts.

    What the block raises is raised unchanged.  A part that breaks cancels the block and is raised as `ComponentFailed`:
    better no scheduler than half a one.
    """
    block = asyncio.current_task()
    assert block is not None
    broken: list[asyncio.Task[None]] = []

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and not broken:
            broken.append(task)
            block.cancel()

    tasks = [asyncio.create_task(part.main, name=part.name) for part in parts]
    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if not broken or block.uncancel() > 0:
            raise
    finally:
        for task in tasks:
            task.remove_done_callback(ended)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if broken:
        raise ComponentFailed(f"{broken[0].get_name()} broke") from broken[0].exception()
