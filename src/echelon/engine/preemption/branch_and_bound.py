"""Branch and bound over victims: take or leave one after the other until no other choice can lose less.

Victims whose company the newcomers may want (`anchors`) are decided first, since of these alone more evictions can be
worse; of the others more never hurt, so what does not fit with all that are left gone is cut off at once.  Where the
anchors are still open, only the room they hold is looked at, without what pods think of one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..records.verdict import Loss, LossBound
from .loss import Incumbent
from .victim_table import Victim

if TYPE_CHECKING:
    from .region_search import RegionSearch

#: With at most so many victims equal losses are told apart by ids too, as far as the budget reaches.
FEW = 24
NOBODY = -(1 << 62)
#: What a look at one branch costs in steps, searches apart, and the share of what is left that all of them may cost.
ONE_BRANCH = 20
SHARE = 2


class BranchAndBound:
    """One inquiry's victims; leave first, since the first answer is mostly good already."""

    def __init__(self, inquiry: RegionSearch, victims: Sequence[Victim], best: Incumbent) -> None:
        self.inquiry, self.best, self.trial = inquiry, best, inquiry.trial
        anchors = inquiry.anchors
        self.victims = sorted(victims, key=lambda v: (v.unit not in anchors, -v.priority, -v.work, -v.unit))
        self._decided_first = sum(victim.unit in anchors for victim in victims)
        #: Starts that were given up although the budget ended before it was known that they lead nowhere.
        self._in_doubt: list[tuple[int, tuple[Victim, ...]]] = []

    def explore(self) -> list[LossBound]:
        """Improve the best; what the budget left open could lose this much at least."""
        pending: list[tuple[int, tuple[Victim, ...]]] = [(0, ())]
        end = self.inquiry.effort.left // SHARE
        while pending and self.inquiry.effort.left > end:
            at, taken = pending.pop()
            if self._hopeless(self._rank(at, taken)):
                continue
            self.inquiry.effort.left -= ONE_BRANCH
            if self._worth_going_on(at, taken):
                pending.append((at + 1, (*taken, self.victims[at])))
                pending.append((at + 1, taken))
        ranks = [self._rank(at, taken) for at, taken in (*pending, *self._in_doubt)]
        return [rank for rank in ranks if not self._hopeless(rank)]

    def _worth_going_on(self, at: int, taken: tuple[Victim, ...]) -> bool:
        """Whether the victims from here on have to be decided."""
        rest = (*taken, *self.victims[at:])
        if at < self._decided_first:
            return self._noted(self.inquiry.has_room(rest), at, taken, self.inquiry.in_doubt(rest, self.inquiry.bare))
        if taken and self.inquiry.fits(taken):
            self.best.offer(self.trial.loss(taken), taken)
            return False
        if taken and self.inquiry.in_doubt(taken):
            self._in_doubt.append((at, taken))
        return at < len(self.victims) and self._noted(self.inquiry.fits(rest), at, taken, self.inquiry.in_doubt(rest))

    def _noted(self, fits: bool, at: int, taken: tuple[Victim, ...], in_doubt: bool) -> bool:
        if not fits and in_doubt:
            self._in_doubt.append((at, taken))
        return fits

    def _rank(self, at: int, taken: tuple[Victim, ...]) -> LossBound:
        """Nothing below here loses less: the loss so far grows by what the missing slots cost at least."""
        loss, rest = self.trial.loss(taken), self.victims[at:]
        missing = self.inquiry.lacking - sum(self.inquiry.gains.item(victim.number) for victim in taken)
        work, units = self.inquiry.cost(missing, rest)
        lowest = min((victim.priority for victim in rest), default=NOBODY) if not taken else NOBODY
        highest = max(loss.highest_priority, lowest)
        return LossBound(loss.budget_violations, highest, loss.work + work, loss.units + units)

    def _hopeless(self, rank: LossBound) -> bool:
        best: Loss | None = self.best.loss
        if best is None:
            return False
        return rank > best.as_bound or (rank == best.as_bound and len(self.victims) > FEW)
