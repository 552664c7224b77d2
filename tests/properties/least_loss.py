"""Preemption as brute force judges it: what must go, and nothing that could be spared."""

from __future__ import annotations

from echelon.engine import Blocked, ClusterView, Demand, Evict, Placed
from echelon.testing.placement import NOW, judged
from tests.properties.brute_force import feasible, least_loss
from tests.properties.reached import Reached


def loses_least(reached: Reached, view: ClusterView, demand: Demand) -> Evict | None:
    """The engine evicts what brute force finds to lose least, if anything need go and helps; the verdict if so."""
    verdict = judged(view, demand)
    if feasible(view, demand):
        assert isinstance(verdict, Placed), verdict
        reached("placed")
        return None
    least = least_loss(view, demand, NOW)
    if least is None:
        assert isinstance(verdict, Blocked), verdict
        reached("blocked")
        return None
    assert isinstance(verdict, Evict), verdict
    reached("evicted")
    loss = verdict.loss
    assert (loss.budget_violations, loss.highest_priority, loss.work, loss.units, loss.ids) == least
    return verdict
