"""Counting every ended pod exactly once, whatever crashes when.

A pod carries a finalizer until it is counted.  It passes through three stored states:

    finalizer, not recorded  ─status write→  finalizer, uid in uncountedTerminatedPods (or index in completedIndexes)
    ─finalizer stripped→  no finalizer, uid recorded  ─status write→  in the counters, uid gone

Each sync moves every pod one step: it strips what the *stored* status records, counts what has no finalizer any
more, and records what ended since.  Stopping between any two writes repeats a step but never a count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...api.objects import completion_indexes
from ...api.objects.completion_indexes import NO_INDEXES, IndexSet
from . import failure_policy
from .children import index_is_valid
from .model import Job, JobPod
from .outcome import Outcome

#: Newly recorded pods in one sync at most, so that a status stays of bounded size.
MOST_RECORDED_PER_SYNC = 500


@dataclass
class Tracking:
    #: Pods whose finalizer goes now; the status below counts on that having happened.
    strip: list[JobPod] = field(default_factory=list)
    #: Uids that become recorded but uncounted.
    uncounted_succeeded: list[str] = field(default_factory=list)
    uncounted_failed: list[str] = field(default_factory=list)
    succeeded: int = 0
    failed: int = 0
    completed_indexes: IndexSet = NO_INDEXES
    #: Some pods had to wait for the next sync.
    capped: bool = False
    #: Some pod takes a step now.
    moves: bool = False

    @property
    def settled(self) -> bool:
        """Every ended pod is in the counters."""
        return not (self.uncounted_succeeded or self.uncounted_failed or self.capped)


def track(job: Job, pods: Sequence[JobPod], outcome: Outcome | None, held: Mapping[int, JobPod]) -> Tracking:
    """`held` are pods that keep their finalizer because an index still needs their failure count."""
    result = Tracking(completed_indexes=job.completed_indexes if job.indexed else NO_INDEXES)
    recorded, indexes = 0, list[int]()
    for pod in pods:
        step = _next_step(job, pod, outcome, held) if pod.tracked else "keep"
        if step == "strip":
            result.strip.append(pod)
        elif step == "record" and recorded < MOST_RECORDED_PER_SYNC:
            _record(job, pod, result, indexes)
            recorded += 1
        elif step == "record":
            result.capped = True
    result.completed_indexes |= completion_indexes.of(indexes)
    counted = _count_recorded(job, result)
    result.moves = bool(recorded or counted or result.strip)
    if job.indexed:
        result.succeeded = len(result.completed_indexes)
    return result


def _next_step(
    job: Job, pod: JobPod, outcome: Outcome | None, held: Mapping[int, JobPod]
) -> Literal["keep", "record", "strip"]:
    if pod.uid in job.recorded_failed or pod.uid in job.recorded_succeeded:
        return "strip"
    if pod.phase == "Succeeded":
        if not index_is_valid(job, pod):
            return "strip"
        counted = job.indexed and pod.index is not None and pod.index in job.completed_indexes
        return "strip" if counted else "record"
    if outcome is not None:
        return _next_step_at_the_end(job, pod, outcome)
    if not pod.failed(job):
        return "strip" if job.deleting else "keep"
    holder = held.get(pod.index) if pod.index is not None else None
    if holder is not None and holder.uid == pod.uid and not job.deleting:
        return "keep"
    return "record" if _counts(job, pod) else "strip"


def _next_step_at_the_end(job: Job, pod: JobPod, outcome: Outcome) -> Literal["keep", "record", "strip"]:
    """A failed Job takes all that still runs down with it; a successful one lets go of it uncounted."""
    if not outcome.success:
        return "record" if _counts(job, pod) else "strip"
    if outcome.recorded:
        # Whatever failed before the success is recorded; what ends now does so because it was told to.
        return "strip"
    return "record" if pod.failed(job) and _counts(job, pod) else "keep"


def _counts(job: Job, pod: JobPod) -> bool:
    return index_is_valid(job, pod) and failure_policy.match(job, pod).counts


def _record(job: Job, pod: JobPod, result: Tracking, indexes: list[int]) -> None:
    if pod.phase == "Succeeded":
        if job.indexed and pod.index is not None:
            indexes.append(pod.index)
        else:
            result.uncounted_succeeded.append(pod.uid)
    else:
        result.uncounted_failed.append(pod.uid)


def _count_recorded(job: Job, result: Tracking) -> bool:
    """Pods that are recorded have no finalizer, or lose it now: they enter the counters.  Whether there are any."""
    stored = job.status.uncounted_terminated_pods
    result.succeeded = job.status.succeeded + len(stored.succeeded)
    result.failed = job.status.failed + len(stored.failed)
    return bool(stored.succeeded or stored.failed)
