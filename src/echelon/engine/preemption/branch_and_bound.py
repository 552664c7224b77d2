"""Branch and bound over victims: keep or evict one after the other, until no open branch can lose less.

A branch has decided the first victims of a fixed order.  Its bound is the loss of those evicted so far plus the least
that the slots still missing cost.  A branch is cut off if its bound is not below the incumbent, or if the aim does not
fit even with all undecided victims evicted.  Keeping is tried first, since the first answer is mostly good already.

Anchors (victims that the aim's pods may need as neighbours) are decided first: for these alone more evictions can be
worse.  While anchors are undecided, only the room they hold is tested, without pod rules.

Used for regions of at most `region_search.MOST_BRANCHED` victims.  It proves the least loss, ids included, among up to
`FEW_VICTIMS`.  Without it 74 of 4,657 random contests end otherwise (57 bounds lower, 4 losses higher, 4 demands
blocked that an eviction helps), and the bench case `preempt-gangs` takes 5 times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..records.verdict import NO_LOSS_BOUND, LossBound
from .loss import Incumbent
from .region_problem import RegionProblem
from .victim_table import Victim

#: With at most this number of victims equal losses are told apart by ids too, as far as the steps reach.
FEW_VICTIMS = 24
#: Steps of one branch, searches apart, and the divisor for the share of the remaining steps that all branches get.
BRANCH_STEPS = 20
STEPS_DIVISOR = 2


class _Branch(NamedTuple):
    """The first `decided` victims are decided; those of them that are evicted."""

    decided: int
    evicted: tuple[Victim, ...]


class BranchAndBound:
    """The branches of one region."""

    def __init__(self, problem: RegionProblem, victims: Sequence[Victim], best: Incumbent) -> None:
        self.problem, self.best = problem, best
        anchors = problem.anchors
        self.victims = sorted(victims, key=lambda v: (v.unit not in anchors, -v.priority, -v.work, -v.unit))
        self._anchor_count = sum(victim.unit in anchors for victim in victims)
        #: Branches that were cut off although the steps ended before that was proved to be right.
        self._in_doubt: list[_Branch] = []

    def improve(self) -> LossBound | None:
        """Improve the incumbent; returns a lower bound of what the steps left open, None if nothing is open."""
        pending = [_Branch(0, ())]
        steps = self.problem.steps
        end = steps.left // STEPS_DIVISOR
        while pending and steps.left > end:
            branch = pending.pop()
            if self._is_hopeless(self._bound(branch)):
                continue
            steps.left -= BRANCH_STEPS
            if self._must_branch(branch):
                decided, evicted = branch
                pending.append(_Branch(decided + 1, (*evicted, self.victims[decided])))
                pending.append(_Branch(decided + 1, evicted))
        bounds = (self._bound(branch) for branch in (*pending, *self._in_doubt))
        return min((bound for bound in bounds if not self._is_hopeless(bound)), default=None)

    def _must_branch(self, branch: _Branch) -> bool:
        """Whether the next victim has to be decided; offers the branch if its victims suffice."""
        problem, (decided, evicted) = self.problem, branch
        everything = (*evicted, *self.victims[decided:])
        if decided < self._anchor_count:
            return self._noted(
                branch,
                problem.fits_bare(everything),
                problem.is_open(everything, problem.bare_aim),
            )
        if evicted and problem.fits(evicted):
            self.best.offer(problem.trial.loss(evicted), evicted)
            return False
        if evicted and problem.is_open(evicted):
            self._in_doubt.append(branch)
        if decided == len(self.victims):
            return False
        return self._noted(branch, problem.fits(everything), problem.is_open(everything))

    def _noted(self, branch: _Branch, fits: bool, is_open: bool) -> bool:
        if not fits and is_open:
            self._in_doubt.append(branch)
        return fits

    def _bound(self, branch: _Branch) -> LossBound:
        """No completion of a branch loses less."""
        problem, (decided, evicted) = self.problem, branch
        loss, undecided = problem.trial.loss(evicted), self.victims[decided:]
        missing = problem.missing - sum(problem.slots_by_victim.item(victim.number) for victim in evicted)
        work, units = problem.least_cost(missing, undecided)
        lowest = NO_LOSS_BOUND.highest_priority
        if not evicted:
            lowest = min((victim.priority for victim in undecided), default=lowest)
        highest = max(loss.highest_priority, lowest)
        return LossBound(loss.budget_violations, highest, loss.work + work, loss.units + units)

    def _is_hopeless(self, bound: LossBound) -> bool:
        """Whether the incumbent is at least as good; among few victims equal losses stay of interest for their ids."""
        if self.best.loss is None:
            return False
        known = self.best.loss.as_bound
        return bound > known or (bound == known and len(self.victims) > FEW_VICTIMS)
