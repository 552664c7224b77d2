"""podFailurePolicy: what one pod's failure means for its Job.  The first matching rule decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...api.views.job_views import ExitCodes, PodFailureRule
from .model import Job, JobPod


@dataclass(frozen=True)
class MatchedRule:
    #: FailJob, FailIndex, Ignore or Count.
    action: str
    #: Which pod, which container or condition, which rule; empty when no rule matched.
    message: str = ""

    @property
    def counts(self) -> bool:
        return self.action != "Ignore"


_UNMATCHED = MatchedRule("Count")


def match(job: Job, pod: JobPod) -> MatchedRule:
    for number, rule in enumerate(job.failure_rules):
        action = rule.action
        if action == "FailIndex" and job.backoff_limit_per_index is None:
            continue
        found = _match(rule, pod)
        if found:
            return MatchedRule(action, f"{found} matching {action} rule at index {number}")
    return _UNMATCHED


def fail_job_message(job: Job, pods: Sequence[JobPod]) -> str | None:
    """Why these failed pods end the Job, if they do."""
    if not job.failure_rules:
        return None
    for pod in pods:
        if pod.tracked and pod.uid not in job.recorded_failed and pod.failed(job):
            matched = match(job, pod)
            if matched.action == "FailJob":
                return matched.message
    return None


def _match(rule: PodFailureRule, pod: JobPod) -> str:
    if rule.on_exit_codes is not None:
        return _match_exit_code(rule.on_exit_codes, pod)
    wanted = [(one.type, one.status) for one in rule.on_pod_conditions]
    for condition in pod.view.status.conditions:
        if (condition.type, condition.status) in wanted:
            return f"Pod {pod.view.key} has condition {condition.type}"
    return ""


def _match_exit_code(requirement: ExitCodes, pod: JobPod) -> str:
    only = requirement.container_name
    for name, code in _exit_codes(pod):
        if code == 0 or (only is not None and only != name):
            continue
        if (code in requirement.values) == (requirement.operator == "In"):
            return f"Container {name} for pod {pod.view.key} failed with exit code {code}"
    return ""


def _exit_codes(pod: JobPod) -> Iterator[tuple[str, int]]:
    """Containers that have ended, app containers before init containers."""
    status = pod.view.status
    for container in (*status.container_statuses, *status.init_container_statuses):
        if container.state.terminated is not None:
            yield container.name, container.state.terminated.exit_code
