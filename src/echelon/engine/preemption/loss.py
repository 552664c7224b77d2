"""Units that could be evicted, what they cost, and a trial in which some of them are gone.

Losses are compared as `verdict.Loss` orders them: budget violations, highest priority, work, units, ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.view import ClusterView, Running
from ..records.verdict import Loss
from .victim_table import Victim, Victims, VictimTable

_STARTED = itemgetter(Running._fields.index("started"))


@dataclass(slots=True)
class Incumbent:
    """The least loss so far."""

    loss: Loss | None = None
    victims: tuple[Victim, ...] = ()

    def offer(self, loss: Loss, victims: Iterable[Victim]) -> None:
        if self.loss is None or loss < self.loss:
            self.loss, self.victims = loss, tuple(victims)


class EvictionTrial:
    """The view while victims are taken out and put back; `close` leaves it as it was."""

    def __init__(self, view: ClusterView, now: float, cost: Callable[[Running], int] | None = None) -> None:
        self.view = view
        self._now = now
        #: What the loss of a pod is, if not the work it has done.
        self._cost = cost
        self._gone: dict[int, Victim] = {}

    def victims(self, below: int) -> Victims:
        """Everything of lower priority that can be evicted, cheapest first."""
        columns = VictimTable(self.view, below, self._works)
        return Victims(columns, np.arange(len(columns.units)))

    def _works(self, pods: list[Running]) -> Ints:
        """What the loss of each pod is."""
        if self._cost is not None:
            return np.array(list(map(self._cost, pods)), dtype=np.int64)
        started = np.fromiter(map(_STARTED, pods), dtype=np.float64, count=len(pods))
        done: Ints = ((self._now - started) * 1000).astype(np.int64)
        return np.maximum(done, 0)

    def loss(self, victims: Iterable[Victim]) -> Loss:
        chosen = list(victims)
        covered: Counter[int] = Counter()
        for victim in chosen:
            if victim.budgets:
                covered.update(victim.budgets)
        over = sum(max(0, number - self.allowed(budget)) for budget, number in covered.items())
        highest = max((victim.priority for victim in chosen), default=-(1 << 62))
        work = sum(victim.work for victim in chosen)
        return Loss(over, highest, work, len(chosen), tuple(sorted(victim.unit for victim in chosen)))

    def violates(self, victim: Victim) -> int:
        """Budget violations of this victim alone."""
        return sum(max(0, number - self.allowed(budget)) for budget, number in victim.budgets.items())

    def take_out(self, victims: Iterable[Victim]) -> None:
        """Make exactly these victims gone."""
        wanted = {victim.unit: victim for victim in victims}
        for unit in [unit for unit in self._gone if unit not in wanted]:
            self._hold(self._gone.pop(unit), 1)
        for unit, victim in wanted.items():
            if unit not in self._gone:
                self._hold(victim, -1)
                self._gone[unit] = victim

    def close(self) -> None:
        self.take_out(())

    def _hold(self, victim: Victim, times: int) -> None:
        """The sums per row stand for the pods, except where others care who they are."""
        for row, freed in victim.freed.items():
            self.view.node_table.charge(row, freed.items(), times)
        for pod in victim.pods:
            if pod.exclusive is not None:
                self.view.exclusivity.count(pod.exclusive, pod.group, (pod.node,), times)
            if pod.identity is not None:
                self.view.pod_index.count(pod, times)

    def allowed(self, budget_id: int) -> int:
        """How many more pods a budget lets go."""
        budget = self.view.budget(budget_id)
        return 0 if budget is None else max(0, budget.allowed)
