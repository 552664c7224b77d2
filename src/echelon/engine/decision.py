"""The entry point of the engine: a view, a demand and limits in, one verdict with its reasons out."""

from __future__ import annotations

from collections.abc import Iterator

from .cluster.view import ClusterView
from .explain.contradict import contradicted
from .explain.diagnose import present, shortages
from .explain.fixes import fixes
from .placement.fast_path import place_plain_leaf
from .placement.place import place
from .preemption.preempt import preempt
from .records.demand import Composite, Demand, Group, Limits, given
from .records.validate import inspect
from .records.verdict import Blocked, DomainCount, Shortage, Verdict
from .space.budget import Steps


def decide(
    view: ClusterView, demand: Demand, now: float, limits: Limits = Limits(), steps: Steps | None = None
) -> Verdict:
    """Place the demand; if it does not fit and may preempt, find the victims with the least loss.

    The caller may pass `steps` in order to see how many the search for a placement took.  Raises `BadInput` for a
    malformed demand.
    """
    inspect(demand)
    if not view.node_table.size:
        return Blocked(True, tuple(_nothing_for(demand.root)), preemption_tried=demand.may_preempt)
    placed = place_plain_leaf(view, demand)
    if placed is not None:
        return placed
    try:
        return _thoroughly(view, demand, now, limits, steps or Steps(limits.steps))
    except BaseException:
        view.recount()  # a trial may have left its changes in the view
        raise


def _thoroughly(view: ClusterView, demand: Demand, now: float, limits: Limits, steps: Steps) -> Verdict:
    """Search, then preemption, then the reasons; each changes the view for trials and restores it."""
    view.node_table.shed()
    view.node_table.learn(name for name in _asked(demand) if given(name))
    outcome = place(view, demand, steps)
    if outcome.placed is not None:
        return outcome.placed
    if demand.may_preempt:
        evict = preempt(view, demand, now, limits)
        if evict is not None:
            return evict
    lacking = contradicted(view, demand, shortages(view, demand, limits))
    return Blocked(outcome.proved, lacking, fixes(view, demand, lacking, now, limits), demand.may_preempt)


def _asked(demand: Demand) -> Iterator[str]:
    """The resources that pods of a demand ask for."""
    return (name for leaf in demand.leaves() for pods in leaf.classes for name, _ in pods.shape.requests)


def _nothing_for(group: Group) -> Iterator[Shortage]:
    """The shortages in a cluster without nodes, innermost groups first."""
    if isinstance(group, Composite):
        for child in group.children:
            yield from _nothing_for(child)
    need = group.min_groups if isinstance(group, Composite) else group.min_count
    counts = (DomainCount((), need, 0),)
    yield Shortage(group.id, need, 0, "", counts, 1, {}, isinstance(group, Composite), present(group))
