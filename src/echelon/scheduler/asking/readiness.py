"""Whether a root can be asked for now: its tree is sound, its pods are there; if not, what it says meanwhile.

Scheduler ─► Readiness ─► Demand   ask the engine
                 └─────► None      something is missing, wrong or already placed, and says so
"""

from __future__ import annotations

from collections.abc import Callable

from ...api.scheme import JOBS, WORKLOADS, Object
from ...base.clock import Clock
from ...client.informer import Caches
from ...engine import Demand
from ..intake.group_policy import Problem
from ..intake.group_tree import Group, Member
from ..queueing.root_state import State, States
from ..reporting.report import Reporter
from . import demands
from .tree_validation import SOUND, members_problem, problem_of

#: How long nothing must have come for an incomplete tree before it says so: its objects arrive one after the other.
_INCOMPLETE_GRACE_SECONDS = 1.0


class Readiness:
    """Makes demands of the roots that are ready for a decision."""

    def __init__(
        self,
        names: tuple[str, ...],
        caches: Caches,
        clock: Clock,
        states: States,
        reporter: Reporter,
        settle: Callable[[State, Group], None],
    ) -> None:
        self._names = names
        self._find_job = caches.of(JOBS).get
        self._workloads = caches.of(WORKLOADS)
        self._clock = clock
        self._states = states
        self._reporter = reporter
        #: To be called when nothing of a tree is on its way any more.
        self._settle = settle

    def demand(self, state: State) -> Demand | None:
        """What to ask for, or None when there is nothing to ask now."""
        root = state.root
        if isinstance(root, Member):
            return demands.of_pod(root)
        problem = self._layout(root)
        if problem is not None:
            self._wait(state, root, problem)
            return None
        tally = root.tally
        repairing = not tally.ready
        if repairing and not demands.repairable(root):
            self._wait(state, root, None)
            return None
        if not tally.pending:
            self._rest(state, root)
            return None
        if not self._answers(root):
            return None
        problem = members_problem(root, self._names)
        if problem is not None:
            self._reporter.broken(root, problem)
            return None
        if any(leaf.leans and leaf.pending for leaf in root.leaves()):
            left = self._until_quiet(state, tally.known)
            if left > 0:
                self._states.sleep(state, left)
                return None
        else:
            state.known = -1
        return demands.of_tree(root, self._find_job, repairing=repairing)

    def _answers(self, root: Group) -> bool:
        """Whether a tree is ours: it has no pods yet, or one of them names us."""
        names, empty = self._names, True
        for leaf in root.leaves():
            for member in leaf.members.values():
                if member.scheduler in names:
                    return True
                empty = False
        return empty

    def _layout(self, root: Group) -> Problem | None:
        if root.layout is None:
            root.layout = problem_of(root, self._find_workload) or SOUND
        return None if root.layout is SOUND else root.layout

    def _find_workload(self, namespace: str, name: str) -> Object | None:
        return self._workloads.get(f"{namespace}/{name}")

    def _wait(self, state: State, root: Group, problem: Problem | None) -> None:
        """Say what is missing, once nothing has come for a moment; what is wrong, at once."""
        if problem is not None and not problem.waiting:
            if self._answers(root):
                self._reporter.broken(root, problem)
            return
        state.incomplete_until = self._clock.now()
        known = sum(len(leaf.members) for leaf in root.leaves()) if problem is not None else root.tally.known
        left = self._until_quiet(state, known)
        if left > 0:
            self._states.sleep(state, left)
        elif (problem is not None or known) and self._answers(root):
            wrong = members_problem(root, self._names)
            if wrong is not None:
                self._reporter.broken(root, wrong)
            else:
                self._reporter.waiting(root, problem)

    def _until_quiet(self, state: State, known: int) -> float:
        """How long to wait until no pod has come or gone for a moment, given how many there are."""
        now = self._clock.now()
        if known != state.known:
            state.known, state.incomplete_since = known, now
        return state.incomplete_since + _INCOMPLETE_GRACE_SECONDS - now

    def _rest(self, state: State, root: Group) -> None:
        """Nothing is pending, but for groups that are not complete yet."""
        state.since = ""
        self._states.succeeded(state)
        if not state.settled and not state.flying:
            self._settle(state, root)
        if root.tally.waiting:
            self._wait(state, root, None)
        else:
            state.known = -1
