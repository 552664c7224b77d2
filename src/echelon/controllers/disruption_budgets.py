"""The disruption controller: keeps the status of PodDisruptionBudgets current."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api.objects import meta
from ..api.objects.selectors import LabelSelector
from ..api.scheme import POD_DISRUPTION_BUDGETS, PODS, Object
from ..api.views.cluster_views import BudgetView
from ..api.views.pod_views import PodView
from ..client.informer import Caches, by_namespace
from ..decide.disruption_budgets import reconcile
from ..decide.plan import NOTHING, Plan
from .runner import Source, own_key

_NAMESPACE = "namespace"


class DisruptionController:
    name = "disruption"

    def __init__(self, caches: Caches) -> None:
        self._budgets = caches.views(BudgetView, {_NAMESPACE: by_namespace})
        self._pods = caches.views(PodView, {_NAMESPACE: by_namespace})

    def sources(self) -> Sequence[Source]:
        return (Source(POD_DISRUPTION_BUDGETS, own_key), Source(PODS, self._covering))

    def decide(self, key: str, now: float) -> Plan:
        budget = self._budgets.get(key)
        if budget is None or budget.deleting:
            return NOTHING
        covers = LabelSelector.from_object(budget.spec.selector).matches
        pods = [pod for pod in self._pods.find(_NAMESPACE, budget.namespace) if covers(pod.labels)]
        return reconcile(budget, pods, now)

    def _covering(self, pod: Object) -> Iterable[str]:
        """A change of a pod concerns the budgets over it."""
        return [
            budget.key
            for budget in self._budgets.find(_NAMESPACE, meta.namespace(pod))
            if LabelSelector.from_object(budget.spec.selector).matches(meta.labels(pod))
        ]
