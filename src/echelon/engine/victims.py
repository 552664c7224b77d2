"""Units that could be evicted, what they cost, and a trial in which some of them are gone.

Losses are compared as `verdict.Loss` orders them: budget violations, highest priority, work, units, ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter

from .verdict import Loss
from .view import ClusterView, Running, Unit

#: A loss without the ids: violations, highest priority, work, units.
Rank = tuple[int, int, int, int]

#: Most pods are under none.
NO_BUDGETS: Counter[int] = Counter()


@dataclass(slots=True, eq=False)
class Victim:
    """A unit of lower priority, all of it."""

    unit: int
    priority: int
    work: int
    pods: list[Running]
    budgets: Counter[int]
    #: row -> resource -> what it gives back there; those of single pods are shared
    freed: dict[int, dict[str, int]]


@dataclass(slots=True)
class Best:
    """The least loss so far."""

    loss: Loss | None = None
    victims: tuple[Victim, ...] = ()

    def offer(self, loss: Loss, victims: Iterable[Victim]) -> None:
        if self.loss is None or loss < self.loss:
            self.loss, self.victims = loss, tuple(victims)


def rank_of(loss: Loss) -> Rank:
    return (loss.budget_violations, loss.highest_priority, loss.work, loss.units)


class _ByRow(dict[int | None, dict[int, dict[str, int]]]):
    """What a single pod with such requests frees, by the row it is on; thousands of pods are a few of these."""

    def __init__(self, requests: tuple[tuple[str, int], ...]) -> None:
        super().__init__({None: {}})
        self._record = dict(requests)

    def __missing__(self, row: int) -> dict[int, dict[str, int]]:
        freed = self[row] = {row: self._record}
        return freed


class Trial:
    """The view while victims are taken out and put back; `close` leaves it as it was."""

    def __init__(self, view: ClusterView, now: float, cost: Callable[[Running], int] | None = None) -> None:
        self.view = view
        self._now = now
        #: What the loss of a pod is, if not the work it has done.
        self._work = cost or self._done
        self._gone: dict[int, Victim] = {}
        #: The row of a node.
        self._row: Callable[[str], int | None] = view.layout.row
        #: What single pods free, by the identity of their requests.
        self._freed: dict[int, _ByRow] = {}

    def victims(self, below: int) -> list[Victim]:
        """Everything of lower priority that can be evicted, cheapest first."""
        units = self.view.units_below(below)
        # Looking up thousands of rows one by one takes longer than numbering them all.
        if len(units) > self.view.layout.size // 8:
            self._row = {name: row for row, name in enumerate(self.view.node_names())}.get
        pods = self._evictable(units)
        found = [self._victim(unit, pods[unit.id]) for unit in units if unit.id in pods]
        # By one number after the other, the last to decide first: quicker than by all of them at once.
        for number in ("unit", "work", "priority"):
            found.sort(key=attrgetter(number))
        return found

    def _evictable(self, units: list[Unit]) -> dict[int, list[Running]]:
        """The pods of each unit that can be evicted; units without any are left out."""
        if 4 * len(units) < self.view.running_count:
            each = {unit.id: [pod for pod in self.view.pods_of(unit.id) if pod.evictable] for unit in units}
            return {unit: pods for unit, pods in each.items() if pods}
        found: dict[int, list[Running]] = {}
        for pod in self.view.all_running():
            if pod.evictable:
                known = found.get(pod.unit)
                if known is None:
                    found[pod.unit] = [pod]
                else:
                    known.append(pod)
        return found

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
            self.view.layout.charge(row, freed.items(), times)
        for pod in victim.pods:
            if pod.exclusive is not None:
                self.view.occupancy.count(pod.exclusive, pod.group, (pod.node,), times)
            if pod.identity is not None:
                self.view.company.count(pod, times)

    def _victim(self, unit: Unit, pods: list[Running]) -> Victim:
        if len(pods) == 1 and not pods[0].budgets:  # the commonest by far
            pod = pods[0]
            row = self._row(pod.node)
            requests = pod.requests
            by_row = self._freed.get(id(requests))
            if by_row is None:
                by_row = self._freed[id(requests)] = _ByRow(requests)
            freed = by_row[row]
            return Victim(unit.id, unit.priority, self._work(pod), pods, NO_BUDGETS, freed)
        work = sum(map(self._work, pods))
        budgets: Counter[int] = NO_BUDGETS
        if any(pod.budgets for pod in pods):
            known = (budget for pod in pods for budget in pod.budgets)
            budgets = Counter(budget for budget in known if self.view.budget(budget) is not None)
        freed = {}
        for pod in pods:
            row = self._row(pod.node)
            if row is not None:
                sums = freed.setdefault(row, {})
                for resource, amount in pod.requests:
                    sums[resource] = sums.get(resource, 0) + amount
        return Victim(unit.id, unit.priority, work, pods, budgets, freed)

    def _done(self, pod: Running) -> int:
        done = int((self._now - pod.started) * 1000)
        return done if done > 0 else 0

    def allowed(self, budget_id: int) -> int:
        """How many more pods a budget lets go."""
        budget = self.view.budget(budget_id)
        return 0 if budget is None else max(0, budget.allowed)
