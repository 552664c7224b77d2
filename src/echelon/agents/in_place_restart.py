"""Restarts in place of simulated pods: what the agent in a pod does on a real node.

    starts ─► says its attempt, waits at the barrier ─► current attempt is its own ─► runs ─► succeeds
                 ▲                                                                    │
                 └── restarts in place: it failed, or its attempt is a previous one ──┘

`simulated_nodes` asks `next_step` of this module for pods of JobSets with restartStrategy InPlaceRestart.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..api.objects import meta
from ..api.objects.subtree import mapping
from ..api.objects.vocabulary import DISABLE_IN_PLACE_RESTART, IN_PLACE_ATTEMPT
from ..api.scheme import Object
from ..base.decimals import read_count
from . import pod_lifecycle, pod_status
from .pod_lifecycle import Host, Step, WriteStatus


@dataclass(frozen=True)
class Join:
    """Say that the pod is at this attempt, then write its status: it waits at the barrier."""

    attempt: int
    status: Object


def applies(jobset: Object) -> bool:
    strategy = mapping(jobset, "spec", "failurePolicy").get("restartStrategy")
    return strategy == "InPlaceRestart" and DISABLE_IN_PLACE_RESTART not in meta.annotations(jobset)


def barrier(jobset: Object) -> tuple[int, int]:
    """The last attempt whose pods have to restart, and the one whose pods may run; -1 for none."""
    status = mapping(jobset, "status")
    return status.get("previousInPlaceRestartAttempt", -1), status.get("currentInPlaceRestartAttempt", -1)


def next_step(pod: Object, jobset: Object, now: float, host: Host) -> Step | Join:
    """As `pod_lifecycle.next_step`, for a pod that waits for the others of its JobSet."""
    phase = mapping(pod, "status").get("phase", "Pending")
    if phase in ("Succeeded", "Failed") or meta.deleting(pod):
        return pod_lifecycle.next_step(pod, now, host)
    previous, current = barrier(jobset)
    if phase == "Pending":
        return Join(current + 1, pod_status.at_barrier(pod, now, host.address))
    attempt = read_count(meta.annotations(pod).get(IN_PLACE_ATTEMPT, ""))
    if attempt is None or attempt <= previous:
        return Join(current + 1, pod_status.restarted_at_barrier(pod, 0, now))
    if pod_status.waits_at_barrier(pod):
        return WriteStatus(pod_status.released(pod, now)) if attempt == current else None
    failure = pod_lifecycle.failed_run(pod, now)
    if failure is not None:
        return Join(current + 1, pod_status.restarted_at_barrier(pod, failure, now))
    return pod_lifecycle.next_step(pod, now, host)
