"""Everyone who could be evicted, as columns: a number for each, and an entry for each and every node it is on.

    view ─► VictimTable ─► Victims, all of them or some   read as arrays by `gaps` and `knapsack`
                         └──► Victim                made when somebody looks at one

Among ten thousand victims arithmetic mostly looks at a few dozen, so the others never become objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import overload

import numpy as np

from ..cluster.arrays import Ints, distinct
from ..cluster.view import ClusterView, Running

Requests = tuple[tuple[str, int], ...]

#: Most pods are under none.
NO_BUDGETS: Counter[int] = Counter()
#: Looking up rows one by one takes longer than numbering all nodes if there are more units than a share of these.
ROWS_PER_UNIT = 8
#: Asking units for their pods takes longer than going through all that run if these are fewer for each.
PODS_PER_UNIT = 4
#: Priority and work are sorted as one number below this.
LARGEST_KEY = 1 << 62

_NODE, _REQUESTS, _UNIT, _BUDGETS = (
    itemgetter(Running._fields.index(name)) for name in ("node", "requests", "unit", "budgets")
)


@dataclass(slots=True, eq=False)
class Victim:
    """A unit of lower priority, all of it."""

    #: Its place among all who could go.
    number: int
    unit: int
    priority: int
    work: int
    pods: list[Running]
    budgets: Counter[int]
    #: row -> resource -> what it gives back there; the inner ones are shared
    freed: dict[int, Mapping[str, int]]


class VictimTable:
    """All units below a priority of which something can be evicted, numbered from the cheapest."""

    def __init__(self, view: ClusterView, below: int, work: Callable[[list[Running]], Ints]) -> None:
        """`work` says what the loss of each pod is."""
        levels = view.ids_below(below)
        ids = np.fromiter(chain.from_iterable(level for _, level in levels), dtype=np.int64)
        sizes = np.array([len(level) for _, level in levels], dtype=np.int64)
        priorities = np.repeat(np.array([priority for priority, _ in levels], dtype=np.int64), sizes)
        # Units are known by their place in the order of ids, until they are in order of what they cost.
        by_id = np.argsort(ids)
        pods, owners = _evictable(view, ids[by_id])
        pods_each = np.bincount(owners, minlength=len(ids))
        works = np.zeros(len(ids), dtype=np.int64)
        np.add.at(works, owners, work(pods))
        order = _ordered(priorities[by_id], works)
        order = order[pods_each[order] > 0]
        self.units, self.priorities, self.works = ids[by_id][order], priorities[by_id][order], works[order]
        numbers = np.full(len(ids), -1, dtype=np.int64)
        numbers[order] = np.arange(len(order))
        homes = numbers[owners]
        self._pods, self._made = pods, dict[int, Victim]()
        #: The pods in order of their victims, and where those of each victim begin.
        self._first_pod = _starts(homes, len(order))
        self._order = _grouped(homes, self._first_pod)
        self._budgets = self._covering(view, homes)
        self._file(homes, _rows(view, len(ids), pods))

    def _covering(self, view: ClusterView, homes: Ints) -> dict[int, Counter[int]]:
        """The budgets that cover pods of a victim, where any do."""
        if not any(map(_BUDGETS, self._pods)):
            return {}
        found = {}
        under_some = np.array([bool(pod.budgets) for pod in self._pods], dtype=np.bool_)
        for number in distinct(homes[under_some].tolist()).tolist():
            known = (budget for pod in self._pods_of(number) for budget in pod.budgets)
            budgets = Counter(budget for budget in known if view.budget(budget) is not None)
            if budgets:
                found[number] = budgets
        return found

    def _file(self, homes: Ints, rows: Ints) -> None:
        """One entry for each victim and row: whose, where, and which of the records says what is given back."""
        which, requests = _alike(self._pods)
        #: What is given back, by resource.
        self.records: list[Mapping[str, int]] = list(map(dict, requests))
        pods = self._order[rows[self._order] >= 0]
        if len(self._pods) > len(self.units):
            pods = self._one_for_each_row(pods, homes, rows, which)
        self.owners, self.rows, self.which = homes[pods], rows[pods], which[pods]
        #: Where those of each victim begin, and the end.
        self.first_entry = _starts(self.owners, len(self.units))

    def _one_for_each_row(self, pods: Ints, homes: Ints, rows: Ints, which: Ints) -> Ints:
        """Of pods of a victim that share a row only the first; it stands for a record of what all of them give back."""
        spots = homes[pods] * (int(rows.max(initial=0)) + 1) + rows[pods]
        order = np.argsort(spots, kind="stable")
        starts = np.flatnonzero(np.diff(spots[order], prepend=-1))
        ends = np.append(starts[1:], len(pods))
        for low, high in zip(starts[ends - starts > 1].tolist(), ends[ends - starts > 1].tolist(), strict=True):
            sharing, sums = pods[order[low:high]].tolist(), dict[str, int]()
            for at in sharing:
                for resource, amount in self._pods[at].requests:
                    sums[resource] = sums.get(resource, 0) + amount
            which[sharing[0]] = len(self.records)
            self.records.append(sums)
        return pods[np.sort(order[starts])]

    def _pods_of(self, number: int) -> list[Running]:
        low, high = self._first_pod.item(number), self._first_pod.item(number + 1)
        return [self._pods[at] for at in self._order[low:high].tolist()]

    def is_covered(self, numbers: Ints) -> bool:
        """Whether any of these is under a budget."""
        return bool(self._budgets) and not self._budgets.keys().isdisjoint(numbers.tolist())

    def victim(self, number: int) -> Victim:
        found = self._made.get(number)
        if found is None:
            low, high = self.first_entry.item(number), self.first_entry.item(number + 1)
            records = (self.records[which] for which in self.which[low:high].tolist())
            found = self._made[number] = Victim(
                number,
                self.units.item(number),
                self.priorities.item(number),
                self.works.item(number),
                self._pods_of(number),
                self._budgets.get(number, NO_BUDGETS),
                dict(zip(self.rows[low:high].tolist(), records, strict=True)),
            )
        return found


class Victims(Sequence[Victim]):
    """Some of those who could go, the cheapest first."""

    __slots__ = ("columns", "numbers")

    def __init__(self, columns: VictimTable, numbers: Ints) -> None:
        self.columns, self.numbers = columns, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> Victim: ...
    @overload
    def __getitem__(self, at: slice) -> Victims: ...
    def __getitem__(self, at: int | slice) -> Victim | Victims:
        if isinstance(at, slice):
            return Victims(self.columns, self.numbers[at])
        return self.columns.victim(self.numbers.item(at))

    def __iter__(self) -> Iterator[Victim]:
        return map(self.columns.victim, self.numbers.tolist())

    @property
    def units(self) -> Ints:
        return self.columns.units[self.numbers]

    @property
    def priorities(self) -> Ints:
        return self.columns.priorities[self.numbers]

    @property
    def works(self) -> Ints:
        return self.columns.works[self.numbers]

    @property
    def highest(self) -> int:
        return int(self.columns.priorities[self.numbers[-1]])

    @property
    def lowest(self) -> int:
        return int(self.columns.priorities[self.numbers[0]])

    @property
    def is_covered(self) -> bool:
        """Whether any of them is under a budget."""
        return self.columns.is_covered(self.numbers)

    @property
    def entries(self) -> int:
        """How many rows they are on, each counted for itself."""
        return int((self.columns.first_entry[self.numbers + 1] - self.columns.first_entry[self.numbers]).sum())

    def by_domain(self, domains: Ints) -> list[tuple[int, Victims]]:
        """All of them, given the domain of every row: for each domain, in order, those who are in it."""
        owners, places = self.columns.owners, domains[self.columns.rows]
        order = np.lexsort((owners, places))
        owners, places = owners[order], places[order]
        # Whoever is on several rows of a domain is counted once.
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = (np.diff(owners) != 0) | (np.diff(places) != 0)
        owners, places = owners[first], places[first]
        ends = [*(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
        starts = [0, *ends[:-1]] if len(places) else []
        return [
            (places.item(low), Victims(self.columns, owners[low:high])) for low, high in zip(starts, ends, strict=False)
        ]

    def below(self, priority: int) -> Victims:
        return self[: int(np.searchsorted(self.priorities, priority))]

    def with_units(self, units: Collection[int]) -> list[Victim]:
        """Those of them that are meant."""
        each = zip(self.numbers.tolist(), self.units.tolist(), strict=True)
        return [self.columns.victim(number) for number, unit in each if unit in units]

    def only(self, victims: Iterable[Victim]) -> Victims:
        """Some of them, in the same order."""
        return Victims(self.columns, np.array([victim.number for victim in victims], dtype=np.int64))


def numbers_of(victims: Sequence[Victim]) -> Ints | list[int]:
    return victims.numbers if isinstance(victims, Victims) else [victim.number for victim in victims]


def units_of(victims: Iterable[Victim]) -> list[int]:
    return victims.units.tolist() if isinstance(victims, Victims) else [victim.unit for victim in victims]


def _evictable(view: ClusterView, ids: Ints) -> tuple[list[Running], Ints]:
    """The pods of these units that can be evicted, and for each the place of its unit; ids ascend."""
    if PODS_PER_UNIT * len(ids) < view.running_count:
        pods = [pod for unit in ids.tolist() for pod in view.pods_of(unit) if pod.evictable]
    else:
        pods = [pod for pod in view.all_running() if pod.evictable]
    units = np.fromiter(map(_UNIT, pods), dtype=np.int64, count=len(pods))
    places = np.searchsorted(ids, units)
    known = places < len(ids)
    known[known] = ids[places[known]] == units[known]
    if not known.all():
        pods = [pod for pod, meant in zip(pods, known.tolist(), strict=True) if meant]
        places = places[known]
    return pods, places


def _ordered(priorities: Ints, works: Ints) -> Ints:
    """The order by priority and work, equals as they come."""
    steps = np.searchsorted(distinct(priorities.tolist()), priorities)
    width = int(works.max(initial=0)) + 1
    if width * (len(steps) + 1) < LARGEST_KEY and int(works.min(initial=0)) >= 0:
        return np.argsort(steps * width + works, kind="stable")  # one sort instead of two
    return np.lexsort((works, priorities))


def _rows(view: ClusterView, units: int, pods: list[Running]) -> Ints:
    """The row of every pod's node, -1 for a node that is not there."""
    if units > view.node_table.size // ROWS_PER_UNIT:
        row_of = {name: row for row, name in enumerate(view.node_names())}.get
        return np.array([row_of(name, -1) for name in map(_NODE, pods)], dtype=np.int64)
    known = map(view.node_table.row, map(_NODE, pods))
    return np.array([-1 if row is None else row for row in known], dtype=np.int64)


def _alike(pods: list[Running]) -> tuple[Ints, list[Requests]]:
    """Thousands of pods have a few requests: these, as far as they are one object, and which of them each pod has."""
    ids = np.fromiter(map(id, map(_REQUESTS, pods)), dtype=np.int64, count=len(pods))
    order = np.argsort(ids)
    first = order[np.flatnonzero(np.diff(ids[order], prepend=-1))]
    return np.searchsorted(ids[first], ids), [pods[at].requests for at in first.tolist()]


def _starts(owners: Ints, number: int) -> Ints:
    """Where the things of each owner begin once they are in order of owners, and the end."""
    starts = np.zeros(number + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, minlength=number), out=starts[1:])
    return starts


def _grouped(owners: Ints, starts: Ints) -> Ints:
    """The order that puts the things of each owner together."""
    if (np.diff(starts) == 1).all():  # one each
        order = np.empty(len(owners), dtype=np.int64)
        order[owners] = np.arange(len(owners))
        return order
    return np.argsort(owners, kind="stable")
