"""One aim in one region: which units have to go for it, from a first answer to the least loss.

More evictions mostly never make an aim fit worse.  Then the highest priority that must go is found by bisection, a
first answer by sparing the dearest units as long as the aim still fits, and the least loss by `branches`; among many
victims by arithmetic alone (`knapsack`), and where that does not decide by the solver (`ransom`).  Where pods want the
company of victims, sets of these to keep are tried for a first answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.regions import Region
from ..records.verdict import LossBound
from ..search.strategy import search
from ..space.canonical import Part, shapes_of, without_pod_rules
from ..space.tasks import Found, NotFound, Steps
from .branch_and_bound import FEW, BranchAndBound
from .loss import EvictionTrial, Incumbent
from .price_splitting import PriceSplitting
from .slot_dp import SlotProgram
from .slot_gains import SlotCounter, SlotGains, SlotPrices, is_uniform, least_cost
from .solver_driver import SolverDriver
from .victim_table import Victim, Victims, numbers_of, units_of

#: Steps that one "does it fit now" may cost, and those it may cost if that left an answer open on which much depends
#: and the decision has not cost too much yet.
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


class _SlotAnswer(NamedTuple):
    """Victims that arithmetic names, what no eviction goes below, and whether theirs is the least loss therefore."""

    victims: list[Victim]
    bound: LossBound
    least: bool


class RegionSearch:
    def __init__(
        self,
        trial: EvictionTrial,
        aim: Part,
        region: Region,
        victims: Victims,
        anchors: frozenset[int],
        gaps: SlotGains,
        simpler: Callable[[], list[tuple[Part, SlotGains]]],
        effort: Steps,
    ) -> None:
        """`simpler` asks for less than the aim: the pods of each shape, anywhere."""
        self.trial, self.aim, self.region, self.victims = trial, aim, region, victims
        self.anchors, self.gaps, self.simpler, self.effort = anchors, gaps, simpler, effort
        self.lacking = gaps.lacking(region)
        #: Whether slots decide; they do not for pods that mind others.
        self.counted = gaps.shape is not None and region.rows is None and is_uniform(gaps.table, aim, region.level)
        few_rows = victims.entry_count <= SPREAD * len(victims)
        self.ledger = SlotCounter(gaps, region) if self._is_plain() and few_rows else None
        #: Whether the solver has named victims that suffice, which spares a lengthy search for a first answer.
        self._answered = False
        #: By aim and victims gone: whether it fits; those of which the budget ended before that was known.
        self._known: dict[tuple[bool, frozenset[int]], bool] = {}
        self._in_doubt: set[tuple[bool, frozenset[int]]] = set()

    def improve(self, best: Incumbent) -> list[LossBound]:
        """Put the least loss in this region into `best` if it is less; what stayed open loses at least this."""
        if not self.gaps.could_suffice(self.region):
            return []
        return self._with_company(best) if self.anchors else self._alone(best)

    def _alone(self, best: Incumbent) -> list[LossBound]:
        """The case in which more evictions never hurt: one method after the other, until nothing is left open."""
        if not self._is_plain() and not self.fits(self.victims):
            return [self.promise] if self.in_doubt(self.victims) else []
        start = self._below_threshold(self.victims)
        if best.loss is not None and self._bound(self._certain(start)) > best.loss.as_bound:
            return []
        methods: list[Callable[[Victims, Incumbent], list[LossBound]]] = [self._first, self._branched, self._asked]
        if len(self.victims) > FEW:
            reckonable = self.counted and not self.victims.any_under_budget
            early = [self._first, self._asked] if reckonable else [self._asked, self._first]
            methods = [*early, self._branched]
        left: list[LossBound] = []
        for method in methods:
            ranks = method(start, best)
            if not ranks:
                return []
            left = max(left or [self.promise], ranks, key=min)
        return left

    def _first(self, start: Victims, best: Incumbent) -> list[LossBound]:
        """Offer an answer from a sufficient set in which none can be spared, reckoned where arithmetic can.

        BudgetLimits are left out of account, as if evictions could not violate any; one more answer violates none.
        """
        reckoned = self._reckon(start) if len(start) > FEW else None
        bound = reckoned.bound if reckoned and reckoned.least else self._bound(self._certain(start))
        if reckoned and reckoned.least:
            best.offer(self.trial.loss(reckoned.victims), reckoned.victims)
        elif not self._answered:
            enough = reckoned is not None and (self.counted or self.fits(reckoned.victims))
            self._offer(reckoned.victims if reckoned is not None and enough else self._picked(start), best)
        if best.loss is not None and best.loss.budget_violations:
            harmless = self.victims.only(self._harmless())
            if harmless and self.fits(harmless):
                self._offer(self._picked(self._below_threshold(harmless)), best)
        if reckoned is not None and reckoned.bound.highest_priority == bound.highest_priority:
            bound = max(bound, reckoned.bound)
        settled = best.loss is not None and bound >= best.loss.as_bound and len(start) > FEW
        return [] if settled else [bound]

    def _offer(self, chosen: Sequence[Victim], best: Incumbent) -> None:
        spared = self.spare(chosen)
        best.offer(self.trial.loss(spared), spared)

    def _asked(self, start: Victims, best: Incumbent) -> list[LossBound]:
        """What the solver says."""
        lowest = self._certain(start).highest
        before = best.loss
        ranks = SolverDriver(self, best).settle(lowest)
        self._answered = best.loss is not before and not self.counted
        return [self.promise] if ranks is None else ranks

    def _branched(self, start: Victims, best: Incumbent) -> list[LossBound]:
        """Take or leave, one after the other, if they are few."""
        # Priorities come after violations: where there are budgets, higher ones may be better.
        victims = self.victims if self.victims.any_under_budget else start
        return BranchAndBound(self, victims, best).explore() if len(victims) <= BRANCHED else [self.promise]

    def _reckon(self, start: Victims) -> _SlotAnswer | None:
        """What arithmetic alone finds: exactly where slots decide, else for the pods of each shape by themselves."""
        chosen: dict[int, Victim] = {}
        least, settled = (0, 0), self.counted
        for part, gaps in [(self.aim, self.gaps)] if self.counted else self.simpler():
            if gaps.lacking(self.region) <= 0 and not self.counted:
                continue
            books = SlotProgram(gaps, part, self.region, start)
            outcome = PriceSplitting(books).settle() if books.is_small() else None
            if outcome is None:
                return None
            least = max(least, divmod(outcome.bound, len(start) + 1))
            settled = settled and outcome.bound == outcome.cost
            chosen |= {victim.unit: victim for victim in start.with_units(outcome.units)}
        return _SlotAnswer(list(chosen.values()), LossBound(0, start.highest, *least), settled) if chosen else None

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

    def _with_company(self, best: Incumbent) -> list[LossBound]:
        """The case in which some victims had better stay."""
        if not self.has_room(self.victims):
            return [self.promise] if self.in_doubt(self.victims, self.bare) else []
        for kept in self._companies():
            start = [victim for victim in self.victims if victim.unit not in kept]
            if start and self.fits(start):
                self._offer(start, best)
        left = BranchAndBound(self, self.victims, best).explore() if len(self.victims) <= BRANCHED else [self.promise]
        if not left:
            return []
        ranks = SolverDriver(self, best).settle(self.victims.lowest)
        return max(left, ranks, key=min) if ranks else left if ranks is None else []

    def _companies(self) -> Iterator[frozenset[int]]:
        """Sets of wanted neighbours to keep: all, none, and all but the cheapest, more and more of these."""
        dearest = [victim.unit for victim in sorted(self.victims, key=self._price, reverse=True)]
        wanted = [unit for unit in dearest if unit in self.anchors]
        yield frozenset(wanted)
        for share in range(COMPANIES - 1, 0, -1):
            yield frozenset(wanted[: len(wanted) * share // COMPANIES])
        yield frozenset()

    def fits(self, gone: Iterable[Victim], patiently: bool = True) -> bool:
        """Whether the aim fits in the region once these are gone; an open answer counts as no."""
        chosen = gone if isinstance(gone, Victims) else list(gone)
        if self.ledger is not None and len(chosen) <= COUNTED:
            self.ledger.make_gone(chosen)
            return self.ledger.enough()
        if self.counted:
            return self.gaps.holds(self.aim, self.region, chosen)
        return self._found(self.aim, chosen, patiently)

    def has_room(self, gone: Iterable[Victim]) -> bool:
        """Whether the aim would fit once these are gone if its pods minded nobody."""
        return self._found(self.bare, list(gone))

    def in_doubt(self, gone: Iterable[Victim], aim: Part | None = None) -> bool:
        """Whether the budget ended before it was known if the aim fits once these are gone."""
        return self._key(aim or self.aim, gone) in self._in_doubt

    def refuted(self, gone: Iterable[Victim]) -> bool:
        """Whether it is proved that the aim does not fit once these are gone, given that it was found not to."""
        key = self._key(self.aim, gone)
        return self.counted or (self._known.get(key) is False and key not in self._in_doubt)

    def _key(self, aim: Part, gone: Iterable[Victim]) -> tuple[bool, frozenset[int]]:
        return aim is self.aim, frozenset(units_of(gone))

    @cached_property
    def bare(self) -> Part:
        return without_pod_rules(self.aim)

    def _found(self, aim: Part, gone: Sequence[Victim], patiently: bool = True) -> bool:
        key = self._key(aim, gone)
        if key not in self._known:
            self._look(key, aim, gone, FIT_STEPS[0])
        if patiently and key in self._in_doubt and self.effort.left > 0:
            self._look(key, aim, gone, FIT_STEPS[1])
        return self._known[key]

    def _look(self, key: tuple[bool, frozenset[int]], aim: Part, gone: Sequence[Victim], most: int) -> None:
        self.trial.remove(gone)
        outcome = self._searched(aim, most)
        self._known[key] = isinstance(outcome, Found)
        self._in_doubt.discard(key)
        if isinstance(outcome, NotFound) and not outcome.proved:
            self._in_doubt.add(key)

    def _searched(self, aim: Part, most: int) -> Found | NotFound:
        steps = Steps(most)
        outcome = search(self.trial.view, aim, self.region, steps)
        self.effort.left -= most - steps.left + ONE_SEARCH
        return outcome

    def _is_plain(self) -> bool:
        """Whether slots in the region decide: one leaf of equal pods that may be anywhere in it."""
        levels = self.trial.view.node_table.level_of
        return self.counted and self.aim.is_leaf and all(levels[key] == self.region.level for key in self.aim.keys)

    @cached_property
    def gains(self) -> Ints:
        """The most slots that each victim adds here, by its number."""
        return self.gaps.gains(self.region)

    @cached_property
    def promise(self) -> LossBound:
        """No eviction here loses less than this."""
        work, units = self.cost(self.lacking, self.victims)
        return LossBound(0, self.victims.lowest, work, max(1, units))

    def cost(self, missing: int, victims: Sequence[Victim]) -> tuple[int, int]:
        """The least work and the fewest units with which these victims can add so many slots."""
        numbers = numbers_of(victims)
        return least_cost(missing, self.victims.table.works[numbers], self.gains[numbers])

    def _bound(self, start: Victims) -> LossBound:
        """No eviction here loses less: of those up to this priority, some must go."""
        work, units = self.cost(self.lacking, start)
        return LossBound(0, start.highest, work, max(1, units))

    def _below_threshold(self, victims: Victims) -> Victims:
        """Those of a sufficient set, lowest first, up to the lowest priority at which evicting them all suffices."""
        ends = [*(np.flatnonzero(np.diff(victims.priorities)) + 1).tolist(), len(victims)]
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            if self.fits(victims[: ends[middle]], patiently=len(victims) <= FEW):
                high = middle
            else:
                low = middle + 1
        return victims[: ends[high]]

    def _certain(self, start: Victims) -> Victims:
        """Those of `start` up to the lowest priority that could suffice, as far as that is proved."""
        found = start
        while not self.counted:
            lower = found.below(found.highest)
            if not lower or self.refuted(lower):
                break
            found = lower
        return found

    def _picked(self, start: Victims) -> Sequence[Victim]:
        """Those of a sufficient set that free the cheapest slots, if slots tell; else all of it."""
        if self.gaps.shape is None or len(shapes_of(self.aim)) > 1:
            return start
        picked = SlotPrices(self.trial, self.gaps, self.region, start).pick(self.aim)
        return picked if picked is not None and self.fits(picked) else start

    def _price(self, victim: Victim) -> tuple[int, int, int, int]:
        return (self.trial.violations_alone(victim), victim.priority, victim.work, victim.unit)

    def spare(self, start: Sequence[Victim]) -> list[Victim]:
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
            if rest and self.fits(rest, patiently=False):
                kept, run = rest, run * 2
            elif run > 1:
                run = max(1, run // 4)
            else:
                at += 1
        return kept

    def _spare_by_slots(self, dearest_first: list[Victim], ledger: SlotCounter) -> list[Victim]:
        ledger.make_gone(dearest_first)
        kept = []
        for victim in dearest_first:
            ledger.put_back(victim)
            if not ledger.enough():
                ledger.take_out(victim)
                kept.append(victim)
        return kept
