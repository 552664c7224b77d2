"""The Deployment controller; the decisions are in `decide.apps.rollout`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.objects import meta
from ...api.scheme import DEPLOYMENTS, NAMESPACES, PODS, REPLICA_SETS, Object
from ...api.views.pod_views import PodView
from ...api.views.replica_views import DeploymentView, ReplicaSetView
from ...client.informer import Caches, by_controller
from ...decide.apps.rollout import ObservedDeployment, reconcile
from ...decide.plan import NOTHING, Plan
from ..orphan_index import ORPHANS, SELECTORS, adopters, orphan_labels, selected_labels
from ..runner import Source, controller_key, own_key
from .replicas import REPLICAS, replicated_by

_deployment_of = controller_key(DEPLOYMENTS.kind)
#: Pods end in bursts.
_BATCH_SECONDS = 0.1


class DeploymentController:
    name = "deployment"

    def __init__(self, caches: Caches) -> None:
        self._deployments = caches.views(DeploymentView, {SELECTORS: selected_labels})
        self._sets = caches.views(ReplicaSetView, {"controller": by_controller, ORPHANS: orphan_labels})
        self._pods = caches.views(PodView, {REPLICAS: replicated_by})
        self._namespaces = caches.of(NAMESPACES)

    def sources(self) -> Sequence[Source]:
        return (
            Source(DEPLOYMENTS, own_key),
            Source(REPLICA_SETS, self._deployments_of_set),
            Source(PODS, self._waiting_for_pod, _BATCH_SECONDS),
        )

    def decide(self, key: str, now: float) -> Plan:
        deployment = self._deployments.get(key)
        if deployment is None:
            return NOTHING
        namespace = self._namespaces.get(deployment.namespace)
        observed = ObservedDeployment(
            deployment=deployment,
            owned=self._sets.find("controller", deployment.uid),
            orphans=() if deployment.deleting else self._sets.find(ORPHANS, selected_labels(deployment.obj)[0]),
            pods=lambda uid: self._pods.find(REPLICAS, uid),
            named=lambda name: self._sets.get(f"{deployment.namespace}/{name}"),
            namespace_closed=namespace is not None and meta.deleting(namespace),
        )
        return reconcile(observed, now)

    def _deployments_of_set(self, replica_set: Object) -> Iterable[str]:
        yield from _deployment_of(replica_set)
        yield from adopters(replica_set, self._deployments)

    def _waiting_for_pod(self, pod: Object) -> Iterable[str]:
        """A Deployment that recreates its pods waits for the last one of the old template."""
        owner = meta.controller_of(pod) if len(self._deployments) else None
        if owner is None or owner["kind"] != REPLICA_SETS.kind:
            return ()
        replica_set = self._sets.get(f"{meta.namespace(pod)}/{owner['name']}")
        keys = _deployment_of(replica_set.obj) if replica_set is not None else ()
        found = [(key, self._deployments.get(key)) for key in keys]
        return [key for key, one in found if one is not None and one.spec.strategy.type == "Recreate"]
