"""`restartStrategy: InPlaceRestart`: all pods of a JobSet restart together, without being replaced.

    a container fails ─► its pod says attempt n+1 ─► previous = n: the others restart ─► all say n+1 ─► current = n+1

Each pod says in an annotation which attempt it is at, and waits at a barrier.  `previousInPlaceRestartAttempt` tells
pods at that attempt or before it to restart, `currentInPlaceRestartAttempt` lets those at it go.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....api.objects.vocabulary import IN_PLACE_ATTEMPT, JOB_NAME
from ....api.views.pod_views import PodView
from ....base.decimals import read_count
from ..children import SortedJobs
from ..model import JobSet
from ..status import JobSetStatusDraft

_PREVIOUS, _CURRENT = "previousInPlaceRestartAttempt", "currentInPlaceRestartAttempt"


def advance(js: JobSet, jobs: SortedJobs, pods: Sequence[PodView], status: JobSetStatusDraft) -> None:
    """Move the barrier, or fail a JobSet that has restarted too often."""
    policy = js.spec.failure_policy
    if policy is None or policy.restart_strategy != "InPlaceRestart":
        return
    # Pods of Jobs that have succeeded do not restart; those of earlier attempts are on their way out.
    active = {job.name: job.uid for job in jobs.active}
    waiting = [pod for pod in pods if _owned(pod, active) and pod.phase not in ("Failed", "Succeeded")]
    attempts = [attempt for pod in waiting if (attempt := _attempt(pod, status)) is not None]
    furthest = max(attempts, default=0)
    uncounted = js.restarts - js.view.status.restarts_count_towards_max
    told = furthest - 1 <= status.body.get(_PREVIOUS, -1)
    spent = max([*map(_container_restarts, waiting), furthest - uncounted])
    if spent > policy.max_restarts:
        status.fail("ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
    elif attempts and len(set(attempts)) == 1 and len(attempts) == _expected(js, jobs, pods, active):
        if furthest > status.body.get(_CURRENT, furthest) and not told:
            _tell(furthest, status)
        status.body[_CURRENT] = furthest
    elif furthest > 0 and not told:
        status.body[_PREVIOUS] = furthest - 1
        _tell(furthest, status)


def _tell(attempt: int, status: JobSetStatusDraft) -> None:
    status.note("Normal", "InPlaceRestart", f"all pods restart in place and begin attempt {attempt} together")


def _owned(pod: PodView, active: dict[str, str]) -> bool:
    owner = pod.controller
    return owner is not None and active.get(pod.labels.get(JOB_NAME, "")) == owner.uid


def _attempt(pod: PodView, status: JobSetStatusDraft) -> int | None:
    """Which attempt a pod says it is at; None if it does not say, or not in a way that can be read."""
    text = pod.annotations.get(IN_PLACE_ATTEMPT)
    if text is None:
        return None
    attempt = read_count(text)
    if attempt is None:
        message = f"pod {pod.name}: annotation {IN_PLACE_ATTEMPT}: {text[:100]!r} is not a number of 0 or more"
        status.note("Warning", "InvalidInPlaceRestartAttempt", message)
    return attempt


def _container_restarts(pod: PodView) -> int:
    """For a container that fails so fast that it never reaches the barrier."""
    every = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return max((one.restart_count for one in every), default=0)


def _expected(js: JobSet, jobs: SortedJobs, pods: Sequence[PodView], active: dict[str, str]) -> int:
    """How many pods have to come to the barrier: all but those that are done."""
    done = sum(pod.phase == "Succeeded" and _owned(pod, active) for pod in pods)
    succeeded = sum(jobs.successes[rj.name] * rj.pods_per_job for rj in js.replicated)
    return sum(rj.pods for rj in js.replicated) - succeeded - done
