"""The disruption controller: keeps the status of PodDisruptionBudgets current."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api.objects import meta
from ..api.objects.selectors import LabelSelector
from ..api.scheme import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Object,
)
from ..api.views.cluster_views import BudgetView
from ..api.views.pod_views import PodView
from ..client.informer import Caches, by_namespace
from ..decide.disruption_budgets import Replicas, reconcile
from ..decide.plan import NOTHING, Plan
from .runner import Source, own_key

_NAMESPACE = "namespace"
_REPLICATED = (REPLICA_SETS, REPLICATION_CONTROLLERS, DEPLOYMENTS, STATEFUL_SETS)


def _wanted(controller: Object) -> int:
    count = (controller.get("spec") or {}).get("replicas", 1)
    return count if isinstance(count, int) else 1


class DisruptionController:
    name = "disruption"

    def __init__(self, caches: Caches) -> None:
        self._budgets = caches.views(BudgetView, {_NAMESPACE: by_namespace})
        self._pods = caches.views(PodView, {_NAMESPACE: by_namespace})
        self._replicated = {kind.kind: caches.of(kind) for kind in _REPLICATED}

    def sources(self) -> Sequence[Source]:
        return (Source(POD_DISRUPTION_BUDGETS, own_key), Source(PODS, self._covering))

    def decide(self, key: str, now: float) -> Plan:
        budget = self._budgets.get(key)
        if budget is None or budget.deleting:
            return NOTHING
        covers = LabelSelector.from_object(budget.spec.selector).matches
        pods = [pod for pod in self._pods.find(_NAMESPACE, budget.namespace) if covers(pod.labels)]
        return reconcile(budget, pods, now, self._replicas)

    def _replicas(self, pod: PodView) -> Replicas | None:
        """The topmost controller of a pod that has replicas: the Deployment of a ReplicaSet, or what owns the pod."""
        found, owned = None, pod.obj
        for _ in range(2):
            owner = meta.controller_of(owned)
            informer = self._replicated.get(owner["kind"]) if owner else None
            controller = informer.get(f"{pod.namespace}/{owner['name']}") if owner and informer else None
            if owner is None or controller is None or meta.uid(controller) != owner["uid"]:
                return found
            found, owned = (meta.uid(controller), _wanted(controller)), controller
        return found

    def _covering(self, pod: Object) -> Iterable[str]:
        """A change of a pod concerns the budgets over it."""
        return [
            budget.key
            for budget in self._budgets.find(_NAMESPACE, meta.namespace(pod))
            if LabelSelector.from_object(budget.spec.selector).matches(meta.labels(pod))
        ]
