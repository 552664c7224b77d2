"""Soft terms as a score of nodes: preferred node affinity, nearness and distance to running pods, spread, soft taints.

The score follows kube-scheduler: each kind is brought to 0 … 100 over the nodes that can take the pod, and kinds are
weighed against one another as there.  It decides last, among domains that are equally tight and among the nodes of
the domain that was chosen; what a placement is worth does not change.  Pods that wish for nothing cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import numpy as np

from .capacity import room
from .company import Question
from .demand import Demand, Leaf, NodeTerm, PodTerm, Shape, Spread, Taint
from .fill import compact
from .fit import matches_term, tolerated
from .layout import Bools, Ints, Layout
from .regions import CLUSTER, Region, rows_of
from .terms import domain_of, eligible, settled, tally
from .view import ClusterView
from .worth import Draft, inner_regions, keys_of

#: What kube-scheduler gives the kinds: soft taints, node affinity, other pods, spread.
TAINTS, NODES, PODS, EVEN = 3, 2, 2, 2
FULL = 100
#: Domains that are compared for one group.
DOMAINS = 256


def has_wishes(layout: Layout, shape: Shape) -> bool:
    return bool(shape.wishes) or any(not tolerated(taint, shape.tolerations) for taint in _soft_taints(layout))


def honour(view: ClusterView, demand: Demand, draft: Draft) -> bool:
    """Move pods with wishes to the nodes they like best, within what is decided; whether any have wishes."""
    shapes = {id(put.ask.shape): put.ask.shape for put in draft.puts}
    wishing = {number for number, shape in shapes.items() if has_wishes(view.layout, shape)}
    if not wishing:
        return False
    minding = any(put.ask.shape.tied for put in draft.puts)
    if minding and not (len(draft.puts) == 1 and settled(view.layout, view.company, draft.puts[0].ask.shape)):
        return False  # a pod that moves could spoil what is right
    _choose_domain(view, demand, draft)
    free = view.layout.free.copy()
    for put in draft.puts:
        _charge(view.layout, free, put.rows, put.ask.shape, put.counts)
    for number, put in enumerate(draft.puts):
        shape = put.ask.shape
        if id(shape) not in wishing:
            continue
        _charge(view.layout, free, put.rows, shape, -put.counts)
        slots = np.minimum(view.capacity.slots(shape).rows, room(view.layout, free, shape))
        rows, counts = _best(view, shape, slots, draft.seats[put.part.group], int(put.counts.sum()))
        _charge(view.layout, free, rows, shape, counts)
        draft.puts[number] = put._replace(rows=rows, counts=counts)
    return True


def _best(view: ClusterView, shape: Shape, slots: Ints, region: Region, count: int) -> tuple[Ints, Ints]:
    """The nodes with the highest scores, whole; of those that are liked equally at the end as few as will do."""
    rows = rows_of(view.layout, region)
    rows = rows[slots[rows] > 0]
    found = scores(view, shape, rows)
    order = np.argsort(-found, kind="stable")
    last = order[int(np.searchsorted(np.cumsum(slots[rows[order]]), count))]
    whole, rest = rows[found > found[last]], np.zeros_like(slots)
    rest[rows[found == found[last]]] = slots[rows[found == found[last]]]
    some, counts = compact(view.layout, shape, rest, region, count - int(slots[whole].sum()))
    taken, counts = np.concatenate([whole, some]), np.concatenate([slots[whole], counts])
    along = np.argsort(taken, kind="stable")
    return taken[along], counts[along]


def _choose_domain(view: ClusterView, demand: Demand, draft: Draft) -> None:
    """The best liked of the domains that are as tight as the one chosen, for a single group of equal pods."""
    leaf = demand.root
    if not isinstance(leaf, Leaf) or len(draft.puts) != 1 or leaf.bound or leaf.exclusive:
        return
    here, layout, shape = draft.seats[leaf.id], view.layout, draft.puts[0].ask.shape
    if here.level < 0 or here.rows is not None:
        return
    slots, count = view.capacity.slots(shape), int(draft.puts[0].counts.sum())
    narrowest = [key for key in leaf.preferred if layout.level_of.get(key) == here.level]
    homes = [CLUSTER]
    for key in keys_of(leaf, narrowest[0] if narrowest else None, layout):
        homes = [inner for region in homes for inner in inner_regions(layout, region, key)]
    sums = slots.roll(here.level)
    alike = [home for home in homes if home.level == here.level and sums[home.index] == sums[here.index]][:DOMAINS]
    rows = np.concatenate([rows_of(layout, home) for home in alike]) if alike else np.zeros(0, dtype=np.int64)
    rows = rows[slots.rows[rows] > 0]
    value = np.zeros(layout.size, dtype=np.int64)
    value[rows] = scores(view, shape, rows)

    def liking(home: Region) -> int:
        inside = rows_of(layout, home)
        each = np.repeat(value[inside], np.minimum(slots.rows[inside], count))
        return int(np.sort(each)[-count:].sum())

    if alike:
        best = max(alike, key=liking)
        if liking(best) > liking(here):
            draft.seats[leaf.id] = best
            rows, counts = compact(layout, shape, slots.rows, best, count)
            draft.puts[0] = draft.puts[0]._replace(rows=rows, counts=counts)


def _charge(layout: Layout, free: Ints, rows: Ints, shape: Shape, counts: Ints) -> None:
    for resource, amount in shape.requests:
        known = layout.resources.get(resource)
        if known is not None:
            free[known, rows] -= amount * counts


# ---- the score


def scores(view: ClusterView, shape: Shape, rows: Ints) -> Ints:
    """How much pods of a shape like each of the rows, all of which can take one."""
    total = np.zeros(len(rows), dtype=np.int64)
    for weight, kind in ((TAINTS, _taints), (NODES, _nodes), (PODS, _pods), (EVEN, _even)):
        total += weight * kind(view, shape, rows)
    return total


def _taints(view: ClusterView, shape: Shape, rows: Ints) -> Ints:
    """The fewer soft taints that are not tolerated, the better."""
    layout = view.layout
    unwelcome = {taint for taint in _soft_taints(layout) if not tolerated(taint, shape.tolerations)}
    by_set = np.array([sum(taint in unwelcome for taint in taints) for taints in layout.taint_sets], dtype=np.int64)
    found = by_set[layout.taints[rows]]
    most = int(found.max(initial=0))
    return FULL - found * FULL // most if most else np.full(len(rows), FULL, dtype=np.int64)


def _soft_taints(layout: Layout) -> Iterator[Taint]:
    return (taint for taints in layout.taint_sets for taint in taints if taint.effect == "PreferNoSchedule")


def _nodes(view: ClusterView, shape: Shape, rows: Ints) -> Ints:
    found = np.zeros(len(rows), dtype=np.int64)
    for wish in shape.wishes:
        if isinstance(wish.about, NodeTerm):
            found += wish.weight * matches_term(view.layout, wish.about, rows)
    most = int(found.max(initial=0))
    return found * FULL // most if most else found


def _pods(view: ClusterView, shape: Shape, rows: Ints) -> Ints:
    """Running pods in the same domain count as often as they are; a negative weight keeps away."""
    found = np.zeros(len(rows), dtype=np.int64)
    for wish in shape.wishes:
        if isinstance(wish.about, PodTerm):
            domain = domain_of(view.layout, wish.about.key)
            near = tally(view.layout, domain, view.company.of(Question((wish.about.peers,))))
            found += wish.weight * near[domain[rows]]
    low, high = (int(found.min()), int(found.max())) if len(found) else (0, 0)
    return (found - low) * FULL // (high - low) if high > low else np.zeros_like(found)


def _even(view: ClusterView, shape: Shape, rows: Ints) -> Ints:
    """Domains with few such pods first; rows without a key come last."""
    spreads = [wish.about for wish in shape.wishes if isinstance(wish.about, Spread)]
    if not spreads:
        return np.zeros(len(rows), dtype=np.int64)
    raw, named = np.zeros(len(rows)), np.ones(len(rows), dtype=np.bool_)
    for spread in spreads:
        held, here = _held(view, shape, spread, rows)
        named &= here
        raw += held
    amounts = np.rint(raw).astype(np.int64)
    if not named.any():
        return np.zeros(len(rows), dtype=np.int64)
    low, high = int(amounts[named].min()), int(amounts[named].max())
    if not high:
        return np.where(named, FULL, 0)
    return np.where(named, FULL * (high + low - amounts) // high, 0)


def _held(view: ClusterView, shape: Shape, spread: Spread, rows: Ints) -> tuple[np.ndarray, Bools]:
    """Pods per domain, weighed by the number of domains as kube-scheduler does, and which rows have one."""
    layout, domain = view.layout, domain_of(view.layout, spread.key)
    counted = np.where(eligible(layout, shape, spread), domain, -1)
    pods = tally(layout, counted, view.company.of(Question((spread.peers,), staying=True)))
    here = domain[rows]
    domains = len(set(here[here >= 0].tolist()))
    return pods[here] * log(domains + 2) + (spread.max_skew - 1), here >= 0
