"""The StatefulSet controller; the decisions are in `decide.apps.stateful`."""

from __future__ import annotations

from collections.abc import Sequence

from ...api.scheme import VOLUME_CLAIMS
from ...api.views.replica_views import StatefulSetView
from ...client.informer import Caches
from ...decide.apps.stateful import reconcile
from ...decide.plan import NOTHING, Plan
from ..runner import Source
from .creation_rate import CreationRate
from .revisioned_sets import RevisionedSets


class StatefulSetController:
    name = "statefulset"

    def __init__(self, caches: Caches) -> None:
        self._sets = RevisionedSets(caches, StatefulSetView)
        self._claims = caches.of(VOLUME_CLAIMS)
        self._rate = CreationRate()

    def sources(self) -> Sequence[Source]:
        return self._sets.sources()

    def decide(self, key: str, now: float) -> Plan:
        owner = self._sets.owners.get(key)
        if owner is None:
            return NOTHING
        observed = self._sets.observed(owner, self._rate.room(owner.uid, owner.spec.replicas, now))
        namespace = owner.namespace
        plan = reconcile(observed, lambda name: self._claims.get(f"{namespace}/{name}") is not None, now)
        return self._rate.count(owner.uid, plan, now)
