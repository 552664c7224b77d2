"""Whether a Job has come to its end, and which: the first of these that holds.

stored SuccessCriteriaMet → stored FailureTarget → podFailurePolicy FailJob → backoffLimit → deadline
→ maxFailedIndexes → all indexes done, some failed → successPolicy → (after pods are managed) completions
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...api.objects import completion_indexes
from . import failure_policy
from .children import PodCounts
from .model import Job, JobPod


@dataclass(frozen=True)
class Outcome:
    success: bool
    reason: str
    message: str
    #: Whether the interim condition is already in the stored status.
    recorded: bool = False

    @property
    def interim(self) -> str:
        return "SuccessCriteriaMet" if self.success else "FailureTarget"

    @property
    def terminal(self) -> str:
        return "Complete" if self.success else "Failed"


def decide(job: Job, pods: Sequence[JobPod], counts: PodCounts, start_time: float | None, now: float) -> Outcome | None:
    return (
        _recorded(job)
        or _failure(job, pods, counts, start_time, now)
        or _failed_indexes(job, counts)
        or _success_policy(job, counts)
    )


def completed(job: Job, counts: PodCounts, active_after: int) -> Outcome | None:
    """Plain completion: enough successes and nothing left running."""
    wanted = 1 if job.completions is None else job.completions
    if counts.succeeded >= wanted and active_after == 0:
        return Outcome(True, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def deadline_in(job: Job, start_time: float | None, now: float) -> float | None:
    """Seconds until activeDeadlineSeconds is over; None when no deadline runs."""
    if job.spec.active_deadline_seconds is None or start_time is None or job.suspended:
        return None
    return start_time + job.spec.active_deadline_seconds - now


def _recorded(job: Job) -> Outcome | None:
    for success, type_ in ((True, "SuccessCriteriaMet"), (False, "FailureTarget")):
        found = job.view.condition(type_)
        if found is not None and found.status == "True":
            return Outcome(success, found.reason, found.message, recorded=True)
    return None


def _failure(
    job: Job, pods: Sequence[JobPod], counts: PodCounts, start_time: float | None, now: float
) -> Outcome | None:
    message = failure_policy.fail_job_message(job, pods)
    if message is not None:
        return Outcome(False, "PodFailurePolicy", message)
    if counts.failed > job.backoff_limit or _restarted_too_often(job, pods):
        return Outcome(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = deadline_in(job, start_time, now)
    if left is not None and left <= 0:
        return Outcome(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _restarted_too_often(job: Job, pods: Sequence[JobPod]) -> bool:
    """With restartPolicy OnFailure the restarts within live pods count as failures too."""
    if not job.restarts_in_place:
        return False
    restarts = 0
    for pod in pods:
        if pod.phase in ("Running", "Pending"):
            status = pod.view.status
            restarts += sum(one.restart_count for one in (*status.container_statuses, *status.init_container_statuses))
    return restarts > 0 if job.backoff_limit == 0 else restarts >= job.backoff_limit


def _failed_indexes(job: Job, counts: PodCounts) -> Outcome | None:
    if not counts.failed_indexes:
        return None
    most = job.spec.max_failed_indexes
    if most is not None and len(counts.failed_indexes) > most:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Outcome(False, "MaxFailedIndexesExceeded", message)
    if len(counts.failed_indexes | counts.succeeded_indexes) >= (job.completions or 0):
        return Outcome(False, "FailedIndexes", "Job has failed indexes")
    return None


def _success_policy(job: Job, counts: PodCounts) -> Outcome | None:
    done = counts.succeeded_indexes
    for number, rule in enumerate(job.success_rules if done else ()):
        listed = done
        needed = rule.succeeded_count
        if rule.succeeded_indexes is not None:
            wanted = completion_indexes.members(rule.succeeded_indexes, job.completions or 0)
            listed = done & wanted
            needed = len(wanted) if needed is None else needed
        if needed is not None and len(listed) >= needed:
            return Outcome(True, "SuccessPolicy", f"Matched rules at index {number}")
    return None
