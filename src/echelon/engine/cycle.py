"""The one door of the engine: a view and a demand in, one verdict with its reasons out."""

from __future__ import annotations

from .demand import Demand
from .diagnose import shortages
from .fixes import fixes
from .place import place
from .preempt import preempt
from .search import Steps
from .verdict import Blocked, Verdict
from .view import ClusterView


def decide(view: ClusterView, demand: Demand, now: float) -> Verdict:
    """Place the demand; if it is blocked and may preempt, look for the least loss that lets it in."""
    steps = Steps(view.options.limits.steps)
    outcome = place(view, demand, steps)
    if outcome.placed is not None:
        return outcome.placed
    if demand.may_preempt:
        evict = preempt(view, demand, steps, now)
        if evict is not None:
            return evict
    lacking = shortages(view, demand)
    return Blocked(outcome.proved, lacking, fixes(view, demand, lacking, now), demand.may_preempt)
