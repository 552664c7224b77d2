"""Rules of PodGroup, CompositePodGroup and PriorityClass; those of Workload are in `workload`.

After creation only the minimum of a gang may change.  Unlike in Kubernetes 1.37, this includes `minGroupCount` of a
CompositePodGroup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import FieldError, forbidden_field, invalid, required
from ..objects import meta
from ..scheme import Object
from . import fields, grouping, status_conditions
from .kind import NOTHING, KindRules

SYSTEM_PRIORITY_PREFIX = "system-"
#: The built-in classes, the only ones above the user range.
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _pod_group(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    parent, reference = spec.get("parentCompositePodGroupName"), spec.get("workloadRef")
    problems = fields.long_name("spec.parentCompositePodGroupName", parent) if parent is not None else []
    if parent is not None and reference is None:
        problems.append(required("spec.workloadRef", "must be set when parentCompositePodGroupName is set"))
    problems += grouping.workload_reference("spec.workloadRef", reference, reference_needed=False)
    return problems + grouping.group("spec", spec, "minCount") + grouping.annotated_keys(meta.annotations(obj))


def _composite(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    parent = spec.get("parentCompositePodGroupName")
    problems = fields.long_name("spec.parentCompositePodGroupName", parent) if parent is not None else []
    problems += grouping.workload_reference("spec.workloadRef", spec.get("workloadRef"), reference_needed=True)
    return problems + grouping.group("spec", spec, "minGroupCount") + grouping.annotated_keys(meta.annotations(obj))


def _group_update(minimum: str) -> Callable[[Object, Object], list[FieldError]]:
    def check(new: Object, old: Object) -> list[FieldError]:
        now, was = new.get("spec") or {}, old.get("spec") or {}
        problems: list[FieldError] = []
        for field in ("parentCompositePodGroupName", "workloadRef"):
            problems += fields.frozen(f"spec.{field}", now.get(field), was.get(field))
        return problems + grouping.group_update("spec", now, was, minimum)

    return check


def _group_status(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    problems = status_conditions.check("status.conditions", status.get("conditions"))
    return problems + _claim_statuses(status.get("resourceClaimStatuses") or (), new.get("spec") or {})


def _claim_statuses(statuses: Any, spec: Object) -> list[FieldError]:
    path = "status.resourceClaimStatuses"
    problems = fields.no_more_than(path, statuses, grouping.MAX_CLAIMS)
    if problems:
        return problems
    problems = fields.unique(path, statuses)
    known = fields.by_name(spec.get("resourceClaims"))
    for index, status in enumerate(statuses):
        name = status.get("name", "")
        if name not in known:
            problems.append(
                invalid(f"{path}[{index}].name", name, "must match the name of an entry in `spec.resourceClaims`")
            )
        problems += fields.optional(
            f"{path}[{index}].resourceClaimName", status.get("resourceClaimName"), fields.long_name
        )
    return problems


def _group_warnings(obj: Object) -> list[str]:
    return grouping.all_over_basic("spec", obj.get("spec") or {})


POD_GROUP = KindRules(
    validate_create=_pod_group,
    validate_update=_group_update("minCount"),
    validate_status=_group_status,
    warnings=_group_warnings,
    status_metadata=NOTHING,
)
COMPOSITE_POD_GROUP = KindRules(
    validate_create=_composite,
    validate_update=_group_update("minGroupCount"),
    validate_status=_group_status,
    warnings=_group_warnings,
    status_metadata=NOTHING,
)


def _priority_class(obj: Object) -> list[FieldError]:
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    problems: list[FieldError] = []
    if name.startswith(SYSTEM_PRIORITY_PREFIX):
        if SYSTEM_PRIORITIES.get(name) != value or obj.get("globalDefault"):
            problems.append(
                forbidden_field(
                    "metadata.name",
                    "priority class names with 'system-' prefix are reserved for system use only. "
                    "error: it is not one of the known system priority classes, or its value differs",
                )
            )
    elif value > grouping.HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {grouping.HIGHEST_USER_PRIORITY}"
        problems.append(forbidden_field("value", detail))
    if "preemptionPolicy" in obj:
        problems += fields.one_of("preemptionPolicy", obj["preemptionPolicy"], grouping.PREEMPTION_POLICIES)
    return problems


def _priority_class_update(new: Object, old: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    if new.get("value", 0) != old.get("value", 0):
        problems.append(forbidden_field("value", "may not be changed in an update."))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        problems.append(invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable"))
    return problems


PRIORITY_CLASS = KindRules(
    validate_create=_priority_class,
    validate_update=_priority_class_update,
)
