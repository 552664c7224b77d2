"""spec.ttlSecondsAfterFinished: a finished Job or JobSet is deleted, with all it owns, when its time is up."""

from __future__ import annotations

from ..api.objects import meta
from ..api.scheme import Object, Resource
from ..base.instants import parse
from .plan import Delete, Draft


def expire(resource: Resource, obj: Object, terminal: tuple[str, ...], now: float, draft: Draft) -> None:
    """Plan the deletion of an object with one of the `terminal` conditions, or a decision at its time."""
    ttl = obj["spec"].get("ttlSecondsAfterFinished")
    if ttl is None or meta.deleting(obj):
        return
    ended = next(found for type_ in terminal if (found := meta.true_condition(obj, type_)))
    left = parse(ended["lastTransitionTime"]) + ttl - now
    if left > 0:
        draft.requeue(left)
    else:
        draft.stage(Delete(resource, meta.namespace(obj), meta.name(obj), meta.uid(obj), "Foreground"))
