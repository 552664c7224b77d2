"""Where a blocked demand will fit soonest, if running pods end by themselves and no other pod takes their place.

This is preemption with another cost: which units of the demand's own priority or below must end, at the least cost of
waiting for them?  Nothing is evicted; the scheduler reserves the places.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from .cluster.view import ClusterView, Running
from .placement.place import place
from .preemption.preempt import preempt
from .records.demand import Demand, Limits
from .records.verdict import Evict, Loss
from .space.budget import Steps

_NOTHING_LOST = Loss(0, 0, 0, 0)


def soonest(
    view: ClusterView,
    demand: Demand,
    leaving: Collection[Running],
    cost: Callable[[Running], int],
    limits: Limits = Limits(),
) -> Evict | None:
    """The placement, and the units that must end first; None if the demand would not fit then either.

    `leaving` are pods that end in any case; `cost` is the cost of waiting for the end of a pod.
    """
    with view.without(leaving):
        placed = place(view, demand, Steps(limits.steps)).placed
        if placed is not None:
            return Evict((), _NOTHING_LOST, placed)
        return preempt(view, replace(demand, priority=demand.priority + 1), 0.0, limits, cost)
