"""Terms about other pods, as far as running pods decide them: which nodes they close to a shape, and under what name.

For pods of one shape that is often all there is to it (`settled`): then they are counted like any others.  Where
pods that are placed together bear on one another, `ties` takes over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..records.demand import EVERYWHERE, Peers, PodTerm, Shape, Spread
from ..records.domain_owners import is_ownership
from ..records.reasons import Reason, ReasonKind
from .arrays import Bools, Ints
from .node_filters import exclusions
from .node_table import NodeTable
from .pod_index import PodIndex, PodQuery, means

#: The reasons that `nodeAffinityPolicy: Honor` and `nodeTaintsPolicy: Honor` leave out of a spread's count.
_AFFINITY = frozenset({ReasonKind.NODE_SELECTOR, ReasonKind.NODE_AFFINITY})
_TAINTS = frozenset({ReasonKind.TAINT, ReasonKind.CORDONED})


def domain_of(table: NodeTable, key: str) -> Ints:
    """The domain of a key that each row is in, as a number; -1 without the label."""
    if key == EVERYWHERE:
        return np.zeros(table.size, dtype=np.int64)
    level = table.level_of.get(key)
    if level is not None:
        domains = table.domains(level)
        return np.where(table.named(level)[domains], domains, -1) if table.size else domains
    column = table.column(key)
    return np.where(column.ids == column.values.get("", -1), -1, column.ids)


def tally(table: NodeTable, domain: Ints, nodes: Mapping[str, int]) -> Ints:
    """Pods per domain; one entry more than there are domains, which stays 0 and is where -1 points to."""
    found = np.zeros(int(domain.max(initial=-1)) + 2, dtype=np.int64)
    for node, number in nodes.items():
        row = table.row(node)
        if row is not None and domain[row] >= 0:
            found[domain[row]] += number
    return found


def matches(peers: Peers, shape: Shape) -> bool:
    return shape.identity is not None and means(peers, shape.identity)


def joins(shape: Shape, other: Shape) -> bool:
    """Whether pods of one shape are all that the affinity of another asks for."""
    return bool(other.affinity) and all(matches(term.peers, shape) for term in other.affinity)


def anchors_of(table: NodeTable, pod_index: PodIndex, shape: Shape) -> Mapping[str, int]:
    """The pods by node that a shape's affinity is about: they must be meant by every term.

    A pod that is still to come may never be there, so it counts only where the shape would do without anyone: then
    it had better go where its like will be.
    """
    peers = tuple(term.peers for term in shape.affinity)
    here = pod_index.of(PodQuery(peers, here=True))
    if _anywhere(table, shape, here) or not joins(shape, shape):
        return here
    return pod_index.of(PodQuery(peers))


def closures(table: NodeTable, pod_index: PodIndex, shape: Shape, alone: bool = True) -> Iterator[tuple[Reason, Bools]]:
    """The rows that running pods close to a shape, by reason; `alone` if no other shape is placed with it."""
    for term in shape.anti_affinity:
        domain = domain_of(table, term.key)
        near = tally(table, domain, pod_index.of(PodQuery((term.peers,))))
        yield _reason(ReasonKind.POD_ANTI_AFFINITY, term), near[domain] > 0
    for term, nodes in pod_index.repelling().items():
        if matches(term.peers, shape):
            domain = domain_of(table, term.key)
            yield _reason(ReasonKind.RUNNING_ANTI_AFFINITY, term), tally(table, domain, nodes)[domain] > 0
    for spread in shape.spread:
        yield Reason(ReasonKind.SPREAD_KEY, (spread.key,)), domain_of(table, spread.key) < 0
    yield from _affinity(table, pod_index, shape, alone)


def _reason(usual: ReasonKind, term: PodTerm) -> Reason:
    """Some terms stand for something else: of an exclusive group, or for a volume that one pod at a time may use."""
    if is_ownership(term.peers):
        owned = usual is ReasonKind.RUNNING_ANTI_AFFINITY
        return Reason(ReasonKind.OWNED_DOMAIN if owned else ReasonKind.SHARED_DOMAIN, (term.key,), term.peers)
    return Reason(ReasonKind.VOLUME_IN_USE if term.key == EVERYWHERE else usual, peers=term.peers)


def _affinity(table: NodeTable, pod_index: PodIndex, shape: Shape, alone: bool) -> Iterator[tuple[Reason, Bools]]:
    if not shape.affinity:
        return
    nodes = anchors_of(table, pod_index, shape)
    first = not has_anchor(table, pod_index, shape) and joins(shape, shape)
    for term in shape.affinity:
        domain = domain_of(table, term.key)
        far = domain < 0
        if alone and not first:
            far = tally(table, domain, nodes)[domain] == 0
        yield Reason(ReasonKind.POD_AFFINITY, peers=term.peers), far


def has_anchor(table: NodeTable, pod_index: PodIndex, shape: Shape) -> bool:
    """Whether any running pod is what the shape's affinity asks for; if not, the first of its kind may go anywhere."""
    return _anywhere(table, shape, anchors_of(table, pod_index, shape))


def _anywhere(table: NodeTable, shape: Shape, nodes: Mapping[str, int]) -> bool:
    return any(tally(table, domain_of(table, term.key), nodes).any() for term in shape.affinity)


def left_open(table: NodeTable, pod_index: PodIndex, shape: Shape, alone: bool = True) -> Bools:
    """The rows that running pods leave to a shape."""
    fine = np.ones(table.size, dtype=np.bool_)
    for _, shut in closures(table, pod_index, shape, alone):
        fine &= ~shut
    return fine


def one_each(table: NodeTable, shape: Shape) -> Bools:
    """Rows that take but one pod of a shape, since each is a domain in which it wants no second."""
    found = np.zeros(table.size, dtype=np.bool_)
    for term in shape.anti_affinity:
        if matches(term.peers, shape):
            domain = domain_of(table, term.key)
            if _single(domain):
                found |= domain >= 0
    return found


def _single(domain: Ints) -> bool:
    """Whether no two rows share a domain."""
    named = domain[domain >= 0]
    return len(named) == 0 or int(np.bincount(named).max()) == 1


def settled(table: NodeTable, pod_index: PodIndex, shape: Shape) -> bool:
    """Whether `left_open` and `one_each` say everything about pods of a shape that are placed alone."""
    if shape.spread:
        return False
    if shape.affinity and joins(shape, shape) and not has_anchor(table, pod_index, shape):
        return False
    own = [term for term in shape.anti_affinity if matches(term.peers, shape)]
    return all(_single(domain_of(table, term.key)) for term in own)


def eligible(table: NodeTable, shape: Shape, spread: Spread) -> Bools:
    """The nodes whose pods a spread constraint counts."""
    fine = np.ones(table.size, dtype=np.bool_)
    for each in shape.spread:
        fine &= domain_of(table, each.key) >= 0
    honoured = (_AFFINITY if spread.honour_affinity else frozenset()) | (
        _TAINTS if spread.honour_taints else frozenset()
    )
    for reason, shut in exclusions(table, shape):
        if reason.kind in honoured:
            fine &= ~shut
    return fine


def carried(shapes: list[Shape]) -> list[PodTerm]:
    """The different anti-affinity terms of shapes."""
    return list(dict.fromkeys(term for shape in shapes for term in shape.anti_affinity))
