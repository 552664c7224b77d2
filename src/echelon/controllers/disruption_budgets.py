"""The disruption controller: keeps the status of PodDisruptionBudgets true."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api.objects import meta
from ..api.objects.selectors import LabelSelector
from ..api.scheme import POD_DISRUPTION_BUDGETS, PODS, Object
from ..client.informer import Caches, by_namespace
from ..decide import disruption_budgets
from ..decide.plan import NOTHING, Plan
from .runner import Source, own_key

_SPACE = "namespace"


class DisruptionController:
    name = "disruption"

    def __init__(self, caches: Caches) -> None:
        self._budgets = caches.of(POD_DISRUPTION_BUDGETS, {_SPACE: by_namespace})
        self._pods = caches.of(PODS, {_SPACE: by_namespace})

    def sources(self) -> Sequence[Source]:
        return (Source(POD_DISRUPTION_BUDGETS, own_key), Source(PODS, self._covering))

    def decide(self, key: str, now: float) -> Plan:
        budget = self._budgets.get(key)
        if budget is None or meta.deleting(budget):
            return NOTHING
        covers = LabelSelector.from_object(budget["spec"].get("selector")).matches
        pods = [pod for pod in self._pods.find(_SPACE, meta.namespace(budget)) if covers(meta.labels(pod))]
        return disruption_budgets.decide(budget, pods, now)

    def _covering(self, pod: Object) -> Iterable[str]:
        """A change of a pod concerns the budgets over it."""
        return [
            meta.key(budget)
            for budget in self._budgets.find(_SPACE, meta.namespace(pod))
            if LabelSelector.from_object(budget["spec"].get("selector")).matches(meta.labels(pod))
        ]
