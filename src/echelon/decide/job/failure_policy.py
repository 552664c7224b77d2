"""podFailurePolicy: what one pod's failure means for its Job.  The first matching rule decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...api.objects import meta
from .model import Job, JobPod

Action = Literal["FailJob", "FailIndex", "Ignore", "Count"]


@dataclass(frozen=True)
class MatchedRule:
    action: Action
    #: Which pod, which container or condition, which rule; empty when no rule matched.
    message: str = ""

    @property
    def counts(self) -> bool:
        return self.action != "Ignore"


_UNMATCHED = MatchedRule("Count")


def match(job: Job, pod: JobPod) -> MatchedRule:
    for number, rule in enumerate(job.failure_rules):
        action: Action = rule["action"]
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


def _match(rule: Mapping[str, Any], pod: JobPod) -> str:
    if "onExitCodes" in rule:
        return _match_exit_code(rule["onExitCodes"], pod)
    wanted = [(one["type"], one.get("status", "True")) for one in rule.get("onPodConditions") or ()]
    for condition in (pod.obj.get("status") or {}).get("conditions") or ():
        if (condition["type"], condition["status"]) in wanted:
            return f"Pod {meta.key(pod.obj)} has condition {condition['type']}"
    return ""


def _match_exit_code(requirement: Mapping[str, Any], pod: JobPod) -> str:
    only = requirement.get("containerName")
    for name, code in _exit_codes(pod):
        if code == 0 or (only is not None and only != name):
            continue
        if (code in requirement["values"]) == (requirement["operator"] == "In"):
            return f"Container {name} for pod {meta.key(pod.obj)} failed with exit code {code}"
    return ""


def _exit_codes(pod: JobPod) -> Iterator[tuple[str, int]]:
    """Containers that have ended, app containers before init containers."""
    status = pod.obj.get("status") or {}
    for kind in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(kind) or ():
            terminated = (container.get("state") or {}).get("terminated")
            if terminated:
                yield container["name"], terminated.get("exitCode", 0)
