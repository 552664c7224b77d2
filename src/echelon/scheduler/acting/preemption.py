"""Preemption: which pods are evicted, and the places kept for the preemptor meanwhile.

    Evict ─► victims: marked, reported, deleted with grace   ┐ until all are gone the preemptor evicts no others;
         └► preemptor: its places are entered in the view   ┘ capacity that appears elsewhere it takes

A place that is only kept can be taken by a root of higher priority; the root that loses it is decided again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...api.objects import meta
from ...api.objects.vocabulary import EVICTED_BOUND_UNTIL, EVICTED_BY
from ...engine import Evict, Placed, UnitName
from ..intake.group_tree import Member, Root
from ..intake.object_facts import bound_at
from ..queueing.root_phases import Event
from ..queueing.root_state import Preempting, RootState
from ..reporting.writes import ApiWriter
from .context import ActingContext


class Preemption:
    """Evictions under way and the places kept meanwhile."""

    def __init__(self, names: tuple[str, ...], context: ActingContext, writer: ApiWriter) -> None:
        self._names = names
        self._context = context
        self._writer = writer
        #: victim -> roots that wait for it to be gone
        self._awaited: dict[int, dict[int, None]] = {}
        #: Victims that the previous process marked and whose preemptor is unknown.
        self._orphans: dict[int, Member] = {}

    def begin(self, state: RootState, verdict: Evict) -> None:
        """Evict whole units and keep their places for the preemptor."""
        root, members = state.root, self._context.translator.members
        victims = [members[pod.pod] for unit in verdict.units for pod in self._context.view.pods_of(unit)]
        leaving = [member for member in victims if member.place]
        for member in victims:
            if not member.place:
                self._take_kept_place(member)
        scheduler = self.named_by(root)
        message = f"{scheduler}: preempting to accommodate a higher priority {root.kind}"
        self._mark_groups(verdict.units, message, root)
        self._await(state, leaving)
        for member in leaving:
            self._context.reporter.evicted(member, root)
        self.evict(leaving, scheduler, message)
        self._context.metrics.preempting(root, len(leaving), verdict.loss.budget_violations)
        self._count_lost_work(leaving)
        self._nominate(state, verdict.placement.assignment)
        if leaving:
            units = self._units_of(leaving)
            self._context.reporter.preempting(root, verdict.placement, units)
            self._context.decisions.preempting(state, verdict.placement, units)
            self._context.states.preempting(state)
        else:
            # Only kept places were in the way: there is nothing to wait for.
            self._context.states.again(state, Event.VICTIMS_GONE)

    @contextmanager
    def without_orphans(self) -> Iterator[bool]:
        """View without victims whose preemptor is unknown; False if there are none."""
        view = self._context.view
        leaving = [running for number in self._orphans if (running := view.running(number)) is not None]
        with view.without(leaving):
            yield bool(leaving)

    def inherit(self, state: RootState, placement: Placed) -> None:
        """Wait for victims whose preemptor is unknown, and keep their places, instead of evicting others."""
        nodes = set(placement.assignment.values())
        victims = [one for one in self._orphans.values() if one.place in nodes] or list(self._orphans.values())
        for victim in victims:
            del self._orphans[victim.id]
        self._await(state, victims)
        self._nominate(state, placement.assignment)
        self._context.reporter.preempting(state.root, placement, self._units_of(victims))
        self._context.states.preempting(state)

    def withdraw(self, state: RootState) -> None:
        """Give up the places kept for a root; its victims leave all the same."""
        preempting = state.preempting
        if preempting is None or not preempting.nominated:
            return
        for member in preempting.nominated.values():
            self._context.translator.withdraw(member)
        preempting.nominated.clear()
        if not preempting.victims:
            state.preempting = None
        self._context.room()

    @contextmanager
    def lifted(self, state: RootState) -> Iterator[None]:
        """View without the places kept for a root."""
        view, nominated = self._context.view, state.preempting.nominated if state.preempting else {}
        kept = (view.running(number) for number, member in nominated.items() if not member.place)
        with view.without([running for running in kept if running is not None]):
            yield

    def gone(self, member: Member) -> None:
        """A pod has left: roots that waited for it may go on."""
        self._orphans.pop(member.id, None)
        for waiting in self._awaited.pop(member.id, {}):
            state = self._context.states.get(waiting)
            preempting = state.preempting if state is not None else None
            if state is None or preempting is None:
                continue
            preempting.victims.pop(member.id, None)
            if not preempting.victims:
                if not preempting.nominated:
                    state.preempting = None
                self._context.states.again(state, Event.VICTIMS_GONE)

    def member_gone(self, state: RootState, member: Member) -> None:
        """A pod of the root itself has left; no place is kept for it any more."""
        preempting = state.preempting
        if preempting is not None:
            preempting.nominated.pop(member.id, None)
            if not preempting.nominated and not preempting.victims:
                state.preempting = None

    def displaced(self, state: RootState) -> None:
        """A node on which places were kept is gone: there is nothing to wait for."""
        self.withdraw(state)
        state.preempting = None
        self._context.states.again(state, Event.PLACE_LOST)

    def recover(self) -> None:
        """Go on with the preemptions of the previous process: finish its evictions, keep the nominated places."""
        by_node: dict[str, list[Member]] = {}
        for (scheduler, message), victims in self._half_evicted().items():
            self.evict([member for member in victims if not meta.deleting(member.obj)], scheduler, message)
            for member in victims:
                by_node.setdefault(member.node, []).append(member)
        if not by_node:
            return
        for member in list(self._context.translator.members.values()):
            node = member.pod.status.nominated_node_name
            state = self._context.states.get(self._context.translator.root_of(member).id)
            if state is None or not member.waiting or node not in by_node:
                continue
            self._nominate(state, {member.id: node})
            self._await(state, by_node[node])
        every = (victim for victims in by_node.values() for victim in victims)
        self._orphans = {victim.id: victim for victim in every if victim.id not in self._awaited}

    def named_by(self, root: Root) -> str:
        """The scheduler name that a root's pods ask for."""
        return next((member.scheduler for member in root.pending_pods()), self._names[0])

    def _half_evicted(self) -> dict[tuple[str, str], list[Member]]:
        """Marked pods and the rest of their units, by the scheduler that marked them and the message it wrote.

        Members of a unit that were bound later than all that are marked belong to a new run of the group and are left
        alone.
        """
        found: dict[tuple[str, str], dict[int, Member]] = {}
        for member in self._context.translator.members.values():
            condition = meta.find_condition(member.obj, "DisruptionTarget") if member.node else None
            scheduler = meta.annotations(member.obj).get(EVICTED_BY, "")
            if condition is not None and scheduler in self._names and _is_mark(condition):
                mark = scheduler, str(condition.get("message", ""))
                found.setdefault(mark, {}).update((one.id, one) for one in self._evicted_with(member))
        return {mark: list(victims.values()) for mark, victims in found.items()}

    def _evicted_with(self, marked: Member) -> Iterator[Member]:
        """A marked pod and the pods of its unit that its mark speaks of, by times of the API server alone."""
        members, view = self._context.translator.members, self._context.view
        running = view.running(marked.id)
        until = meta.annotations(marked.obj).get(EVICTED_BOUND_UNTIL, "")
        for pod in view.pods_of(running.unit) if running is not None else ():
            mate = members[pod.pod]
            if mate is marked or (mate.node and bound_at(mate.obj) <= until):
                yield mate

    def _units_of(self, victims: Collection[Member]) -> list[UnitName]:
        """For each victim the unit that is evicted with it, for messages."""
        view, found = self._context.view, list[UnitName]()
        for member in victims:
            running = view.running(member.id)
            unit = view.unit(running.unit) if running is not None else None
            found.append(UnitName(unit.id, unit.name, unit.priority) if unit else _alone(member))
        return found

    def _await(self, state: RootState, victims: Collection[Member]) -> None:
        if victims:
            preempting = state.preempting = state.preempting or Preempting()
            for victim in victims:
                preempting.victims[victim.id] = None
                self._awaited.setdefault(victim.id, {})[state.root.id] = None

    def _nominate(self, state: RootState, places: Mapping[int, str]) -> None:
        """Keep places for members of a root."""
        if places:
            members, preempting = self._context.translator.members, state.preempting or Preempting()
            state.preempting = preempting
            for number, node in places.items():
                preempting.nominated[number] = members[number]
                self._context.translator.nominate(members[number], node)

    def evict(self, members: Collection[Member], scheduler: str, message: str) -> None:
        """Mark pods and delete them; from now on they hold nothing for their groups."""
        for member in members:
            self._context.translator.evict(member)
        self._writer.evict(members, scheduler, message, lambda member: member.id in self._context.translator.members)

    def _mark_groups(self, units: Collection[int], message: str, preemptor: Root) -> None:
        for unit in units:
            group = self._context.translator.forest.by_id(unit)
            if group is not None:
                self._context.reporter.evicted_group(group, message, preemptor)

    def _count_lost_work(self, victims: Collection[Member]) -> None:
        now, view = self._context.now(), self._context.view
        for member in victims:
            running = view.running(member.id)
            if running is not None:
                self._context.metrics.lost(max(0.0, now - running.started), running.requests)

    def _take_kept_place(self, member: Member) -> None:
        """A place that was only kept goes to a root of higher priority; the root that loses it is decided again."""
        state = self._context.states.get(self._context.translator.root_of(member).id)
        if state is not None:
            self.withdraw(state)
            self._context.states.again(state, Event.PLACE_LOST)


def _is_mark(condition: Mapping[str, Any]) -> bool:
    return condition["status"] == "True" and condition.get("reason") == "PreemptionByScheduler"


def _alone(member: Member) -> UnitName:
    return UnitName(member.id, f"Pod/{member.name}", member.priority)
