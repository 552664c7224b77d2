"""The controllers of ReplicaSets and ReplicationControllers; the decisions are in `decide.apps.replicas`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.objects import meta
from ...api.scheme import (
    DAEMON_SETS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Object,
    Resource,
)
from ...api.views.pod_views import PodView
from ...api.views.replica_views import ReplicaSetView, ReplicationControllerView
from ...client.informer import Caches, ViewCache, by_controller
from ...decide.apps.replicas import ObservedReplicas, Owner, reconcile
from ...decide.plan import NOTHING, Plan
from ..orphan_index import ORPHANS, SELECTORS, adopters, orphan_labels, selected_labels
from ..runner import Source, controller_key, own_key
from .creation_rate import CreationRate

#: Pods of one owner change in bursts; deciding on every change alone would cost the square of their number.
_BATCH_SECONDS = 0.1
#: Index of pods by the uid of a controller of these kinds.
REPLICAS = "replicated-by"
_Owners = ViewCache[ReplicaSetView] | ViewCache[ReplicationControllerView]
_KINDS = (REPLICA_SETS.kind, REPLICATION_CONTROLLERS.kind, STATEFUL_SETS.kind, DAEMON_SETS.kind)


def replicated_by(pod: Object) -> Iterable[str]:
    owner = meta.controller_of(pod)
    return (str(owner["uid"]),) if owner is not None and owner["kind"] in _KINDS else ()


class _ReplicasController:
    """What both kinds have in common."""

    def __init__(
        self,
        caches: Caches,
        resource: Resource,
        owners: _Owners,
    ) -> None:
        self._resource = resource
        self._owners = owners
        self._pods = caches.views(PodView, {REPLICAS: replicated_by, ORPHANS: orphan_labels})
        self._namespaces = caches.of(NAMESPACES)
        self._owner_of = controller_key(resource.kind)
        self._rate = CreationRate()

    def sources(self) -> Sequence[Source]:
        return (Source(self._resource, own_key), Source(PODS, self._owners_of_pod, _BATCH_SECONDS))

    def decide(self, key: str, now: float) -> Plan:
        owner = self._owners.get(key)
        if owner is None:
            return NOTHING
        namespace = self._namespaces.get(owner.namespace)
        observed = ObservedReplicas(
            owner=owner,
            owned=self._pods.find(REPLICAS, owner.uid),
            orphans=() if owner.deleting else self._pods.find(ORPHANS, selected_labels(owner.obj)[0]),
            related=lambda: self._related(owner),
            namespace_closed=namespace is not None and meta.deleting(namespace),
            room=self._rate.room(owner.uid, owner.spec.replicas, now),
        )
        return self._rate.count(owner.uid, reconcile(observed, now), now)

    def _related(self, owner: Owner) -> Iterable[PodView]:
        return self._pods.find(REPLICAS, owner.uid)

    def _owners_of_pod(self, pod: Object) -> Iterable[str]:
        if not len(self._owners):
            return  # asked for every pod of the cluster
        yield from self._owner_of(pod)
        yield from adopters(pod, self._owners)


class ReplicaSetController(_ReplicasController):
    name = "replicaset"

    def __init__(self, caches: Caches) -> None:
        self._sets = caches.views(ReplicaSetView, {SELECTORS: selected_labels, "controller": by_controller})
        super().__init__(caches, REPLICA_SETS, self._sets)

    def _related(self, owner: Owner) -> Iterable[PodView]:
        """The pods of all ReplicaSets with the same controller."""
        controller = owner.controller
        siblings = self._sets.find("controller", controller.uid) if controller is not None else [owner]
        return [pod for one in siblings for pod in self._pods.find(REPLICAS, one.uid)]


class ReplicationControllerController(_ReplicasController):
    name = "replicationcontroller"

    def __init__(self, caches: Caches) -> None:
        super().__init__(
            caches, REPLICATION_CONTROLLERS, caches.views(ReplicationControllerView, {SELECTORS: selected_labels})
        )  # fmt: skip
