"""Runs components beside a block of code: they end with the block, and the block fails if one of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from .components import Component


class ComponentFailed(Exception):
    """A component ended by itself; its error is the cause of this exception."""


@asynccontextmanager
async def supervised(components: Iterable[Component]) -> AsyncIterator[None]:
    """Run the components while the block runs.

    Exceptions of the block are raised unchanged.  A component that fails cancels the block, which then raises
    `ComponentFailed`: a plane without one of its components must not continue.
    """
    block = asyncio.current_task()
    assert block is not None
    failed: list[asyncio.Task[None]] = []

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and not failed:
            failed.append(task)
            block.cancel()

    tasks = [asyncio.create_task(component.main, name=component.name) for component in components]
    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if not failed or block.uncancel() > 0:
            raise
    finally:
        for task in tasks:
            task.remove_done_callback(ended)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if failed:
        raise ComponentFailed(f"component {failed[0].get_name()} failed") from failed[0].exception()
