"""spec.ttlSecondsAfterFinished: a finished Job, JobSet or TrainJob goes, with all it owns, when its time is up."""

from __future__ import annotations

from typing import Any

from ..api.views.object_view import ObjectView
from ..base.instants import parse
from .plan import Delete, Draft


def expire(view: ObjectView[Any, Any], ttl: int | None, terminal: tuple[str, ...], now: float, draft: Draft) -> None:
    """Plan the deletion of an object with one of the `terminal` conditions, or a decision when its time is up."""
    if ttl is None or view.deleting:
        return
    ended = next(found for type_ in terminal if view.is_true(type_) and (found := view.condition(type_)))
    if not ended.last_transition_time:
        # Whoever wrote the condition did not say when: its time is never up.
        return
    left = parse(ended.last_transition_time) + ttl - now
    if left > 0:
        draft.requeue(left)
    else:
        draft.stage(Delete(view.resource, view.namespace, view.name, view.uid, "Foreground"))
