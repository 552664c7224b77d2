"""The judge's part about terms between pods: every new pod against everyone who will be there, by definition.

Pods that are placed together are judged as a whole.  Like `check`, this shares no code with the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..cluster.view import ClusterView, Node, Running
from ..records.demand import Identity, Peers, PodTerm, Requirement, Shape, Spread

#: The domain of a key that a node is in, None without the label.
Domain = tuple[str | None, ...] | None
#: Whether a node has what a shape's selector and affinity ask for, and whether its taints are tolerated.
NodeTest = Callable[[Shape, Node], bool]


class _Pod(NamedTuple):
    node: str
    identity: Identity | None
    #: None for running pods.
    shape: Shape | None
    repels: tuple[PodTerm, ...]
    leaving: bool
    #: Nominated: not there yet.
    coming: bool = False


def pod_term_problems(
    view: ClusterView,
    assignment: Mapping[int, str],
    shapes: Mapping[int, Shape],
    staying: Sequence[Running],
    judges: tuple[NodeTest, NodeTest],
) -> Iterator[str]:
    """What is wrong between pods; `judges` say whether a node is selected, and tolerated."""
    placed = [(member, shapes[member], name) for member, name in assignment.items() if member in shapes]
    placed = [one for one in placed if view.node(one[2]) is not None]
    if not any(shape.has_pod_rules for _, shape, _ in placed):
        return
    running = [_Pod(pod.node, pod.identity, None, pod.repels, not pod.evictable, pod.coming) for pod in staying]
    new = {member: _Pod(name, shape.identity, shape, shape.anti_affinity, False) for member, shape, name in placed}
    court = _PodTerms(view, running, list(new.values()), judges)
    for member, shape, name in placed:
        if not court.apart(new[member]):
            yield f"member {member} on {name} breaks an anti-affinity"
        if shape.affinity and not court.near(new[member], shape):
            yield f"member {member} on {name} lacks the company it asks for"
        for spread in shape.spread:
            if not court.even(new[member], shape, spread):
                yield f"member {member} on {name} breaks the spread over {spread.key}"


class _PodTerms:
    def __init__(
        self, view: ClusterView, running: list[_Pod], new: list[_Pod], judges: tuple[NodeTest, NodeTest]
    ) -> None:
        self.view, self.running, self.new = view, running, new
        self.selected, self.tolerated = judges

    def apart(self, pod: _Pod) -> bool:
        others = [other for other in (*self.running, *self.new) if other is not pod]
        mine = any(self._together(pod, other, term) for term in pod.repels for other in others)
        theirs = any(self._together(other, pod, term) for other in others for term in other.repels)
        return not mine and not theirs

    def _together(self, having: _Pod, meant: _Pod, term: PodTerm) -> bool:
        domain = self._domain(having.node, term.key)
        return domain is not None and domain == self._domain(meant.node, term.key) and _meant(term.peers, meant)

    def near(self, pod: _Pod, shape: Shape) -> bool:
        def wanted(other: _Pod) -> bool:
            return all(_meant(term.peers, other) for term in shape.affinity)

        own = [self._domain(pod.node, term.key) for term in shape.affinity]
        if None in own:
            return False
        kind = [each for each in self.new if each.shape and each.shape.affinity == shape.affinity and wanted(each)]
        first = wanted(pod)
        running = [each for each in self.running if wanted(each) and not each.coming]
        having = [each for each in self.new if each.shape and each.shape.affinity == shape.affinity]
        alike = all(wanted(each) for each in having)
        if alike and not any(self._is_anywhere(each, shape) for each in running):
            # Who could do without company goes where its like are to come.
            running = [each for each in self.running if wanted(each)]
        others = [*running, *(each for each in self.new if wanted(each))]
        anchors = [each for each in others if not (first and any(each is one for one in kind))]
        if all(
            any(self._domain(a.node, t.key) == d for a in anchors) for t, d in zip(shape.affinity, own, strict=True)
        ):
            return True
        if not first or any(self._is_anywhere(each, shape) for each in running):
            return False
        return all(
            self._domain(each.node, term.key) == domain
            for each in kind
            for term, domain in zip(shape.affinity, own, strict=True)
        )

    def _is_anywhere(self, pod: _Pod, shape: Shape) -> bool:
        return any(self._domain(pod.node, term.key) is not None for term in shape.affinity)

    def even(self, pod: _Pod, shape: Shape, spread: Spread) -> bool:
        counted = {name for name in self.view.node_names() if self._counts(name, shape, spread)}
        held = {self._domain(name, spread.key): 0 for name in sorted(counted)}
        for other in (*self.running, *self.new):
            if other.node in counted and not other.leaving and _meant(spread.peers, other):
                held[self._domain(other.node, spread.key)] += 1
        here = self._domain(pod.node, spread.key)
        if here is None:
            return False
        lowest = min(held.values(), default=0) if len(held) >= spread.min_domains else 0
        return held.get(here, 0) - lowest <= spread.max_skew

    def _counts(self, name: str, shape: Shape, spread: Spread) -> bool:
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


def _meant(peers: Peers, pod: _Pod) -> bool:
    if pod.identity is None or peers.labels is None or not _fulfils(dict(pod.identity.labels), peers.labels):
        return False
    spaces = peers.namespace_labels
    inside = spaces is not None and _fulfils(dict(pod.identity.namespace_labels), spaces)
    return inside or pod.identity.namespace in peers.namespaces


def _fulfils(labels: Mapping[str, str], requirements: tuple[Requirement, ...]) -> bool:
    for one in requirements:
        has = one.key in labels
        right = has and labels[one.key] in one.values
        outcome = {"In": right, "NotIn": not right, "Exists": has, "DoesNotExist": not has}
        if not outcome.get(one.operator, False):
            return False
    return True
