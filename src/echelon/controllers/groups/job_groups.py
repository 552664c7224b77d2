"""Groups of Jobs that say in an annotation what spec.scheduling would: see `decide.job.annotated_groups`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.objects import meta
from ...api.objects.vocabulary import JOB_SCHEDULING
from ...api.scheme import JOBS, POD_GROUPS, Object
from ...api.views.group_views import PodGroupView
from ...api.views.job_views import JobView
from ...client.informer import Caches
from ...decide.job.annotated_groups import group_key, reconcile
from ...decide.plan import NOTHING, Plan
from ..runner import Source, controller_key, own_key

_BATCH_SECONDS = 0.05


class JobGroupsController:
    name = "job-groups"

    def __init__(self, caches: Caches) -> None:
        self._jobs = caches.views(JobView)
        self._groups = caches.views(PodGroupView)

    def sources(self) -> Sequence[Source]:
        return (Source(JOBS, _annotated, _BATCH_SECONDS), Source(POD_GROUPS, controller_key(JOBS.kind), _BATCH_SECONDS))

    def decide(self, key: str, now: float) -> Plan:
        job = self._jobs.get(key)
        if job is None:
            return NOTHING
        return reconcile(job, self._groups.get(group_key(job)))


def _annotated(job: Object) -> Iterable[str]:
    return own_key(job) if JOB_SCHEDULING in meta.annotations(job) else ()
