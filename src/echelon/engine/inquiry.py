"""One aim in one region: which units have to go for it, from a first answer to the least loss.

More evictions mostly never make an aim fit worse.  Then the highest priority that must go is found by bisection, a
first answer by sparing the dearest units as long as the aim still fits, and the least loss by `branches`, or among
many victims by arithmetic alone (`knapsack`).  Where pods want the company of victims, sets of these to keep are
tried for a first answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from .agenda import Found, NotFound, Steps
from .bargain import Bargain
from .branches import FEW, Branches
from .gaps import Gaps, Ledger, Market, is_uniform, least_cost
from .knapsack import Books
from .parts import Part, bare, shapes_of
from .regions import Region
from .search import search
from .victims import Best, Rank, Trial, Victim, rank_of

#: Steps that one "does it fit now" may cost, and those it may cost if that left the answer open and the decision
#: has not cost too much yet.
FIT_STEPS = (4_000, 40_000)
#: What beginning a search costs in steps, about.
ONE_SEARCH = 50
#: Branch and bound takes on regions with at most so many victims.
BRANCHED = 64
#: More victims than this are counted as arrays, fewer one by one.
COUNTED = 64
#: A ledger is kept for victims on no more rows each than this.
SPREAD = 4
#: Beyond those to keep or let go all together, at most so many sets of wanted neighbours are tried.
COMPANIES = 16


TRACE = False
class _Reckoned(NamedTuple):
    """Victims that arithmetic names, and what no eviction goes below."""

    victims: list[Victim]
    bound: Rank


class Inquiry:
    def __init__(
        self,
        trial: Trial,
        aim: Part,
        region: Region,
        victims: list[Victim],
        anchors: frozenset[int],
        gaps: Gaps,
        simpler: Callable[[], list[tuple[Part, Gaps]]],
        effort: Steps,
    ) -> None:
        """`simpler` asks for less than the aim: the pods of each shape, anywhere."""
        self.trial, self.aim, self.region, self.victims = trial, aim, region, victims
        self.anchors, self.gaps, self.simpler, self.effort = anchors, gaps, simpler, effort
        self.lacking = gaps.lacking(region)
        #: Whether slots decide; they do not for pods that mind others.
        self.counted = gaps.shape is not None and region.rows is None and is_uniform(gaps.layout, aim, region.level)
        rows = sum(len(victim.freed) for victim in victims)
        self.ledger = Ledger(gaps, region) if self._is_plain() and rows <= SPREAD * len(victims) else None
        self._known: dict[tuple[bool, frozenset[int]], bool] = {}
        #: Whether some "no" only meant that the budget ended.
        self._doubts = False

    def improve(self, best: Best) -> list[Rank]:
        """Put the least loss in this region into `best` if it is less; what stayed open loses at least this."""
        if not self.gaps.could_suffice(self.region):
            return []
        open_ranks = self._with_company(best) if self.anchors else self._alone(best)
        return [self.promise] if self._doubts else open_ranks

    def _alone(self, best: Best) -> list[Rank]:
        """The case in which more evictions never hurt."""
        if not self._is_plain() and not self.fits(self.victims):
            return []
        start = self._below_threshold(self.victims)
        if len(self.victims) > 24 and (not self.counted or any(v.budgets for v in self.victims)):
            from .ransom import Ransom
            r = Ransom(self, best)
            found = r.settle(max(v.priority for v in start))
            if TRACE: print(self.region.key, len(self.victims), found, r.log, r.cuts)
            if found is not None:
                return found
        if best.loss is not None and self._bound(start) > rank_of(best.loss):
            return []
        bound = self._first(start, best)
        if best.loss is not None and best.loss.budget_violations:
            harmless = self._harmless()
            if harmless and self.fits(harmless):
                self._first(self._below_threshold(harmless), best)
        if best.loss is not None and bound >= rank_of(best.loss) and len(start) > FEW:
            return []
        # Priorities come after violations: where there are budgets, higher ones may be better.
        open_to_all = self.victims if any(victim.budgets for victim in self.victims) else start
        if len(open_to_all) > BRANCHED:
            return [bound]
        return [max(bound, rank) for rank in Branches(self, open_to_all, best).explore()]

    def _first(self, start: list[Victim], best: Best) -> Rank:
        """Offer an answer from a sufficient set in which none can be spared; nothing from the set loses less than this.

        Budgets are left out of account, as if evictions could not violate any.
        """
        reckoned = self._reckon(start) if len(start) > FEW else None
        enough = reckoned is not None and (self.counted or self.fits(reckoned.victims))
        chosen = reckoned.victims if reckoned is not None and enough else self._picked(start)
        spared = self.spare(chosen)
        best.offer(self.trial.loss(spared), spared)
        return self._bound(start) if reckoned is None else reckoned.bound

    def _reckon(self, start: list[Victim]) -> _Reckoned | None:
        """What arithmetic alone finds: exactly where slots decide, else for the pods of each shape by themselves."""
        chosen: dict[int, Victim] = {}
        least = (0, 0)
        for part, gaps in [(self.aim, self.gaps)] if self.counted else self.simpler():
            if gaps.lacking(self.region) <= 0 and not self.counted:
                continue
            books = Books(gaps, part, self.region, start)
            outcome = Bargain(books).settle() if books.is_small() else None
            if outcome is None:
                return None
            least = max(least, divmod(outcome.bound, len(start) + 1))
            chosen |= {victim.unit: victim for victim in start if victim.unit in outcome.units}
        highest = max(victim.priority for victim in start)
        return _Reckoned(list(chosen.values()), (0, highest, *least)) if chosen else None

    def _harmless(self) -> list[Victim]:
        """Victims that can all go without a violation, the cheapest first."""
        left: dict[int, int] = {}
        found = []
        for victim in self.victims:
            for budget in victim.budgets:
                left.setdefault(budget, self.trial.allowed(budget))
            if all(number <= left[budget] for budget, number in victim.budgets.items()):
                found.append(victim)
                for budget, number in victim.budgets.items():
                    left[budget] -= number
        return found

    def _with_company(self, best: Best) -> list[Rank]:
        """The case in which some victims had better stay."""
        if not self.has_room(self.victims):
            return []
        for kept in self._companies():
            start = [victim for victim in self.victims if victim.unit not in kept]
            if start and self.fits(start):
                spared = self.spare(start)
                best.offer(self.trial.loss(spared), spared)
        return Branches(self, self.victims, best).explore() if len(self.victims) <= BRANCHED else [self.promise]

    def _companies(self) -> Iterator[frozenset[int]]:
        """Sets of wanted neighbours to keep: all, none, and all but the cheapest, more and more of these."""
        dearest = [victim.unit for victim in sorted(self.victims, key=self._price, reverse=True)]
        wanted = [unit for unit in dearest if unit in self.anchors]
        yield frozenset(wanted)
        for share in range(COMPANIES - 1, 0, -1):
            yield frozenset(wanted[: len(wanted) * share // COMPANIES])
        yield frozenset()

    def fits(self, gone: Iterable[Victim]) -> bool:
        """Whether the aim fits in the region once these are gone; an open answer counts as no."""
        chosen = list(gone)
        if self.ledger is not None and len(chosen) <= COUNTED:
            self.ledger.make_gone(chosen)
            return self.ledger.enough()
        if self.counted:
            return self.gaps.holds(self.aim, self.region, chosen)
        return self._found(self.aim, chosen)

    def has_room(self, gone: Iterable[Victim]) -> bool:
        """Whether the aim would fit once these are gone if its pods minded nobody."""
        return self._found(self.bare, list(gone))

    @cached_property
    def bare(self) -> Part:
        return bare(self.aim)

    def _found(self, aim: Part, gone: list[Victim]) -> bool:
        key = (aim is self.aim, frozenset(victim.unit for victim in gone))
        if key not in self._known:
            self.trial.take_out(gone)
            outcome = self._searched(aim, FIT_STEPS[0])
            if isinstance(outcome, NotFound) and not outcome.proved and self.effort.left > 0:
                outcome = self._searched(aim, FIT_STEPS[1])
            self._known[key] = isinstance(outcome, Found)
            self._doubts |= isinstance(outcome, NotFound) and not outcome.proved
        return self._known[key]

    def _searched(self, aim: Part, most: int) -> Found | NotFound:
        steps = Steps(most)
        outcome = search(self.trial.view, aim, self.region, steps)
        self.effort.left -= most - steps.left + ONE_SEARCH
        return outcome

    def _is_plain(self) -> bool:
        """Whether slots in the region decide: one leaf of equal pods that may be anywhere in it."""
        levels = self.trial.view.layout.level_of
        return self.counted and self.aim.is_leaf and all(levels[key] == self.region.level for key in self.aim.keys)

    @cached_property
    def gains(self) -> dict[int, int]:
        """The most slots that each victim adds here."""
        return self.gaps.gains(self.region, self.victims)

    @cached_property
    def promise(self) -> Rank:
        """No eviction here loses less than this."""
        work, units = self.cost(self.lacking, self.victims)
        return (0, min(victim.priority for victim in self.victims), work, max(1, units))

    def cost(self, missing: int, victims: Iterable[Victim]) -> tuple[int, int]:
        """The least work and the fewest units with which these victims can add so many slots."""
        return least_cost(missing, ((victim.work, self.gains[victim.unit]) for victim in victims))

    def _bound(self, start: list[Victim]) -> Rank:
        """No eviction here loses less: of those up to this priority, some must go."""
        work, units = self.cost(self.lacking, start)
        return (0, max(victim.priority for victim in start), work, max(1, units))

    def _below_threshold(self, victims: list[Victim]) -> list[Victim]:
        """Those of a sufficient set up to the lowest priority at which evicting them all suffices."""
        levels = sorted({victim.priority for victim in victims})
        low, high = 0, len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            if self.fits([victim for victim in victims if victim.priority <= levels[middle]]):
                high = middle
            else:
                low = middle + 1
        return [victim for victim in victims if victim.priority <= levels[high]]

    def _picked(self, start: list[Victim]) -> list[Victim]:
        """Those of a sufficient set that free the cheapest slots, if slots tell; else all of it."""
        if self.gaps.shape is None or len(shapes_of(self.aim)) > 1:
            return start
        picked = Market(self.trial, self.gaps, self.region, start).pick(self.aim)
        return picked if picked is not None and self.fits(picked) else start

    def _price(self, victim: Victim) -> tuple[int, int, int, int]:
        return (self.trial.violates(victim), victim.priority, victim.work, victim.unit)

    def spare(self, start: list[Victim]) -> list[Victim]:
        """Spare the dearest as long as the rest suffices, until none can be spared any more."""
        kept = sorted(start, key=self._price, reverse=True)
        if self.ledger is not None:
            return self._spare_by_slots(kept, self.ledger)
        while True:
            fewer = self._spare_once(kept)
            # Where company matters, one that stays may let another stay.
            if not self.anchors or len(fewer) == len(kept):
                return fewer
            kept = fewer

    def _spare_once(self, kept: list[Victim]) -> list[Victim]:
        """In runs that double while it goes well."""
        at, run = 0, 1
        while at < len(kept):
            rest = kept[:at] + kept[at + run :]
            if rest and self.fits(rest):
                kept, run = rest, run * 2
            elif run > 1:
                run = max(1, run // 4)
            else:
                at += 1
        return kept

    def _spare_by_slots(self, dearest_first: list[Victim], ledger: Ledger) -> list[Victim]:
        ledger.make_gone(dearest_first)
        kept = []
        for victim in dearest_first:
            ledger.put_back(victim)
            if not ledger.enough():
                ledger.take_out(victim)
                kept.append(victim)
        return kept
