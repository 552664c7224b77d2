"""The StatefulSet controller; the decisions are in `decide.apps.stateful`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.objects import meta
from ...api.scheme import CONTROLLER_REVISIONS, NAMESPACES, PODS, STATEFUL_SETS, VOLUME_CLAIMS, Object
from ...api.views.pod_views import PodView
from ...api.views.replica_views import ControllerRevisionView, StatefulSetView
from ...client.informer import Caches, by_controller
from ...decide.apps.stateful import ObservedStateful, reconcile
from ...decide.plan import NOTHING, Plan
from ..orphan_index import ORPHANS, SELECTORS, orphan_labels, selected_labels
from ..runner import Source, controller_key, own_key
from .creation_rate import CreationRate
from .replicas import REPLICAS, replicated_by

_set_of = controller_key(STATEFUL_SETS.kind)
_BATCH_SECONDS = 0.1


class StatefulSetController:
    name = "statefulset"

    def __init__(self, caches: Caches) -> None:
        self._sets = caches.views(StatefulSetView, {SELECTORS: selected_labels})
        self._pods = caches.views(PodView, {REPLICAS: replicated_by, ORPHANS: orphan_labels})
        indexes = {"controller": by_controller, ORPHANS: orphan_labels}
        self._revisions = caches.views(ControllerRevisionView, indexes)
        self._claims = caches.of(VOLUME_CLAIMS)
        self._namespaces = caches.of(NAMESPACES)
        self._rate = CreationRate()

    def sources(self) -> Sequence[Source]:
        return (
            Source(STATEFUL_SETS, own_key),
            Source(CONTROLLER_REVISIONS, _set_of),
            Source(PODS, self._sets_of_pod, _BATCH_SECONDS),
        )

    def decide(self, key: str, now: float) -> Plan:
        owner = self._sets.get(key)
        if owner is None:
            return NOTHING
        namespace, space = self._namespaces.get(owner.namespace), owner.namespace
        label = selected_labels(owner.obj)[0]
        observed = ObservedStateful(
            owner=owner,
            owned=self._pods.find(REPLICAS, owner.uid),
            orphans=() if owner.deleting else self._pods.find(ORPHANS, label),
            revisions=self._revisions.find("controller", owner.uid),
            orphan_revisions=() if owner.deleting else self._revisions.find(ORPHANS, label),
            revision_named=lambda name: self._revisions.get(f"{space}/{name}"),
            has_claim=lambda name: self._claims.get(f"{space}/{name}") is not None,
            namespace_closed=namespace is not None and meta.deleting(namespace),
            room=self._rate.room(owner.uid, owner.spec.replicas, now),
        )
        return self._rate.count(owner.uid, reconcile(observed, now), now)

    def _sets_of_pod(self, pod: Object) -> Iterable[str]:
        if not len(self._sets):
            return  # asked for every pod of the cluster
        yield from _set_of(pod)
        for value in orphan_labels(pod):
            for owner in self._sets.find(SELECTORS, value):
                yield owner.key
