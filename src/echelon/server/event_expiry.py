"""Deletes events one hour after their last occurrence; run by `Pipeline.run`."""

from __future__ import annotations

from ..api.errors import ApiError
from ..api.objects.meta import name, namespace
from ..api.scheme import EVENTS, Object
from ..api.verbs import DeleteOptions
from ..base import instants
from .objects.stored_objects import Access
from .verbs.delete import delete

_TTL_SECONDS = 3600.0
_ROUND_SECONDS = 300.0


async def expire_events(access: Access) -> None:
    """Delete old events every few minutes, until cancelled."""
    while True:
        await access.clock.sleep(_ROUND_SECONDS)
        oldest = access.clock.now() - _TTL_SECONDS
        for event in list(access.list(EVENTS)):
            if _last_seen(event) < oldest:
                await _remove(access, event)


def _last_seen(event: Object) -> float:
    series = event.get("series") or {}
    stamp = series.get("lastObservedTime") or event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
    return instants.parse(stamp)


async def _remove(access: Access, event: Object) -> None:
    """Delete an event, unless it was updated or deleted meanwhile."""
    options = DeleteOptions(resource_version=event["metadata"]["resourceVersion"])
    try:
        await delete(access, EVENTS, name(event), namespace(event), options)
    except ApiError as error:
        if error.code not in (404, 409):
            raise
