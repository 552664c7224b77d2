"""Pod rules in the judge: affinity, anti-affinity and spread of every new pod against all pods that will be there.

Pods that are placed together are judged as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..cluster.view import ClusterView, Node, Running
from ..records.demand import Identity, Peers, PodTerm, Requirement, Shape, Spread

#: The domain of a key that a node is in, None without the label.
Domain = tuple[str | None, ...] | None
#: A condition of a shape on a node.
NodeTest = Callable[[Shape, Node], bool]


class _Pod(NamedTuple):
    node: str
    identity: Identity | None
    #: None for running pods.
    shape: Shape | None
    repels: tuple[PodTerm, ...]
    leaving: bool
    #: Nominated: not bound yet.
    coming: bool = False


def pod_term_problems(
    view: ClusterView,
    assignment: Mapping[int, str],
    shapes: Mapping[int, Shape],
    staying: Sequence[Running],
    tests: tuple[NodeTest, NodeTest],
) -> Iterator[str]:
    """Rules that a placement breaks; `tests` say whether a node matches the selectors, and whether it is tolerated."""
    placed = [(member, shapes[member], name) for member, name in assignment.items() if member in shapes]
    placed = [one for one in placed if view.node(one[2]) is not None]
    if not any(shape.has_pod_rules for _, shape, _ in placed):
        return
    running = [_Pod(pod.node, pod.identity, None, pod.repels, not pod.evictable, pod.coming) for pod in staying]
    new = {member: _Pod(name, shape.identity, shape, shape.anti_affinity, False) for member, shape, name in placed}
    rules = _PodTerms(view, running, list(new.values()), tests)
    for member, shape, name in placed:
        if not rules.anti_affinity_holds(new[member]):
            yield f"member {member} on {name} breaks an anti-affinity"
        if shape.affinity and not rules.affinity_holds(new[member], shape):
            yield f"member {member} on {name} breaks an affinity"
        for spread in shape.spread:
            if not rules.spread_holds(new[member], shape, spread):
                yield f"member {member} on {name} breaks the spread over {spread.key}"


class _PodTerms:
    """All pods of a view after a placement, running and new."""

    def __init__(
        self, view: ClusterView, running: list[_Pod], new: list[_Pod], tests: tuple[NodeTest, NodeTest]
    ) -> None:
        self.view, self.running, self.new = view, running, new
        self.selected, self.tolerated = tests

    def anti_affinity_holds(self, pod: _Pod) -> bool:
        """Whether neither the pod's own terms nor those of other pods forbid its node."""
        others = [other for other in (*self.running, *self.new) if other is not pod]
        mine = any(self._applies(pod, other, term) for term in pod.repels for other in others)
        theirs = any(self._applies(other, pod, term) for other in others for term in other.repels)
        return not mine and not theirs

    def _applies(self, owner: _Pod, other: _Pod, term: PodTerm) -> bool:
        """Whether a term of one pod selects another in the same domain."""
        domain = self._domain(owner.node, term.key)
        return domain is not None and domain == self._domain(other.node, term.key) and _selects(term.peers, other)

    def affinity_holds(self, pod: _Pod, shape: Shape) -> bool:
        """Whether every affinity term has a match in the pod's domain.

        A pod that matches its own terms may be the first of its kind, if no match runs anywhere; all of its kind that
        are placed together must then share its domains.
        """

        def matches(other: _Pod) -> bool:
            return all(_selects(term.peers, other) for term in shape.affinity)

        own = [self._domain(pod.node, term.key) for term in shape.affinity]
        if None in own:
            return False
        may_be_first = matches(pod)
        same_terms = [each for each in self.new if each.shape and each.shape.affinity == shape.affinity]
        kind = [each for each in same_terms if matches(each)]
        running = [each for each in self.running if matches(each) and not each.coming]
        if len(kind) == len(same_terms) and not any(self._has_domain(each, shape) for each in running):
            # All of the kind match themselves: they may go where nominated pods that match will be.
            running = [each for each in self.running if matches(each)]
        others = [*running, *(each for each in self.new if matches(each))]
        anchors = [each for each in others if not (may_be_first and any(each is one for one in kind))]
        if all(
            any(self._domain(a.node, t.key) == d for a in anchors) for t, d in zip(shape.affinity, own, strict=True)
        ):
            return True
        if not may_be_first or any(self._has_domain(each, shape) for each in running):
            return False
        return all(
            self._domain(each.node, term.key) == domain
            for each in kind
            for term, domain in zip(shape.affinity, own, strict=True)
        )

    def _has_domain(self, pod: _Pod, shape: Shape) -> bool:
        return any(self._domain(pod.node, term.key) is not None for term in shape.affinity)

    def spread_holds(self, pod: _Pod, shape: Shape, spread: Spread) -> bool:
        """Whether the pod's domain has at most `max_skew` more matching pods than the emptiest."""
        counted = {name for name in self.view.node_names() if self._counts(name, shape, spread)}
        held = {self._domain(name, spread.key): 0 for name in sorted(counted)}
        for other in (*self.running, *self.new):
            if other.node in counted and not other.leaving and _selects(spread.peers, other):
                held[self._domain(other.node, spread.key)] += 1
        here = self._domain(pod.node, spread.key)
        if here is None:
            return False
        lowest = min(held.values(), default=0) if len(held) >= spread.min_domains else 0
        return held.get(here, 0) - lowest <= spread.max_skew

    def _counts(self, name: str, shape: Shape, spread: Spread) -> bool:
        """Whether a node counts for a spread."""
        node = self.view.node(name)
        assert node is not None
        keys = all(self._domain(name, each.key) is not None for each in shape.spread)
        selected = not spread.honour_affinity or self.selected(shape, node)
        return keys and selected and (not spread.honour_taints or self.tolerated(shape, node))

    def _domain(self, name: str, key: str) -> Domain:
        if not key:
            return ()  # the whole cluster
        node = self.view.node(name)
        if node is None or not node.labels.get(key):
            return None
        levels = self.view.levels
        wider = levels[: levels.index(key) + 1] if key in levels else (key,)
        return tuple(node.labels.get(level) for level in wider)


def _selects(peers: Peers, pod: _Pod) -> bool:
    if pod.identity is None or peers.labels is None or not _matches(dict(pod.identity.labels), peers.labels):
        return False
    spaces = peers.namespace_labels
    inside = spaces is not None and _matches(dict(pod.identity.namespace_labels), spaces)
    return inside or pod.identity.namespace in peers.namespaces


def _matches(labels: Mapping[str, str], requirements: tuple[Requirement, ...]) -> bool:
    for one in requirements:
        has = one.key in labels
        right = has and labels[one.key] in one.values
        outcome = {"In": right, "NotIn": not right, "Exists": has, "DoesNotExist": not has}
        if not outcome.get(one.operator, False):
            return False
    return True
