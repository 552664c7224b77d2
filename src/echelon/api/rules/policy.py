"""Rules of PodDisruptionBudget."""

from __future__ import annotations

from ..errors import FieldError, invalid
from ..scheme import Object
from . import fields, pod_placement, status_conditions
from .kind import KindRules

_BOUNDS = ("minAvailable", "maxUnavailable")
_COUNTERS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _budget(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problems: list[FieldError] = []
    if all(bound in spec for bound in _BOUNDS):
        problems.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for bound in _BOUNDS:
        if bound in spec:
            problems += fields.int_or_percent(f"spec.{bound}", spec[bound])
            problems += fields.at_most_all(f"spec.{bound}", spec[bound])
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None:
        allowed = ("AlwaysAllow", "IfHealthyBudget")
        problems += fields.one_of("spec.unhealthyPodEvictionPolicy", policy, allowed)
    return problems + pod_placement.label_selector("spec.selector", spec.get("selector"))


def _status(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    problems = status_conditions.check("status.conditions", status.get("conditions"))
    for counter in _COUNTERS:
        problems += fields.not_negative(f"status.{counter}", status.get(counter))
    return problems


POD_DISRUPTION_BUDGET = KindRules(
    validate_create=_budget, validate_update=lambda new, old: _budget(new), validate_status=_status
)
