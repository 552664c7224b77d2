"""Preemption: evict whole units of strictly lower priority at the least loss, and none that could be spared.

    victims ─► one RegionSearch per domain of the root's key ─► Incumbent ─► placement without the victims

The loss is minimised in the order of `records.verdict.Loss`.  Each region has a lower bound of its loss from the slots
that it lacks.  Regions are searched from the lowest bound up, and not at all once the bound is above the incumbent.
What the step budget leaves open anywhere lowers the bound of the verdict, which says whether its loss is the least.
"""

from __future__ import annotations

from collections.abc import Callable

from ..cluster.arrays import distinct
from ..cluster.pod_index import means
from ..cluster.regions import CLUSTER, Region
from ..cluster.view import ClusterView, Running
from ..placement.place import place
from ..records.demand import Demand, Limits
from ..records.verdict import Evict, LossBound
from ..space.budget import Steps
from ..space.canonical import Part, PartBuilder, without_pod_rules
from ..space.rule_state import has_pod_rules
from .loss import EvictionTrial, Incumbent
from .region_problem import RegionProblem
from .region_search import RegionSearch
from .slot_gains import SlotGains
from .victim_table import Victims

#: Above every loss: no region left anything open.
NOTHING_OPEN = LossBound(1 << 62, 0, 0, 0)


def preempt(
    view: ClusterView, demand: Demand, now: float, limits: Limits, cost: Callable[[Running], int] | None = None
) -> Evict | None:
    """The units whose eviction lets the demand in at the least loss; None if no eviction does.

    `cost` gives the cost of losing a pod; by default it is the time that the pod has run.
    """
    trial = EvictionTrial(view, now, cost)
    try:
        # 1. All units of lower priority with evictable pods, cheapest first.
        victims = trial.victims(demand.priority)
        if not victims:
            return None
        # 2. One search for each aim and domain of the root's key, the lowest bound first.
        searches = _region_searches(trial, demand, victims, limits)
        # 3. Improve the incumbent region by region.
        best = Incumbent()
        bound = _least_loss(searches, best)
        if best.loss is None:
            return None
        # 4. Place the whole demand without the victims; a region search placed what the root needs at least.
        trial.remove(best.victims)
        placed = place(view, demand, Steps(limits.steps)).placed
        return None if placed is None else Evict(best.loss.ids, best.loss, placed, min(bound, best.loss.as_bound))
    finally:
        trial.close()


def _region_searches(trial: EvictionTrial, demand: Demand, victims: Victims, limits: Limits) -> list[RegionSearch]:
    steps, anchors = Steps(limits.steps), _anchors(demand, victims)
    searches = []
    for aim in PartBuilder(trial.view).aims(demand.root):
        gains = SlotGains(trial, without_pod_rules(aim), victims)
        for region, inside in _by_region(trial.view, aim, victims):
            searches.append(RegionSearch(RegionProblem(trial, aim, region, inside, anchors, gains, steps)))
    if len(searches) > 1:
        searches.sort(key=lambda search: search.problem.lower_bound)
    return searches


def _least_loss(searches: list[RegionSearch], best: Incumbent) -> LossBound:
    """Put the least loss into `best`; returns a lower bound of every loss that stayed open."""
    bound = NOTHING_OPEN
    for search in searches:
        if best.loss is not None and search.problem.lower_bound > best.loss.as_bound:
            break
        left_open = search.improve(best)
        if left_open is not None:
            bound = min(bound, left_open)
    return bound


def _anchors(demand: Demand, victims: Victims) -> frozenset[int]:
    """Units that match an affinity or spread term of the demand: evicting them may be worse than keeping them."""
    shapes = {pods.shape: None for leaf in demand.leaves() for pods in leaf.classes}
    matched = {term.peers: None for shape in shapes for term in shape.affinity}
    matched |= {spread.peers: None for shape in shapes for spread in shape.spread}
    if not matched:
        return frozenset()
    return frozenset(
        victim.unit
        for victim in victims
        if any(pod.identity and means(peers, pod.identity) for pod in victim.pods for peers in matched)
    )


def _by_region(view: ClusterView, part: Part, victims: Victims) -> list[tuple[Region, Victims]]:
    """The domains of the root's first key, or the whole cluster, each with the victims in it."""
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
