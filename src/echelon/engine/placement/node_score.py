"""The score of a node for a pod: preferred node affinity, pod affinity and anti-affinity, spread, soft taints.

The score follows kube-scheduler: each kind is brought to 0 … 100 over the nodes that can take the pod, and kinds are
weighed against one another as there.  Other pods are those that run and those that the same demand places
(`DemandPods`); their preferences about the new pod count like its preferences about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from ..cluster.arrays import Bools, Ints
from ..cluster.node_filters import matches_term, tolerated
from ..cluster.pod_index import PodQuery, means
from ..cluster.running_terms import domain_of, eligible, tally
from ..cluster.view import ClusterView
from ..records.demand import Identity, NodeTerm, Peers, PodTerm, Preference, Shape, Spread

Floats = npt.NDArray[np.floating[Any]]

#: The weights of kube-scheduler: soft taints, node affinity, pod affinity, spread.
TAINTS, NODES, PODS, EVEN = 3, 2, 2, 2
FULL = 100


class DemandPods:
    """The pods that one demand places, by row: identities and preferences."""

    def __init__(self, size: int) -> None:
        self._nobody: Ints = np.zeros(size, dtype=np.int64)
        self._known: dict[Identity, Ints] = {}
        self.preferring: dict[Preference, Ints] = {}

    def count(self, shape: Shape, identity: Identity | None, rows: Ints, counts: Ints) -> None:
        """Add pods to distinct rows; negative counts remove them."""
        if identity is not None:
            self._known.setdefault(identity, self._nobody.copy())[rows] += counts
        for preference in shape.preferences:
            if isinstance(preference.about, PodTerm):
                self.preferring.setdefault(preference, self._nobody.copy())[rows] += counts

    def meant(self, peers: Peers) -> Ints:
        """Matching pods per row."""
        found = [pods for identity, pods in self._known.items() if means(peers, identity)]
        return sum(found, self._nobody)


class _Nearness:
    """A preference about other pods: the weight of each domain of its key by the pods in it."""

    def __init__(self, domain: Ints, weights: Ints, rows: Ints, own: int) -> None:
        self.here, self.weights = domain[rows], weights
        #: What one more of the pods being placed adds to its domain.
        self.own = own

    def take(self, spot: int, number: int) -> None:
        if self.own and self.here[spot] >= 0:
            self.weights[self.here[spot]] += self.own * number


class _Evenness:
    """A soft spread: pods per domain, weighed by the number of domains as kube-scheduler does."""

    def __init__(self, domain: Ints, counted: Ints, pods: Ints, rows: Ints, spread: Spread, own: bool) -> None:
        self.here, self.counted, self.pods = domain[rows], counted[rows], pods
        self.own = int(own)
        self.factor = log(len(set(self.here[self.here >= 0].tolist())) + 2)
        self.more = spread.max_skew - 1

    def held(self) -> Floats:
        return self.pods[self.here] * self.factor + self.more

    def take(self, spot: int, number: int) -> None:
        if self.own and self.counted[spot] >= 0:
            self.pods[self.counted[spot]] += number


class NodeScore:
    """The scores of rows for equal pods, while these are placed one after the other."""

    def __init__(
        self,
        view: ClusterView,
        shape: Shape,
        identity: Identity | None,
        rows: Ints,
        demand_pods: DemandPods | None = None,
    ) -> None:
        self.view, self.shape, self.identity, self.rows = view, shape, identity, rows
        self.demand_pods = demand_pods or DemandPods(view.node_table.size)
        self._still = TAINTS * _taints(view, shape, rows) + NODES * _nodes(view, shape, rows)
        self._near = [*self._own_preferences(), *self._preferences_of_others()]
        self._even = [
            self._evenness(preference.about) for preference in shape.preferences if isinstance(preference.about, Spread)
        ]

        self._changing: list[_Nearness | _Evenness] = [each for each in self._near if each.own]
        self._changing += [each for each in self._even if each.own]

    @property
    def changes(self) -> bool:
        """Whether the node of one pod changes the scores for the next."""
        return bool(self._changing)

    @property
    def draws(self) -> bool:
        """Whether the pods attract one another."""
        return not any(each.own for each in self._even) and sum(each.own for each in self._near) > 0

    def ranks(self) -> Ints:
        """For each row, the number of earlier rows in the same domains: rows of one rank lie apart."""
        found = np.zeros(len(self.rows), dtype=np.int64)
        for each in self._changing:
            order = np.argsort(each.here, kind="stable")
            along = each.here[order]
            first = np.searchsorted(along, along, side="left")
            found[order] += np.arange(len(order)) - first
        return found

    def take(self, spot: int, number: int = 1) -> None:
        """Put a number of the pods on the row at this position."""
        for each in self._changing:
            each.take(spot, number)

    def scores(self) -> Ints:
        return self._still + PODS * self._nearness() + EVEN * self._evenly()

    # ---- other pods

    def _own_preferences(self) -> Iterator[_Nearness]:
        table, pod_index = self.view.node_table, self.view.pod_index
        for preference in self.shape.preferences:
            if isinstance(preference.about, PodTerm):
                domain = domain_of(table, preference.about.key)
                there = tally(table, domain, pod_index.of(PodQuery((preference.about.peers,))))
                _gather(there, domain, self.demand_pods.meant(preference.about.peers))
                # A pod of its own kind counts twice: it matches the preference and has it.
                own = 2 * preference.weight if self._is_meant(preference.about.peers) else 0
                yield _Nearness(domain, there * preference.weight, self.rows, own)

    def _preferences_of_others(self) -> Iterator[_Nearness]:
        table = self.view.node_table
        for preference, nodes in self.view.pod_index.preferring().items():
            if isinstance(preference.about, PodTerm) and self._is_meant(preference.about.peers):
                domain = domain_of(table, preference.about.key)
                yield _Nearness(domain, tally(table, domain, nodes) * preference.weight, self.rows, 0)
        for preference, pods in self.demand_pods.preferring.items():
            if isinstance(preference.about, PodTerm) and self._is_meant(preference.about.peers):
                domain = domain_of(table, preference.about.key)
                there = tally(table, domain, {})
                _gather(there, domain, pods)
                yield _Nearness(domain, there * preference.weight, self.rows, 0)

    def _is_meant(self, peers: Peers) -> bool:
        return self.identity is not None and means(peers, self.identity)

    def _nearness(self) -> Ints:
        """Pods in the same domain count as often as they are; a negative weight keeps away."""
        found = np.zeros(len(self.rows), dtype=np.int64)
        for each in self._near:
            found += each.weights[each.here]
        low, high = (int(found.min()), int(found.max())) if len(found) else (0, 0)
        return (found - low) * FULL // (high - low) if high > low else np.zeros_like(found)

    # ---- spread

    def _evenness(self, spread: Spread) -> _Evenness:
        table, domain = self.view.node_table, domain_of(self.view.node_table, spread.key)
        counted = np.where(eligible(table, self.shape, spread), domain, -1)
        running = self.view.pod_index.of(PodQuery((spread.peers,), staying=True))
        pods = tally(table, domain, {})
        there = tally(table, counted, running)
        pods[: len(there) - 1] += there[:-1]
        _gather(pods, counted, self.demand_pods.meant(spread.peers))
        return _Evenness(domain, counted, pods, self.rows, spread, self._is_meant(spread.peers))

    def _evenly(self) -> Ints:
        """Domains with few such pods first; rows without a key come last."""
        nothing = np.zeros(len(self.rows), dtype=np.int64)
        if not self._even:
            return nothing
        named: Bools = np.logical_and.reduce([each.here >= 0 for each in self._even])
        if not named.any():
            return nothing
        amounts = np.rint(sum(each.held() for each in self._even)).astype(np.int64)
        low, high = int(amounts[named].min()), int(amounts[named].max())
        if not high:
            return np.where(named, FULL, 0)
        return np.where(named, FULL * (high + low - amounts) // high, 0)


def _gather(table: Ints, domain: Ints, pods: Ints) -> None:
    """Add pods per row to a table of domains."""
    there = (pods > 0) & (domain >= 0)
    np.add.at(table, domain[there], pods[there])


# ---- the node itself


def _taints(view: ClusterView, shape: Shape, rows: Ints) -> Ints:
    """The fewer soft taints that are not tolerated, the better."""
    table = view.node_table
    unwelcome = {taint for taint in table.soft_taints if not tolerated(taint, shape.tolerations)}
    by_set = np.array([sum(taint in unwelcome for taint in taints) for taints in table.taint_sets], dtype=np.int64)
    found = by_set[table.taints[rows]]
    most = int(found.max(initial=0))
    return FULL - found * FULL // most if most else np.full(len(rows), FULL, dtype=np.int64)


def _nodes(view: ClusterView, shape: Shape, rows: Ints) -> Ints:
    found = np.zeros(len(rows), dtype=np.int64)
    for preference in shape.preferences:
        if isinstance(preference.about, NodeTerm):
            found += preference.weight * matches_term(view.node_table, preference.about, rows)
    most = int(found.max(initial=0))
    return found * FULL // most if most else found
