"""The JobSet controller: hands `decide.jobset` what the caches know about one JobSet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..api.objects import meta
from ..api.objects.vocabulary import JOBSET_NAME
from ..api.scheme import JOB_SETS, JOBS, SERVICES, VOLUME_CLAIMS, Object, Resource
from ..api.views.group_views import CompositePodGroupView, PodGroupView, WorkloadView
from ..api.views.job_views import JobSetView, JobView
from ..client.informer import Caches, ViewCache, by_controller
from ..decide.jobset.model import Observed
from ..decide.jobset.reconcile import reconcile
from ..decide.plan import NOTHING, Plan
from .runner import Source, controller_key, own_key
from .unadmitted import completed, refusal

_CONTROLLER = "controller"
_GROUP_VIEWS = (WorkloadView, CompositePodGroupView, PodGroupView)
_OWNED = (JOBS, SERVICES, *(view.resource for view in _GROUP_VIEWS))
#: Jobs and groups of one JobSet change in bursts, and a decision looks at all of them.
_BATCH_SECONDS = 0.1


class JobSetController:
    name = "jobset"

    def __init__(self, caches: Caches, *, admitted: bool = True) -> None:
        """`admitted`: whether the server fills in and refuses what our own does."""
        self._admitted = admitted
        self._jobsets = caches.views(JobSetView)
        self._jobs = caches.views(JobView, {_CONTROLLER: by_controller})
        self._groups: list[ViewCache[Any]] = [caches.views(view, {_CONTROLLER: by_controller}) for view in _GROUP_VIEWS]
        self._owned = {resource: caches.of(resource) for resource in (*_OWNED, VOLUME_CLAIMS)}

    def sources(self) -> Sequence[Source]:
        owned = [Source(resource, controller_key("JobSet"), _BATCH_SECONDS) for resource in _OWNED]
        return [Source(JOB_SETS, own_key), *owned, Source(VOLUME_CLAIMS, _claimed_by)]

    def decide(self, key: str, now: float) -> Plan:
        jobset = self._jobsets.get(key)
        if jobset is None:
            return NOTHING
        if not self._admitted:
            jobset = JobSetView(completed(JOB_SETS, jobset.obj))
            refused = refusal(JOB_SETS, jobset.obj)
            if refused is not None:
                return refused
        return reconcile(self._observe(jobset), now)

    def _observe(self, jobset: JobSetView) -> Observed:
        def find(resource: Resource, name: str) -> Object | None:
            return self._owned[resource].get(f"{jobset.namespace}/{name}")

        groups = [group for cache in self._groups for group in cache.find(_CONTROLLER, jobset.uid)]
        return Observed(jobset, self._jobs.find(_CONTROLLER, jobset.uid), groups, find)


def _claimed_by(claim: Object) -> list[str]:
    """The JobSet that a claim was made for; one that is to outlive it has no owner."""
    name = meta.labels(claim).get(JOBSET_NAME)
    return [f"{meta.namespace(claim)}/{name}"] if name else []
