"""What was decided becomes true: pods are assumed where they go, bound, and their groups say so.

loop ─► Placing.place ─► Translator.assume   the view holds their places from now on
                    └──► Enactor.bind        beside the next decision
                             └──► _ended     all bound: settle · refused: its place is given back, it is asked anew
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...base.clock import Clock
from ...engine import Placed
from ..intake.group_tree import Group, Member, Root
from ..queueing.root_state import State
from ..reporting.writes import Enactor
from .context import Around

log = logging.getLogger(__name__)


class Placing:
    """Carries out decisions that need nobody to leave."""

    def __init__(self, around: Around, enactor: Enactor, clock: Clock, end: Callable[[Root], None]) -> None:
        self._translator = around.translator
        self._states = around.states
        self._reporter = around.reporter
        self._metrics = around.metrics
        self._enactor = enactor
        self._clock = clock
        #: To be called when nothing more is to be done for a root.
        self._end = end

    def place(self, state: State, verdict: Placed) -> None:
        self._assume(state, verdict)
        root = state.root
        if not verdict.assignment:
            self._states.back_off(state)
        elif isinstance(root, Group) and root.tally.pending:
            # The minimum is placed; whether the rest can be had, if need be by preemption, is the next question.
            self._states.again(state)
        else:
            state.since = ""

    def settle(self, state: State, root: Group) -> None:
        """Bindings are through: what was placed says so, even if some of it has ended since."""
        if state.placed:
            self._metrics.attempted(root, "scheduled", state.taken(self._clock.now()))
        self._reporter.settled(root, state.placed)
        state.settled, state.placed = True, frozenset()

    def _assume(self, state: State, verdict: Placed) -> None:
        """The decision takes effect in the view now, in the API beside the next decision."""
        members = self._translator.members
        state.settled = False
        state.flying += len(verdict.assignment)
        state.placed |= verdict.groups
        self._translator.assume(verdict.assignment)
        for number in verdict.assignment:
            self._enactor.bind(members[number], self._ended)
        self._states.succeeded(state)
        self._reporter.placed(state.root, verdict)

    def _ended(self, member: Member, trouble: str) -> None:
        """A binding was answered, or given up because of this trouble."""
        root = self._translator.root_of(member)
        state = self._states.of(root)
        if member.id not in self._translator.members:
            # It went meanwhile, and so may its group have.
            self._states.again(state)
        state.flying = max(0, state.flying - 1)
        if trouble:
            self._refused(member, root, state, trouble)
            return
        now = self._clock.now()
        self._reporter.bound(member)
        self._metrics.bound(member, now - member.seen)
        if isinstance(root, Member):
            self._metrics.attempted(root, "scheduled", state.taken(now))
            self._end(root)
        elif not state.flying:
            self.settle(state, root)

    def _refused(self, member: Member, root: Root, state: State, trouble: str) -> None:
        self._metrics.refused(member)
        log.info("binding pod %s to %s failed: %s", member.key, member.assumed, trouble)
        state.placed = frozenset()
        self._translator.forget(member)
        if member.id in self._translator.members:
            # The watch needs a moment to show why; then the member is placed again or its gang released.
            self._states.wait(state)
        elif isinstance(root, Member):
            self._end(root)
