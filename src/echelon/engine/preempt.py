"""Preemption with the least loss: whole units of strictly lower priority, and none that could be spared.

More evictions never make a demand fit worse, so everything rests on one question: does it fit once these units
are gone?  Each domain that the root's key offers is looked at by itself.  There the highest priority that must go
is found by bisection, a first answer by sparing the dearest units as long as the demand still fits, and the least
loss by branch and bound over what remains, where a lack of slots gives the bound.  Within the budget the answer is
exact; beyond it, it is the best one seen, and still minimal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from .agenda import Found, Steps
from .company import means
from .demand import Demand
from .gaps import Gaps, Ledger, Market, is_uniform, least_cost
from .knapsack import cheapest
from .layout import distinct
from .parts import Canon, Part, walk
from .place import place
from .regions import CLUSTER, Region
from .search import search
from .ties import is_tied
from .verdict import Evict, Loss
from .victims import Trial, Victim
from .view import ClusterView, Running

Rank = tuple[int, int, int, int]

#: Steps that one "does it fit now" may cost, and how many branches a decision may look at.
FIT_STEPS = 4_000
QUESTIONS = 2_000


#: Branch and bound takes on regions with at most so many victims.
BRANCHED = 64
#: More victims than this are counted as arrays, fewer one by one.
COUNTED = 64
#: A ledger is kept for victims on no more rows each than this.
SPREAD = 4
#: With at most so many victims equal losses are told apart by ids too, as far as the budget reaches.
FEW = 24


#: Of up to so many wanted neighbours every choice of whom to keep is tried; of more, all or none.
COMPANY = 3


@dataclass(slots=True)
class _Best:
    loss: Loss | None = None
    victims: tuple[Victim, ...] = ()

    def offer(self, loss: Loss, victims: Iterable[Victim]) -> None:
        if self.loss is None or loss < self.loss:
            self.loss, self.victims = loss, tuple(victims)


def preempt(
    view: ClusterView, demand: Demand, now: float, cost: Callable[[Running], int] | None = None
) -> Evict | None:
    """The units whose eviction lets the demand in at the least loss; None if no eviction does.

    With `cost` the loss of a pod is what it says instead of the time the pod has run.
    """
    trial = Trial(view, now, cost)
    try:
        best = _Best()
        victims = trial.victims(demand.priority)
        for spared in _company_spared(demand, victims):
            _least_loss(trial, demand, [victim for victim in victims if victim.unit not in spared], best)
        if best.loss is None:
            return None
        trial.take_out(best.victims)
        placed = place(view, demand, Steps(view.options.limits.steps)).placed
        return None if placed is None else Evict(best.loss.ids, best.loss, placed)
    finally:
        trial.close()


def _company_spared(demand: Demand, victims: list[Victim]) -> list[frozenset[int]]:
    """Sets of victims to keep: pods want the company of some, so that evicting more may be worse."""
    shapes = {pods.shape: None for leaf in demand.leaves() for pods in leaf.classes}
    wanted = {term.peers: None for shape in shapes for term in shape.affinity}
    wanted |= {spread.peers: None for shape in shapes for spread in shape.spread}
    if not wanted:
        return [frozenset()]
    company = [
        victim.unit
        for victim in victims
        if any(pod.identity and means(peers, pod.identity) for pod in victim.pods for peers in wanted)
    ]
    sizes = range(len(company), -1, -1) if len(company) <= COMPANY else dict.fromkeys((len(company), 0))
    return [frozenset(kept) for size in sizes for kept in combinations(company, size)]


def _least_loss(trial: Trial, demand: Demand, victims: list[Victim], best: _Best) -> None:
    view, questions = trial.view, Steps(QUESTIONS)
    if not victims:
        return
    inquiries = []
    for aim in Canon(view).aims(demand.root):
        gaps = Gaps(trial, aim, victims)
        for region, inside in _by_region(view, aim, victims):
            inquiries.append(_Inquiry(trial, aim, region, inside, gaps, questions))
    # The most promising first; once the rest cannot promise less than what is found, that is the least.
    if len(inquiries) > 1:
        inquiries.sort(key=lambda inquiry: inquiry.promise)
    for inquiry in inquiries:
        if best.loss is not None and inquiry.promise > _rank(best.loss):
            break
        inquiry.improve(best)


def _by_region(view: ClusterView, part: Part, victims: list[Victim]) -> list[tuple[Region, list[Victim]]]:
    """The domains of the root's first key, or the whole cluster, with the victims that touch them."""
    layout = view.layout
    level = layout.level_of.get(part.keys[0]) if part.keys else None
    if level is None or is_tied(part):
        return [(CLUSTER, victims)]
    pinned = distinct(layout.domains(level)[list(part.pins)].tolist()).tolist()
    domains, named = layout.domains(level), layout.named(level)
    touching: dict[int, dict[int, Victim]] = {}
    for victim in victims:
        for row in victim.freed:
            touching.setdefault(int(domains[row]), {})[victim.unit] = victim
    return [
        (Region(level, index), list(inside.values()))
        for index, inside in sorted(touching.items())
        if named[index] and set(pinned) <= {index}
    ]


class _Inquiry:
    """One aim in one region."""

    def __init__(
        self, trial: Trial, aim: Part, region: Region, victims: list[Victim], gaps: Gaps, questions: Steps
    ) -> None:
        self.trial, self.aim, self.region, self.victims = trial, aim, region, victims
        self.gaps, self.questions = gaps, questions
        self.lacking = gaps.lacking(region)
        #: Whether slots decide; they do not for pods that mind others.
        self.counted = gaps.shape is not None and region.rows is None and is_uniform(gaps.layout, aim, region.level)
        rows = sum(len(victim.freed) for victim in victims)
        self.ledger = Ledger(gaps, region) if self._is_plain() and rows <= SPREAD * len(victims) else None
        self._known: dict[frozenset[int], bool] = {}

    def improve(self, best: _Best) -> None:
        """Put the least loss in this region into `best` if it is less than what is there."""
        start = self._start(best)
        if start is None:
            return
        exact = cheapest(self.gaps, self.region, start) if self._is_plain() and len(start) > BRANCHED else None
        spared = exact or self._spare(self._picked(start))
        best.offer(self.trial.loss(spared), spared)
        if len(start) <= BRANCHED:
            _Branches(self, start, best).explore()

    def fits(self, gone: Iterable[Victim]) -> bool:
        """Whether the aim fits in the region once these are gone; an open answer counts as no."""
        chosen = list(gone)
        if self.ledger is not None and len(chosen) <= COUNTED:
            self.ledger.make_gone(chosen)
            return self.ledger.enough()
        if self.counted:
            return self.gaps.holds(self.aim, self.region, chosen)
        key = frozenset(victim.unit for victim in chosen)
        if key not in self._known:
            self.trial.take_out(chosen)
            found = search(self.trial.view, self.aim, self.region, Steps(FIT_STEPS))
            self._known[key] = isinstance(found, Found)
        return self._known[key]

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
        if not self.victims:
            return (1 << 62, 0, 0, 0)
        work, units = self.cost(self.lacking, self.victims)
        return (0, min(victim.priority for victim in self.victims), work, max(1, units))

    def cost(self, missing: int, victims: Iterable[Victim]) -> tuple[int, int]:
        """The least work and the fewest units with which these victims can add so many slots."""
        return least_cost(missing, ((victim.work, self.gains[victim.unit]) for victim in victims))

    def _start(self, best: _Best) -> list[Victim] | None:
        """A sufficient set that holds a least-loss one, as far as violations and priority tell; None if hopeless."""
        if not self.victims or not self.gaps.could_suffice(self.region):
            return None
        if not self._is_plain() and not self.fits(self.victims):
            return None
        if any(victim.budgets for victim in self.victims):
            return self.victims
        kept = self._below_threshold()
        if best.loss is not None and best.loss.budget_violations == 0:
            highest = max(victim.priority for victim in kept)
            if highest > best.loss.highest_priority:
                return None
        return kept

    def _below_threshold(self) -> list[Victim]:
        """Victims up to the lowest priority at which evicting them all suffices."""
        levels = sorted({victim.priority for victim in self.victims})
        low, high = 0, len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            if self.fits([victim for victim in self.victims if victim.priority <= levels[middle]]):
                high = middle
            else:
                low = middle + 1
        return [victim for victim in self.victims if victim.priority <= levels[high]]

    def _picked(self, start: list[Victim]) -> list[Victim]:
        """Those of a sufficient set that free the cheapest slots, if slots tell; else all of it."""
        shapes = {ask.shape for part in walk(self.aim) for ask in part.asks}
        if self.gaps.shape is None or len(shapes) > 1:
            return start
        picked = Market(self.trial, self.gaps, self.region, start).pick(self.aim)
        return picked if picked is not None and self.fits(picked) else start

    def _spare(self, start: list[Victim]) -> list[Victim]:
        """Spare the dearest as long as the rest suffices, in runs that double while it goes well."""
        kept = sorted(start, key=lambda v: (self.trial.violates(v), v.priority, v.work, v.unit), reverse=True)
        if self.ledger is not None:
            return self._spare_by_slots(kept, self.ledger)
        at, run = 0, 1
        while at < len(kept):
            rest = kept[:at] + kept[at + run :]
            if self.fits(rest):
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


class _Branches:
    """Take or leave one victim after the other; leave first, since the first answer is already good."""

    def __init__(self, inquiry: _Inquiry, victims: list[Victim], best: _Best) -> None:
        self.inquiry, self.best, self.trial = inquiry, best, inquiry.trial
        self.victims = sorted(victims, key=lambda v: (-v.priority, -v.work, -v.unit))

    def explore(self) -> None:
        pending: list[tuple[int, tuple[Victim, ...]]] = [(0, ())]
        while pending and self.inquiry.questions.left > 0:
            at, taken = pending.pop()
            if self._hopeless(at, taken):
                continue
            self.inquiry.questions.left -= 1
            if taken and self.inquiry.fits(taken):
                self.best.offer(self.trial.loss(taken), taken)
            elif at < len(self.victims) and self.inquiry.fits((*taken, *self.victims[at:])):
                pending.append((at + 1, (*taken, self.victims[at])))
                pending.append((at + 1, taken))

    def _hopeless(self, at: int, taken: tuple[Victim, ...]) -> bool:
        """Whether nothing below here can beat the best: the loss grows by what the missing slots cost at least."""
        best = self.best.loss
        assert best is not None
        loss = self.trial.loss(taken)
        missing = self.inquiry.lacking - sum(self.inquiry.gains[victim.unit] for victim in taken)
        work, units = self.inquiry.cost(missing, self.victims[at:])
        rest = self.victims[at:]
        highest = max(loss.highest_priority, min(v.priority for v in rest) if rest and not taken else -(1 << 62))
        rank = (loss.budget_violations, highest, loss.work + work, loss.units + units)
        return rank > _rank(best) or (rank == _rank(best) and len(self.victims) > FEW)


def _rank(loss: Loss) -> Rank:
    return (loss.budget_violations, loss.highest_priority, loss.work, loss.units)
