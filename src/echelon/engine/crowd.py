"""Everyone who could be evicted, as columns: a number for each, and an entry for each and every node it is on.

    view ─► Columns ─► Crowd, all of them or some   read as arrays by `gaps` and `knapsack`
                         └──► Victim                made when somebody looks at one

Among ten thousand victims arithmetic mostly looks at a few dozen, so the others never become objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import TypeVar, overload

import numpy as np

from .arrays import Bools, Ints, distinct
from .view import ClusterView, Running, Unit

Key = TypeVar("Key")

#: Most pods are under none.
NO_BUDGETS: Counter[int] = Counter()
#: Looking up rows one by one takes longer than numbering all nodes if there are more units than a share of these.
ROWS_PER_UNIT = 8
#: Asking units for their pods takes longer than going through all that run if these are fewer for each.
PODS_PER_UNIT = 4

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


class Columns:
    """All units below a priority of which something can be evicted, numbered from the cheapest."""

    def __init__(self, view: ClusterView, below: int, work: Callable[[list[Running]], Ints]) -> None:
        """`work` says what the loss of each pod is."""
        units = view.units_below(below)
        pods = _evictable(view, units)
        owners = _found_in({unit.id: number for number, unit in enumerate(units)}, map(_UNIT, pods))
        if len(pods) and owners.min() < 0:
            pods = [pod for pod, owner in zip(pods, owners.tolist(), strict=True) if owner >= 0]
            owners = owners[owners >= 0]
        self._pods, self._made = pods, dict[int, Victim]()
        pods_each = np.bincount(owners, minlength=len(units))
        works = np.zeros(len(units), dtype=np.int64)
        np.add.at(works, owners, work(pods))
        self._number(units, works, pods_each > 0)
        #: By victim, its first pod in the order of owners.
        homes = self._places[owners]
        self._order, self._first_pod = _grouped(homes, len(self.units))
        self._budgets = self._covering(view, homes)
        self._file(_rows(view, units, pods), pods_each[self._kept])

    def _number(self, units: list[Unit], works: Ints, known: Bools) -> None:
        """Put those of whom anything can be evicted in order of priority, work and unit."""
        ids = np.fromiter(map(attrgetter("id"), units), dtype=np.int64, count=len(units))
        priorities = np.fromiter(map(attrgetter("priority"), units), dtype=np.int64, count=len(units))
        order = np.lexsort((ids, works, priorities))
        self._kept = order[known[order]]
        self.units, self.priorities, self.works = ids[self._kept], priorities[self._kept], works[self._kept]
        self._places = np.full(len(units), -1, dtype=np.int64)
        self._places[self._kept] = np.arange(len(self._kept))

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

    def _file(self, rows: Ints, pods_each: Ints) -> None:
        """One entry for each victim and row: whose, where, and which of the records says what is given back."""
        single = pods_each == 1
        lone = self._order[self._first_pod[:-1][single]]
        here = rows[lone] >= 0
        requests = [_REQUESTS(self._pods[at]) for at in lone[here].tolist()]
        # Thousands of pods have a few requests: those that are one object are one record.
        known = {id(each): each for each in requests}
        #: What is given back, by resource.
        self.records: list[Mapping[str, int]] = [dict(each) for each in known.values()]
        which = _found_in({one: number for number, one in enumerate(known)}, map(id, requests))
        columns = [np.flatnonzero(single)[here], rows[lone][here], which]
        several = self._file_several(np.flatnonzero(pods_each > 1).tolist(), rows)
        columns = [np.concatenate(pair) for pair in zip(columns, several, strict=True)]
        order, self.first_entry = _grouped(columns[0], len(self.units))
        self.owners, self.rows, self.which = (column[order] for column in columns)

    def _file_several(self, numbers: list[int], rows: Ints) -> Ints:
        """The same columns for victims with several pods, which may share rows."""
        found: list[tuple[int, int, int]] = []
        for number in numbers:
            freed: dict[int, dict[str, int]] = {}
            for at in self._order[self._first_pod[number] : self._first_pod[number + 1]].tolist():
                row = rows.item(at)
                if row >= 0:
                    sums = freed.setdefault(row, {})
                    for resource, amount in self._pods[at].requests:
                        sums[resource] = sums.get(resource, 0) + amount
            for row, sums in freed.items():
                found.append((number, row, len(self.records)))
                self.records.append(sums)
        return np.array(found, dtype=np.int64).reshape(len(found), 3).T

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


class Crowd(Sequence[Victim]):
    """Some of those who could go, the cheapest first."""

    __slots__ = ("columns", "numbers")

    def __init__(self, columns: Columns, numbers: Ints) -> None:
        self.columns, self.numbers = columns, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> Victim: ...
    @overload
    def __getitem__(self, at: slice) -> Crowd: ...
    def __getitem__(self, at: int | slice) -> Victim | Crowd:
        if isinstance(at, slice):
            return Crowd(self.columns, self.numbers[at])
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
        return self.columns.priorities.item(self.numbers.item(-1))

    @property
    def lowest(self) -> int:
        return self.columns.priorities.item(self.numbers.item(0))

    @property
    def is_covered(self) -> bool:
        """Whether any of them is under a budget."""
        return self.columns.is_covered(self.numbers)

    @property
    def entries(self) -> int:
        """How many rows they are on, each counted for itself."""
        return int((self.columns.first_entry[self.numbers + 1] - self.columns.first_entry[self.numbers]).sum())

    def by_domain(self, domains: Ints) -> list[tuple[int, Crowd]]:
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
            (places.item(low), Crowd(self.columns, owners[low:high])) for low, high in zip(starts, ends, strict=False)
        ]

    def below(self, priority: int) -> Crowd:
        return self[: int(np.searchsorted(self.priorities, priority))]

    def with_units(self, units: Collection[int]) -> list[Victim]:
        """Those of them that are meant."""
        each = zip(self.numbers.tolist(), self.units.tolist(), strict=True)
        return [self.columns.victim(number) for number, unit in each if unit in units]

    def only(self, victims: Iterable[Victim]) -> Crowd:
        """Some of them, in the same order."""
        return Crowd(self.columns, np.array([victim.number for victim in victims], dtype=np.int64))


def numbers_of(victims: Sequence[Victim]) -> Ints | list[int]:
    return victims.numbers if isinstance(victims, Crowd) else [victim.number for victim in victims]


def units_of(victims: Iterable[Victim]) -> list[int]:
    return victims.units.tolist() if isinstance(victims, Crowd) else [victim.unit for victim in victims]


def _evictable(view: ClusterView, units: list[Unit]) -> list[Running]:
    """The pods of these units that can be evicted, and perhaps others."""
    if PODS_PER_UNIT * len(units) < view.running_count:
        return [pod for unit in units for pod in view.pods_of(unit.id) if pod.evictable]
    return [pod for pod in view.all_running() if pod.evictable]


def _rows(view: ClusterView, units: list[Unit], pods: list[Running]) -> Ints:
    """The row of every pod's node, -1 for a node that is not there."""
    if len(units) > view.layout.size // ROWS_PER_UNIT:
        return _found_in({name: row for row, name in enumerate(view.node_names())}, map(_NODE, pods))
    known = map(view.layout.row, map(_NODE, pods))
    return np.array([-1 if row is None else row for row in known], dtype=np.int64)


def _found_in(index: Mapping[Key, int], keys: Iterable[Key]) -> Ints:
    """The number of each key, -1 where it has none."""
    get = index.get
    return np.array([get(key, -1) for key in keys], dtype=np.int64)


def _grouped(owners: Ints, number: int) -> tuple[Ints, Ints]:
    """The order that puts the things of each owner together, and where those of each begin in it, with the end."""
    ends = np.zeros(number + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, minlength=number), out=ends[1:])
    return np.argsort(owners, kind="stable"), ends
