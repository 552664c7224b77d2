"""Where a blocked demand will fit soonest, if others end by themselves and nobody takes their room.

The question is that of preemption with other words: which units of the demand's own priority or below must be gone,
at the least cost of waiting for them?  No one is evicted for the answer; its places are kept free of newcomers.
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
    """The places, and the units that must end before they can be had; None if that would not do either.

    `leaving` go in any case; `cost` says what it costs to wait for the end of a pod.
    """
    with view.without(leaving):
        placed = place(view, demand, Steps(limits.steps)).placed
        if placed is not None:
            return Evict((), _NOTHING_LOST, placed)
        return preempt(view, replace(demand, priority=demand.priority + 1), 0.0, limits, cost)
