"""The status of a PodDisruptionBudget: how many of the pods that it covers may be evicted.

Evictions read and spend `disruptionsAllowed`; preemption counts how many budgets it would break.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..api.objects import meta
from ..api.objects.subtree import items
from ..api.scheme import POD_DISRUPTION_BUDGETS, Object
from ..api.views.cluster_views import BudgetSpec, BudgetView
from ..api.views.pod_views import PodView
from ..base.decimals import share
from ..base.instants import parse
from .plan import NOTHING, Plan, StatusWrite

#: The uid of a controller and how many pods it wants.
Replicas = tuple[str, int]
#: An eviction that was granted but whose pod is still there is forgotten after this long.
_GRANT_SECONDS = 120.0


def _alone(pod: PodView) -> Replicas | None:
    return None


def reconcile(
    budget: BudgetView, pods: Sequence[PodView], now: float, replicas_of: Callable[[PodView], Replicas | None] = _alone
) -> Plan:
    """`pods` are those that the budget's selector covers; ended ones do not count.

    Where the number of pods matters, it is the one that their controllers want: between the end of a pod and the
    start of its successor a budget must not grow.  `replicas_of` is what controls a pod, if it has replicas.
    """
    live = [pod for pod in pods if not pod.ended]
    expected = _expected(budget.spec, live, replicas_of)
    granted, soonest = _granted(budget, live, now)
    healthy = sum(pod.is_true("Ready") and not pod.deleting and pod.name not in granted for pod in live)
    desired = _desired(budget.spec, expected)
    status = _status(budget, granted, healthy, desired, expected, now)
    if status == budget.obj.get("status"):
        return NOTHING if soonest is None else Plan(requeue_after=soonest)
    return Plan(status=StatusWrite(POD_DISRUPTION_BUDGETS, budget.obj, status), requeue_after=soonest)


def _expected(spec: BudgetSpec, pods: Sequence[PodView], replicas_of: Callable[[PodView], Replicas | None]) -> int:
    if spec.max_unavailable is None and not isinstance(spec.min_available, str):
        return len(pods)
    wanted: dict[str, int] = {}
    for pod in pods:
        uid, count = replicas_of(pod) or (pod.key, 1)
        wanted[uid] = count
    return sum(wanted.values())


def _granted(budget: BudgetView, pods: Sequence[PodView], now: float) -> tuple[dict[str, str], float | None]:
    """Evictions granted whose pods are still there, and the seconds until the next of them is forgotten."""
    present = {pod.name for pod in pods if not pod.deleting}
    granted: dict[str, str] = {}
    soonest: float | None = None
    for name, at in budget.status.disrupted_pods.items():
        left = parse(at) + _GRANT_SECONDS - now
        if name in present and left > 0:
            granted[name] = at
            soonest = left if soonest is None else min(soonest, left)
    return granted, soonest


def _desired(spec: BudgetSpec, expected: int) -> int:
    """How many pods must stay healthy."""
    if spec.max_unavailable is not None:
        return max(0, expected - share(spec.max_unavailable, expected, round_up=True))
    return share(1 if spec.min_available is None else spec.min_available, expected, round_up=True)


def _status(
    budget: BudgetView, granted: Mapping[str, str], healthy: int, desired: int, expected: int, now: float
) -> Object:
    allowed = max(0, healthy - desired) if expected else 0
    state = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    generation = budget.metadata.generation
    condition = {**meta.condition("DisruptionAllowed", *state, "", now), "observedGeneration": generation}
    return {
        **({"disruptedPods": dict(granted)} if granted else {}),
        "observedGeneration": generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": meta.with_condition(items(budget.obj, "status", "conditions"), condition),
    }
