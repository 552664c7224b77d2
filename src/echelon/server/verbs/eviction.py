"""POST pods/{name}/eviction: delete a pod unless that violates a PodDisruptionBudget."""

from __future__ import annotations

from typing import Any

from ...api.errors import ApiError
from ...api.objects.meta import condition, condition_is, deleting, labels, name, namespace, with_condition
from ...api.objects.selectors import LabelSelector
from ...api.scheme import POD_DISRUPTION_BUDGETS, PODS, Object
from ...api.verbs import DeleteOptions
from ...base.instants import to_time
from ...store.interface import RevisionMismatch
from ..objects.stored_objects import Access
from .delete import delete

_RETRY_SECONDS = 10
#: Phases in which budgets do not protect a pod.
_UNPROTECTED = ("Pending", "Succeeded", "Failed")


async def evict(access: Access, space: str, pod_name: str, options: DeleteOptions) -> None:
    pod = access.trees.of_record(access.record(PODS, pod_name, space))
    if (pod.get("status") or {}).get("phase") not in _UNPROTECTED and not deleting(pod):
        await _spend_budget(access, pod, options)
    if not deleting(pod):
        await _set_disruption_target(access, pod, options)
    await delete(access, PODS, pod_name, space, options)


def _budgets(access: Access, pod: Object) -> list[Object]:
    found = access.list(POD_DISRUPTION_BUDGETS, namespace(pod))
    return [b for b in found if LabelSelector.from_object(b["spec"].get("selector")).matches(labels(pod))]


async def _spend_budget(access: Access, pod: Object, options: DeleteOptions) -> None:
    while True:
        budgets = _budgets(access, pod)
        if not budgets:
            return
        if len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise ApiError(500, "InternalError", text)
        budget = budgets[0]
        if _harmless(budget, pod):
            return
        spent = _spent(budget, pod, access.clock.now())
        if options.dry_run:
            return
        record = access.record(POD_DISRUPTION_BUDGETS, name(budget), namespace(budget))
        try:
            await access.replace(POD_DISRUPTION_BUDGETS, spent, record)
        except RevisionMismatch:
            await access.store.settled(record.key)
        else:
            return


def _harmless(budget: Object, pod: Object) -> bool:
    """Whether a pod that is not ready may go without being counted: always, or while enough others are healthy."""
    if condition_is(pod, "Ready"):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _spent(budget: Object, pod: Object, now: float) -> Object:
    """The budget after one more disruption; 429 if it allows none."""
    status: dict[str, Any] = budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        processing = f"The disruption budget {name(budget)} is still being processed by the server."
        raise _too_many(processing, _RETRY_SECONDS)
    allowed, healthy = status.get("disruptionsAllowed", 0), status.get("currentHealthy", 0)
    if allowed <= 0:
        desired = status.get("desiredHealthy", 0)
        raise _too_many(
            f"The disruption budget {name(budget)} needs {desired} healthy pods and has {healthy} currently"
        )
    disrupted = {**(status.get("disruptedPods") or {}), name(pod): to_time(now)}
    spent = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    return {**budget, "metadata": {**budget["metadata"]}, "status": spent}


def _too_many(detail: str, retry_seconds: int = 0) -> ApiError:
    """429; clients retry by themselves only if they are told when."""
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": detail}]}
    if retry_seconds:
        details["retryAfterSeconds"] = retry_seconds
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiError(429, "TooManyRequests", text, details)


async def _set_disruption_target(access: Access, pod: Object, options: DeleteOptions) -> None:
    """Set the DisruptionTarget condition of the pod."""
    if options.dry_run:
        return
    reason = condition(
        "DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting", access.clock.now()
    )
    while True:
        record = access.record(PODS, name(pod), namespace(pod))
        current = access.trees.of_record(record)
        status = current.get("status") or {}
        conditions = with_condition(status.get("conditions") or (), reason)
        marked = {**current, "metadata": {**current["metadata"]}, "status": {**status, "conditions": conditions}}
        try:
            await access.replace(PODS, marked, record)
        except RevisionMismatch:
            await access.store.settled(record.key)
        else:
            return
