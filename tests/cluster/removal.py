"""Users take their objects away; pods that no kubelet ends go at once."""

from __future__ import annotations

from contextlib import suppress

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import Resource
from echelon.api.verbs import DeleteOptions, Verbs

from .waiting import eventually


async def remove_all(verbs: Verbs, namespace: str, *kinds: Resource) -> None:
    """Everything of these kinds, until it is gone."""
    await eventually(lambda: left_after_removal(verbs, namespace, *kinds), [])


async def left_after_removal(verbs: Verbs, namespace: str, *kinds: Resource) -> list[str]:
    """What was still there of these kinds and is deleted by this call, which those who protect it may delay."""
    found: list[str] = []
    for kind in kinds:
        for name in await names_of(verbs, namespace, kind):
            found.append(f"{kind.plural}/{name}")
            with suppress(ApiError):
                await verbs.delete(kind, name, namespace, DeleteOptions("Background", grace_period_seconds=0))
    return found


async def names_of(verbs: Verbs, namespace: str, kind: Resource) -> list[str]:
    """Names of all objects of a kind; of one that is not served there are none."""
    try:
        return [meta.name(one) for one in (await verbs.list(kind, namespace)).items]
    except ApiError as error:
        if error.code != 404:
            raise
        return []
