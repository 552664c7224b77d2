"""Preemption with the least loss: whole units of strictly lower priority, and none that could be spared.

Everything rests on one question: does the demand fit once these units are gone?  Each domain that the root's key
offers is one `RegionSearch`; the most promising is asked first, and one that cannot promise less than what is found is
not asked at all.  What the budget left open anywhere goes into the bound, so that the verdict knows whether its loss
is the least.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ..cluster.arrays import distinct
from ..cluster.pod_index import means
from ..cluster.regions import CLUSTER, Region
from ..cluster.view import ClusterView, Running
from ..placement.place import place
from ..records.demand import Demand, Limits
from ..records.verdict import Evict, LossBound
from ..space.canonical import Part, PartBuilder, pods_of_shape, without_pod_rules
from ..space.rule_state import has_pod_rules
from ..space.tasks import Steps
from .loss import EvictionTrial, Incumbent
from .region_search import RegionSearch
from .slot_gains import SlotGains
from .victim_table import Victims


def preempt(
    view: ClusterView, demand: Demand, now: float, limits: Limits, cost: Callable[[Running], int] | None = None
) -> Evict | None:
    """The units whose eviction lets the demand in at the least loss; None if no eviction does.

    With `cost` the loss of a pod is what it says instead of the time the pod has run.
    """
    trial = EvictionTrial(view, now, cost)
    try:
        victims = trial.victims(demand.priority)
        if not victims:
            return None
        best = Incumbent()
        bound = _least_loss(trial, demand, victims, limits, best)
        if best.loss is None:
            return None
        trial.remove(best.victims)
        placed = place(view, demand, Steps(limits.steps)).placed
        return None if placed is None else Evict(best.loss.ids, best.loss, placed, min(bound, best.loss.as_bound))
    finally:
        trial.close()


def _least_loss(trial: EvictionTrial, demand: Demand, victims: Victims, limits: Limits, best: Incumbent) -> LossBound:
    """Put the least loss into `best`; no eviction that helps loses less than what comes back."""
    view = trial.view
    effort = Steps(limits.steps)
    anchors = _anchors(demand, victims)
    inquiries = []
    for aim in PartBuilder(view).aims(demand.root):
        gaps, simpler = SlotGains(trial, without_pod_rules(aim), victims), _by_shape(trial, aim, victims)
        for region, inside in _by_region(view, aim, victims):
            inquiries.append(RegionSearch(trial, aim, region, inside, anchors, gaps, simpler, effort))
    # The most promising first; once the rest cannot promise less than what is found, that is the least.
    if len(inquiries) > 1:
        inquiries.sort(key=lambda inquiry: inquiry.promise)
    bounds: list[LossBound] = []
    for inquiry in inquiries:
        if best.loss is not None and inquiry.promise > best.loss.as_bound:
            break
        bounds += inquiry.improve(best)
    return min(bounds, default=LossBound(1 << 62, 0, 0, 0))


def _by_shape(trial: EvictionTrial, aim: Part, victims: Victims) -> Callable[[], list[tuple[Part, SlotGains]]]:
    """The pods of each shape that an aim needs at least, anywhere and for themselves; computed once, when asked for."""

    @cache
    def found() -> list[tuple[Part, SlotGains]]:
        parts = [pods_of_shape(shape, number) for shape, number in without_pod_rules(aim).least.items() if number > 0]
        return [(part, SlotGains(trial, part, victims)) for part in parts]

    return found


def _anchors(demand: Demand, victims: Victims) -> frozenset[int]:
    """Victims whose company some pods may want, so that evicting them may be worse than keeping them."""
    shapes = {pods.shape: None for leaf in demand.leaves() for pods in leaf.classes}
    wanted = {term.peers: None for shape in shapes for term in shape.affinity}
    wanted |= {spread.peers: None for shape in shapes for spread in shape.spread}
    if not wanted:
        return frozenset()
    return frozenset(
        victim.unit
        for victim in victims
        if any(pod.identity and means(peers, pod.identity) for pod in victim.pods for peers in wanted)
    )


def _by_region(view: ClusterView, part: Part, victims: Victims) -> list[tuple[Region, Victims]]:
    """The domains of the root's first key, or the whole cluster, with the victims that touch them."""
    table = view.node_table
    level = table.level_of.get(part.keys[0]) if part.keys else None
    if level is None or has_pod_rules(part):
        return [(CLUSTER, victims)]
    pinned = distinct(table.domains(level)[list(part.pins)].tolist()).tolist()
    named = table.named(level)
    return [
        (Region(level, index), inside)
        for index, inside in victims.by_domain(table.domains(level))
        if named[index] and set(pinned) <= {index}
    ]
