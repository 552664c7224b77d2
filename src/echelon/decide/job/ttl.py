"""ttlSecondsAfterFinished: a finished Job is deleted, with all it owns, when its time is up."""

from __future__ import annotations

from ...api.objects import meta
from ...api.scheme import JOBS, Object
from ...base.instants import parse as instant
from ..plan import NOTHING, Delete, Plan


def expire(job: Object, now: float) -> Plan:
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    if ttl is None or meta.deleting(job):
        return NOTHING
    ended = meta.find_condition(job, "Complete") or meta.find_condition(job, "Failed")
    assert ended is not None, "only finished Jobs expire"
    left = instant(ended["lastTransitionTime"]) + ttl - now
    if left > 0:
        return Plan(requeue_after=left)
    gone = Delete(JOBS, meta.namespace(job), meta.name(job), meta.uid(job), propagation="Foreground")
    return Plan(stages=((gone,),))
