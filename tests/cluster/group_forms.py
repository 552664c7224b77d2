"""Makes a real server ready for groups of pods, whatever gates it has."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from echelon.api.errors import ApiError
from echelon.api.group_definitions import group_definitions
from echelon.api.group_kinds import OWN, GroupSupport
from echelon.api.scheme import CUSTOM_RESOURCE_DEFINITIONS, OWN_GROUP_KINDS, SERVICE_ACCOUNTS
from echelon.api.verbs import Verbs, WriteOptions
from echelon.client.group_discovery import group_support
from echelon.client.http import HttpVerbs

_GIVE_UP_SECONDS = 120.0


async def with_group_kinds(verbs: HttpVerbs) -> GroupSupport:
    """As `echelon install` does: own kinds come where the native ones are not complete."""
    support = await group_support(verbs, trial=True)
    if OWN not in support.choice:
        return support
    for definition in group_definitions():
        with suppress(ApiError):
            await verbs.create(CUSTOM_RESOURCE_DEFINITIONS, definition, "", WriteOptions(field_validation="Strict"))
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    while not (support.own and await _is_ready(verbs)):
        assert time.monotonic() < deadline, "own kinds or service accounts do not come"
        await asyncio.sleep(0.2)
        support = await group_support(verbs, trial=True)
    return support


async def _is_ready(verbs: Verbs) -> bool:
    """Pods need an account, and a new kind is listed a moment after it is known."""
    try:
        await verbs.get(SERVICE_ACCOUNTS, "default", "default")
        for own in OWN_GROUP_KINDS.values():
            await verbs.list(own)
    except ApiError:
        return False
    return True
