"""Quality in the judge: the objective computed again from a placement, and the order of ranks along the topology."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..records.demand import Composite, Demand, Group, Leaf, Shape
from ..records.verdict import Placed
from .facts import Facts, bound_nodes, groups_of, keys, waiting

WORDS = ("roles missing", "groups left out", "members left out", "preferred keys missed", "spare slots")


def objective_problems(facts: Facts, demand: Demand, placed: Placed) -> Iterator[str]:
    """Numbers of the objective that are wrong for the placement, or that lie below their bound."""
    groups, leaves = groups_of(demand.root), list(demand.leaves())
    asked = sum(len(pods.members) for leaf in leaves for pods in leaf.classes)
    missed = {group.id: _missed(facts, group, placed) for group in groups}
    counted = (
        sum(_roles_missing(leaf, placed) for leaf in leaves),
        len(groups) - len(placed.groups),
        asked - len(placed.assignment),
        sum(missed.values()),
        sum(_spare(facts, demand.root, tuple(facts.nodes), placed, missed)),
    )
    for word, stated, found in zip(WORDS, placed.objective, counted, strict=True):
        if stated != found:
            yield f"{word}: {found}, not {stated}"
    if placed.objective < placed.bound:
        yield f"the objective {placed.objective} lies below its bound {placed.bound}"


def _spare(
    facts: Facts, group: Group, around: tuple[str, ...], placed: Placed, missed: Mapping[int, int]
) -> Iterator[int]:
    """For each leaf and shape: the slots that stay free in the domain of the group."""
    if group.id not in placed.groups:
        return
    names = _nodes(facts, group, placed)
    preferences = group.preferred[missed[group.id] : missed[group.id] + 1]
    for key in (*keys(group), *preferences) if names else ():
        home = facts.domain(names[0], key)
        around = tuple(name for name in around if facts.domain(name, key) == home)
    if isinstance(group, Composite):
        for child in group.children:
            yield from _spare(facts, child, around, placed, missed)
    elif _is_measured(group):
        for shape, members in _by_shape(group):
            new = sum(member in placed.assignment for member in members)
            if new and not shape.has_pod_rules:
                slots = facts.slots(shape)
                yield sum(slots.get(name, 0) for name in around) - new


def _is_measured(leaf: Leaf) -> bool:
    """Whether spare slots count against a leaf: not if it will grow, since then a tight domain is no advantage."""
    if leaf.final_size is None:
        return leaf.min_count > 1 or leaf.topology is None
    return leaf.final_size <= len(leaf.bound) + len(waiting(leaf))


def _by_shape(leaf: Leaf) -> list[tuple[Shape, list[int]]]:
    found: dict[Shape, list[int]] = {}
    for pods in leaf.classes:
        found.setdefault(pods.shape, []).extend(pods.members)
    return list(found.items())


def _roles_missing(leaf: Leaf, placed: Placed) -> int:
    asked = {pods.role for pods in leaf.classes if pods.members}
    present = {bound.role for bound in leaf.bound}
    present |= {pods.role for pods in leaf.classes if any(member in placed.assignment for member in pods.members)}
    return len(asked - present)


def _missed(facts: Facts, group: Group, placed: Placed) -> int:
    """Preferred keys before the first one for which all pods of a group share a domain."""
    if group.id not in placed.groups:
        return len(group.preferred)
    names = _nodes(facts, group, placed)
    for number, key in enumerate(group.preferred):
        domains = {facts.domain(name, key) for name in names}
        if len(domains) <= 1 and None not in domains:
            return number
    return len(group.preferred)


def _nodes(facts: Facts, group: Group, placed: Placed) -> list[str]:
    """The nodes of all pods of a group, new and bound."""
    new = (placed.assignment.get(member, "") for leaf in Demand(group).leaves() for member, _ in waiting(leaf))
    return [name for name in (*new, *bound_nodes(group)) if name in facts.nodes]


def rank_problems(facts: Facts, demand: Demand, placed: Placed) -> Iterator[str]:
    """Members of equal shape and role must be placed from the first on, and a domain must hold consecutive ranks."""
    for leaf in demand.leaves():
        ranks: dict[tuple[Shape, str], list[int]] = {}
        for pods in leaf.classes:
            ranks.setdefault((pods.shape, pods.role), []).extend(pods.members)
        for members in ranks.values():
            names = [placed.assignment[member] for member in members if member in placed.assignment]
            if any(member not in placed.assignment for member in members[: len(names)]):
                yield f"group {leaf.id} leaves out a member before others of its kind"
            for key in facts.levels:
                yield from _scattered(facts, leaf, key, [name for name in names if name in facts.nodes])


def _scattered(facts: Facts, leaf: Leaf, key: str, names: list[str]) -> Iterator[str]:
    runs: list[object] = []
    for name in names:
        domain = facts.domain(name, key)
        if domain is not None and (not runs or runs[-1] != domain):
            runs.append(domain)
    if len(set(runs)) != len(runs):
        yield f"group {leaf.id} has ranks of one domain of {key} apart"
