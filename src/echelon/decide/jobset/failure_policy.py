"""What a failed Job means for its JobSet: the first rule that matches any failed Job decides, else a restart.

A restart only moves counters in the status; Jobs labelled with an older attempt are then deleted and made anew by
the next decisions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...api.objects import meta
from ...api.scheme import Object
from ...base.instants import parse
from .children import JOB_INDEX, parent, status_entry
from .model import JobSet
from .status import RESTARTING, JobSetStatusDraft

DEFAULT_ACTION = "RestartJobSet"


@dataclass(frozen=True)
class ChosenAction:
    action: str
    #: The rule's name, "" if none matched.
    rule: str
    job: Object


def apply(js: JobSet, failed: Sequence[Object], status: JobSetStatusDraft) -> None:
    """Write into `status` what the failure of these Jobs leads to."""
    policy = js.spec.get("failurePolicy")
    if policy is None:
        first = min(failed, key=failed_at)
        status.fail("FailedJobs", f"jobset failed due to one or more job failures {_first(first)}")
        return
    decision = choose(policy, failed)
    _ACTIONS[decision.action](js, policy, decision, status)


def choose(policy: Mapping[str, Any], failed: Sequence[Object]) -> ChosenAction:
    for rule in policy.get("rules") or ():
        matching = [job for job in failed if _matches(rule, job)]
        if matching:
            return ChosenAction(rule["action"], rule.get("name", ""), min(matching, key=failed_at))
    return ChosenAction(DEFAULT_ACTION, "", min(failed, key=failed_at))


def failed_at(job: Object) -> tuple[float, str]:
    condition = meta.find_condition(job, "Failed")
    assert condition is not None
    return parse(condition["lastTransitionTime"]), meta.name(job)


def uses_job_restarts(js: JobSet) -> bool:
    """Whether any rule restarts single Jobs; only then do children carry a restart counter of their own."""
    rules = (js.spec.get("failurePolicy") or {}).get("rules") or ()
    return any(rule["action"] in _JOB_ACTIONS for rule in rules)


def _matches(rule: Mapping[str, Any], job: Object) -> bool:
    condition = meta.find_condition(job, "Failed") or {}
    reasons = rule.get("onJobFailureReasons")
    patterns = rule.get("onJobFailureMessagePatterns")
    targets = rule.get("targetReplicatedJobs")
    return (
        bool(parent(job))
        and (not reasons or condition.get("reason") in reasons)
        and (not patterns or any(_found(pattern, condition.get("message", "")) for pattern in patterns))
        and (not targets or parent(job) in targets)
    )


def _found(pattern: str, message: str) -> bool:
    try:
        return re.search(pattern, message) is not None
    except re.error:
        return False


def _first(job: Object) -> str:
    return f"(first failed job: {meta.name(job)})"


def _used(status: JobSetStatusDraft) -> int:
    """Restarts that have consumed budget, global and of single Jobs together."""
    single = sum(sum(e.get("jobRestartsCountTowardsMax") or ()) for e in status.body.get("replicatedJobsStatus") or ())
    return int(status.body.get("restartsCountTowardsMax") or 0) + int(single)


def _within_budget(policy: Mapping[str, Any], decision: ChosenAction, status: JobSetStatusDraft) -> bool:
    if _used(status) < int(policy.get("maxRestarts") or 0):
        return True
    message = f"jobset failed due to reaching max number of restarts {_first(decision.job)}"
    status.fail("ReachedMaxRestarts", message)
    return False


def _fail(js: JobSet, policy: Mapping[str, Any], decision: ChosenAction, status: JobSetStatusDraft) -> None:
    message = f"jobset failed due to FailJobSet failure policy action {_first(decision.job)}"
    status.fail("FailJobSetFailurePolicyAction", message)


def _restart(js: JobSet, policy: Mapping[str, Any], decision: ChosenAction, status: JobSetStatusDraft) -> None:
    if _within_budget(policy, decision, status):
        status.body["restartsCountTowardsMax"] = int(status.body.get("restartsCountTowardsMax") or 0) + 1
        _restart_uncounted(js, policy, decision, status)


def _restart_uncounted(
    js: JobSet, policy: Mapping[str, Any], decision: ChosenAction, status: JobSetStatusDraft
) -> None:
    status.body["restarts"] = js.restarts + 1
    status.body.pop("startTime", None)
    reason = f"FailurePolicy_{decision.rule}" if decision.rule else "DefaultFailurePolicy"
    status.set_true(RESTARTING, reason, f"jobset is restarting {_first(decision.job)}", "Warning")
    _announce(decision, status, f"restart {js.restarts + 1} of the jobset")


def _restart_job(js: JobSet, policy: Mapping[str, Any], decision: ChosenAction, status: JobSetStatusDraft) -> None:
    if _within_budget(policy, decision, status):
        _raise_counter(js, decision.job, status, "jobRestartsCountTowardsMax")
        _restart_job_uncounted(js, policy, decision, status)


def _restart_job_uncounted(
    js: JobSet, policy: Mapping[str, Any], decision: ChosenAction, status: JobSetStatusDraft
) -> None:
    _raise_counter(js, decision.job, status, "jobRestarts")
    _announce(decision, status, "restart of the job alone")


def _raise_counter(js: JobSet, job: Object, status: JobSetStatusDraft, counter: str) -> None:
    entry = status_entry(status.body, parent(job))
    assert entry is not None
    replicas = next(rj.replicas for rj in js.replicated if rj.name == parent(job))
    numbers = list(entry.get(counter) or [0] * replicas)
    numbers[int(meta.labels(job)[JOB_INDEX])] += 1
    entry[counter] = numbers


def _announce(decision: ChosenAction, status: JobSetStatusDraft, what: str) -> None:
    by = f"failure policy rule {decision.rule}" if decision.rule else "the default failure policy action"
    reason = f"{decision.action}FailurePolicyAction"
    status.note("Warning", reason, f"{what} by {by} {_first(decision.job)}")


_Action = Callable[[JobSet, Mapping[str, Any], ChosenAction, JobSetStatusDraft], None]
_ACTIONS: dict[str, _Action] = {
    "FailJobSet": _fail,
    "RestartJobSet": _restart,
    "RestartJobSetAndIgnoreMaxRestarts": _restart_uncounted,
    "RestartJob": _restart_job,
    "RestartJobAndIgnoreMaxRestarts": _restart_job_uncounted,
}
_JOB_ACTIONS = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
