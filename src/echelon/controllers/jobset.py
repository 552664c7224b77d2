"""The JobSet controller: hands `decide.jobset` what the caches know about one JobSet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..api.objects import meta
from ..api.objects.vocabulary import OUR_SCHEDULERS
from ..api.scheme import JOB_SETS, JOBS, POD_GROUPS, PODS, PRIORITY_CLASSES, SERVICES, VOLUME_CLAIMS, Object, Resource
from ..api.views.group_views import CompositePodGroupView, PodGroupView, WorkloadView
from ..api.views.job_views import JobSetView, JobView
from ..api.views.pod_views import PodView
from ..client.informer import Caches, ViewCache, by_controller, by_jobset
from ..decide.gang_trouble import Gangs
from ..decide.jobset.model import Observed, PodPlacement
from ..decide.jobset.reconcile import reconcile
from ..decide.plan import NOTHING, Plan
from .gang_watch import GROUPS_JOINED, GangWatch, groups_joined
from .runner import Source, controller_key, own_key
from .unadmitted import completed, refusal

_CONTROLLER, _JOBSET = "controller", "jobset"
_GROUP_VIEWS = (WorkloadView, CompositePodGroupView, PodGroupView)
_OWNED = (JOBS, SERVICES, *(view.resource for view in _GROUP_VIEWS))
#: Jobs and groups of one JobSet change in bursts, and a decision looks at all of them.
_BATCH_SECONDS = 0.1


class JobSetController:
    name = "jobset"

    def __init__(
        self, caches: Caches, *, admitted: bool = True, our_schedulers: Collection[str] = OUR_SCHEDULERS
    ) -> None:
        """`admitted`: whether the server fills in and refuses what our own does."""
        self._admitted = admitted
        self._classes = None if admitted else caches.of(PRIORITY_CLASSES)
        self._placement = PodPlacement(our_schedulers, None if admitted else self._priority_of)
        self._jobsets = caches.views(JobSetView, {GROUPS_JOINED: groups_joined})
        self._gangs = GangWatch(caches)
        self._jobs = caches.views(JobView, {_CONTROLLER: by_controller})
        self._groups: list[ViewCache[Any]] = [caches.views(view, {_CONTROLLER: by_controller}) for view in _GROUP_VIEWS]
        self._pods = caches.views(PodView, {_JOBSET: by_jobset})
        self._owned = {resource: caches.of(resource) for resource in (*_OWNED, VOLUME_CLAIMS)}

    def sources(self) -> Sequence[Source]:
        owned = [Source(resource, controller_key("JobSet"), _BATCH_SECONDS) for resource in _OWNED]
        joined = Source(POD_GROUPS, self._joined_by, _BATCH_SECONDS)
        claims, pods = Source(VOLUME_CLAIMS, by_jobset), Source(PODS, self._at_a_barrier, _BATCH_SECONDS)
        return [Source(JOB_SETS, own_key), *owned, claims, pods, joined]

    def decide(self, key: str, now: float) -> Plan:
        jobset = self._jobsets.get(key)
        if jobset is None:
            return NOTHING
        if not self._admitted:
            jobset = JobSetView(completed(JOB_SETS, jobset.obj))
            refused = refusal(JOB_SETS, jobset.obj)
            if refused is not None:
                return refused
        observed = self._observe(jobset, self._gangs.of(jobset.obj, key, now))
        return self._gangs.heard(jobset.obj, key, reconcile(observed, now), now)

    def _joined_by(self, group: Object) -> list[str]:
        """JobSets whose templates name a group that someone else made."""
        return [jobset.key for jobset in self._jobsets.find(GROUPS_JOINED, meta.key(group))]

    def _observe(self, jobset: JobSetView, gangs: Gangs) -> Observed:
        def find(resource: Resource, name: str) -> Object | None:
            return self._owned[resource].get(f"{jobset.namespace}/{name}")

        groups = [group for cache in self._groups for group in cache.find(_CONTROLLER, jobset.uid)]
        pods = self._pods.find(_JOBSET, meta.key(jobset.obj)) if _restarts_in_place(jobset) else ()
        return Observed(jobset, self._jobs.find(_CONTROLLER, jobset.uid), groups, find, gangs, pods, self._placement)

    def _at_a_barrier(self, pod: Object) -> list[str]:
        """The JobSet of a pod, if what the pod says about itself matters to it."""
        return [key for key in by_jobset(pod) if (found := self._jobsets.get(key)) and _restarts_in_place(found)]

    def _priority_of(self, name: str) -> int | None:
        """The value of a PriorityClass; without a name that of the default, or 0."""
        assert self._classes is not None
        if name:
            found = self._classes.get(name)
            return found["value"] if found is not None else None
        defaults = [one["value"] for one in self._classes.all() if one.get("globalDefault")]
        return min(defaults, default=0)


def _restarts_in_place(jobset: JobSetView) -> bool:
    policy = jobset.spec.failure_policy
    return policy is not None and policy.restart_strategy == "InPlaceRestart"
