"""Making room: who leaves, for whom their places are kept, and what a gang that cannot be whole gives back.

    Evict ─► victims: marked, told, deleted with grace      ┐ until all are gone the preemptor waits and evicts no
         └► preemptor: its places are entered in the view  ┘ one else; room that appears elsewhere it takes

A place that is only kept can be taken by someone more important; the one who loses it looks again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...api.objects import meta
from ...engine import Blocked, Evict, Placed
from ..intake.group_tree import Group, Member, Root
from ..queueing.root_state import State
from ..reporting.report import key_of, kind_of
from ..reporting.writes import Enactor
from .context import Around


class Preemption:
    """Evictions under way and the places kept meanwhile."""

    def __init__(self, names: tuple[str, ...], around: Around, enactor: Enactor) -> None:
        self._names = names
        self._around = around
        self._enactor = enactor
        #: victim -> the roots that wait for it to be gone
        self._awaited: dict[int, dict[int, None]] = {}
        #: Those whom the process before us began to evict, and did not come to say for whom.
        self._orphans: dict[int, Member] = {}

    def begin(self, state: State, verdict: Evict) -> None:
        """Evict whole units and keep their places for the preemptor."""
        root, members = state.root, self._around.translator.members
        victims = [members[pod.pod] for unit in verdict.units for pod in self._around.view.pods_of(unit)]
        leaving = [member for member in victims if member.place]
        for member in victims:
            if not member.place:
                self._give_way(member)
        message = f"{self._named_by(root)}: preempting to accommodate a higher priority {kind_of(root)}"
        self._mark_groups(verdict.units, message, root)
        for member in leaving:
            self._await(state, member)
            self._around.reporter.evicted(member, root)
        self._evict(leaving, message)
        self._around.metrics.preempting(root, len(leaving), verdict.loss.budget_violations)
        for number, node in verdict.placement.assignment.items():
            state.nominated[number] = members[number]
            self._around.translator.nominate(members[number], node)
        if leaving:
            self._around.reporter.making_room(root, verdict, len(leaving))
        else:
            self._around.states.again(state)

    @contextmanager
    def without_orphans(self) -> Iterator[bool]:
        """Look at the cluster as if those were gone who leave for nobody that we know of; False if there are none."""
        view = self._around.view
        leaving = [running for number in self._orphans if (running := view.running(number)) is not None]
        with view.without(leaving):
            yield bool(leaving)

    def inherit(self, state: State, placement: Placed) -> None:
        """Keep the places of those for a root: the one for which they leave, or who would have to evict others."""
        members, nodes = self._around.translator.members, set(placement.assignment.values())
        victims = [one for one in self._orphans.values() if one.place in nodes] or list(self._orphans.values())
        for victim in victims:
            del self._orphans[victim.id]
            self._await(state, victim)
        for number, node in placement.assignment.items():
            state.nominated[number] = members[number]
            self._around.translator.nominate(members[number], node)
        self._around.reporter.making_room(state.root, placement, len(victims))

    def withdraw(self, state: State) -> None:
        """Give up the places kept for a root; whoever asks next may have them."""
        if not state.nominated:
            return
        for member in state.nominated.values():
            self._around.translator.withdraw(member)
        state.nominated.clear()
        self._around.room()

    @contextmanager
    def lifted(self, state: State) -> Iterator[None]:
        """Look at the cluster without the places kept for a root."""
        view = self._around.view
        kept = (view.running(number) for number, member in state.nominated.items() if not member.place)
        with view.without([running for running in kept if running is not None]):
            yield

    def gone(self, member: Member) -> None:
        """A pod has left: those who waited for it may be able to go on."""
        self._orphans.pop(member.id, None)
        for waiting in self._awaited.pop(member.id, {}):
            state = self._around.states.get(waiting)
            if state is not None:
                state.victims.pop(member.id, None)
                if not state.victims:
                    self._around.states.again(state)

    def displaced(self, state: State) -> None:
        """A node at which room was being made is gone: nothing is worth waiting for there."""
        self.withdraw(state)
        state.victims.clear()
        self._around.states.again(state)

    def release_partial(self, state: State, verdict: Blocked) -> None:
        """A gang that cannot be completed gives back what it holds.

        One that never was whole holds it for nothing.  One that ran and lost members is released only if it is
        disrupted as a whole anyway and the engine found that this lets it run again.
        """
        root = state.root
        if not isinstance(root, Group) or state.flying or root.tally.holds:
            return
        if self._around.reporter.was_scheduled(root):
            released = {fix.group for fix in verdict.fixes if fix.kind == "release"}
            leaves = [leaf for leaf in root.leaves() if leaf.id in released and _evicted_whole(leaf)]
        else:
            leaves = list(root.leaves())
        message = f"{self._named_by(root)}: releasing a gang that cannot be completed"
        held = [member for leaf in leaves for member in leaf.holding.values()]
        # A pod that was created on its node was never ours to place.
        self._evict([member for member in held if meta.condition_is(member.obj, "PodScheduled")], message)

    def recover(self) -> None:
        """Go on with the preemptions of the process before us: finish evictions, keep places being made."""
        by_node: dict[str, list[Member]] = {}
        for message, victims in self._half_evicted().items():
            self._evict([member for member in victims if not meta.deleting(member.obj)], message)
            for member in victims:
                by_node.setdefault(member.node, []).append(member)
        if not by_node:
            return
        for member in list(self._around.translator.members.values()):
            node = (member.obj.get("status") or {}).get("nominatedNodeName") or ""
            state = self._around.states.get(self._around.translator.root_of(member).id)
            if state is None or not member.waiting or node not in by_node:
                continue
            state.nominated[member.id] = member
            self._around.translator.nominate(member, node)
            for victim in by_node[node]:
                self._await(state, victim)
        every = (victim for victims in by_node.values() for victim in victims)
        self._orphans = {victim.id: victim for victim in every if victim.id not in self._awaited}

    def _named_by(self, root: Root) -> str:
        """The name under which a root's pods asked for us."""
        if isinstance(root, Member):
            return root.scheduler
        return next((member.scheduler for leaf in root.leaves() for member in leaf.pending.values()), self._names[0])

    def _half_evicted(self) -> dict[str, list[Member]]:
        """Pods that were marked, with those that are evicted as one with them, by what their marks say.

        Members that were bound after the mark, while its victims leave slowly, are a new beginning of the group.
        """
        found: dict[str, dict[int, Member]] = {}
        members = self._around.translator.members
        for member in members.values():
            running = self._around.view.running(member.id) if member.node else None
            condition = meta.find_condition(member.obj, "DisruptionTarget") if running is not None else None
            if condition is not None and running is not None and self._is_ours(condition):
                mates = (members[pod.pod] for pod in self._around.view.pods_of(running.unit))
                at = condition.get("lastTransitionTime")
                bound = {mate.id: mate for mate in mates if mate.node and (not at or _bound_at(mate) <= at)}
                found.setdefault(str(condition.get("message", "")), {}).update(bound)
        return {message: list(victims.values()) for message, victims in found.items()}

    def _is_ours(self, mark: Mapping[str, Any]) -> bool:
        """Whether it was set under one of our names; other schedulers see to their own evictions."""
        name = str(mark.get("message") or "").partition(":")[0]
        return mark["status"] == "True" and mark.get("reason") == "PreemptionByScheduler" and name in self._names

    def _await(self, state: State, victim: Member) -> None:
        state.victims[victim.id] = None
        self._awaited.setdefault(victim.id, {})[state.root.id] = None

    def _evict(self, members: Collection[Member], message: str) -> None:
        for member in members:
            self._around.translator.evict(member)
        self._enactor.evict(members, message, lambda member: member.id in self._around.translator.members)

    def _mark_groups(self, units: Collection[int], message: str, preemptor: Root) -> None:
        text = f"Preempted by {kind_of(preemptor)} {key_of(preemptor)}"
        for unit in units:
            group = self._around.translator.forest.by_id(unit)
            if group is not None:
                self._around.reporter.evicted_group(group, message, text)

    def _give_way(self, member: Member) -> None:
        """A place that was only kept is taken by someone more important; its root looks again."""
        state = self._around.states.get(self._around.translator.root_of(member).id)
        if state is not None:
            self.withdraw(state)
            self._around.states.again(state)


def _bound_at(member: Member) -> str:
    """When a pod got its node; times of the API compare as text."""
    condition = meta.find_condition(member.obj, "PodScheduled")
    return str(condition.get("lastTransitionTime") or "") if condition is not None else ""


def _evicted_whole(leaf: Group) -> bool:
    group: Group | None = leaf
    while group is not None:
        if group.policy is not None and group.policy.whole:
            return True
        group = group.parent
    return False
