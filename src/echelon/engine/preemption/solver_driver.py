"""The least loss by the victim model, for regions where slot counting does not decide: mixed pods, budgets, pod terms.

A loss is minimised number by number, each given the ones before it: budget violations, highest priority, then work
and units together.  The first two are bounded by bisection with small models; the last is one model per pair of
(violations, priority), tried in ascending order until one has a solution.

The model's constraints are necessary, so its optimum is a lower bound.  It is the least loss if the search confirms
that the units the model names suffice.  If the search refutes them, the model gets a cut and is solved again, up to
`MOST_CUTS` times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.running_terms import one_each
from ..cluster.slots import UNLIMITED
from ..records.demand import Shape
from ..records.verdict import LossBound
from ..space.canonical import walk
from .loss import Incumbent
from .region_problem import RegionProblem
from .victim_model import BudgetLimits, ModelAnswer, VictimModel
from .victim_table import Victim

#: Cuts that a region's models may get.
MOST_CUTS = 12
#: The most steps of one answer, the steps of building a model for each node, and the least that an answer gets.
ANSWER_STEPS = 20_000
NODE_STEPS = 3
LEAST_STEPS = 500
#: Stands for "impossible": more violations than any eviction has.
IMPOSSIBLE = 1 << 30


class _Result(NamedTuple):
    """Whether no higher violations or priority need be tried, and a lower bound of what stays open."""

    is_final: bool
    left_open: LossBound | None = None


class SolverDriver:
    """The victim models of one region."""

    def __init__(self, problem: RegionProblem, best: Incumbent) -> None:
        self.problem, self.best, self.trial = problem, best, problem.trial
        covered: Counter[int] = Counter()
        if problem.victims.any_under_budget:
            for victim in problem.victims:
                covered.update(victim.budgets)
        allowed = {budget: self.trial.allowed(budget) for budget in sorted(covered)}
        #: What the budgets allow that could be violated.
        self.allowed = {budget: pods for budget, pods in allowed.items() if covered[budget] > pods}
        self.priorities = sorted(set(problem.victims.priorities.tolist()))
        #: Whether fitting depends on the free amounts of each node alone, not on which units free them.
        self._by_amounts = problem.aim is problem.bare_aim and all(part.exclusive is None for part in walk(problem.aim))
        self._cuts = 0
        self._caps = self._caps_by_node()

    def improve(self, lowest: int) -> LossBound | None:
        """Offer the least loss; returns a lower bound of what stays open, None if nothing does.

        `lowest` is a priority that some victim must have at least.  Raises `ModelTooLarge`.
        """
        priorities = [priority for priority in self.priorities if priority >= lowest]
        violations, priority = self._first_pair(priorities)
        while violations < IMPOSSIBLE:
            if self.best.loss is not None and LossBound(violations, priority, 0, 1) > self.best.loss.as_bound:
                return None
            result = self._cheapest(violations, priority)
            if result.is_final:
                return result.left_open
            if priority < priorities[-1]:
                priority = priorities[priorities.index(priority) + 1]
            elif self.allowed:
                violations, priority = violations + 1, priorities[0]
            else:
                return None
        return None

    # ---- violations and priority

    def _first_pair(self, priorities: list[int]) -> tuple[int, int]:
        """Lower bounds of the violations, and of the highest priority with which these can be had."""
        if not self.allowed:
            return 0, priorities[0]
        fewest = self._least_violations(priorities[-1])
        low, high = 0, len(priorities) - 1
        while low < high:
            middle = (low + high) // 2
            if self._least_violations(priorities[middle]) <= fewest:
                high = middle
            else:
                low = middle + 1
        return fewest, priorities[high]

    def _least_violations(self, priority: int) -> int:
        """A lower bound of the violations if victims up to a priority are evicted."""
        victims = self._up_to(priority)
        if self.problem.fits(victim for victim in victims if not self._may_violate(victim)):
            return 0
        no_cost = dict.fromkeys((victim.unit for victim in victims), 0)
        answer = self._ask(self._model(victims, no_cost, BudgetLimits(self.allowed, None)))
        return IMPOSSIBLE if answer.impossible else answer.bound

    def _up_to(self, priority: int) -> list[Victim]:
        return [victim for victim in self.problem.victims if victim.priority <= priority]

    def _may_violate(self, victim: Victim) -> bool:
        return any(budget in self.allowed for budget in victim.budgets)

    # ---- work and units

    def _cheapest(self, violations: int, priority: int) -> _Result:
        """Offer the cheapest victims within these numbers."""
        victims = self._up_to(priority)
        if not violations:
            exhausted = {budget for budget, pods in self.allowed.items() if not pods}
            victims = [victim for victim in victims if exhausted.isdisjoint(victim.budgets)]
        # Work and units as one number that orders like the pair.
        weight = len(victims) + 1
        limit = self._limit(violations, priority, weight)
        cost = {victim.unit: victim.work * weight + 1 for victim in victims}
        budgets = BudgetLimits(self.allowed, violations) if self.allowed else None
        model = self._model(victims, cost, budgets, limit)
        while True:
            answer = self._ask(model)
            bound = LossBound(violations, priority, *divmod(answer.bound, weight))
            if answer.impossible:
                return _Result(is_final=limit is not None)
            if answer.units is None:
                return _Result(True, bound)
            chosen = [victim for victim in victims if victim.unit in answer.units]
            if self.problem.fits(chosen):
                is_least = answer.cost <= answer.bound
                self._offer(chosen if is_least else self.problem.spare(chosen))
                return _Result(True, None if is_least else bound)
            self._cuts += 1
            refuted = self._by_amounts and self.problem.refuted(chosen)
            if not refuted or self._cuts > MOST_CUTS or self.problem.steps.left <= 0:
                return _Result(True, bound)
            model.forbid(answer.units)

    def _limit(self, violations: int, priority: int, weight: int) -> int | None:
        """What a solution must cost less than to beat the incumbent, if that has the same first numbers."""
        loss = self.best.loss
        if loss is None or (loss.budget_violations, loss.highest_priority) != (violations, priority):
            return None
        return loss.work * weight + min(loss.units, weight)

    def _offer(self, chosen: list[Victim]) -> None:
        self.best.offer(self.trial.loss(chosen), chosen)

    # ---- models

    def _caps_by_node(self) -> dict[Shape, Ints]:
        """For pods with anti-affinity to their own shape: how many a node takes, whatever is evicted."""
        by_bare: dict[Shape, dict[Shape, None]] = {}
        for part, bare in zip(walk(self.problem.aim), walk(self.problem.bare_aim), strict=True):
            for ask, bare_ask in zip(part.asks, bare.asks, strict=True):
                by_bare.setdefault(bare_ask.shape, {})[ask.shape] = None
        table = self.problem.gains.table
        return {
            bare_shape: np.sum([np.where(one_each(table, shape), 1, UNLIMITED) for shape in shapes], axis=0)
            for bare_shape, shapes in by_bare.items()
            if any(shape.has_pod_rules for shape in shapes)
        }

    def _model(
        self, victims: Sequence[Victim], cost: Mapping[int, int], budgets: BudgetLimits | None, limit: int | None = None
    ) -> VictimModel:
        self.trial.remove(())
        problem = self.problem
        table, aim, region = problem.gains.table, problem.bare_aim, problem.region
        model = VictimModel(table, aim, region, victims, cost, budgets, limit, self._caps)
        problem.steps.left -= NODE_STEPS * len(model.options.nodes)
        return model

    def _ask(self, model: VictimModel) -> ModelAnswer:
        answer, spent = model.ask(min(max(self.problem.steps.left, LEAST_STEPS), ANSWER_STEPS))
        self.problem.steps.left -= spent
        return answer
