"""Gangs that cannot be completed where the rest of them runs: what they hold is released, and they are placed anew.

    Blocked ─► Recovery.release ─► a group that was never complete: it holds capacity for nothing, all of it is released
                              └──► a unit (the highest group with disruption mode `all`) below its minimum:
                                     its missing pods do not exist yet         ─► wait for them
                                     pods are leaving, and then it fits        ─► wait for them
                                     with all its pods placed anew it fits     ─► released as a whole
                                     it fits nowhere                           ─► stays as it is
    released ─► Recovery.awaits_pods: the tree is decided again when the pods are there anew, or after a minute

A unit that holds its minimum is never released, and no pod outside a unit is: the rest of a tree runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from ...api.objects import meta
from ...base.clock import Clock
from ...base.instants import parse
from ...engine import Blocked, Demand, Placed, Running
from ..intake.group_tree import GroupNode, Member
from ..queueing.root_state import Recovering, RootState
from .context import ActingContext
from .deciding import Deciding
from .preemption import Preemption

#: A pod whose deletion is this late is not waited for: a finalizer or a dead node may hold it for ever.
_LATE_SECONDS = 30.0
#: How long a tree waits for the pods of its released part.
_PODS_SECONDS = 60.0
#: Broken units of one tree up to which each is tried by itself before all are released together.
_UNITS_TRIED = 8

#: A tree as a demand, with these placed members as pods to be placed.
DemandAfter = Callable[[GroupNode, Collection[int]], Demand]


class Recovery:
    """Releases what blocked roots hold in vain."""

    def __init__(
        self,
        context: ActingContext,
        preemption: Preemption,
        deciding: Deciding,
        clock: Clock,
        demand_after: DemandAfter,
    ) -> None:
        self._context = context
        self._preemption = preemption
        self._deciding = deciding
        self._clock = clock
        self._demand_after = demand_after

    def is_broken(self, state: RootState) -> bool:
        """Whether a root holds capacity without its minimum, so that capacity anywhere may help it."""
        root = state.root
        if not isinstance(root, GroupNode):
            return False
        return any(True for _ in self._held_in_vain(root)) or any(True for _ in _broken_units(root))

    def awaits_pods(self, state: RootState) -> float:
        """The seconds for which a tree is not decided, because the pods of a released part do not exist yet.

        Else other parts of it would take the places for which that part was released.
        """
        recovering = state.recovering
        if recovering is None:
            return 0.0
        left = recovering.until - self._clock.now()
        if left > 0 and not all(unit.counts.ready for unit in recovering.units if unit.policy is not None):
            return left
        state.recovering = None
        return 0.0

    def release(self, state: RootState, demand: Demand, verdict: Blocked) -> bool:
        """Release what a blocked root holds in vain; False if there is nothing of that kind."""
        root = state.root
        if not isinstance(root, GroupNode) or state.binding is not None:
            return False
        if in_vain := list(self._held_in_vain(root)):
            return self._evict(state, in_vain, verdict, None)
        units = [unit for unit in _broken_units(root) if unit.counts.ready]
        if not units or self._will_be_completed(state, demand):
            return False
        for some in _choices(units):
            placement = self._placed_anew(state, some)
            if placement is not None:
                return self._evict(state, some, verdict, placement)
        return False

    def _held_in_vain(self, group: GroupNode) -> Iterator[GroupNode]:
        """The highest groups that hold pods and never had their minimum.

        Also within a unit that runs: what has never run is not disturbed, and the rest of the unit does not need it.
        """
        if group.counts.holds or self._context.reporter.was_scheduled(group):
            for child in group.in_order:
                yield from self._held_in_vain(child)
        elif _holds_any(group):
            yield group

    def _will_be_completed(self, state: RootState, demand: Demand) -> bool:
        """Whether it fits where it is once pods that are leaving are gone."""
        now, view = self._clock.now(), self._context.view
        leaving = (one for one in self._context.translator.members.values() if one.place and _leaves_soon(one, now))
        gone = [running for member in leaving if (running := view.running(member.id)) is not None]
        if not gone:
            return False
        with view.without(gone):
            return self._deciding.would_place(state, demand) is not None

    def _placed_anew(self, state: RootState, units: Sequence[GroupNode]) -> Placed | None:
        """Where these units go if all their pods are released; None if they do not all fit."""
        root = state.root
        assert isinstance(root, GroupNode)
        released = {member.id for unit in units for member in _releasable(unit)}
        if not released or not _can_be_asked(root, units):
            return None
        view = self._context.view
        gone: list[Running] = [running for pod in released if (running := view.running(pod)) is not None]
        demand = self._demand_after(root, released)
        with view.without(gone):
            placement = self._deciding.would_place(state, demand)
        return placement if placement and all(unit.id in placement.groups for unit in units) else None

    def _evict(self, state: RootState, units: Sequence[GroupNode], verdict: Blocked, placement: Placed | None) -> bool:
        """Evict all pods of these units and say why; where each goes then, if that is known."""
        scheduler = self._preemption.named_by(state.root)
        held = {unit.id: list(_releasable(unit)) for unit in units}
        for unit in units:
            where = placement.domains.get(unit.id, ()) if placement is not None else ()
            message = f"{scheduler}: releasing {unit.title}, which cannot be completed where it runs"
            self._context.reporter.released(state.root, unit, held[unit.id], verdict, message, where)
            self._context.decisions.released(state, unit, len(held[unit.id]))
            self._preemption.evict(held[unit.id], scheduler, message)
        if placement is not None:
            state.recovering = Recovering(tuple(units), self._clock.now() + _PODS_SECONDS)
        return any(held.values())


def _broken_units(group: GroupNode) -> Iterator[GroupNode]:
    """The units of a tree that hold pods, but less than their minimum."""
    if group.policy is not None and group.policy.whole:
        if not group.counts.holds and _holds_any(group):
            yield group
        return
    for child in group.in_order:
        yield from _broken_units(child)


def _choices(units: Sequence[GroupNode]) -> Iterator[Sequence[GroupNode]]:
    """Which units to release: the smallest alone, else all together."""
    by_size = sorted(units, key=lambda unit: (sum(len(leaf.holding) for leaf in unit.leaves()), unit.key))
    yield from ([unit] for unit in by_size[:_UNITS_TRIED])
    if len(units) > 1:
        yield units


def _can_be_asked(root: GroupNode, units: Sequence[GroupNode]) -> bool:
    """Whether the tree is decided again when the pods of these units are there anew.

    A tree that is being repaired is not, once no complete part of it is left.
    """
    if root.counts.ready:
        return True
    within = {leaf.id for unit in units for leaf in unit.leaves()}
    return any(leaf.holding and leaf.counts.holds for leaf in root.leaves() if leaf.id not in within)


def _holds_any(group: GroupNode) -> bool:
    return any(leaf.holding for leaf in group.leaves())


def _releasable(group: GroupNode) -> Iterator[Member]:
    """The placed pods of a group; one that was created on its node was never ours to place."""
    held = (member for leaf in group.leaves() for member in leaf.holding.values())
    return (member for member in held if meta.condition_is(member.obj, "PodScheduled"))


def _leaves_soon(member: Member, now: float) -> bool:
    if not member.leaving:
        return False
    due = member.pod.metadata.deletion_timestamp
    return not due or now < parse(due) + _LATE_SECONDS
