"""When a finished JobSet is deleted: `ttlSecondsAfterFinished` after its end."""

from __future__ import annotations

from ...api.objects import meta
from ...api.scheme import JOB_SETS
from ...base.instants import parse
from ..plan import Delete, Draft
from .conditions import COMPLETED, FAILED
from .model import JobSet


def apply(js: JobSet, now: float, draft: Draft) -> None:
    """Delete the JobSet if its time is up, else look again then."""
    ttl = js.spec.get("ttlSecondsAfterFinished")
    if ttl is None:
        return
    ended = next(
        c for c in js.obj["status"]["conditions"] if c["type"] in (COMPLETED, FAILED) and c["status"] == "True"
    )
    left = parse(ended["lastTransitionTime"]) + ttl - now
    if left > 0:
        draft.requeue(left)
    else:
        draft.stage(Delete(JOB_SETS, js.namespace, js.name, meta.uid(js.obj), "Foreground"))
