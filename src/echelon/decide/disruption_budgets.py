"""How many pods of a PodDisruptionBudget may go: its status, worked out from the pods it covers.

Evictions read and spend `disruptionsAllowed`; preemption counts how many budgets it would break.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..api.objects import meta
from ..api.scheme import POD_DISRUPTION_BUDGETS, Object
from ..base.instants import parse
from .plan import NOTHING, Plan, StatusWrite

#: An eviction that was granted but whose pod is still there is forgotten after this long.
_GRANT_SECONDS = 120.0


def decide(budget: Object, pods: Sequence[Object], now: float) -> Plan:
    """`pods` are those the budget's selector covers; ended ones do not count."""
    live = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    granted, soonest = _granted(budget, live, now)
    healthy = sum(
        meta.condition_is(pod, "Ready") and not meta.deleting(pod) and meta.name(pod) not in granted for pod in live
    )
    desired = _desired(budget["spec"], len(live))
    status = _status(budget, granted, healthy, desired, len(live), now)
    if status == budget.get("status"):
        return NOTHING if soonest is None else Plan(requeue_after=soonest)
    return Plan(status=StatusWrite(POD_DISRUPTION_BUDGETS, budget, status), requeue_after=soonest)


def _granted(budget: Object, pods: Sequence[Object], now: float) -> tuple[dict[str, str], float | None]:
    """Evictions granted and not yet seen to happen, and when the next of them is given up."""
    there = {meta.name(pod) for pod in pods if not meta.deleting(pod)}
    granted: dict[str, str] = {}
    soonest: float | None = None
    for name, at in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
        left = parse(at) + _GRANT_SECONDS - now
        if name in there and left > 0:
            granted[name] = at
            soonest = left if soonest is None else min(soonest, left)
    return granted, soonest


def _desired(spec: Mapping[str, Any], expected: int) -> int:
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - _share(spec["maxUnavailable"], expected))
    return _share(spec.get("minAvailable", 1), expected)


def _share(amount: int | str, expected: int) -> int:
    """A number, or a percentage of what is expected, rounded up."""
    if isinstance(amount, str):
        return math.ceil(int(amount.removesuffix("%")) * expected / 100)
    return amount


def _status(
    budget: Object, granted: Mapping[str, str], healthy: int, desired: int, expected: int, now: float
) -> Object:
    allowed = max(0, healthy - desired) if expected else 0
    state = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    generation = budget["metadata"].get("generation", 0)
    condition = {**meta.condition("DisruptionAllowed", *state, "", now), "observedGeneration": generation}
    old = budget.get("status") or {}
    return {
        **({"disruptedPods": dict(granted)} if granted else {}),
        "observedGeneration": generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": meta.with_condition(old.get("conditions") or (), condition),
    }
