"""Demands that cannot be satisfied however empty the cluster is: terms of a pod that exclude one another or the group
they belong to, members that run in two places, pods larger than any node.

A blocked demand is looked through once, and the group at fault is told which fields contradict one another: that says
more than how many nodes each of them rules out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...base.paths import spoken
from ...base.quantity import spelt
from ..cluster.node_filters import compares
from ..cluster.pod_index import meets
from ..cluster.running_terms import joins, matches, told, told_requirement
from ..cluster.view import ClusterView
from ..records.demand import Composite, Demand, Group, Leaf, NodeTerm, Peers, PodTerm, Requirement, Shape, given
from ..records.verdict import Shortage

SELECTOR = "spec.nodeSelector"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES = f"spec.affinity.nodeAffinity.{_REQUIRED}"
NEAR = f"spec.affinity.podAffinity.{_REQUIRED}"
APART = f"spec.affinity.podAntiAffinity.{_REQUIRED}"
#: Domains that are told by name.
DOMAINS_TOLD = 3


def contradicted(view: ClusterView, demand: Demand, shortages: tuple[Shortage, ...]) -> tuple[Shortage, ...]:
    """The same shortages; groups that can never hold say why, and come first."""
    reasons = dict(_reasons(view, demand.root, ()))
    if not reasons:
        return shortages
    found = [
        each if _without_label(each) else replace(each, contradiction=reasons.get(each.group, "")) for each in shortages
    ]
    return tuple(sorted(found, key=lambda each: not each.contradiction))


def _without_label(shortage: Shortage) -> bool:
    """Whether no node has the label of its key: that is reason enough."""
    return not shortage.domains_tried and not shortage.held_on


def _reasons(view: ClusterView, group: Group, keys: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Group -> what contradicts what; `keys` are those that the groups above are held to."""
    if group.topology is not None:
        keys = (*keys, group.topology)
        reason = _bound_apart(view, group, group.topology)
        if reason:
            yield group.id, reason
            return
    if isinstance(group, Composite):
        for child in group.children:
            yield from _reasons(view, child, keys)
        return
    reason = _of_members(view, group, keys)
    if reason:
        yield group.id, reason


# ---- members that run


def _bound_apart(view: ClusterView, group: Group, key: str) -> str:
    """Members that run in two domains of a key, or in none."""
    domains: dict[tuple[str, ...], str] = {}
    for node in _bound_nodes(group):
        domain = view.domain_of(node, key)
        if domain is None and view.node(node) is not None:
            return f"its pod on {node} runs outside any {_short(key)}: the node has no label {key}"
        if domain is not None:
            domains.setdefault(domain, node)
    if len(domains) < 2:
        return ""
    places = [f"{spoken(domain)} ({node})" for domain, node in sorted(domains.items())]
    more = " …" if len(places) > DOMAINS_TOLD else ""
    return f"its pods already run in {len(places)} {_short(key)}s: {', '.join(places[:DOMAINS_TOLD])}{more}"


def _bound_nodes(group: Group) -> Iterator[str]:
    if isinstance(group, Composite):
        for child in group.children:
            yield from _bound_nodes(child)
    else:
        yield from (bound.node for bound in group.bound)


# ---- terms of a pod


def _of_members(view: ClusterView, leaf: Leaf, keys: tuple[str, ...]) -> str:
    """Why a leaf cannot have its minimum, as far as its pods' own terms are to blame."""
    found, possible = "", len(leaf.bound)
    for pods in leaf.classes:
        reason, most = next(_of_pods(view, pods.shape, keys), ("", len(pods.members)))
        possible += min(most, len(pods.members))
        found = found or reason
    return found if possible < leaf.min_count else ""


def _of_pods(view: ClusterView, shape: Shape, keys: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Terms of a shape that contradict one another or the groups above, and how many such pods there could still be."""
    for reason in (*_nodes(shape), *_too_large(view, shape)):
        yield reason, 0
    for near in shape.affinity:
        for apart in shape.anti_affinity:
            if _covers(view, apart, near):
                first = int(joins(shape, shape))  # one that needs nobody, as long as nobody is there
                yield f"{_words(near, NEAR, 'near')} and {_words(apart, APART, 'away from')} exclude one another", first
    for apart in shape.anti_affinity:
        inside = next((key for key in keys if _contains(view, apart.key, key)), None)
        if inside is not None and matches(apart.peers, shape):
            words = _words(apart, APART, "away from")
            yield f"{words} keeps its pods apart, but all must be in one {_short(inside)}", 1


def _covers(view: ClusterView, apart: PodTerm, near: PodTerm) -> bool:
    """Whether whoever is near enough for one term is too near for the other."""
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


def _words(term: PodTerm, path: str, word: str) -> str:
    level = _short(term.key)
    return f"{path} ({word} {told(term.peers)} {'on' if level == 'node' else 'in'} the same {level})"


# ---- size


def _too_large(view: ClusterView, shape: Shape) -> Iterator[str]:
    """More of a resource than any node has, were it empty."""
    table = view.node_table
    for resource, amount in shape.requests:
        number = table.resources.get(resource)
        if given(resource) or (number is not None and int(table.free[number].max(initial=0)) >= amount):
            continue
        if not any(node.allocatable.get(resource, 0) >= amount for node in table.nodes):
            most = max((node.allocatable.get(resource, 0) for node in table.nodes), default=0)
            has = f"no node has more than {spelt(resource, most)}" if most else "no node has any"
            yield f"a pod asks for {spelt(resource, amount)} of {resource}, and {has}"


# ---- labels of nodes


def _nodes(shape: Shape) -> Iterator[str]:
    """Selector and affinity that no set of labels could satisfy together."""
    if not shape.node_terms:
        return
    selected = [Requirement(key, "In", (value,)) for key, value in shape.node_selector]
    reasons = [_impossible(number, term, selected) for number, term in enumerate(shape.node_terms)]
    if all(reasons):
        yield reasons[0]


def _impossible(number: int, term: NodeTerm, selected: list[Requirement]) -> str:
    path = f"{NODES}.nodeSelectorTerms[{number}]"
    if not term.labels and not term.fields:
        return f"{path} is empty, and so matches no node"
    for key in dict.fromkeys(requirement.key for requirement in term.labels):
        own = [requirement for requirement in term.labels if requirement.key == key]
        if not _satisfiable(own):
            return f"{path} contradicts itself ({_all(own)})"
        chosen = [requirement for requirement in selected if requirement.key == key]
        if not _satisfiable([*own, *chosen]):
            return f"{SELECTOR} ({_all(chosen)}) and {path} ({_all(own)}) exclude one another"
    return ""


def _satisfiable(requirements: list[Requirement]) -> bool:
    """Whether a label could meet all requirements on it."""
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


def _all(requirements: list[Requirement]) -> str:
    return " and ".join(told_requirement(requirement) for requirement in requirements)


def _short(key: str) -> str:
    short = key.rsplit("/", 1)[-1]
    return "node" if short == "hostname" else short
