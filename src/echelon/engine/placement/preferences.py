"""Preferences: pods move to the nodes with the best score, within what is decided.

They decide last: among domains that are equally tight, and among the nodes of the chosen domain; the objective does
not change.  Pods without preferences, which no preference matches either, cost nothing.  Where members of a demand
have preferences about one another they are placed one after the other, each seeing those before.
"""

from __future__ import annotations

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.node_filters import tolerated
from ..cluster.node_table import NodeTable
from ..cluster.regions import CLUSTER, Region, domains_within, rows_of
from ..cluster.running_terms import settled
from ..cluster.slots import slots_in
from ..cluster.view import ClusterView
from ..records.demand import Demand, Identity, Leaf, NodeTerm, PodClass, Shape
from ..space.canonical import keys_of
from ..space.compact import compact
from ..space.tasks import Put
from .node_score import DemandPods, NodeScore
from .objective import DraftPlacement

#: Domains that are compared for one group.
DOMAINS = 256
#: Turns in which the pods of a class are placed, one pod each if there are not more; fewer where nodes are many.
TURNS, FEWEST_TURNS, WORK = 512, 16, 1 << 22


def has_preferences(table: NodeTable, pods: PodClass) -> bool:
    """Whether pods have preferences, or may match those of other pods."""
    return pods.identity is not None or _has_own_preferences(table, pods.shape)


def _has_own_preferences(table: NodeTable, shape: Shape) -> bool:
    if shape.preferences or not table.soft_taints:
        return bool(shape.preferences)
    return any(not tolerated(taint, shape.tolerations) for taint in table.soft_taints)


def apply_preferences(view: ClusterView, demand: Demand, draft: DraftPlacement) -> bool:
    """Move pods to the nodes with the best score, within what is decided; returns whether any have preferences."""
    shapes = {id(put.ask.shape): put.ask.shape for put in draft.puts}
    preferring = {number for number, shape in shapes.items() if _has_own_preferences(view.node_table, shape)}
    known = _identities(demand)
    if not preferring and not known:
        return False
    with_rules = any(put.ask.shape.has_pod_rules for put in draft.puts)
    if with_rules and not (len(draft.puts) == 1 and settled(view.node_table, view.pod_index, draft.puts[0].ask.shape)):
        return False  # a pod that moves could break a rule
    mover = _Mover(view, draft, known)
    mover.choose_domain(demand)
    # Pods with preferences about pods come after those about nodes only, and see where these are.
    for number, put in sorted(enumerate(draft.puts), key=lambda item: _prefers_pods(item[1].ask.shape)):
        if id(put.ask.shape) in preferring or mover.identity(put) is not None:
            mover.move(number)
    return True


def _prefers_pods(shape: Shape) -> bool:
    return any(not isinstance(preference.about, NodeTerm) for preference in shape.preferences)


#: The identity of the pods of a leaf, shape and role.
Identities = dict[tuple[int, Shape, str], Identity]


def _identities(demand: Demand) -> Identities:
    """Members of one class that differ in identity count as the first of them."""
    found: Identities = {}
    for leaf in demand.leaves():
        for pods in leaf.classes:
            if pods.identity is not None:
                found.setdefault((leaf.id, pods.shape, pods.role), pods.identity)
    return found


class _Mover:
    """Moves the pods of a draft, put by put, on what the others leave free."""

    def __init__(self, view: ClusterView, draft: DraftPlacement, known: Identities) -> None:
        self.view, self.table, self.draft, self.known = view, view.node_table, draft, known
        self.demand_pods = DemandPods(view.node_table.size)

    def identity(self, put: Put) -> Identity | None:
        return self.known.get((put.part.group, put.ask.shape, put.ask.role)) if self.known else None

    def _settle(self) -> None:
        """Take the amounts of all pods."""
        self.free = self.table.free.copy()
        for put in self.draft.puts:
            self._charge(put, 1)

    def _charge(self, put: Put, times: int) -> None:
        for resource, amount in put.ask.shape.requests:
            known = self.table.resources.get(resource)
            if known is not None:
                self.free[known, put.rows] -= amount * times * put.counts
        self.demand_pods.count(put.ask.shape, self.identity(put), put.rows, times * put.counts)

    def move(self, number: int) -> None:
        put = self.draft.puts[number]
        shape, region = put.ask.shape, self.draft.seats[put.part.group]
        self._charge(put, -1)
        slots = np.minimum(self.view.slot_cache.slots(shape).rows, slots_in(self.table, self.free, shape))
        rows = rows_of(self.table, region)
        rows = rows[slots[rows] > 0]
        score = NodeScore(self.view, shape, self.identity(put), rows, self.demand_pods)
        taken = self._in_turns(put, score, slots) if score.changes else self._best(put, score, slots, region)
        self.draft.puts[number] = moved = put._replace(rows=taken[0], counts=taken[1])
        self._charge(moved, 1)

    def _best(self, put: Put, score: NodeScore, slots: Ints, region: Region) -> tuple[Ints, Ints]:
        """Fill the nodes with the highest scores; among equal scores at the end use as few nodes as possible."""
        rows, count, found = score.rows, int(put.counts.sum()), score.scores()
        order = np.argsort(-found, kind="stable")
        last = order[int(np.searchsorted(np.cumsum(slots[rows[order]]), count))]
        whole, rest = rows[found > found[last]], np.zeros_like(slots)
        rest[rows[found == found[last]]] = slots[rows[found == found[last]]]
        some, counts = compact(self.table, put.ask.shape, rest, region, count - int(slots[whole].sum()))
        taken, counts = np.concatenate([whole, some]), np.concatenate([slots[whole], counts])
        along = np.argsort(taken, kind="stable")
        return taken[along], counts[along]

    def _in_turns(self, put: Put, score: NodeScore, slots: Ints) -> tuple[Ints, Ints]:
        """One pod after the other on the node with the best score; among equals as planned."""
        rows, count = score.rows, int(put.counts.sum())
        left, taken = slots[rows], np.zeros(len(rows), dtype=np.int64)
        planned = np.zeros(len(slots), dtype=np.int64)
        planned[put.rows] = put.counts
        planned = planned[rows]
        portion = -(-count // max(FEWEST_TURNS, min(TURNS, WORK // len(rows))))
        apart = score.ranks() if portion > 1 and not score.draws else np.zeros_like(left)
        while count:
            for spot in self._next(score, left, planned, apart, min(portion, count)):
                number = min(int(left[spot]), portion, count) if score.draws else min(1, count)
                left[spot] -= number
                planned[spot] -= number
                taken[spot] += number
                count -= number
                score.take(spot, number)
        used = taken > 0
        return rows[used], taken[used]

    def _next(self, score: NodeScore, left: Ints, planned: Ints, apart: Ints, number: int) -> list[int]:
        """The best spots for the next few pods, planned ones first."""
        scores = np.where(left > 0, score.scores(), -1)
        if number == 1:
            best = scores == scores.max()
            as_planned = best & (planned > 0)
            return [int((as_planned if as_planned.any() else best).argmax())]
        order = np.lexsort((planned <= 0, apart, -scores))[:number]
        return [spot for spot in order.tolist() if left[spot] > 0]

    def choose_domain(self, demand: Demand) -> None:
        """For a single group of equal pods: the domain with the best score among those as tight as the chosen one."""
        self._move_group(demand)
        self._settle()

    def _move_group(self, demand: Demand) -> None:
        leaf, table = demand.root, self.table
        if not isinstance(leaf, Leaf) or len(self.draft.puts) != 1 or leaf.bound or leaf.exclusive:
            return
        put = self.draft.puts[0]
        here, shape = self.draft.seats[leaf.id], put.ask.shape
        if here.level < 0 or here.rows is not None:
            return
        slots, count = self.view.slot_cache.slots(shape), int(put.counts.sum())
        alike = self._as_tight(leaf, here, slots.roll(here.level))
        rows = np.concatenate([rows_of(table, home) for home in alike]) if alike else np.zeros(0, dtype=np.int64)
        rows = rows[slots.rows[rows] > 0]
        value = np.zeros(table.size, dtype=np.int64)
        value[rows] = NodeScore(self.view, shape, self.identity(put), rows).scores()

        def score(home: Region) -> int:
            inside = rows_of(table, home)
            each = np.repeat(value[inside], np.minimum(slots.rows[inside], count))
            return int(np.sort(each)[-count:].sum())

        if alike:
            best = max(alike, key=score)
            if score(best) > score(here):
                self.draft.seats[leaf.id] = best
                taken, counts = compact(table, shape, slots.rows, best, count)
                self.draft.puts[0] = put._replace(rows=taken, counts=counts)

    def _as_tight(self, leaf: Leaf, here: Region, sums: Ints) -> list[Region]:
        """Domains as tight as the chosen one, at most `DOMAINS`."""
        narrowest = [key for key in leaf.preferred if self.table.level_of.get(key) == here.level]
        homes = [CLUSTER]
        for key in keys_of(self.table, leaf, narrowest[0] if narrowest else None):
            homes = [inner for region in homes for inner in domains_within(self.table, region, key)]
        return [home for home in homes if home.level == here.level and sums[home.index] == sums[here.index]][:DOMAINS]
