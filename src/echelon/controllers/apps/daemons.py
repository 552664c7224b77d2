"""The DaemonSet controller; the decisions are in `decide.apps.daemons`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.scheme import NODES, Object
from ...api.views.cluster_views import NodeView
from ...api.views.replica_views import DaemonSetView
from ...client.informer import Caches
from ...decide.apps.daemons import reconcile
from ...decide.plan import NOTHING, Plan
from ..runner import Source
from .creation_rate import CreationRate
from .revisioned_sets import BATCH_SECONDS, RevisionedSets


class DaemonSetController:
    name = "daemonset"

    def __init__(self, caches: Caches) -> None:
        self._sets = RevisionedSets(caches, DaemonSetView)
        self._nodes = caches.views(NodeView)
        self._rate = CreationRate()

    def sources(self) -> Sequence[Source]:
        return (*self._sets.sources(), Source(NODES, self._all, BATCH_SECONDS))

    def decide(self, key: str, now: float) -> Plan:
        owner = self._sets.owners.get(key)
        if owner is None:
            return NOTHING
        observed = self._sets.observed(owner, self._rate.room(owner.uid, len(self._nodes), now))
        nodes = [node for node in self._nodes.all() if not node.deleting]
        return self._rate.count(owner.uid, reconcile(observed, nodes, now), now)

    def _all(self, _node: Object) -> Iterable[str]:
        return [one.key for one in self._sets.owners.all()]
