"""PodDisruptionBudgets: which pods each covers, and how many of them may still be evicted.

A budget's own status counts when its controller has seen the spec; until then the allowance is computed from the
placed pods that it covers.
"""

from __future__ import annotations

from ...api.objects.selectors import LabelSelector
from ...api.views.cluster_views import BudgetView
from ...api.views.pod_views import PodView
from ...base.decimals import share
from ...engine import Budget
from .forest import Ids


class _Cover:
    """One budget and the placed pods under it."""

    def __init__(self, number: int, budget: BudgetView) -> None:
        self.id = number
        self.budget = budget
        self.selector = LabelSelector.from_object(budget.spec.selector)
        self.pods: dict[int, None] = {}

    def covers(self, pod: PodView) -> bool:
        return bool(pod.labels) and self.selector.matches(pod.labels)

    def allowance(self) -> int:
        spec, status, count = self.budget.spec, self.budget.status, len(self.pods)
        if status.disruptions_allowed is not None and status.observed_generation >= self.budget.metadata.generation:
            return status.disruptions_allowed
        if spec.max_unavailable is not None:
            return max(0, share(spec.max_unavailable, count, round_up=True))
        return max(0, count - share(spec.min_available or 0, count, round_up=True))


class Budgets:
    """All budgets, by namespace."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._spaces: dict[str, dict[str, _Cover]] = {}

    def put(self, budget: BudgetView) -> bool:
        """Take in a budget; True if it may cover other pods than before."""
        space = self._spaces.setdefault(budget.namespace, {})
        known = space.get(budget.name)
        fresh = _Cover(self._ids.of(("budget", budget.key)), budget)
        if known is not None and known.selector == fresh.selector:
            known.budget = budget
            return False
        space[budget.name] = fresh
        return True

    def remove(self, budget: BudgetView) -> int:
        """Forget a budget; returns its id."""
        space = self._spaces[budget.namespace]
        cover = space.pop(budget.name)
        if not space:
            del self._spaces[budget.namespace]
        self._ids.drop(("budget", budget.key))
        return cover.id

    def cover(self, number: int, pod: PodView) -> tuple[int, ...]:
        """A pod holds a place: the ids of the budgets that cover it now."""
        if not self._spaces:
            return ()
        found = []
        for cover in self._spaces.get(pod.namespace, {}).values():
            if cover.covers(pod):
                cover.pods[number] = None
                found.append(cover.id)
            else:
                cover.pods.pop(number, None)
        return tuple(found)

    def uncover(self, number: int, namespace: str) -> None:
        for cover in self._spaces.get(namespace, {}).values():
            cover.pods.pop(number, None)

    def allowances(self, namespace: str) -> list[Budget]:
        return [Budget(cover.id, cover.allowance()) for cover in self._spaces.get(namespace, {}).values()]
