"""How many pods a Job should run now, which ones go, and which indexes come next.

A sync either deletes or creates; deletion comes first, because a surplus pod may hold what a missing one needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...api.objects import completion_indexes
from ...api.objects.completion_indexes import IndexSet
from ...base.instants import parse as instant
from . import backoff
from .children import PodCounts, index_is_valid
from .model import Job, JobPod

#: Pods created or deleted in one sync at most.
MOST_PER_SYNC = 500

_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True)
class Changes:
    delete: list[JobPod] = field(default_factory=list)
    #: One entry per pod to create: its index, or None.
    create: list[int | None] = field(default_factory=list)
    #: Seconds until pods that are held back now may be created.
    wait: float | None = None


def manage(job: Job, pods: Sequence[JobPod], counts: PodCounts, now: float) -> Changes:
    if job.suspended:
        return Changes(delete=sorted(counts.active, key=_spare_first)[:MOST_PER_SYNC])
    wanted = _wanted(job, counts)
    surplus = _surplus(job, counts.active, len(counts.active) - wanted)
    if surplus:
        return Changes(delete=surplus[:MOST_PER_SYNC])
    missing = wanted - len(counts.active) - (counts.terminating if job.replace_failed_only else 0)
    if missing <= 0:
        return Changes()
    if job.backoff_limit_per_index is not None:
        return _create_per_index(job, pods, counts, missing, now)
    wait = backoff.remaining(job, pods, now)
    if wait > 0:
        return Changes(wait=wait)
    count = min(missing, MOST_PER_SYNC)
    return Changes(create=[*_next_indexes(job, pods, counts, count)] if job.indexed else [None] * count)


def last_failed_per_index(job: Job, pods: Sequence[JobPod], counts: PodCounts) -> dict[int, JobPod]:
    """The pods that hold the failure counts of indexes which still wait for another attempt.

    They keep their finalizer until the replacement, which carries the count on, exists.
    """
    if job.backoff_limit_per_index is None:
        return {}
    settled = _indexes_in_use(counts)
    latest: dict[int, JobPod] = {}
    for pod in pods:
        if pod.index is None or pod.index in settled or not index_is_valid(job, pod) or not pod.failed(job):
            continue
        rival = latest.get(pod.index)
        if rival is None or (backoff.finish_time(pod), pod.uid) > (backoff.finish_time(rival), rival.uid):
            latest[pod.index] = pod
    return latest


def _wanted(job: Job, counts: PodCounts) -> int:
    if job.completions is None:
        # Any success means the work is done: keep what runs, replace nothing.
        return len(counts.active) if counts.succeeded > 0 else job.parallelism
    return max(0, min(job.completions - counts.succeeded - len(counts.failed_indexes), job.parallelism))


def _surplus(job: Job, active: Sequence[JobPod], at_least: int) -> list[JobPod]:
    """Pods without a valid index or with one already taken, then as many more as exceed the wanted number."""
    gone: list[JobPod] = []
    left = list(active)
    if job.indexed:
        left = []
        by_index: dict[int, list[JobPod]] = defaultdict(list)
        for pod in active:
            if pod.index is not None and index_is_valid(job, pod):
                by_index[pod.index].append(pod)
            else:
                gone.append(pod)
        for rivals in by_index.values():
            if len(rivals) > 1:
                rivals.sort(key=_spare_first)
            *duplicates, keeper = rivals
            gone += duplicates
            left.append(keeper)
    extra = at_least - len(gone)
    return gone + sorted(left, key=_spare_first)[:extra] if extra > 0 else gone


def _spare_first(pod: JobPod) -> tuple[bool, int, bool, float, int, float, str]:
    """The cheaper a pod is to lose, the earlier it sorts."""
    view = pod.view
    ready = view.condition("Ready")
    is_ready = ready is not None and ready.status == "True"
    ready_since = instant(ready.last_transition_time) if ready and is_ready and ready.last_transition_time else 0.0
    restarts = max((one.restart_count for one in view.status.container_statuses), default=0)
    created = instant(view.metadata.creation_timestamp)
    assigned = bool(view.spec.node_name)
    return (assigned, _PHASE_ORDER.get(pod.phase, 0), is_ready, -ready_since, -restarts, -created, pod.uid)


def _next_indexes(job: Job, pods: Sequence[JobPod], counts: PodCounts, count: int) -> list[int]:
    """The lowest indexes that have no pod and are neither completed nor failed."""
    taken = _indexes_in_use(counts)
    if job.replace_failed_only:
        taken |= completion_indexes.of(pod.index for pod in pods if pod.terminating and pod.index is not None)
    return list(islice(taken.missing(job.completions or 0), count))


def _indexes_in_use(counts: PodCounts) -> IndexSet:
    """Completed, failed, or with an active pod."""
    active = completion_indexes.of(pod.index for pod in counts.active if pod.index is not None)
    return counts.succeeded_indexes | counts.failed_indexes | active


def _create_per_index(job: Job, pods: Sequence[JobPod], counts: PodCounts, missing: int, now: float) -> Changes:
    """Each index waits for itself; those that need not wait are created now."""
    last_failed = last_failed_per_index(job, pods, counts)
    ready: list[int | None] = []
    soonest: float | None = None
    for index in _next_indexes(job, pods, counts, min(missing, MOST_PER_SYNC)):
        failed = last_failed.get(index)
        wait = backoff.remaining_for_index(failed, now) if failed else 0.0
        if wait <= 0:
            ready.append(index)
        elif soonest is None or wait < soonest:
            soonest = wait
    return Changes(create=ready, wait=soonest)
