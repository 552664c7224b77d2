"""The least loss among many victims, number by number: violations, highest priority, then work and units.

Each number is a question to the solver (`choice`) unless counting answers it.  What the solver is told is necessary, so
what it finds is a lower bound; it is the least loss if the search finds that those whom it names suffice.  If they do
not, somebody else must go as well: that is said, and the question asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.running_terms import one_each
from ..cluster.slots import UNLIMITED
from ..records.demand import Shape
from ..records.verdict import LossBound
from ..space.canonical import walk
from .loss import Incumbent
from .node_options import ModelTooLarge
from .victim_model import BudgetLimits, ModelAnswer, VictimModel
from .victim_table import Victim

if TYPE_CHECKING:
    from .region_search import RegionSearch

#: So often the solver is told that those whom it names do not suffice.
OBJECTIONS = 12
#: The most steps of one question, what writing it down costs for each node, and the least it is asked with.
ONE_QUESTION = 20_000
ONE_NODE = 3
WORTH_ASKING = 500
#: More violations than any eviction has.
TOO_OFTEN = 1 << 30


class SolverDriver:
    """One inquiry in which more evictions never hurt."""

    def __init__(self, inquiry: RegionSearch, best: Incumbent) -> None:
        self.inquiry, self.best, self.trial = inquiry, best, inquiry.trial
        covered: Counter[int] = Counter()
        if inquiry.victims.any_under_budget:
            for victim in inquiry.victims:
                covered.update(victim.budgets)
        allowed = {budget: self.trial.allowed(budget) for budget in sorted(covered)}
        #: What budgets allow that could be violated.
        self.allowed = {budget: room for budget, room in allowed.items() if covered[budget] > room}
        self.levels = sorted(set(inquiry.victims.priorities.tolist()))
        #: Whether the fit of an aim depends on what is free on each node, and not on who is gone.
        self._by_room = inquiry.aim is inquiry.bare and all(part.exclusive is None for part in walk(inquiry.aim))
        self._objections = 0
        self._caps = self._one_each()

    def settle(self, lowest: int) -> list[LossBound] | None:
        """Offer the least loss; what stays open loses at least this.  None if the question is too large.

        No eviction suffices in which all are below the priority `lowest`.
        """
        levels = [level for level in self.levels if level >= lowest]
        try:
            violations, level = self._least_start(levels)
            while violations < TOO_OFTEN:
                if self.best.loss is not None and LossBound(violations, level, 0, 1) > self.best.loss.as_bound:
                    return []
                found = self._cheapest(violations, level)
                if found is not None:
                    return found
                if level < levels[-1]:
                    level = levels[levels.index(level) + 1]
                elif self.allowed:
                    violations, level = violations + 1, levels[0]
                else:
                    return []
            return []
        except ModelTooLarge:
            return None

    # ---- violations and priority

    def _least_start(self, levels: list[int]) -> tuple[int, int]:
        """The fewest violations, and the lowest priority up to which no more of them are needed; or less."""
        if not self.allowed:
            return 0, levels[0]
        fewest = self._violations(levels[-1])
        low, high = 0, len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            if self._violations(levels[middle]) <= fewest:
                high = middle
            else:
                low = middle + 1
        return fewest, levels[high]

    def _violations(self, level: int) -> int:
        """No eviction of victims up to a priority violates budgets less often."""
        victims = self._up_to(level)
        if self.inquiry.fits(victim for victim in victims if not self._covered(victim)):
            return 0
        costless = dict.fromkeys((victim.unit for victim in victims), 0)
        answer = self._ask(self._choice(victims, costless, BudgetLimits(self.allowed, None)))
        return TOO_OFTEN if answer.impossible else answer.bound

    def _up_to(self, level: int) -> list[Victim]:
        return [victim for victim in self.inquiry.victims if victim.priority <= level]

    def _covered(self, victim: Victim) -> bool:
        return any(budget in self.allowed for budget in victim.budgets)

    # ---- work and units

    def _cheapest(self, violations: int, level: int) -> list[LossBound] | None:
        """Offer the cheapest within these numbers; what stays open, or None if nobody suffices."""
        victims = self._up_to(level)
        if not violations:
            closed = {budget for budget, room in self.allowed.items() if not room}
            victims = [victim for victim in victims if closed.isdisjoint(victim.budgets)]
        weight = len(victims) + 1
        limit = self._limit(violations, level, weight)
        cost = {victim.unit: victim.work * weight + 1 for victim in victims}
        budgets = BudgetLimits(self.allowed, violations) if self.allowed else None
        choice = self._choice(victims, cost, budgets, limit)
        while True:
            answer = self._ask(choice)
            bound = LossBound(violations, level, *divmod(answer.bound, weight))
            if answer.impossible:
                return None if limit is None else []
            if answer.units is None:
                return [bound]
            chosen = [victim for victim in victims if victim.unit in answer.units]
            if self.inquiry.fits(chosen):
                return self._offer(chosen, [bound] if answer.cost > answer.bound else [])
            self._objections += 1
            proved = self._by_room and self.inquiry.refuted(chosen)
            if not proved or self._objections > OBJECTIONS or self.inquiry.effort.left <= 0:
                return [bound]
            choice.object_to(answer.units)

    def _limit(self, violations: int, level: int, weight: int) -> int | None:
        """What an answer must cost less than, to be better than the best with the same first numbers."""
        loss = self.best.loss
        if loss is None or (loss.budget_violations, loss.highest_priority) != (violations, level):
            return None
        return loss.work * weight + min(loss.units, weight)

    def _offer(self, chosen: list[Victim], still_open: list[LossBound]) -> list[LossBound]:
        if still_open:
            chosen = self.inquiry.spare(chosen)
        self.best.offer(self.trial.loss(chosen), chosen)
        return still_open

    def _one_each(self) -> dict[Shape, Ints]:
        """For pods that keep away from their like: how many of a shape a node takes, whatever else is gone."""
        alike: dict[Shape, dict[Shape, None]] = {}
        for part, bare in zip(walk(self.inquiry.aim), walk(self.inquiry.bare), strict=True):
            for ask, plain in zip(part.asks, bare.asks, strict=True):
                alike.setdefault(plain.shape, {})[ask.shape] = None
        table = self.inquiry.gaps.table
        return {
            plain: np.sum([np.where(one_each(table, shape), 1, UNLIMITED) for shape in shapes], axis=0)
            for plain, shapes in alike.items()
            if any(shape.has_pod_rules for shape in shapes)
        }

    # ---- asking

    def _choice(
        self, victims: Sequence[Victim], cost: Mapping[int, int], budgets: BudgetLimits | None, limit: int | None = None
    ) -> VictimModel:
        self.trial.remove(())
        inquiry = self.inquiry
        choice = VictimModel(
            inquiry.gaps.table, inquiry.bare, inquiry.region, victims, cost, budgets, limit, self._caps
        )
        inquiry.effort.left -= ONE_NODE * len(choice.ground.nodes)
        return choice

    def _ask(self, choice: VictimModel) -> ModelAnswer:
        answer, spent = choice.ask(min(max(self.inquiry.effort.left, WORTH_ASKING), ONE_QUESTION))
        self.inquiry.effort.left -= spent
        return answer
