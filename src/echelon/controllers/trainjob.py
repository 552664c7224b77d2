"""The TrainJob controller: hands `decide.trainjob` what the caches know about one TrainJob."""

from __future__ import annotations

from collections.abc import Sequence

from ..api.objects import meta
from ..api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    CONFIG_MAPS,
    JOB_SETS,
    POD_GROUPS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    WORKLOADS,
    Object,
    Resource,
)
from ..client.informer import Caches, by_controller
from ..decide.plan import NOTHING, Plan
from ..decide.trainjob.model import Observed
from ..decide.trainjob.reconcile import reconcile
from .runner import Source, controller_key, own_key
from .unadmitted import completed, refusal

_CONTROLLER = "controller"
_OWNED = (CONFIG_MAPS, WORKLOADS, POD_GROUPS, JOB_SETS)


class TrainJobController:
    name = "trainjob"

    def __init__(self, caches: Caches, *, admitted: bool = True) -> None:
        """`admitted`: whether the server fills in and refuses what our own does."""
        self._admitted = admitted
        self._train_jobs = caches.of(TRAIN_JOBS)
        self._runtimes = caches.of(TRAINING_RUNTIMES)
        self._cluster_runtimes = caches.of(CLUSTER_TRAINING_RUNTIMES)
        self._owned = {resource: caches.of(resource, {_CONTROLLER: by_controller}) for resource in _OWNED}

    def sources(self) -> Sequence[Source]:
        return [Source(TRAIN_JOBS, own_key), *(Source(resource, controller_key("TrainJob")) for resource in _OWNED)]

    def decide(self, key: str, now: float) -> Plan:
        trainjob = self._train_jobs.get(key)
        if trainjob is None:
            return NOTHING
        if not self._admitted:
            trainjob = completed(TRAIN_JOBS, trainjob)
            refused = refusal(TRAIN_JOBS, trainjob)
            if refused is not None:
                return refused
        return reconcile(self._observe(trainjob), now)

    def _observe(self, trainjob: Object) -> Observed:
        uid, namespace = meta.uid(trainjob), meta.namespace(trainjob)

        def find(resource: Resource, name: str) -> Object | None:
            return self._owned[resource].get(f"{namespace}/{name}")

        return Observed(
            trainjob,
            self._runtime(trainjob["spec"]["runtimeRef"], namespace),
            self._owned[WORKLOADS].find(_CONTROLLER, uid),
            self._owned[POD_GROUPS].find(_CONTROLLER, uid),
            find,
        )

    def _runtime(self, reference: Object, namespace: str) -> Object | None:
        if reference.get("kind") == TRAINING_RUNTIMES.kind:
            return self._runtimes.get(f"{namespace}/{reference['name']}")
        return self._cluster_runtimes.get(reference["name"])
