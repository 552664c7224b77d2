"""Table cells of PodGroups and CompositePodGroups."""

from __future__ import annotations

from ....api.objects import meta
from ....api.objects.vocabulary import INITIALLY_SCHEDULED
from ....api.scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, Object


def policy(group: Object, _now: float) -> str:
    chosen = (group.get("spec") or {}).get("schedulingPolicy") or {}
    if "gang" in chosen:
        return "Gang"
    return "Basic" if "basic" in chosen else "<none>"


def workload(group: Object, _now: float) -> str:
    reference = (group.get("spec") or {}).get("workloadRef") or {}
    return str(reference.get("workloadName") or "<none>")


def group_status(group: Object, _now: float) -> str:
    return _placement(group, INITIALLY_SCHEDULED[POD_GROUPS.kind])


def composite_status(group: Object, _now: float) -> str:
    return _placement(group, INITIALLY_SCHEDULED[COMPOSITE_POD_GROUPS.kind])


def _placement(group: Object, condition_type: str) -> str:
    """The reason of DisruptionTarget, else Scheduled or the reason of the scheduled condition, else Pending."""
    disrupted = meta.find_condition(group, "DisruptionTarget")
    if disrupted and disrupted["status"] == "True":
        return str(disrupted.get("reason") or "DisruptionTarget")
    scheduled = meta.find_condition(group, condition_type)
    if scheduled is None:
        return "Pending"
    if scheduled["status"] == "True":
        return "Scheduled"
    return str(scheduled.get("reason") or "Unschedulable")
