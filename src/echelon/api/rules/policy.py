"""Rules of PodDisruptionBudget."""

from __future__ import annotations

import re
from typing import Any

from ...base.decimals import read_count
from ..errors import FieldError, invalid
from ..scheme import Object
from . import fields, pod_placement, status_conditions
from .kind import KindRules

_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_SENTENCE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
_BOUNDS = ("minAvailable", "maxUnavailable")
_COUNTERS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _budget(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problems: list[FieldError] = []
    if all(bound in spec for bound in _BOUNDS):
        problems.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for bound in _BOUNDS:
        if bound in spec:
            problems += _amount(f"spec.{bound}", spec[bound])
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None:
        allowed = ("AlwaysAllow", "IfHealthyBudget")
        problems += fields.one_of("spec.unhealthyPodEvictionPolicy", policy, allowed)
    return problems + pod_placement.label_selector("spec.selector", spec.get("selector"))


def _amount(path: str, value: Any) -> list[FieldError]:
    """A number of pods, or a share of them."""
    if isinstance(value, int):
        return fields.at_least(path, value, 0)
    if not _PERCENT.fullmatch(value):
        return [invalid(path, value, _PERCENT_SENTENCE)]
    share = read_count(value[:-1])
    return [invalid(path, value, "must not be greater than 100%")] if share is None or share > 100 else []


def _status(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    problems = status_conditions.check("status.conditions", status.get("conditions"))
    for counter in _COUNTERS:
        problems += fields.not_negative(f"status.{counter}", status.get(counter))
    return problems


POD_DISRUPTION_BUDGET = KindRules(
    validate_create=_budget, validate_update=lambda new, old: _budget(new), validate_status=_status
)
