"""Runs components beside a block of code: they end with the block; one that fails is started again.

A component fails only if it cannot tell which object it failed on: objects are set aside one by one where they are
read (`client.set_aside`).  A vital component, such as the lease of a leader, ends the block instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from .components import Component

log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 0.5
_LAST_RETRY_SECONDS = 30.0
#: A component that has run this long starts again soon after its next failure.
_HEALTHY_SECONDS = 60.0


class ComponentFailed(Exception):
    """A vital component ended by itself; its error is the cause of this exception."""


@asynccontextmanager
async def supervised(components: Iterable[Component]) -> AsyncIterator[None]:
    """Run the components while the block runs.

    Exceptions of the block are raised unchanged.  A vital component that fails cancels the block, which then raises
    `ComponentFailed`.
    """
    block = asyncio.current_task()
    assert block is not None
    failed: list[asyncio.Task[None]] = []

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and not failed:
            failed.append(task)
            block.cancel()

    tasks = [
        asyncio.create_task(component.main() if component.vital else _kept_running(component), name=component.name)
        for component in components
    ]
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


async def _kept_running(component: Component) -> None:
    loop = asyncio.get_running_loop()
    retry = _FIRST_RETRY_SECONDS
    while True:
        begun, error = loop.time(), None
        try:
            await component.main()
        except Exception as problem:
            error = problem
        if loop.time() - begun >= _HEALTHY_SECONDS:
            retry = _FIRST_RETRY_SECONDS
        log.error("component %s failed; it starts again in %g s", component.name, retry, exc_info=error)
        await asyncio.sleep(retry)
        retry = min(retry * 2, _LAST_RETRY_SECONDS)
