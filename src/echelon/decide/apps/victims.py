"""Which pods go first when there are too many: the cheaper a pod is to lose, the earlier.

Not bound, then pending, then not ready; then by `controller.kubernetes.io/pod-deletion-cost`; then those on nodes with
more pods of the same owner; then young before old, in classes that double in length; ties end on the uid.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ...api.views.pod_views import PodView
from ...base.instants import parse

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_COST = re.compile(r"0|-?[1-9][0-9]{0,9}|-0[0-9]{0,9}")
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NANOSECONDS = 1e9


def is_active(pod: PodView) -> bool:
    return not pod.ended and not pod.deleting


def choose(pods: Sequence[PodView], count: int, related: Callable[[], Iterable[PodView]], now: float) -> list[PodView]:
    """The `count` pods that go; `related` are the pods that should not crowd on one node."""
    if count >= len(pods):
        return list(pods)
    beside = Counter(pod.spec.node_name for pod in related() if is_active(pod))
    return sorted(pods, key=lambda pod: _rank(pod, beside[pod.spec.node_name], now))[:count]


def _rank(pod: PodView, beside: int, now: float) -> tuple[bool, int, bool, int, int, int, int, int, str]:
    ready = pod.condition("Ready")
    since = ready.last_transition_time if ready is not None and ready.status == "True" else ""
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.phase, 0),
        pod.is_true("Ready"),
        deletion_cost(pod),
        -beside,
        _age_class(since, now) if since else -1,
        -max((one.restart_count for one in pod.status.container_statuses), default=0),
        _age_class(pod.metadata.creation_timestamp, now),
        pod.uid,
    )


def deletion_cost(pod: PodView) -> int:
    """What the annotation says; 0 if it is absent or no 32-bit number."""
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    cost = int(text) if _COST.fullmatch(text) else 0
    return cost if -(2**31) <= cost < 2**31 else 0


def _age_class(since: str, now: float) -> int:
    """Pods of about the same age are equal, so that it is not always the youngest that goes."""
    age = (now - parse(since)) * _NANOSECONDS if since else 0.0
    return int(math.log2(age)) if age > 0 else -1
