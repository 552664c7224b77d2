"""What holds capacity in the engine's view: pods where they run or are expected, their units and their budgets.

    `pod_events`, `translate` ─► Holdings.hold, release ─► ClusterView   running pods, units, budgets
                                                  └──────► room          a pod came that waiting pods need near them

A unit is what preemption evicts as a whole; it is in the view as long as pods of it are.
"""

from __future__ import annotations

from collections.abc import Callable

from ...api.views.cluster_views import BudgetView
from ...engine import ClusterView, Running, Unit, ownership_term
from . import pod_affinity
from .disruption_budgets import Budgets
from .group_tree import GroupNode, Member


class Holdings:
    """Enters members into the view and takes them out of it."""

    def __init__(self, view: ClusterView, budgets: Budgets, room: Callable[[], None]) -> None:
        self._view = view
        self._budgets = budgets
        self._room = room
        #: The pods that waiting pods need near them.
        self.awaited = pod_affinity.AwaitedPeers()

    def hold(self, *members: Member) -> None:
        """Enter pods into the view where they take up room."""
        view, room = self._view, False
        entries, left, covered = list[Running](), list[int](), dict[str, None]()
        group: GroupNode | None = None
        whole, priority = _evicted_with(group)
        for member in members:
            if member.group is not group:
                group = member.group
                whole, priority = _evicted_with(group)
            unit = _unit_of(member, whole, priority)
            former = view.running(member.id)
            view.put_unit(unit)
            running = self._running(member, unit.id)
            entries.append(running)
            if self.awaited and (former is None or former.coming) and member.place:
                room = room or self.awaited.means(member.identity)
            if former is not None and former.unit != unit.id:
                left.append(former.unit)
            if running.budgets or (former is not None and former.budgets):
                covered[member.namespace] = None
        view.bind_all(entries)
        for former_unit in left:
            self._retire_unit(former_unit)
        for namespace in covered:
            self.count_budgets(namespace)
        if room:
            self._room()

    def release(self, member: Member) -> None:
        """The pod takes up no room any more, if it did."""
        running = self._view.running(member.id)
        if running is None:
            return
        self._view.unbind(member.id)
        self._retire_unit(running.unit)
        if running.budgets:
            self._budgets.uncover(member.id, member.namespace)
            self.count_budgets(member.namespace)

    def await_peers(self, member: Member) -> None:
        self.awaited.count(pod_affinity.awaited_peers(member), 1)

    def stop_awaiting_peers(self, member: Member) -> None:
        self.awaited.count(pod_affinity.awaited_peers(member), -1)

    def put_budget(self, budget: BudgetView) -> bool:
        """A budget, new or changed; True if it may cover other pods than before."""
        return self._budgets.put(budget)

    def remove_budget(self, budget: BudgetView) -> None:
        self._view.remove_budget(self._budgets.remove(budget))

    def count_budgets(self, namespace: str) -> None:
        """Enter into the view how many pods each budget of a namespace allows to be evicted."""
        for budget in self._budgets.allowances(namespace):
            self._view.put_budget(budget)

    def _running(self, member: Member, unit: int) -> Running:
        """A pod as what takes up room."""
        placed, group, shape = bool(member.node or member.assumed), member.group, member.shape
        exclusive = group.exclusive if group is not None else None
        return Running(
            pod=member.id,
            node=member.spot,
            requests=shape.requests,
            unit=unit,
            started=member.since,
            group=group.id if group is not None else -1,
            exclusive=exclusive,
            budgets=self._budgets.cover(member.id, member.pod) if placed else (),
            # A place that is only reserved repels other pods, but is no victim: its pod is not there yet.
            # So is a static pod: it would go on running without its object.
            evictable=not member.leaving and not member.static and (placed or bool(member.nominated)),
            identity=member.identity,
            repels=shape.anti_affinity if exclusive is None else (*shape.anti_affinity, ownership_term(exclusive)),
            coming=not placed,
            preferences=pod_affinity.preferences_of(shape) if shape.preferences or shape.affinity else (),
        )

    def _retire_unit(self, unit: int) -> None:
        if not self._view.pods_of(unit):
            self._view.remove_unit(unit)


def _evicted_with(group: GroupNode | None) -> tuple[GroupNode | None, int | None]:
    """The highest of a group and its ancestors that is evicted as a whole, and the priority of the root."""
    whole, priority = None, None
    for _ in range(8):  # Ends on a cycle too; valid trees are half as deep.
        if group is None:
            break
        if group.policy is not None:
            priority = group.policy.priority
            whole = group if group.policy.whole else whole
        group = group.parent
    return whole, priority


def _unit_of(member: Member, whole: GroupNode | None, priority: int | None) -> Unit:
    """The unit of a pod: a group that is evicted as a whole, else the pod; without groups it has its own priority."""
    if priority is None:
        priority = member.priority
    if whole is None or not (member.place or member.nominated):
        return Unit(member.id, priority, f"Pod/{member.name}")
    assert whole.view is not None
    owner = whole.view.controller
    name = f"{owner.kind}/{owner.name}" if owner else f"{whole.key.kind}/{whole.key.name}"
    return Unit(whole.id, priority, name)
