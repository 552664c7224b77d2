"""Finds demands that fit in no cluster, however empty: terms of a pod that exclude one another or contradict the
group's topology key, bound pods in two domains, pods larger than any node.

A blocked demand is checked once, and the shortage of the group at fault gets its `Contradiction`: that says more than
how many nodes each term excludes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..cluster.node_filters import compares
from ..cluster.pod_index import meets
from ..cluster.running_terms import joins, matches
from ..cluster.view import ClusterView
from ..records.demand import Composite, Demand, Group, Leaf, NodeTerm, Peers, PodTerm, Requirement, Shape, given
from ..records.reasons import (
    BoundApart,
    BoundOutside,
    Contradiction,
    EmptyNodeTerm,
    ImpossibleNodeTerm,
    KeptApart,
    TermsExclude,
    TooLarge,
)
from ..records.verdict import Shortage


def contradicted(view: ClusterView, demand: Demand, shortages: tuple[Shortage, ...]) -> tuple[Shortage, ...]:
    """The same shortages; groups that fit in no cluster carry the reason, and come first."""
    reasons = dict(_reasons(view, demand.root, ()))
    if not reasons:
        return shortages
    found = [
        each if _without_label(each) else replace(each, contradiction=reasons.get(each.group)) for each in shortages
    ]
    return tuple(sorted(found, key=lambda each: each.contradiction is None))


def _without_label(shortage: Shortage) -> bool:
    """Whether no node has the label of its key, which is the plainer reason."""
    return not shortage.domains_tried and not shortage.held_on


def _reasons(view: ClusterView, group: Group, keys: tuple[str, ...]) -> Iterator[tuple[int, Contradiction]]:
    """Group -> its contradiction; `keys` are the topology keys of the groups above."""
    if group.topology is not None:
        keys = (*keys, group.topology)
        apart = _bound_apart(view, group, group.topology)
        if apart is not None:
            yield group.id, apart
            return
    if isinstance(group, Composite):
        for child in group.children:
            yield from _reasons(view, child, keys)
        return
    reason = _of_members(view, group, keys)
    if reason is not None:
        yield group.id, reason


# ---- bound members


def _bound_apart(view: ClusterView, group: Group, key: str) -> BoundApart | BoundOutside | None:
    """Bound members in two domains of a key, or in none."""
    domains: dict[tuple[str, ...], str] = {}
    for node in _bound_nodes(group):
        domain = view.domain_of(node, key)
        if domain is None and view.node(node) is not None:
            return BoundOutside(key, node)
        if domain is not None:
            domains.setdefault(domain, node)
    return BoundApart(key, tuple(sorted(domains.items()))) if len(domains) > 1 else None


def _bound_nodes(group: Group) -> Iterator[str]:
    if isinstance(group, Composite):
        for child in group.children:
            yield from _bound_nodes(child)
    else:
        yield from (bound.node for bound in group.bound)


# ---- terms of a pod


def _of_members(view: ClusterView, leaf: Leaf, keys: tuple[str, ...]) -> Contradiction | None:
    """Why a leaf cannot have its minimum because of its pods' own terms."""
    found: Contradiction | None = None
    possible = len(leaf.bound)
    for pods in leaf.classes:
        reason, most = next(_of_pods(view, pods.shape, keys), (None, len(pods.members)))
        possible += min(most, len(pods.members))
        found = found or reason
    return found if possible < leaf.min_count else None


def _of_pods(view: ClusterView, shape: Shape, keys: tuple[str, ...]) -> Iterator[tuple[Contradiction, int]]:
    """Terms of a shape that contradict one another or the groups above, and how many such pods are still possible."""
    for reason in (*_nodes(shape), *_too_large(view, shape)):
        yield reason, 0
    for near in shape.affinity:
        for apart in shape.anti_affinity:
            if _covers(view, apart, near):
                first = int(joins(shape, shape))  # the first of its kind needs no other pod
                yield TermsExclude(near, apart), first
    for apart in shape.anti_affinity:
        inside = next((key for key in keys if _contains(view, apart.key, key)), None)
        if inside is not None and matches(apart.peers, shape):
            yield KeptApart(apart, inside), 1


def _covers(view: ClusterView, apart: PodTerm, near: PodTerm) -> bool:
    """Whether every pod that is near enough for one term is too near for the other."""
    return _contains(view, apart.key, near.key) and _means_all(apart.peers, near.peers)


def _contains(view: ClusterView, outer: str, inner: str) -> bool:
    """Whether every domain of one key lies in a domain of another."""
    levels = view.node_table.level_of
    return outer == inner or (outer in levels and inner in levels and levels[outer] < levels[inner])


def _means_all(wide: Peers, narrow: Peers) -> bool:
    """Whether one term means every pod that another means; False if that is not obvious."""
    if wide.labels is None or narrow.labels is None:
        return False
    places = (wide.namespaces, wide.namespace_labels) == (narrow.namespaces, narrow.namespace_labels)
    return places and all(requirement in narrow.labels for requirement in wide.labels)


# ---- size


def _too_large(view: ClusterView, shape: Shape) -> Iterator[TooLarge]:
    """Resources of which the shape requests more than any empty node has."""
    table = view.node_table
    for resource, amount in shape.requests:
        number = table.resources.get(resource)
        if given(resource) or (number is not None and int(table.free[number].max(initial=0)) >= amount):
            continue
        if not any(node.allocatable.get(resource, 0) >= amount for node in table.nodes):
            most = max((node.allocatable.get(resource, 0) for node in table.nodes), default=0)
            yield TooLarge(resource, amount, most)


# ---- labels of nodes


def _nodes(shape: Shape) -> Iterator[EmptyNodeTerm | ImpossibleNodeTerm]:
    """Selector and affinity that no set of labels satisfies together."""
    if not shape.node_terms:
        return
    selected = [Requirement(key, "In", (value,)) for key, value in shape.node_selector]
    reasons = [_impossible(number, term, selected) for number, term in enumerate(shape.node_terms)]
    if reasons[0] is not None and None not in reasons:
        yield reasons[0]


def _impossible(number: int, term: NodeTerm, selected: list[Requirement]) -> EmptyNodeTerm | ImpossibleNodeTerm | None:
    """Why no node could match a term together with the node selector."""
    if not term.labels and not term.fields:
        return EmptyNodeTerm(number)
    for key in dict.fromkeys(requirement.key for requirement in term.labels):
        own = [requirement for requirement in term.labels if requirement.key == key]
        if not _satisfiable(own):
            return ImpossibleNodeTerm(number, tuple(own))
        chosen = [requirement for requirement in selected if requirement.key == key]
        if not _satisfiable([*own, *chosen]):
            return ImpossibleNodeTerm(number, tuple(own), tuple(chosen))
    return None


def _satisfiable(requirements: list[Requirement]) -> bool:
    """Whether some value of a label meets all requirements on it."""
    listed: set[str] | None = None
    for requirement in requirements:
        if requirement.operator == "In":
            listed = set(requirement.values) if listed is None else listed & set(requirement.values)
    if listed is not None:
        return any(all(_meets(value, requirement) for requirement in requirements) for value in listed)
    absent = any(requirement.operator == "DoesNotExist" for requirement in requirements)
    present = any(requirement.operator in ("Exists", "Gt", "Lt") for requirement in requirements)
    above = max((_number(one) for one in requirements if one.operator == "Gt"), default=None)
    below = min((_number(one) for one in requirements if one.operator == "Lt"), default=None)
    return not (absent and present) and (above is None or below is None or below - above > 1)


def _meets(value: str, requirement: Requirement) -> bool:
    if requirement.operator in ("Gt", "Lt"):
        return compares(value, requirement)
    return meets(requirement, value)


def _number(requirement: Requirement) -> int:
    text = requirement.values[0] if requirement.values else ""
    return int(text) if text.lstrip("-").isdigit() else 0
