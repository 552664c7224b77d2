"""Carrying out a placement: pods are assumed on their nodes, bound, and their groups report it.

loop ─► Placing.place ─► Translator.assume   the view holds their places from now on
                    ├──► DevicePreparation, VolumePreparation   claims get devices and volumes first, all or none
                    └──► ApiWriter.bind      beside the next decision
                             └──► _answered  all bound: settle · refused: the place is given back, the root tries again
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...base.clock import Clock
from ...engine import Placed
from ..intake.group_tree import GroupNode, Member, Root
from ..queueing.root_phases import Event, Phase
from ..queueing.root_state import Binding, RootState
from ..reporting.writes import ApiWriter
from .context import ActingContext
from .device_preparation import DevicePreparation
from .volume_preparation import VolumePreparation


class Placing:
    """Carries out decisions that need no eviction."""

    def __init__(self, context: ActingContext, writer: ApiWriter, clock: Clock, end: Callable[[Root], None]) -> None:
        self._translator = context.translator
        self._states = context.states
        self._reporter = context.reporter
        self._metrics = context.metrics
        self._decisions = context.decisions
        self._writer = writer
        self._devices = DevicePreparation(context.translator, writer.claims)
        self._volumes = VolumePreparation(context.translator, writer.volumes)
        self._clock = clock
        #: To be called when nothing is left to do for a root.
        self._end = end

    def place(self, state: RootState, verdict: Placed) -> None:
        root = state.root
        self._assume(state, verdict)
        if not verdict.assignment:
            self._states.blocked(state)
        elif isinstance(root, GroupNode) and root.counts.pending:
            # The minimum is placed.  Whether the rest fits, if need be by preemption, is the next question.
            self._states.again(state, Event.MINIMUM_PLACED)
        else:
            self._states.placed(state)

    def has_idle_devices(self, root: Root) -> bool:
        """Whether pods that wait for a place have devices."""
        return self._devices.has_idle(root.pending_pods())

    def release_devices(self, root: Root) -> None:
        """Take devices from pods that cannot be placed where these are."""
        self._devices.release(root.pending_pods())

    def settle(self, state: RootState, root: GroupNode) -> None:
        """All bindings are answered: groups that were placed report it, even if some of their pods ended since."""
        binding, state.binding = state.binding, None
        groups = binding.groups if binding is not None else frozenset()
        if groups and binding is not None:
            now = self._clock.now()
            self._metrics.attempted(root, "scheduled", state.attempt_seconds(now))
            self._metrics.scheduled(root, binding.pods, binding.since, now)
        self._reporter.settled(root, groups)
        state.settled = True

    def _assume(self, state: RootState, verdict: Placed) -> None:
        """The decision takes effect in the view now, in the API beside the next decision."""
        members = self._translator.members
        state.settled = False
        if verdict.assignment:
            binding = state.binding
            if binding is None:
                binding = state.binding = Binding(since=state.since)
            binding.in_flight += len(verdict.assignment)
            binding.pods += len(verdict.assignment)
            binding.groups |= verdict.groups
        placed = [members[number] for number in verdict.assignment]
        uses = self._devices.uses(verdict.assignment)
        volumes = self._volumes.plan(verdict.assignment)
        devices = [use.allotment for use in uses if use.allotment is not None]
        self._translator.assume(verdict.assignment, devices, volumes.chosen)

        def bind(members: Collection[Member]) -> None:
            self._volumes.prepare(members, volumes, self._bind, self._answered)

        self._devices.prepare(placed, uses, bind, self._answered)
        self._states.queue.succeeded(state.root.id)
        self._reporter.placed(state.root, verdict)
        if verdict.assignment:
            self._decisions.placed(state, verdict)

    def _bind(self, members: Collection[Member]) -> None:
        for member in members:
            self._writer.bind(member, self._answered)

    def _answered(self, member: Member, trouble: str) -> None:
        """A binding was answered, or given up because of this trouble."""
        if trouble and self._devices.gives_back(member, lambda: self._answered(member, trouble)):
            return
        root = self._translator.root_of(member)
        state = self._states.of(root)
        if member.id not in self._translator.members:
            # The pod went meanwhile, and perhaps its group.
            self._states.again(state, Event.CHANGED)
        binding = state.binding
        if binding is not None:
            binding.in_flight -= 1
        if trouble:
            self._refused(member, root, state, trouble)
            return
        now = self._clock.now()
        self._devices.bound(member)
        self._reporter.bound(member)
        self._metrics.bound(member, now - member.seen)
        if isinstance(root, Member):
            self._metrics.attempted(root, "scheduled", state.attempt_seconds(now))
            self._metrics.scheduled(root, 1, binding.since if binding is not None else "", now)
            self._end(root)
        elif binding is None or not binding.in_flight:
            self.settle(state, root)
            self._states.bound(state)
            if state.phase is Phase.SCHEDULED and (root.counts.waiting or root.counts.unready):
                # What is not complete says what it waits for.
                self._states.again(state, Event.CHANGED)

    def _refused(self, member: Member, root: Root, state: RootState, trouble: str) -> None:
        self._metrics.refused(member)
        self._decisions.refused(member, trouble)
        if state.binding is not None:
            state.binding.groups = frozenset()
            if not state.binding.in_flight:
                state.binding = None
        self._translator.forget(member)
        if member.id in self._translator.members:
            # After its back-off the member is placed again, or its gang released.
            self._states.refused(state)
        elif isinstance(root, Member):
            self._end(root)
