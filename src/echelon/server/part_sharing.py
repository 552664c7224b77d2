"""Trees of new writes get the parts that other objects have too, a little later: most are written again at once."""

from __future__ import annotations

from .objects.sharing import share_parts
from .objects.stored_objects import Access

_PAUSE_SECONDS = 2.0
#: Trees in one step of the event loop.
_SLICE = 50


async def share_written_parts(access: Access) -> None:
    """Share the parts of what is written, until cancelled."""
    while True:
        await access.has_written.wait()
        await access.clock.sleep(_PAUSE_SECONDS)
        await share_now(access)


async def share_now(access: Access) -> None:
    """Share the parts of what was written so far and is still current."""
    access.has_written.clear()
    for number in range(len(access.written)):
        written = access.written.popleft()
        current = access.store.get(written.key)
        if current is not None and current.revision == written.revision:
            share_parts(written)
        if number % _SLICE == _SLICE - 1:
            await access.turns.next()
