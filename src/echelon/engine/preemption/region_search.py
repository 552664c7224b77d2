"""Victims for one aim in one region: the steps from the first sufficient set to the least loss.

More evictions mostly never hurt.  Then:

1. Slots of all victims: if there are too few even with every victim evicted, the region cannot help.
2. Fit test with every victim evicted: if the aim does not fit then, it never does.
3. Priority threshold: bisection for the lowest priority up to which evicting everything suffices.
4. First answer: all candidates; what is not needed is spared, the dearest first.  If that violates budgets, one more
   answer among victims that violate none.
5. Branch and bound (`branch_and_bound`), for at most `MOST_BRANCHED` victims.
6. Victim model (`solver_driver`), if that is not too large.

Steps 4 to 6 run until one of them leaves nothing open.  Few victims are branched before the solver is asked.  Among
many the solver goes first, because sparing by search is slow where the solver names a sufficient set; and before it,
where slots alone decide and there are no budgets, the slot program (`slot_dp`).

With anchors (victims that the aim's pods may need as neighbours) evicting more can be worse.  Then step 2
ignores pod rules, step 3 is left out, and step 4 tries sets of anchors to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..records.verdict import LossBound
from .branch_and_bound import FEW_VICTIMS, BranchAndBound
from .loss import Incumbent
from .node_options import ModelTooLarge
from .region_problem import RegionProblem
from .slot_dp import SlotProgram
from .solver_driver import SolverDriver
from .victim_table import Victim, Victims

#: The most victims for branch and bound.
MOST_BRANCHED = 64
#: Sets of anchors to keep that are tried, besides all and none.
ANCHOR_SETS = 16


class RegionSearch:
    """The steps for one region."""

    def __init__(self, problem: RegionProblem) -> None:
        self.problem = problem
        #: Whether the solver has named a sufficient set, so that no first answer need be searched for.
        self._solver_answered = False

    def improve(self, best: Incumbent) -> LossBound | None:
        """Put the least loss of this region into `best` if it is less.

        Returns a lower bound of the losses that stayed open, None if none did.
        """
        if not self.problem.gains.could_suffice(self.problem.region):  # step 1
            return None
        return self._with_anchors(best) if self.problem.anchors else self._without_anchors(best)

    def _without_anchors(self, best: Incumbent) -> LossBound | None:
        """Steps 2 to 6 where more evictions never hurt."""
        problem, everything = self.problem, self.problem.victims
        if not problem.is_one_leaf and not problem.fits(everything):  # step 2
            return problem.lower_bound if problem.is_open(everything) else None
        candidates = self._up_to_threshold(everything)  # step 3
        if best.loss is not None and self._threshold_bound(candidates) > best.loss.as_bound:
            return None
        left_open = problem.lower_bound
        for step in self._steps():  # steps 4 to 6
            bound = step(candidates, best)
            if bound is None:
                return None
            left_open = max(left_open, bound)
        return left_open

    def _steps(self) -> list[Callable[[Victims, Incumbent], LossBound | None]]:
        victims = self.problem.victims
        if len(victims) <= FEW_VICTIMS:
            return [self._first_answer, self._branch, self._solve]
        if self.problem.by_slots and not victims.any_under_budget:
            return [self._count_slots, self._solve, self._first_answer, self._branch]
        return [self._solve, self._first_answer, self._branch]

    def _with_anchors(self, best: Incumbent) -> LossBound | None:
        """Steps 2 and 4 to 6 where some victims may have to stay."""
        problem, everything = self.problem, self.problem.victims
        if not problem.fits_bare(everything):  # step 2
            return problem.lower_bound if problem.is_open(everything, problem.bare_aim) else None
        for kept in self._anchors_to_keep():  # step 4
            evicted = [victim for victim in everything if victim.unit not in kept]
            if evicted and problem.fits(evicted):
                self._offer(evicted, best)
        left_open = self._branch(everything, best)  # step 5
        if left_open is None:
            return None
        bound = self._solve_from(everything.lowest, best)  # step 6
        return None if bound is None else max(left_open, bound)

    # ---- step 3: the priority threshold

    def _up_to_threshold(self, victims: Victims) -> Victims:
        """The victims of a sufficient set up to the lowest priority at which evicting all of them suffices."""
        ends = [*(np.flatnonzero(np.diff(victims.priorities)) + 1).tolist(), len(victims)]
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            if self.problem.fits(victims[: ends[middle]], thorough=len(victims) <= FEW_VICTIMS):
                high = middle
            else:
                low = middle + 1
        return victims[: ends[high]]

    def _proved_threshold(self, candidates: Victims) -> Victims:
        """The candidates up to the lowest priority not proved to be insufficient."""
        found = candidates
        while not self.problem.by_slots:
            lower = found.below(found.highest)
            if not lower or self.problem.refuted(lower):
                break
            found = lower
        return found

    def _threshold_bound(self, candidates: Victims) -> LossBound:
        return self.problem.bound_up_to(self._proved_threshold(candidates))

    # ---- step 4: slots, and a first answer

    def _count_slots(self, candidates: Victims, best: Incumbent) -> LossBound | None:
        """The least loss where slots decide and no budget counts, if the slot program is not too large."""
        program = SlotProgram(self.problem.gains, self.problem.aim, self.problem.region, candidates)
        bought = program.solve() if program.is_small() else None
        if bought is None:
            return self.problem.lower_bound
        victims = candidates.with_units(set(bought.units))
        best.offer(self.problem.trial.loss(victims), victims)
        return None

    def _first_answer(self, candidates: Victims, best: Incumbent) -> LossBound | None:
        """Offer a sufficient set in which none can be spared; budgets count only in the second offer."""
        if not self._solver_answered:
            self._offer(candidates, best)
        if best.loss is not None and best.loss.budget_violations:
            harmless = self.problem.victims.only(self._harmless())
            if harmless and self.problem.fits(harmless):
                self._offer(self._up_to_threshold(harmless), best)
        bound = self._threshold_bound(candidates)
        is_settled = len(candidates) > FEW_VICTIMS and best.loss is not None and bound >= best.loss.as_bound
        return None if is_settled else bound

    def _offer(self, sufficient: Sequence[Victim], best: Incumbent) -> None:
        spared = self.problem.spare(sufficient)
        best.offer(self.problem.trial.loss(spared), spared)

    def _harmless(self) -> list[Victim]:
        """Victims that can all be evicted without a violation, the cheapest first."""
        left: dict[int, int] = {}
        found = []
        for victim in self.problem.victims:
            for budget in victim.budgets:
                left.setdefault(budget, self.problem.trial.allowed(budget))
            if all(pods <= left[budget] for budget, pods in victim.budgets.items()):
                found.append(victim)
                for budget, pods in victim.budgets.items():
                    left[budget] -= pods
        return found

    def _anchors_to_keep(self) -> Iterator[frozenset[int]]:
        """Sets of anchors: all, then smaller and smaller shares of them from the dearest, then none."""
        dearest = sorted(self.problem.victims, key=self.problem.price, reverse=True)
        anchors = [victim.unit for victim in dearest if victim.unit in self.problem.anchors]
        yield frozenset(anchors)
        for share in range(ANCHOR_SETS - 1, 0, -1):
            yield frozenset(anchors[: len(anchors) * share // ANCHOR_SETS])
        yield frozenset()

    # ---- steps 5 and 6

    def _branch(self, candidates: Victims, best: Incumbent) -> LossBound | None:
        # Violations are compared before priorities: where there are budgets, a higher priority may lose less.
        victims = self.problem.victims if self.problem.victims.any_under_budget else candidates
        if len(victims) > MOST_BRANCHED:
            return self.problem.lower_bound
        return BranchAndBound(self.problem, victims, best).improve()

    def _solve(self, candidates: Victims, best: Incumbent) -> LossBound | None:
        return self._solve_from(self._proved_threshold(candidates).highest, best)

    def _solve_from(self, lowest: int, best: Incumbent) -> LossBound | None:
        """Ask the solver, given that some victim of priority `lowest` or higher must be evicted."""
        before = best.loss
        try:
            bound = SolverDriver(self.problem, best).improve(lowest)
        except ModelTooLarge:
            bound = self.problem.lower_bound
        self._solver_answered = best.loss is not before
        return bound
