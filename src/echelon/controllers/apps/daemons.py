"""The DaemonSet controller; the decisions are in `decide.apps.daemons`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.objects import meta
from ...api.scheme import CONTROLLER_REVISIONS, DAEMON_SETS, NAMESPACES, NODES, PODS, Object
from ...api.views.cluster_views import NodeView
from ...api.views.pod_views import PodView
from ...api.views.replica_views import ControllerRevisionView, DaemonSetView
from ...client.informer import Caches, by_controller
from ...decide.apps.daemons import ObservedDaemons, reconcile
from ...decide.plan import NOTHING, Plan
from ..orphan_index import ORPHANS, SELECTORS, orphan_labels, selected_labels
from ..runner import Source, controller_key, own_key
from .creation_rate import CreationRate
from .replicas import REPLICAS, replicated_by

_set_of = controller_key(DAEMON_SETS.kind)
#: Nodes and pods change in bursts.
_BATCH_SECONDS = 0.1


class DaemonSetController:
    name = "daemonset"

    def __init__(self, caches: Caches) -> None:
        self._sets = caches.views(DaemonSetView, {SELECTORS: selected_labels})
        self._pods = caches.views(PodView, {REPLICAS: replicated_by, ORPHANS: orphan_labels})
        indexes = {"controller": by_controller, ORPHANS: orphan_labels}
        self._revisions = caches.views(ControllerRevisionView, indexes)
        self._nodes = caches.views(NodeView)
        self._namespaces = caches.of(NAMESPACES)
        self._rate = CreationRate()

    def sources(self) -> Sequence[Source]:
        return (
            Source(DAEMON_SETS, own_key),
            Source(CONTROLLER_REVISIONS, _set_of),
            Source(NODES, self._all, _BATCH_SECONDS),
            Source(PODS, self._sets_of_pod, _BATCH_SECONDS),
        )

    def decide(self, key: str, now: float) -> Plan:
        owner = self._sets.get(key)
        if owner is None:
            return NOTHING
        namespace, space = self._namespaces.get(owner.namespace), owner.namespace
        label = selected_labels(owner.obj)[0]
        observed = ObservedDaemons(
            owner=owner,
            owned=self._pods.find(REPLICAS, owner.uid),
            orphans=() if owner.deleting else self._pods.find(ORPHANS, label),
            nodes=[node for node in self._nodes.all() if not node.deleting],
            revisions=self._revisions.find("controller", owner.uid),
            orphan_revisions=() if owner.deleting else self._revisions.find(ORPHANS, label),
            revision_named=lambda name: self._revisions.get(f"{space}/{name}"),
            namespace_closed=namespace is not None and meta.deleting(namespace),
            room=self._rate.room(owner.uid, len(self._nodes), now),
        )
        return self._rate.count(owner.uid, reconcile(observed, now), now)

    def _all(self, _node: Object) -> Iterable[str]:
        return [one.key for one in self._sets.all()]

    def _sets_of_pod(self, pod: Object) -> Iterable[str]:
        if not len(self._sets):
            return  # asked for every pod of the cluster
        yield from _set_of(pod)
        for value in orphan_labels(pod):
            for owner in self._sets.find(SELECTORS, value):
                yield owner.key
