"""What a failed Job means for its JobSet: the first rule that matches any failed Job decides, else a restart.

A restart only moves counters in the status; Jobs labelled with an older attempt are then deleted and made anew by
the next decisions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...api.objects.subtree import items
from ...api.views.job_views import JobFailureRule, JobSetFailurePolicy, JobView
from ...api.views.object_view import Condition
from ...base.instants import parse
from .children import job_index, parent
from .model import JobSet
from .restarts import execution_attempts
from .status import RESTARTING, JobSetStatusDraft

DEFAULT_ACTION = "RestartJobSet"


@dataclass(frozen=True)
class ChosenAction:
    action: str
    #: The rule's name, "" if none matched.
    rule: str
    job: JobView


def apply(js: JobSet, failed: Sequence[JobView], status: JobSetStatusDraft) -> None:
    """Write into `status` what the failure of these Jobs leads to."""
    policy = js.spec.failure_policy
    if policy is None:
        first = min(failed, key=failed_at)
        status.fail("FailedJobs", f"jobset failed due to one or more job failures {_first(first)}")
        return
    decision = choose(policy, failed)
    _ACTIONS[decision.action](js, policy, decision, status)


def choose(policy: JobSetFailurePolicy, failed: Sequence[JobView]) -> ChosenAction:
    for rule in policy.rules:
        matching = [job for job in failed if _matches(rule, job)]
        if matching:
            return ChosenAction(rule.action, rule.name, min(matching, key=failed_at))
    return ChosenAction(DEFAULT_ACTION, "", min(failed, key=failed_at))


def failed_at(job: JobView) -> tuple[float, str]:
    """Since when a Job has failed; one whose condition does not say so counts as the first of all."""
    condition = job.condition("Failed")
    since = condition.last_transition_time if condition is not None else ""
    return parse(since) if since else 0.0, job.name


def uses_job_restarts(js: JobSet) -> bool:
    """Whether any rule restarts single Jobs; only then do children carry a restart counter of their own."""
    policy = js.spec.failure_policy
    return policy is not None and any(rule.action in _JOB_ACTIONS for rule in policy.rules)


def _matches(rule: JobFailureRule, job: JobView) -> bool:
    condition = job.condition("Failed") or Condition()
    reasons, patterns = rule.on_job_failure_reasons, rule.on_job_failure_message_patterns
    targets = rule.target_replicated_jobs
    return (
        bool(parent(job))
        and (not reasons or condition.reason in reasons)
        and (not patterns or any(_found(pattern, condition.message) for pattern in patterns))
        and (not targets or parent(job) in targets)
    )


def _found(pattern: str, message: str) -> bool:
    try:
        return re.search(pattern, message) is not None
    except re.error:
        return False


def _first(job: JobView) -> str:
    return f"(first failed job: {job.name})"


def _used(status: JobSetStatusDraft) -> int:
    """Restarts that have consumed budget, global and of single Jobs together."""
    single = sum(sum(items(one, "jobRestartsCountTowardsMax")) for one in items(status.body, "replicatedJobsStatus"))
    return int(status.body.get("restartsCountTowardsMax") or 0) + int(single)


def _within_budget(policy: JobSetFailurePolicy, decision: ChosenAction, status: JobSetStatusDraft) -> bool:
    if _used(status) < policy.max_restarts:
        return True
    message = f"jobset failed due to reaching max number of restarts {_first(decision.job)}"
    status.fail("ReachedMaxRestarts", message)
    return False


def _fail(js: JobSet, policy: JobSetFailurePolicy, decision: ChosenAction, status: JobSetStatusDraft) -> None:
    message = f"jobset failed due to FailJobSet failure policy action {_first(decision.job)}"
    status.fail("FailJobSetFailurePolicyAction", message)


def _restart(js: JobSet, policy: JobSetFailurePolicy, decision: ChosenAction, status: JobSetStatusDraft) -> None:
    if _within_budget(policy, decision, status):
        status.body["restartsCountTowardsMax"] = int(status.body.get("restartsCountTowardsMax") or 0) + 1
        _restart_uncounted(js, policy, decision, status)


def _restart_uncounted(
    js: JobSet, policy: JobSetFailurePolicy, decision: ChosenAction, status: JobSetStatusDraft
) -> None:
    status.body["restarts"] = js.restarts + 1
    status.body["replicatedJobsStatus"] = [
        {field: value for field, value in entry.items() if field != "completedIndexes"}
        for entry in items(status.body, "replicatedJobsStatus")
    ]
    execution_attempts.count_restart(js, status)
    status.body.pop("startTime", None)
    reason = f"FailurePolicy_{decision.rule}" if decision.rule else "DefaultFailurePolicy"
    status.set_true(RESTARTING, reason, f"jobset is restarting {_first(decision.job)}", "Warning")
    _announce(decision, status, f"restart {js.restarts + 1} of the jobset")


def _restart_job(js: JobSet, policy: JobSetFailurePolicy, decision: ChosenAction, status: JobSetStatusDraft) -> None:
    if _within_budget(policy, decision, status):
        _raise_counter(js, decision.job, status, "jobRestartsCountTowardsMax")
        _restart_job_uncounted(js, policy, decision, status)


def _restart_job_uncounted(
    js: JobSet, policy: JobSetFailurePolicy, decision: ChosenAction, status: JobSetStatusDraft
) -> None:
    _raise_counter(js, decision.job, status, "jobRestarts")
    _announce(decision, status, "restart of the job alone")


def _raise_counter(js: JobSet, job: JobView, status: JobSetStatusDraft, counter: str) -> None:
    entry = next(one for one in status.body["replicatedJobsStatus"] if one["name"] == parent(job))
    numbers = list(items(entry, counter))
    numbers += [0] * (js.by_name[parent(job)].replicas - len(numbers))
    numbers[job_index(job)] += 1
    entry[counter] = numbers


def _announce(decision: ChosenAction, status: JobSetStatusDraft, what: str) -> None:
    by = f"failure policy rule {decision.rule}" if decision.rule else "the default failure policy action"
    reason = f"{decision.action}FailurePolicyAction"
    status.note("Warning", reason, f"{what} by {by} {_first(decision.job)}")


_Action = Callable[[JobSet, JobSetFailurePolicy, ChosenAction, JobSetStatusDraft], None]
_ACTIONS: dict[str, _Action] = {
    "FailJobSet": _fail,
    "RestartJobSet": _restart,
    "RestartJobSetAndIgnoreMaxRestarts": _restart_uncounted,
    "RestartJob": _restart_job,
    "RestartJobAndIgnoreMaxRestarts": _restart_job_uncounted,
}
_JOB_ACTIONS = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
