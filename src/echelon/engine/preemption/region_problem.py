"""One aim in one region: what every step of the region search shares.

The basic question is: does the aim fit in the region once these victims are evicted?  Where the aim is uniform (equal
pods, equal groups, nesting keys) slots answer it by counting; otherwise the placement search does, on the view with the
victims removed, and its answers are kept.  Besides that, lower bounds of the loss from missing slots, and the sparing
of victims that turn out not to be needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from ..cluster.arrays import Ints
from ..cluster.regions import Region
from ..records.verdict import LossBound
from ..search.strategy import search
from ..space.budget import Steps
from ..space.canonical import Part, without_pod_rules
from ..space.tasks import Found, NotFound
from .loss import EvictionTrial
from .slot_gains import SlotGains, is_uniform, least_cost
from .victim_table import Victim, Victims, numbers_of, units_of

#: Steps of one fit test, and of a second, thorough one where the first was left open.
FIT_STEPS = (4_000, 40_000)
#: Steps that starting a search costs.
ONE_SEARCH = 50

#: Whether the aim was tested with its pod rules, and the units that were evicted.
_TestKey = tuple[bool, frozenset[int]]


class RegionProblem:
    """An aim, a region and its victims."""

    def __init__(
        self,
        trial: EvictionTrial,
        aim: Part,
        region: Region,
        victims: Victims,
        anchors: frozenset[int],
        gains: SlotGains,
        steps: Steps,
    ) -> None:
        """`anchors` are units that the aim's pods may need as neighbours; `steps` is the budget of the decision."""
        self.trial, self.aim, self.region, self.victims = trial, aim, region, victims
        self.anchors, self.gains, self.steps = anchors, gains, steps
        #: Slots that the region lacks as it is.
        self.missing = gains.missing(region)
        #: Whether slots decide; they do not for pods with pod rules.
        self.by_slots = gains.shape is not None and region.rows is None and is_uniform(gains.table, aim, region.level)
        #: Answers of the placement search, and those that it left open; an open answer counts as "does not fit".
        self._known: dict[_TestKey, bool] = {}
        self._open: set[_TestKey] = set()

    @cached_property
    def bare_aim(self) -> Part:
        """The aim without affinity, anti-affinity and spread of its pods."""
        return without_pod_rules(self.aim)

    @cached_property
    def is_one_leaf(self) -> bool:
        """Whether the aim is one leaf of equal pods that may be anywhere in the region."""
        levels = self.trial.view.node_table.level_of
        return self.by_slots and self.aim.is_leaf and all(levels[key] == self.region.level for key in self.aim.keys)

    # ---- does it fit?

    def fits(self, evicted: Iterable[Victim], thorough: bool = True) -> bool:
        """Whether the aim fits in the region once these are evicted; an open answer counts as no."""
        chosen = evicted if isinstance(evicted, Victims) else list(evicted)
        if self.by_slots:
            return self.gains.holds(self.aim, self.region, chosen)
        return self._found(self.aim, chosen, thorough)

    def fits_bare(self, evicted: Iterable[Victim]) -> bool:
        """The same without pod rules: necessary, whatever else is evicted."""
        return self._found(self.bare_aim, list(evicted))

    def is_open(self, evicted: Iterable[Victim], aim: Part | None = None) -> bool:
        """Whether the steps ended before it was known if the aim fits once these are evicted."""
        return self._key(aim or self.aim, evicted) in self._open

    def refuted(self, evicted: Iterable[Victim]) -> bool:
        """Whether it is proved that the aim does not fit once these are evicted, given that it was found not to."""
        key = self._key(self.aim, evicted)
        return self.by_slots or (self._known.get(key) is False and key not in self._open)

    def _key(self, aim: Part, evicted: Iterable[Victim]) -> _TestKey:
        return aim is self.aim, frozenset(units_of(evicted))

    def _found(self, aim: Part, evicted: Sequence[Victim], thorough: bool = True) -> bool:
        key = self._key(aim, evicted)
        first, second = FIT_STEPS
        if key not in self._known:
            self._test(key, aim, evicted, first)
        if thorough and key in self._open and self.steps.left > 0:
            self._test(key, aim, evicted, second)
        return self._known[key]

    def _test(self, key: _TestKey, aim: Part, evicted: Sequence[Victim], most: int) -> None:
        self.trial.remove(evicted)
        self.steps.left -= ONE_SEARCH
        with self.steps.lend(most, least=most) as steps:
            outcome = search(self.trial.view, aim, self.region, steps)
        self._known[key] = isinstance(outcome, Found)
        self._open.discard(key)
        if isinstance(outcome, NotFound) and not outcome.proved:
            self._open.add(key)

    # ---- lower bounds

    @cached_property
    def slots_by_victim(self) -> Ints:
        """The most slots that each victim adds in the region, by its number."""
        return self.gains.by_victim(self.region)

    @cached_property
    def lower_bound(self) -> LossBound:
        """No eviction in this region loses less."""
        return self._bound(self.victims.lowest, self.victims)

    def bound_up_to(self, victims: Victims) -> LossBound:
        """No eviction loses less, given that some victim of the highest priority of these must be evicted."""
        return self._bound(victims.highest, victims)

    def _bound(self, priority: int, victims: Victims) -> LossBound:
        work, units = self.least_cost(self.missing, victims)
        return LossBound(0, priority, work, max(1, units))

    def least_cost(self, missing: int, victims: Sequence[Victim]) -> tuple[int, int]:
        """Lower bounds of the work and of the units with which these victims add `missing` slots."""
        numbers = numbers_of(victims)
        return least_cost(missing, self.victims.table.works[numbers], self.slots_by_victim[numbers])

    # ---- sparing

    def price(self, victim: Victim) -> tuple[int, int, int, int]:
        """What evicting one victim costs; the dearest are spared first."""
        return (self.trial.violations_alone(victim), victim.priority, victim.work, victim.unit)

    def spare(self, sufficient: Sequence[Victim]) -> list[Victim]:
        """Spare victims of a sufficient set, the dearest first, until none can be spared any more."""
        kept = sorted(sufficient, key=self.price, reverse=True)
        while True:
            fewer = self._spare_once(kept)
            # With anchors, one that stays may allow another to stay.
            if not self.anchors or len(fewer) == len(kept):
                return fewer
            kept = fewer

    def _spare_once(self, kept: list[Victim]) -> list[Victim]:
        """One pass from the dearest, in runs that double while the rest suffices."""
        at, run = 0, 1
        while at < len(kept):
            rest = kept[:at] + kept[at + run :]
            if rest and self.fits(rest, thorough=False):
                kept, run = rest, run * 2
            elif run > 1:
                run = max(1, run // 4)
            else:
                at += 1
        return kept
