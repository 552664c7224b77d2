"""How long to wait before replacing failed pods, read off the pods themselves.

Nothing is remembered between decisions: the failures since the last success are counted from the pods that are
still there, so a restarted controller waits exactly as long as the one before it would have.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...base.instants import parse as instant
from .model import FAILURE_COUNT, IGNORED_FAILURE_COUNT, Job, JobPod

_BASE_SECONDS = 10.0
_CAP_SECONDS = 600.0


def delay(failures: int) -> float:
    """10, 20, 40 … 600 seconds after the first, second, third … failure in a row."""
    # Beyond seven doublings the cap rules; do not compute giant powers for a pod that fails for days.
    return min(_BASE_SECONDS * 2 ** min(failures - 1, 7), _CAP_SECONDS) if failures > 0 else 0.0


def remaining(job: Job, pods: Iterable[JobPod], now: float) -> float:
    """Seconds until the Job may create its next pod."""
    last_success = 0.0
    failures: list[float] = []
    for pod in pods:
        if pod.phase == "Succeeded":
            last_success = max(last_success, finish_time(pod))
        elif _counts(job, pod):
            failures.append(finish_time(pod))
    since = [at for at in failures if at > last_success]
    return max(0.0, max(since) + delay(len(since)) - now) if since else 0.0


def remaining_for_index(last_failed: JobPod, now: float) -> float:
    """Seconds until the index whose latest pod this is may have another one."""
    failures = last_failed.annotated_count(FAILURE_COUNT) + last_failed.annotated_count(IGNORED_FAILURE_COUNT) + 1
    return max(0.0, finish_time(last_failed) + delay(failures) - now)


def _counts(job: Job, pod: JobPod) -> bool:
    """Pods removed by suspension or scale-down lose their finalizer first and are no failures."""
    return pod.failed(job) if pod.tracked else pod.phase == "Failed" and not pod.deleting


def finish_time(pod: JobPod) -> float:
    """When the last container ended, or the best guess that the pod's record allows."""
    states = [one.state.terminated for one in pod.view.status.container_statuses]
    ends = [state.finished_at if state else "" for state in states]
    if ends and all(ends):
        return max(map(instant, ends))
    ready = pod.view.condition("Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return instant(ready.last_transition_time)
    metadata = pod.view.metadata
    if pod.deleting:
        return instant(metadata.deletion_timestamp) - (metadata.deletion_grace_period_seconds or 0)
    return instant(metadata.creation_timestamp)
