"""The JobSet controller: hands `decide.jobset` what the caches know about one JobSet."""

from __future__ import annotations

from collections.abc import Sequence

from ..api.objects import meta
from ..api.scheme import COMPOSITE_POD_GROUPS, JOB_SETS, JOBS, POD_GROUPS, SERVICES, WORKLOADS, Object, Resource
from ..client.informer import Caches, by_controller
from ..decide.jobset.model import Observed
from ..decide.jobset.reconcile import reconcile
from ..decide.plan import NOTHING, Plan
from .runner import Source, controller_key, own_key
from .unadmitted import completed, refusal

_CONTROLLER = "controller"
_GROUP_KINDS = (WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS)
_OWNED = (JOBS, SERVICES, *_GROUP_KINDS)
#: Jobs and groups of one JobSet change in bursts, and a decision looks at all of them.
_BATCH_SECONDS = 0.1


class JobSetController:
    name = "jobset"

    def __init__(self, caches: Caches, *, admitted: bool = True) -> None:
        """`admitted`: whether the server fills in and refuses what our own does."""
        self._admitted = admitted
        self._jobsets = caches.of(JOB_SETS)
        self._owned = {resource: caches.of(resource, {_CONTROLLER: by_controller}) for resource in _OWNED}

    def sources(self) -> Sequence[Source]:
        owned = [Source(resource, controller_key("JobSet"), _BATCH_SECONDS) for resource in _OWNED]
        return [Source(JOB_SETS, own_key), *owned]

    def decide(self, key: str, now: float) -> Plan:
        jobset = self._jobsets.get(key)
        if jobset is None:
            return NOTHING
        if not self._admitted:
            jobset = completed(JOB_SETS, jobset)
            refused = refusal(JOB_SETS, jobset)
            if refused is not None:
                return refused
        return reconcile(self._observe(jobset), now)

    def _observe(self, jobset: Object) -> Observed:
        uid, namespace = meta.uid(jobset), meta.namespace(jobset)

        def find(resource: Resource, name: str) -> Object | None:
            return self._owned[resource].get(f"{namespace}/{name}")

        groups = [(kind, group) for kind in _GROUP_KINDS for group in self._owned[kind].find(_CONTROLLER, uid)]
        return Observed(jobset, self._owned[JOBS].find(_CONTROLLER, uid), groups, find)
