"""Waits for what real programs do in their own time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from echelon.api.errors import ApiError
from echelon.api.scheme import Resource
from echelon.api.verbs import Verbs

#: What never comes has not come by then, on any machine.
PATIENCE_SECONDS = 240.0
_POLL_SECONDS = 0.1


async def eventually(look: Callable[[], Awaitable[Any]], wanted: Any = True) -> None:
    """Look until what is seen is what is wanted."""
    await _look_until(look, lambda seen: bool(seen == wanted))


async def until(look: Callable[[], Awaitable[Any]]) -> None:
    """Look until anything is seen."""
    await _look_until(look, bool)


async def _look_until(look: Callable[[], Awaitable[Any]], good: Callable[[Any], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not good(seen := await look()):
        assert time.monotonic() < deadline, f"still {seen!r}"
        await asyncio.sleep(_POLL_SECONDS)


async def is_gone(verbs: Verbs, resource: Resource, name: str, namespace: str = "") -> bool:
    try:
        await verbs.get(resource, name, namespace)
    except ApiError as error:
        return error.code == 404
    return False


async def is_served(verbs: Verbs, resource: Resource) -> bool:
    try:
        await verbs.list(resource)
    except ApiError:
        return False
    return True
