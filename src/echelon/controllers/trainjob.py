"""The TrainJob controller: hands `decide.trainjob` what the caches know about one TrainJob."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from ..api.objects.foreign_gangs import FOREIGN_GANGS
from ..api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    COMPOSITE_POD_GROUPS,
    CONFIG_MAPS,
    JOB_SETS,
    POD_GROUPS,
    SECRETS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    WORKLOADS,
    Object,
    Resource,
)
from ..api.views.group_views import CompositePodGroupView, PodGroupView, WorkloadView
from ..api.views.trainjob_views import TrainJobView
from ..client.custom_informers import CustomInformers
from ..client.informer import Caches, by_controller
from ..decide.plan import NOTHING, Plan
from ..decide.trainjob.model import Observed
from ..decide.trainjob.reconcile import reconcile
from .runner import Source, controller_key, own_key
from .unadmitted import completed, refusal

_CONTROLLER = "controller"
#: Enough for the largest key.
_ENTROPY_BYTES = 80
_FOREIGN_GROUPS = tuple(gang.group for gang in FOREIGN_GANGS)
_OWNED = (CONFIG_MAPS, SECRETS, WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS, JOB_SETS)


class TrainJobController:
    name = "trainjob"

    def __init__(
        self, caches: Caches, *, admitted: bool = True, random_bytes: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        """`admitted`: whether the server fills in and refuses what our own does."""
        self._admitted = admitted
        self._random_bytes = random_bytes
        self._informers = caches
        self._trainjobs = caches.views(TrainJobView)
        self._runtimes = caches.of(TRAINING_RUNTIMES)
        self._cluster_runtimes = caches.of(CLUSTER_TRAINING_RUNTIMES)
        self._workloads = caches.views(WorkloadView, {_CONTROLLER: by_controller})
        self._pod_groups = caches.views(PodGroupView, {_CONTROLLER: by_controller})
        self._composites = caches.views(CompositePodGroupView, {_CONTROLLER: by_controller})
        self._owned = {resource: caches.of(resource) for resource in _OWNED}
        self._gang_kinds: dict[str, Resource] = {}

    def sources(self) -> Sequence[Source]:
        return [Source(TRAIN_JOBS, own_key), *(Source(resource, controller_key("TrainJob")) for resource in _OWNED)]

    def follow_kinds(self, listen: Callable[[Source], None]) -> None:
        """Groups of other schedulers come with their definitions."""

        def follow(kind: Resource, defined: bool) -> None:
            if kind.kind != POD_GROUPS.kind or kind.group not in _FOREIGN_GROUPS:
                return
            if defined:
                self._owned[kind] = self._informers.of(kind)
                self._gang_kinds[kind.group] = kind
                listen(Source(kind, controller_key("TrainJob")))
            else:
                self._owned.pop(kind, None)
                self._gang_kinds.pop(kind.group, None)

        CustomInformers(self._informers).follow(follow)

    def decide(self, key: str, now: float) -> Plan:
        trainjob = self._trainjobs.get(key)
        if trainjob is None:
            return NOTHING
        if not self._admitted:
            trainjob = TrainJobView(completed(TRAIN_JOBS, trainjob.obj))
            refused = refusal(TRAIN_JOBS, trainjob.obj)
            if refused is not None:
                return refused
        return reconcile(self._observe(trainjob), now)

    def _observe(self, trainjob: TrainJobView) -> Observed:
        def find(resource: Resource, name: str) -> Object | None:
            return self._owned[resource].get(f"{trainjob.namespace}/{name}")

        return Observed(
            trainjob,
            self._runtime(trainjob),
            self._workloads.find(_CONTROLLER, trainjob.uid),
            [*self._composites.find(_CONTROLLER, trainjob.uid), *self._pod_groups.find(_CONTROLLER, trainjob.uid)],
            find,
            self._random_bytes(_ENTROPY_BYTES),
            self._gang_kinds,
            takes_reports=self._admitted,
        )

    def _runtime(self, trainjob: TrainJobView) -> Object | None:
        reference = trainjob.spec.runtime_ref
        if reference.kind == TRAINING_RUNTIMES.kind:
            return self._runtimes.get(f"{trainjob.namespace}/{reference.name}")
        return self._cluster_runtimes.get(reference.name)
