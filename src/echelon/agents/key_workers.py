"""Workers that take keys from a queue, one at a time each: what fails is tried again later and stops nothing else.

caches ─► WorkQueue ─► run_workers ─► advance(key): reads, decides, writes
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ..api.errors import ApiError, said
from ..client.informer import Informer
from ..client.workqueue import WorkQueue

log = logging.getLogger(__name__)

NOT_FOUND, CONFLICT = 404, 409


async def run_workers(
    component: str,
    count: int,
    queue: WorkQueue,
    objects: Informer,
    advance: Callable[[str], Awaitable[None]],
    *,
    done_if_gone: bool = False,
) -> None:
    """Advance the keys of a queue until cancelled, `count` at a time; with `done_if_gone` a 404 needs no retry."""

    async def work() -> None:
        while True:
            key = await queue.get()
            try:
                await advance(key)
            except (ApiError, OSError) as error:
                code = error.code if isinstance(error, ApiError) else 0
                if code not in (NOT_FOUND, CONFLICT):
                    log.warning("%s: %s: %s", component, key, said(error))
                # Also after a conflict: the cache may be current, and no event may come.
                if code != NOT_FOUND or not done_if_gone:
                    queue.retry(key)
            except Exception as error:
                # One object must not stop the others; it is tried again when it changes.
                objects.set_aside.report(component, error, objects.resource, objects.get(key), key)
            else:
                queue.forget(key)
            finally:
                queue.done(key)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(work(), name=f"{component}-{number}")
