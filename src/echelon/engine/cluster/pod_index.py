"""Running pods by identity and node, for terms about other pods: matching pods per node, pods with terms of their own.

Answers are kept per query and updated with every pod that is bound or unbound; pods without an identity match no
query.  Most clusters have no such terms: until the first query pods are only listed, not sorted by identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

from ..records.demand import Identity, Peers, PodTerm, Preference, Requirement

Key = TypeVar("Key")

#: Queries kept; the oldest is dropped first.
KEPT = 512


class PodQuery(NamedTuple):
    """Pods that match all `peers`; `staying` leaves out pods under eviction, `here` those that are only nominated."""

    peers: tuple[Peers, ...]
    staying: bool = False
    here: bool = False


class PodKind(NamedTuple):
    """What distinguishes running pods for any query."""

    identity: Identity
    staying: bool
    here: bool


class CountedPod(Protocol):
    """What the index reads of `view.Running`."""

    @property
    def node(self) -> str: ...
    @property
    def identity(self) -> Identity | None: ...
    @property
    def repels(self) -> tuple[PodTerm, ...]: ...
    @property
    def preferences(self) -> tuple[Preference, ...]: ...
    @property
    def evictable(self) -> bool: ...
    @property
    def coming(self) -> bool: ...


@lru_cache(maxsize=1 << 16)
def means(peers: Peers, identity: Identity) -> bool:
    """Whether a pod matches."""
    if peers.labels is None or not _holds(peers.labels, dict(identity.labels)):
        return False
    if identity.namespace in peers.namespaces:
        return True
    return peers.namespace_labels is not None and _holds(peers.namespace_labels, dict(identity.namespace_labels))


def _holds(requirements: tuple[Requirement, ...], labels: Mapping[str, str]) -> bool:
    return all(meets(requirement, labels.get(requirement.key)) for requirement in requirements)


def meets(requirement: Requirement, value: str | None) -> bool:
    """Whether a label value (None: no such label) satisfies a requirement on pods."""
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


class PodIndex:
    """Running pods by identity and node, with the answers to past queries."""

    def __init__(self) -> None:
        #: Grows with every change; whatever is derived from the index compares it.
        self.changes = 0
        #: Pods before the first query: by id() of the record, with how often each was counted.
        self._noted: dict[int, tuple[CountedPod, int]] = {}
        self._pods: dict[PodKind, dict[str, int]] = {}
        self._answers: dict[PodQuery, dict[str, int]] = {}
        #: The queries that a kind of pod matches.
        self._counts_for: dict[PodKind, list[PodQuery]] = {}
        self._repelling: dict[PodTerm, dict[str, int]] = {}
        self._preferring: dict[Preference, dict[str, int]] = {}

    def count(self, pod: CountedPod, times: int) -> None:
        """Add (1) or remove (-1) a pod."""
        self.count_all((pod,), times)

    def count_all(self, pods: Iterable[CountedPod], times: int) -> None:
        """The same for several; pods without an identity are not counted."""
        noted = self._noted
        self.changes += 1
        for pod in pods:
            if pod.identity is None:
                continue
            if self._answers:
                self._sort(pod, times)
            elif id(pod) not in noted:
                noted[id(pod)] = pod, times
            elif times + noted[id(pod)][1]:
                noted[id(pod)] = pod, times + noted[id(pod)][1]
            else:
                del noted[id(pod)]
            for term in pod.repels:
                _add(self._repelling, term, pod.node, times)
            for preference in pod.preferences:
                _add(self._preferring, preference, pod.node, times)

    def _sort(self, pod: CountedPod, times: int) -> None:
        """Count a pod in the answers of the queries that it matches."""
        assert pod.identity is not None
        kind = PodKind(pod.identity, pod.evictable, not pod.coming)
        _add(self._pods, kind, pod.node, times)
        for query in self._queries_about(kind):
            answer = self._answers[query]
            answer[pod.node] = answer.get(pod.node, 0) + times
        if times < 0 and kind not in self._pods:
            self._counts_for.pop(kind, None)

    def clear(self) -> None:
        """Forget all pods."""
        self.changes += 1
        for table in (self._noted, self._pods, self._answers, self._counts_for, self._repelling, self._preferring):
            table.clear()

    def of(self, query: PodQuery) -> Mapping[str, int]:
        """node -> matching pods; nodes without any may be listed with 0."""
        answer = self._answers.get(query)
        if answer is None:
            for pod, number in self._noted.values():
                self._sort(pod, number)
            self._noted.clear()
            answer = self._answers[query] = {}
            for kind, nodes in self._pods.items():
                if _meant(query, kind):
                    for node, number in nodes.items():
                        answer[node] = answer.get(node, 0) + number
            if len(self._answers) > KEPT:
                del self._answers[next(iter(self._answers))]
            self._counts_for.clear()
        return answer

    def repelling(self) -> Mapping[PodTerm, Mapping[str, int]]:
        """Required anti-affinity of running pods: term -> node -> pods that have it."""
        return self._repelling

    def preferring(self) -> Mapping[Preference, Mapping[str, int]]:
        """Preferences of running pods about other pods: preference -> node -> pods that have it."""
        return self._preferring

    def _queries_about(self, kind: PodKind) -> list[PodQuery]:
        found = self._counts_for.get(kind)
        if found is None:
            found = self._counts_for[kind] = [query for query in self._answers if _meant(query, kind)]
        return found


def _meant(query: PodQuery, kind: PodKind) -> bool:
    left_out = (query.staying and not kind.staying) or (query.here and not kind.here)
    return not left_out and all(means(peers, kind.identity) for peers in query.peers)


def _add(table: dict[Key, dict[str, int]], key: Key, node: str, times: int) -> None:
    """Count in a nested table; empty entries are removed."""
    nodes = table.get(key)
    if nodes is None:
        nodes = table[key] = {}
    number = nodes.get(node, 0) + times
    if number:
        nodes[node] = number
        return
    nodes.pop(node, None)
    if not nodes:
        del table[key]
