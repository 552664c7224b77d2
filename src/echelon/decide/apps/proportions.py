"""A Deployment is scaled while it is paused or between two templates: each ReplicaSet keeps its share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...api.views.replica_views import DeploymentView
from ...base.decimals import read_count
from .deployment_sets import DESIRED_REPLICAS, MAX_REPLICAS, WorkingSet, is_rolling, max_surge


def is_scaling(deployment: DeploymentView, sets: Sequence[WorkingSet]) -> bool:
    """Whether a ReplicaSet with replicas was sized for another number of replicas of the Deployment."""
    sized = [read_count(one.annotations.get(DESIRED_REPLICAS, "")) for one in sets if one.replicas > 0]
    return any(size is not None and size != deployment.spec.replicas for size in sized)


def scale(deployment: DeploymentView, new: WorkingSet | None, old: Sequence[WorkingSet]) -> None:
    """Give the ReplicaSets their new sizes."""
    sets = [*old, *([new] if new is not None else [])]
    active = [one for one in sets if one.replicas > 0]
    if len(active) <= 1:
        only = active[0] if active else new or max(old, key=lambda one: one.age_order, default=None)
        if only is not None:
            only.scale(deployment, deployment.spec.replicas)
    elif new is not None and _is_saturated(deployment, new):
        for one in active:
            if one is not new:
                one.scale(deployment, 0)
    elif is_rolling(deployment):
        for one, size in _shares(deployment, active):
            one.scale(deployment, size, always_annotate=True)


def _is_saturated(deployment: DeploymentView, new: WorkingSet) -> bool:
    wanted = deployment.spec.replicas
    return new.replicas == wanted == new.available and new.annotations.get(DESIRED_REPLICAS) == str(wanted)


def _shares(deployment: DeploymentView, active: Sequence[WorkingSet]) -> list[tuple[WorkingSet, int]]:
    """The new size of each; the largest takes what rounding leaves."""
    wanted = deployment.spec.replicas
    allowed = wanted + max_surge(deployment) if wanted > 0 else 0
    to_add = allowed - sum(one.replicas for one in active)
    # Of equal sizes the newest grows first and the oldest shrinks first.
    ordered = sorted(active, key=lambda one: one.age_order, reverse=to_add > 0)
    ordered.sort(key=lambda one: -one.replicas)
    sizes, added = [], 0
    for one in ordered:
        share = _share(deployment, one, to_add, added)
        sizes.append(one.replicas + share)
        added += share
    sizes[0] = max(0, sizes[0] + to_add - added)
    return list(zip(ordered, sizes, strict=True))


def _share(deployment: DeploymentView, one: WorkingSet, to_add: int, added: int) -> int:
    if to_add in (0, added):
        return 0
    fraction, left = _fraction(deployment, one), to_add - added
    return min(fraction, left) if to_add > 0 else max(fraction, left)


def _fraction(deployment: DeploymentView, one: WorkingSet) -> int:
    """What a ReplicaSet gains or loses if it keeps its part of the largest size that the Deployment may have."""
    wanted = deployment.spec.replicas
    if wanted == 0:
        return -one.replicas
    before = read_count(one.annotations.get(MAX_REPLICAS, "")) or deployment.status.replicas
    if not before:
        return 0
    return math.floor(one.replicas * (wanted + max_surge(deployment)) / before + 0.5) - one.replicas
