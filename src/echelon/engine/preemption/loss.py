"""The loss of a set of victims, the best set so far, and a view from which victims are removed on trial.

Every step of preemption goes through these: it evaluates sets with `EvictionTrial.loss`, tests them on the view after
`EvictionTrial.remove`, and offers those that suffice to the `Incumbent`.  Losses compare as `records.verdict.Loss`
orders them: budget violations, highest priority, work, units, ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.view import ClusterView, Running
from ..records.verdict import NO_LOSS_BOUND, Loss
from .victim_table import Victim, Victims, VictimTable

_STARTED = itemgetter(Running._fields.index("started"))


@dataclass(slots=True)
class Incumbent:
    """The least loss found so far and the victims that have it."""

    loss: Loss | None = None
    victims: tuple[Victim, ...] = ()

    def offer(self, loss: Loss, victims: Iterable[Victim]) -> None:
        """Keep these victims if their loss is less."""
        if self.loss is None or loss < self.loss:
            self.loss, self.victims = loss, tuple(victims)


class EvictionTrial:
    """The view with victims removed and put back; `close` restores it."""

    def __init__(self, view: ClusterView, now: float, cost: Callable[[Running], int] | None = None) -> None:
        self.view = view
        self._now = now
        #: The cost of losing a pod; by default the time it has run.
        self._cost = cost
        #: Victims that are removed at the moment, by unit.
        self._removed: dict[int, Victim] = {}

    def victims(self, below: int) -> Victims:
        """All units below a priority that have evictable pods, cheapest first."""
        table = VictimTable(self.view, below, self._works)
        return Victims(table, np.arange(len(table.units)))

    def _works(self, pods: list[Running]) -> Ints:
        """The cost of losing each pod."""
        if self._cost is not None:
            return np.array(list(map(self._cost, pods)), dtype=np.int64)
        started = np.fromiter(map(_STARTED, pods), dtype=np.float64, count=len(pods))
        done: Ints = ((self._now - started) * 1000).astype(np.int64)
        return np.maximum(done, 0)

    def loss(self, victims: Iterable[Victim]) -> Loss:
        """What evicting these victims together costs."""
        chosen = list(victims)
        evicted_pods: Counter[int] = Counter()
        for victim in chosen:
            if victim.budgets:
                evicted_pods.update(victim.budgets)
        violations = sum(max(0, number - self.allowed(budget)) for budget, number in evicted_pods.items())
        highest = max((victim.priority for victim in chosen), default=NO_LOSS_BOUND.highest_priority)
        work = sum(victim.work for victim in chosen)
        return Loss(violations, highest, work, len(chosen), tuple(sorted(victim.unit for victim in chosen)))

    def violations_alone(self, victim: Victim) -> int:
        """Budget violations if this victim alone is evicted."""
        return sum(max(0, number - self.allowed(budget)) for budget, number in victim.budgets.items())

    def remove(self, victims: Iterable[Victim]) -> None:
        """Have exactly these victims removed from the view; all others are there."""
        wanted = {victim.unit: victim for victim in victims}
        for unit in [unit for unit in self._removed if unit not in wanted]:
            self._count(self._removed.pop(unit), 1)
        for unit, victim in wanted.items():
            if unit not in self._removed:
                self._count(victim, -1)
                self._removed[unit] = victim

    def close(self) -> None:
        """Put every victim back."""
        self.remove(())

    def _count(self, victim: Victim, times: int) -> None:
        """Count a victim into the view (1) or out of it (-1).

        Amounts are charged once per row; pods are counted one by one only for exclusive domains and pod terms.
        """
        for row, freed in victim.freed.items():
            self.view.node_table.charge(row, freed.items(), times)
        for pod in victim.pods:
            if pod.exclusive is not None:
                self.view.exclusivity.count(pod.exclusive, pod.group, (pod.node,), times)
            if pod.identity is not None:
                self.view.pod_index.count(pod, times)

    def allowed(self, budget_id: int) -> int:
        """How many more pods of a budget can be evicted without a violation."""
        budget = self.view.budget(budget_id)
        return 0 if budget is None else max(0, budget.allowed)
