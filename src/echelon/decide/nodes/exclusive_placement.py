"""Followers that are not where their leader is, under schedulers other than ours: all are sent away and made anew.

A leader that was lost and placed elsewhere leaves followers with a node selector for the domain of before.  The
condition that they get lets a pod failure policy ignore their end.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...api.objects import meta
from ...api.objects.subtree import mapping
from ...api.scheme import PODS, Object
from ...api.views.pod_views import PodView
from ..plan import NOTHING, Delete, Note, Plan
from .taint_eviction import disrupted

REASON = "ExclusivePlacementViolation"
_MESSAGE = "Pod violated JobSet exclusive placement policy"
_LOOK_AGAIN_SECONDS = 10.0


def reconcile(leader: PodView, key: str, node: Object | None, followers: Sequence[PodView], now: float) -> Plan:
    """What becomes of the followers of a bound leader, whose domain is that of its node."""
    domain = meta.labels(node).get(key, "") if node is not None else ""
    if not domain:
        name = leader.spec.node_name
        what = f"has no label {key}" if node is not None else "does not exist"
        note = Note(PODS, leader.obj, "Warning", "ExclusivePlacementUnknown", f"its node {name} {what}")
        return Plan(notes=(note,), requeue_after=_LOOK_AGAIN_SECONDS)
    live = [pod for pod in followers if not pod.deleting and not pod.ended]
    if all(_selector(pod).get(key) == domain for pod in live):
        return NOTHING
    return Plan(
        stages=(
            tuple(disrupted(pod, REASON, _MESSAGE, now) for pod in live),
            tuple(Delete(PODS, pod.namespace, pod.name, pod.uid) for pod in live),
        ),
        notes=tuple(Note(PODS, pod.obj, "Warning", REASON, _told(pod, key, domain)) for pod in live),
    )


def _selector(pod: PodView) -> dict[str, str]:
    return mapping(pod.obj, "spec", "nodeSelector")


def _told(pod: PodView, key: str, domain: str) -> str:
    has = _selector(pod).get(key)
    return f"deleted: its leader is in {key}={domain}, " + (f"it is bound to {has}" if has else "it has no selector")
