"""Terms about other pods, as far as running pods decide them: which nodes they close to a shape, and under what name.

For pods of one shape that is often all there is to it (`settled`): then they are counted like any others.  Where
pods that are placed together bear on one another, `ties` takes over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..records.demand import EVERYWHERE, Peers, PodTerm, Requirement, Shape, Spread
from .arrays import Bools, Ints
from .node_filters import WAITS, exclusions
from .node_table import Layout
from .pod_index import Company, Question, means


def domain_of(layout: Layout, key: str) -> Ints:
    """The domain of a key that each row is in, as a number; -1 without the label."""
    if key == EVERYWHERE:
        return np.zeros(layout.size, dtype=np.int64)
    level = layout.level_of.get(key)
    if level is not None:
        domains = layout.domains(level)
        return np.where(layout.named(level)[domains], domains, -1) if layout.size else domains
    column = layout.column(key)
    return np.where(column.ids == column.values.get("", -1), -1, column.ids)


def tally(layout: Layout, domain: Ints, nodes: Mapping[str, int]) -> Ints:
    """Pods per domain; one entry more than there are domains, which stays 0 and is where -1 points to."""
    found = np.zeros(int(domain.max(initial=-1)) + 2, dtype=np.int64)
    for node, number in nodes.items():
        row = layout.row(node)
        if row is not None and domain[row] >= 0:
            found[domain[row]] += number
    return found


def matches(peers: Peers, shape: Shape) -> bool:
    return shape.identity is not None and means(peers, shape.identity)


def joins(shape: Shape, other: Shape) -> bool:
    """Whether pods of one shape are all that the affinity of another asks for."""
    return bool(other.affinity) and all(matches(term.peers, shape) for term in other.affinity)


def anchors_of(layout: Layout, company: Company, shape: Shape) -> Mapping[str, int]:
    """The pods by node that a shape's affinity is about: they must be meant by every term.

    A pod that is still to come may never be there, so it counts only where the shape would do without anyone: then
    it had better go where its like will be.
    """
    peers = tuple(term.peers for term in shape.affinity)
    here = company.of(Question(peers, here=True))
    if _anywhere(layout, shape, here) or not joins(shape, shape):
        return here
    return company.of(Question(peers))


def closures(layout: Layout, company: Company, shape: Shape, alone: bool = True) -> Iterator[tuple[str, Bools]]:
    """What running pods close to a shape, by name; `alone` if no other shape is placed with it."""
    for term in shape.anti_affinity:
        domain = domain_of(layout, term.key)
        near = tally(layout, domain, company.of(Question((term.peers,))))
        yield _named(f"anti-affinity to {told(term.peers)}", term), near[domain] > 0
    for term, nodes in company.repelling().items():
        if matches(term.peers, shape):
            domain = domain_of(layout, term.key)
            name = _named(f"anti-affinity of running pods to {told(term.peers)}", term)
            yield name, tally(layout, domain, nodes)[domain] > 0
    for spread in shape.spread:
        yield f"topology spread needs the label {spread.key}", domain_of(layout, spread.key) < 0
    yield from _affinity(layout, company, shape, alone)


def _named(usual: str, term: PodTerm) -> str:
    return f"{WAITS}{told(term.peers)} is in use by another pod" if term.key == EVERYWHERE else usual


def _affinity(layout: Layout, company: Company, shape: Shape, alone: bool) -> Iterator[tuple[str, Bools]]:
    if not shape.affinity:
        return
    nodes = anchors_of(layout, company, shape)
    first = not has_anchor(layout, company, shape) and joins(shape, shape)
    for term in shape.affinity:
        domain = domain_of(layout, term.key)
        far = domain < 0
        if alone and not first:
            far = tally(layout, domain, nodes)[domain] == 0
        yield f"affinity to {told(term.peers)}", far


def has_anchor(layout: Layout, company: Company, shape: Shape) -> bool:
    """Whether any running pod is what the shape's affinity asks for; if not, the first of its kind may go anywhere."""
    return _anywhere(layout, shape, anchors_of(layout, company, shape))


def _anywhere(layout: Layout, shape: Shape, nodes: Mapping[str, int]) -> bool:
    return any(tally(layout, domain_of(layout, term.key), nodes).any() for term in shape.affinity)


def left_open(layout: Layout, company: Company, shape: Shape, alone: bool = True) -> Bools:
    """The rows that running pods leave to a shape."""
    fine = np.ones(layout.size, dtype=np.bool_)
    for _, shut in closures(layout, company, shape, alone):
        fine &= ~shut
    return fine


def one_each(layout: Layout, shape: Shape) -> Bools:
    """Rows that take but one pod of a shape, since each is a domain in which it wants no second."""
    found = np.zeros(layout.size, dtype=np.bool_)
    for term in shape.anti_affinity:
        if matches(term.peers, shape):
            domain = domain_of(layout, term.key)
            if _single(domain):
                found |= domain >= 0
    return found


def _single(domain: Ints) -> bool:
    """Whether no two rows share a domain."""
    named = domain[domain >= 0]
    return len(named) == 0 or int(np.bincount(named).max()) == 1


def settled(layout: Layout, company: Company, shape: Shape) -> bool:
    """Whether `left_open` and `one_each` say everything about pods of a shape that are placed alone."""
    if shape.spread:
        return False
    if shape.affinity and joins(shape, shape) and not has_anchor(layout, company, shape):
        return False
    own = [term for term in shape.anti_affinity if matches(term.peers, shape)]
    return all(_single(domain_of(layout, term.key)) for term in own)


def eligible(layout: Layout, shape: Shape, spread: Spread) -> Bools:
    """The nodes whose pods a spread constraint counts."""
    fine = np.ones(layout.size, dtype=np.bool_)
    for each in shape.spread:
        fine &= domain_of(layout, each.key) >= 0
    for name, shut in exclusions(layout, shape):
        asked = spread.honour_affinity and name.startswith("node ")
        if asked or (spread.honour_taints and name.startswith(("taint ", "cordoned"))):
            fine &= ~shut
    return fine


def told(peers: Peers) -> str:
    """Pods as people name them."""
    if peers.labels is None:
        return "no pod"
    return ", ".join(map(told_requirement, peers.labels)) or "any pod"


def told_requirement(requirement: Requirement) -> str:
    """A requirement on labels as people write it."""
    key, values = requirement.key, ", ".join(requirement.values)
    match requirement.operator:
        case "In":
            return f"{key}={values}" if len(requirement.values) == 1 else f"{key} in ({values})"
        case "NotIn":
            return f"{key} not in ({values})"
        case "DoesNotExist":
            return f"no {key}"
        case "Gt":
            return f"{key} > {values}"
        case "Lt":
            return f"{key} < {values}"
    return key


def carried(shapes: list[Shape]) -> list[PodTerm]:
    """The different anti-affinity terms of shapes."""
    return list(dict.fromkeys(term for shape in shapes for term in shape.anti_affinity))
