"""A Job's pods counted: active ones, and those that have ended since the counters were last written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...api.objects import completion_indexes
from ...api.objects.completion_indexes import NO_INDEXES, IndexSet
from . import failure_policy
from .model import FAILURE_COUNT, Job, JobPod


@dataclass(frozen=True)
class PodCounts:
    active: list[JobPod]
    ready: int
    terminating: int
    #: All successes and counted failures: in the counters, recorded as uncounted, or not yet recorded.
    succeeded: int
    failed: int
    #: Indexes that have succeeded, including those not yet in the status; empty for NonIndexed.
    succeeded_indexes: IndexSet
    #: Indexes out of attempts; always empty without backoffLimitPerIndex.
    failed_indexes: IndexSet


def count(job: Job, pods: Sequence[JobPod]) -> PodCounts:
    active = [pod for pod in pods if pod.active]
    recorded = job.recorded_succeeded | job.recorded_failed
    new_failed = [
        pod
        for pod in pods
        if pod.tracked and pod.uid not in job.recorded_failed and pod.failed(job) and index_is_valid(job, pod)
    ]
    new_succeeded = [pod for pod in pods if pod.tracked and pod.phase == "Succeeded" and pod.uid not in recorded]
    succeeded_indexes = _succeeded_indexes(job, new_succeeded)
    if job.indexed:
        succeeded = len(succeeded_indexes)
    else:
        succeeded = job.status.succeeded + len(job.recorded_succeeded) + len(new_succeeded)
    counted = [pod for pod in new_failed if failure_policy.match(job, pod).counts]
    return PodCounts(
        active=active,
        ready=sum(pod.ready for pod in active),
        terminating=sum(pod.terminating for pod in pods),
        succeeded=succeeded,
        failed=job.status.failed + len(job.recorded_failed) + len(counted),
        succeeded_indexes=succeeded_indexes,
        failed_indexes=_failed_indexes(job, counted),
    )


def index_is_valid(job: Job, pod: JobPod) -> bool:
    return not job.indexed or (pod.index is not None and pod.index < (job.completions or 0))


def _succeeded_indexes(job: Job, new_succeeded: Sequence[JobPod]) -> IndexSet:
    if not job.indexed:
        return NO_INDEXES
    return job.completed_indexes | completion_indexes.of(
        pod.index for pod in new_succeeded if pod.index is not None and index_is_valid(job, pod)
    )


def _failed_indexes(job: Job, counted: Sequence[JobPod]) -> IndexSet:
    limit = job.backoff_limit_per_index
    if limit is None:
        return NO_INDEXES
    stored = completion_indexes.members(job.status.failed_indexes, job.completions or 0)
    return stored | completion_indexes.of(
        pod.index
        for pod in counted
        if pod.index is not None
        and (pod.annotated_count(FAILURE_COUNT) >= limit or failure_policy.match(job, pod).action == "FailIndex")
    )
