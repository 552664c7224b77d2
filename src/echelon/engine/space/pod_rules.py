"""Rules between pods that are placed together, each with counters per domain.

    `rule_state` puts pods and takes them back ─► every rule counts ─► limits per node, dead ends, final check

    AntiAffinityRule   a term of anti-affinity: pods that have it and pods that match it share no domain
    AffinityRule       terms of affinity: a matching pod is in the same domain; the first of a kind that matches its
                       own terms may go anywhere if no matching pod runs, and the rest of its kind go where it goes
    SpreadRule         a spread constraint: no domain in use exceeds the emptiest by more than the skew

Pods that are placed together are judged as a whole, so their order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..cluster.arrays import Bools, Ints
from ..cluster.node_table import NodeTable
from ..cluster.pod_index import PodIndex, PodQuery
from ..cluster.running_terms import anchors_of, domain_of, eligible, has_anchor, joins, matches, tally
from ..cluster.slots import UNLIMITED
from ..cluster.view import ClusterView
from ..records.demand import PodTerm, Shape, Spread
from .trial_state import AmountState


class AntiAffinityRule:
    """One term of anti-affinity that pods of the demand have and pods of the demand match."""

    def __init__(self, table: NodeTable, pod_index: PodIndex, term: PodTerm, shapes: list[Shape]) -> None:
        self.domain = domain_of(table, term.key)
        self.having = {shape for shape in shapes if term in shape.anti_affinity}
        self.meant = {shape for shape in shapes if matches(term.peers, shape)}
        self.meant_pods = tally(table, self.domain, pod_index.of(PodQuery((term.peers,))))
        self.having_pods = tally(table, self.domain, pod_index.repelling().get(term, {}))

    def put(self, shape: Shape, rows: Ints, counts: Ints) -> None:
        if shape in self.meant:
            _count(self.meant_pods, self.domain[rows], counts)
        if shape in self.having:
            _count(self.having_pods, self.domain[rows], counts)

    def cap(self, shape: Shape) -> Ints | None:
        having, meant = shape in self.having, shape in self.meant
        if not having and not meant:
            return None
        shut = np.zeros(len(self.domain), dtype=np.bool_)
        if having:
            shut |= self.meant_pods[self.domain] > 0
        if meant:
            shut |= self.having_pods[self.domain] > 0
        most = np.where((self.domain >= 0) & having & meant, 1, UNLIMITED)
        return np.where(shut, 0, most)

    def single(self, shape: Shape) -> bool:
        """Whether a domain takes only one pod of the shape."""
        return shape in self.having and shape in self.meant

    def holds(self, shape: Shape, rows: Ints) -> bool:
        here = self.domain[rows]
        here = here[here >= 0]
        itself = int(shape in self.having and shape in self.meant)
        if shape in self.having and (self.meant_pods[here] > itself).any():
            return False
        return shape not in self.meant or not (self.having_pods[here] > itself).any()

    def complete(self) -> bool:
        return True

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        return None

    def tables(self) -> Iterator[tuple[Ints, Ints]]:
        yield self.domain, self.meant_pods
        yield self.domain, self.having_pods


class AffinityRule:
    """The affinity terms of one or more shapes."""

    def __init__(self, view: ClusterView, like: Shape, shapes: list[Shape], supply: dict[Shape, int]) -> None:
        table = view.node_table
        having = [shape for shape in shapes if shape.affinity == like.affinity]
        meant = [shape for shape in shapes if joins(shape, like)]
        #: Pods that have the terms and match them, those that only have them, those that only match.
        self.kind = {shape for shape in having if shape in meant}
        self.followers = {shape for shape in having if shape not in meant}
        self.anchors = {shape for shape in meant if shape not in having}
        # Pods that need a neighbour do not rely on nominated pods, and so no pod of these shapes does.
        strictest = next((shape for shape in having if shape not in meant), like)
        self.anchored = has_anchor(table, view.pod_index, strictest)
        self.domains = [domain_of(table, term.key) for term in like.affinity]
        running = anchors_of(table, view.pod_index, strictest)
        self.anchor_pods = [tally(table, domain, running) for domain in self.domains]
        self.kind_pods = [np.zeros_like(pods) for pods in self.anchor_pods]
        self.follower_pods = [np.zeros_like(pods) for pods in self.anchor_pods]
        self.anchors_left = sum(supply[shape] for shape in self.anchors)
        self.kind_left = sum(supply[shape] for shape in self.kind)

    def put(self, shape: Shape, rows: Ints, counts: Ints) -> None:
        total = int(counts.sum())
        if shape in self.anchors:
            self.anchors_left -= total
            pods = self.anchor_pods
        elif shape in self.kind:
            self.kind_left -= total
            pods = self.kind_pods
        elif shape in self.followers:
            pods = self.follower_pods
        else:
            return
        for domain, table in zip(self.domains, pods, strict=True):
            _count(table, domain[rows], counts)

    def cap(self, shape: Shape) -> Ints | None:
        if self.anchors_left or not (shape in self.kind or (shape in self.followers and not self.kind_left)):
            return None
        fine = self._beside(shape)
        if shape in self.kind and not self.anchored:
            fine |= self._with_its_kind()
        return np.where(fine, UNLIMITED, 0)

    def _beside(self, shape: Shape) -> Bools:
        """Rows near pods that match all terms of the shape."""
        fine = np.ones(len(self.domains[0]), dtype=np.bool_)
        for domain, anchors, kind in zip(self.domains, self.anchor_pods, self.kind_pods, strict=True):
            near = anchors if shape in self.kind else anchors + kind
            fine &= near[domain] > 0
        return fine

    def _with_its_kind(self) -> Bools:
        fine = np.ones(len(self.domains[0]), dtype=np.bool_)
        for domain, kind in zip(self.domains, self.kind_pods, strict=True):
            fine &= (domain >= 0) & ((kind[domain] > 0) | (not kind.any()))
        return fine

    def stays_together(self, shape: Shape) -> bool:
        """Whether pods of a shape can only go where the first of them goes."""
        alone = not self.anchored and not self.anchors_left and not any(pods.any() for pods in self.anchor_pods)
        return alone and shape in self.kind

    def roomiest(self, slots: Ints) -> int:
        """The most slots in a domain of each term."""
        sums = [np.zeros_like(pods) for pods in self.anchor_pods]
        for domain, table in zip(self.domains, sums, strict=True):
            _count(table, domain, slots)
        return min(int(table.max(initial=0)) for table in sums)

    def holds(self, shape: Shape, rows: Ints) -> bool:
        if not self.anchors_left and shape in self.kind and not self._kind_holds():
            return False
        late = shape in self.followers and not self.anchors_left and not self.kind_left
        return not late or self._followers_hold()

    def complete(self) -> bool:
        return self._kind_holds() and self._followers_hold()

    def _kind_holds(self) -> bool:
        if not self.anchored and all(int((kind > 0).sum()) <= 1 for kind in self.kind_pods):
            return True
        pairs = zip(self.kind_pods, self.anchor_pods, strict=True)
        return all(bool((anchors[kind > 0] > 0).all()) for kind, anchors in pairs)

    def _followers_hold(self) -> bool:
        tables = zip(self.follower_pods, self.anchor_pods, self.kind_pods, strict=True)
        return all(bool(((anchors + kind)[pods > 0] > 0).all()) for pods, anchors, kind in tables)

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        """0 where matching pods are nearby, 1 elsewhere."""
        if shape not in self.kind and shape not in self.followers:
            return None
        return np.where((self._beside(shape) | self._with_its_kind())[rows], 0, 1)

    def tables(self) -> Iterator[tuple[Ints, Ints]]:
        for number, domain in enumerate(self.domains):
            for pods in (self.anchor_pods, self.kind_pods, self.follower_pods):
                yield domain, pods[number]


class SpreadRule:
    """One spread constraint of one shape."""

    def __init__(
        self, state: AmountState, view: ClusterView, like: Shape, spread: Spread, supply: dict[Shape, int]
    ) -> None:
        table = view.node_table
        self.like, self.spread = like, spread
        self.counted = eligible(table, like, spread)
        self.domain = domain_of(table, spread.key)
        self.meant = {shape for shape in supply if matches(spread.peers, shape)}
        at_home = np.where(self.counted, self.domain, -1)
        self.pods = tally(table, self.domain, {})
        running = tally(table, at_home, view.pod_index.of(PodQuery((spread.peers,), staying=True)))
        self.pods[: len(running) - 1] += running[:-1]
        self.used = np.zeros_like(self.pods)
        present = np.zeros(len(self.pods), dtype=np.bool_)
        present[at_home[at_home >= 0]] = True
        self.present = np.flatnonzero(present)
        self.left = sum(supply[shape] for shape in self.meant)
        # No domain can hold more than its pods now plus its slots.
        slots = np.zeros_like(self.pods)
        for shape in self.meant:
            _count(slots, at_home, np.minimum(state.slots_by_row(shape), self.left))
        self.ceiling = int((self.pods + slots)[self.present].min(initial=UNLIMITED))

    def put(self, shape: Shape, rows: Ints, counts: Ints) -> None:
        if shape in self.meant:
            counted = self.counted[rows]
            _count(self.pods, self.domain[rows][counted], counts[counted])
            self.left -= int(counts.sum())
        if shape == self.like:
            _count(self.used, self.domain[rows], counts)

    def cap(self, shape: Shape) -> Ints | None:
        if shape != self.like:
            return None
        more = self.spread.max_skew + self._highest_floor() - self.pods[self.domain]
        if shape not in self.meant:
            more = np.where(more >= 0, UNLIMITED, 0)
        return np.where(self.domain >= 0, np.maximum(more, 0), 0)

    def _highest_floor(self) -> int:
        """The most pods that the emptiest domain can reach if all remaining pods go to the lowest domains."""
        if len(self.present) < self.spread.min_domains:
            return 0
        heights = np.sort(self.pods[self.present])
        needed = heights * np.arange(1, len(heights) + 1) - np.cumsum(heights)
        reach = int(np.searchsorted(needed, self.left, side="right"))
        floor = (int(heights[:reach].sum()) + self.left) // reach if reach else 0
        return min(floor, self.ceiling)

    def holds(self, shape: Shape, rows: Ints) -> bool:
        return self._within(self._highest_floor())

    def complete(self) -> bool:
        enough = len(self.present) >= self.spread.min_domains
        return self._within(int(self.pods[self.present].min(initial=UNLIMITED)) if enough else 0)

    def _within(self, floor: int) -> bool:
        return not ((self.used > 0) & (self.pods - floor > self.spread.max_skew)).any()

    def score(self, shape: Shape, rows: Ints) -> Ints | None:
        return self.pods[self.domain[rows]] if shape == self.like else None

    def tables(self) -> Iterator[tuple[Ints, Ints]]:
        yield self.domain, self.pods
        yield self.domain, self.used


def _count(table: Ints, domain: Ints, counts: Ints) -> None:
    named = domain >= 0
    np.add.at(table, domain[named], counts[named])
