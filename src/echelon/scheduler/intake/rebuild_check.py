"""Compares the state kept by single events with one rebuilt from the caches.  For tests, and on demand.

    caches ─► a second Translator, from nothing ─► the loop's own steps (assumed, reserved, …) ─► compare

Ids are numbers in order of appearance, so both sides are described by names and uids.
"""

from __future__ import annotations

from typing import Any

from ...base.clock import Clock
from ...client.informer import Caches
from ...engine import ClusterView, given
from .group_policy import POD_GROUP
from .group_tree import GroupNode, Member, Root
from .translate import Translator


class _Deaf:
    """A listener that has nothing to do."""

    def touched(self, root: Root) -> None: ...
    def room(self) -> None: ...
    def gone(self, member: Member) -> None: ...
    def displaced(self, member: Member) -> None: ...


def differences(kept: Translator, caches: Caches, clock: Clock) -> list[str]:
    """Where view and forest differ from ones rebuilt from the caches; empty when all is well."""
    rebuilt = Translator(ClusterView(kept.view.levels), caches, clock, _Deaf())
    rebuilt.read()
    rebuilt.claims.give(kept.claims.in_flight)
    rebuilt.take_volumes(kept.volumes.late.under_way)
    own = {member.uid: member for member in kept.members.values()}
    for member in list(rebuilt.members.values()):
        _repeat(rebuilt, member, own.get(member.uid))
    described, rebuilt_state = _describe(kept), _describe(rebuilt)
    return [
        f"{thing}: kept {described.get(thing)}, rebuilt {rebuilt_state.get(thing)}"
        for thing in sorted(described.keys() | rebuilt_state.keys())
        if described.get(thing) != rebuilt_state.get(thing)
    ]


def _repeat(rebuilt: Translator, member: Member, own: Member | None) -> None:
    """Do again what the loop did and no object says yet."""
    if own is None:
        return
    if own.assumed:
        rebuilt.assume({member.id: own.assumed})
    if own.nominated:
        rebuilt.nominate(member, own.nominated)
    if own.reserved:
        rebuilt.reserve(member, own.reserved)
    if own.evicting:
        rebuilt.evict(member)


def _describe(translator: Translator) -> dict[str, Any]:
    view, table = translator.view, translator.view.node_table
    described: dict[str, Any] = {}
    for row, name in enumerate(view.node_names()):
        free = {resource: int(table.free[number, row]) for resource, number in table.resources.items()}
        free = {resource: amount for resource, amount in free.items() if amount != given(resource)}
        described[f"node {name}"] = (table.path(row), view.node(name), free)
    for member in translator.members.values():
        running = view.running(member.id)
        if running is not None:
            unit = view.unit(running.unit)
            held = (running.node, running.requests, running.exclusive, running.evictable, len(running.budgets))
            described[f"pod {member.key} {member.uid}"] = (*held, unit and (unit.priority, unit.name))
    known = set(translator.members)
    for one in view.all_running():
        if one.pod not in known:
            described[f"unknown pod {one.pod}"] = one
    for group in translator.forest.groups():
        described[f"group {group.key}"] = _group(group)
    return described


def _group(group: GroupNode) -> tuple[Any, ...]:
    asked: Any = None
    if group.key.kind == POD_GROUP and group.leaf is not None:
        members = group.members
        wanted = sorted(members[number].uid for one in group.leaf.classes for number in one.members)
        asked = wanted == _uids(group.pending) and sorted(b.node for b in group.leaf.bound) == sorted(
            member.place for member in group.holding.values()
        )
    return (
        group.policy,
        group.parent and group.parent.key,
        sorted(group.children),
        _uids(group.members),
        _uids(group.pending),
        _uids(group.holding),
        sorted(group.succeeded),
        asked in (None, True),
    )


def _uids(members: dict[int, Member]) -> list[str]:
    return sorted(member.uid for member in members.values())
