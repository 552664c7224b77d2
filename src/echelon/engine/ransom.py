"""The least loss among many victims, number by number: violations, highest priority, then work and units.

Each number is a question to the solver (`choice`), unless counting answers it.  What the solver names is a lower
bound; it is the least loss if the search finds that those victims suffice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .choice import Budgets, Choice
from .victims import Best, Rank, Victim, rank_of
from .ways import TooMany

if TYPE_CHECKING:
    from .inquiry import Inquiry

#: So often the solver is told that its victims do not suffice.
CUTS = 12


class Ransom:
    """One inquiry without company."""

    def __init__(self, inquiry: Inquiry, best: Best) -> None:
        self.inquiry, self.best, self.trial = inquiry, best, inquiry.trial
        self.victims = inquiry.victims
        covered: Counter[int] = Counter()
        for victim in self.victims:
            covered.update(victim.budgets)
        allowed = {budget: self.trial.allowed(budget) for budget in sorted(covered)}
        #: Budgets that could be violated.
        self.allowed = {budget: room for budget, room in allowed.items() if covered[budget] > room}
        self.levels = sorted({victim.priority for victim in self.victims})
        self.cuts = 0
        self.log: list[str] = []

    def settle(self, lowest: int) -> list[Rank] | None:
        """Offer the least loss; what stays open loses at least this.  None if the question is too large.

        `lowest` is the priority up to which someone must go, budgets or not.
        """
        levels = [level for level in self.levels if level >= lowest]
        try:
            violations, level = self._start(levels)
            while True:
                rank: Rank = (violations, level, 0, 1)
                if self.best.loss is not None and rank > rank_of(self.best.loss):
                    return []
                outcome = self._cheapest(violations, level)
                if outcome is not None:
                    return outcome
                later = [each for each in levels if each > level]
                if later:
                    level = later[0]
                elif self.allowed and violations < 1 << 20:
                    violations, level = violations + 1, levels[0]
                else:
                    return []
        except TooMany:
            return None

    def _start(self, levels: list[int]) -> tuple[int, int]:
        """The fewest violations, and the lowest priority up to which no more of them are needed."""
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

    def _up_to(self, level: int) -> list[Victim]:
        return [victim for victim in self.victims if victim.priority <= level]

    def _violations(self, level: int) -> int:
        """No eviction of victims up to a priority violates budgets less often."""
        victims = self._up_to(level)
        free = [victim for victim in victims if not any(budget in self.allowed for budget in victim.budgets)]
        if self.inquiry.fits(free):
            return 0
        budgets = Budgets(self.allowed, None)
        choice = self._choice(victims, dict.fromkeys((victim.unit for victim in victims), 0), budgets)
        answer = self._ask(choice)
        return 1 << 30 if answer.impossible else answer.bound

    def _cheapest(self, violations: int, level: int) -> list[Rank] | None:
        """Offer the cheapest within these; what stays open, None if nobody suffices."""
        victims = self._up_to(level)
        if not violations:
            closed = {budget for budget, room in self.allowed.items() if not room}
            victims = [victim for victim in victims if not closed.intersection(victim.budgets)]
        weight = len(victims) + 1
        cost = {victim.unit: victim.work * weight + 1 for victim in victims}
        budgets = Budgets(self.allowed, violations) if self.allowed else None
        choice = self._choice(victims, cost, budgets)
        while True:
            answer = self._ask(choice)
            bound: Rank = (violations, level, *divmod(answer.bound, weight))
            if answer.impossible:
                return None
            if answer.units is None:
                return [bound]
            chosen = [victim for victim in victims if victim.unit in answer.units]
            if self.inquiry.fits(chosen):
                if answer.cost > answer.bound:
                    chosen = self.inquiry.spare(chosen)
                self.best.offer(self.trial.loss(chosen), chosen)
                return [bound] if answer.cost > answer.bound else []
            self.cuts += 1
            if self.cuts > CUTS or self.inquiry.effort.left <= 0:
                return [bound]
            choice.forbid(answer.units)

    def _choice(self, victims: Sequence[Victim], cost: dict[int, int], budgets: Budgets | None) -> Choice:
        self.trial.take_out(())
        import time
        t=time.process_time()
        inquiry = self.inquiry
        c = Choice(inquiry.gaps.layout, inquiry.bare, inquiry.region, victims, cost, budgets)
        self.log.append(f"build {len(victims)} victims {c._size} vars {1000*(time.process_time()-t):.0f} ms {'viol' if budgets and budgets.over is None else ''}")
        return c

    def _ask(self, choice: Choice):
        import time
        t=time.process_time()
        answer, spent = choice.ask(max(self.inquiry.effort.left, 2000))
        self.log.append(f"solve {spent} steps {1000*(time.process_time()-t):.0f} ms gap {answer.cost-answer.bound}")
        self.inquiry.effort.left -= spent
        return answer
