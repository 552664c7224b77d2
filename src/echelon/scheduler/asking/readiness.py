"""Whether a root can be decided now: its tree is valid and its pods are there.  If not, what it reports meanwhile.

loop ─► Readiness ─► Demand   ask the engine
             └─────► None     something is missing or wrong, or everything is placed: the phase of the root says which
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...api.views.group_views import WorkloadView
from ...api.views.job_views import JobView
from ...base.clock import Clock
from ...client.informer import Caches
from ...engine import Demand
from ..intake.group_policy import Problem
from ..intake.group_tree import GroupNode, Member
from ..queueing.root_state import Arrivals, RootState, RootStates
from ..reporting.report import Reporter
from . import demands
from .tree_validation import SOUND, members_problem, problem_of

#: Pods that name no scheduler name this one: groups without pods yet are taken to be its own.
DEFAULT_SCHEDULER = "default-scheduler"
#: An incomplete tree reports so when nothing has come for this long: its objects arrive one after the other.
_INCOMPLETE_GRACE_SECONDS = 1.0


class Readiness:
    """Turns roots that are ready for a decision into demands."""

    def __init__(
        self,
        names: tuple[str, ...],
        caches: Caches,
        clock: Clock,
        states: RootStates,
        reporter: Reporter,
        settle: Callable[[RootState, GroupNode], None],
    ) -> None:
        self._names = names
        self._find_job = caches.views(JobView).get
        self._workloads = caches.views(WorkloadView)
        self._clock = clock
        self._states = states
        self._reporter = reporter
        #: To be called when all bindings of a tree are answered.
        self._settle = settle

    def demand(self, state: RootState) -> Demand | None:
        """What to ask the engine; None if there is nothing to ask now, and the root has another phase."""
        root = state.root
        if isinstance(root, Member):
            return demands.of_pod(root)
        problem = self._tree_problem(root)
        counts = root.counts if problem is None else None
        if counts is None or (not counts.ready and not demands.repairable(root)):
            self._wait(state, root, problem)
        elif not counts.pending:
            self._rest(state, root)
        elif not self._answers(root):
            self._states.ignored(state)
        elif (problem := members_problem(root, self._names)) is not None:
            self._reject(state, root, problem)
        elif any(leaf.leans and leaf.pending for leaf in root.leaves()):
            left = self._quiet_in(state, counts.known)
            if left <= 0:
                return demands.of_tree(root, self._find_job)
            self._states.incomplete(state, left)
        else:
            state.arrivals = None
            return demands.of_tree(root, self._find_job)
        return None

    def demand_after(self, root: GroupNode, released: Collection[int]) -> Demand:
        """What to ask the engine about a tree if these placed members of it had to be placed anew."""
        return demands.of_tree(root, self._find_job, released)

    def _answers(self, root: GroupNode) -> bool:
        """Whether a tree is ours: it has no pods yet, or one of them names this scheduler."""
        names, empty = self._names, True
        for leaf in root.leaves():
            for member in leaf.members.values():
                if member.scheduler in names:
                    return True
                empty = False
        return empty

    def _tree_problem(self, root: GroupNode) -> Problem | None:
        if root.layout is None:
            root.layout = problem_of(root, self._find_workload) or SOUND
        return None if root.layout is SOUND else root.layout

    def _find_workload(self, namespace: str, name: str) -> WorkloadView | None:
        return self._workloads.get(f"{namespace}/{name}")

    def _reject(self, state: RootState, root: GroupNode, problem: Problem) -> None:
        self._reporter.broken(root, problem)
        self._states.invalid(state)

    def _wait(self, state: RootState, root: GroupNode, problem: Problem | None) -> None:
        """Report what is wrong at once; what is missing, when nothing has come for a moment."""
        if problem is not None and not problem.waiting:
            if self._answers(root):
                self._reject(state, root, problem)
            else:
                self._states.ignored(state)
            return
        state.incomplete_at = self._clock.now()
        known = sum(len(leaf.members) for leaf in root.leaves()) if problem is not None else root.counts.known
        left = self._quiet_in(state, known)
        ours = bool(problem or known) or DEFAULT_SCHEDULER in self._names
        if left <= 0 and ours and self._answers(root):
            wrong = members_problem(root, self._names)
            if wrong is not None:
                self._reject(state, root, wrong)
                return
            self._reporter.waiting(root, problem)
        self._states.incomplete(state, left)

    def _quiet_in(self, state: RootState, known: int) -> float:
        """The seconds until the number of known pods has not changed for a moment."""
        now, arrivals = self._clock.now(), state.arrivals
        if arrivals is None or arrivals.pods != known:
            arrivals = state.arrivals = Arrivals(known, now)
        return arrivals.since + _INCOMPLETE_GRACE_SECONDS - now

    def _rest(self, state: RootState, root: GroupNode) -> None:
        """Nothing can be tried, but groups that are not complete may have pending pods."""
        state.since = ""
        self._states.queue.succeeded(root.id)
        if not state.settled and state.binding is None:
            self._settle(state, root)
        if root.counts.waiting or root.counts.unready:
            self._wait(state, root, None)
        else:
            state.arrivals = None
            self._states.resting(state)
