"""All potential victims as columns: a number for each victim, and an entry for each victim and node.

    view ─► VictimTable ─► Victims, all or a subset   read as arrays by `slot_gains` and `slot_dp`
                             └──► Victim              made on first access

Among ten thousand victims most steps look at a few dozen, so the others never become objects.
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

#: Shared by the victims that no budget covers, which are most.
NO_BUDGETS: Counter[int] = Counter()
#: With fewer units than one per this number of nodes, rows are looked up one by one; else all nodes are numbered.
NODES_PER_UNIT = 8
#: With fewer running pods per unit than this, one pass over all running pods is faster than asking each unit.
PODS_PER_UNIT = 4
#: Priority and work are sorted as one number as long as it stays below this.
LARGEST_KEY = 1 << 62

_NODE, _REQUESTS, _UNIT, _BUDGETS = (
    itemgetter(Running._fields.index(name)) for name in ("node", "requests", "unit", "budgets")
)


@dataclass(slots=True, eq=False)
class Victim:
    """A unit of lower priority with all its evictable pods; it is evicted as a whole or not at all."""

    #: Its place in the table, which is ordered from the cheapest.
    number: int
    unit: int
    priority: int
    work: int
    pods: list[Running]
    budgets: Counter[int]
    #: row -> resource -> amount freed there; the inner mappings are shared between victims
    freed: dict[int, Mapping[str, int]]


class VictimTable:
    """All units below a priority that have evictable pods, numbered from the cheapest."""

    def __init__(self, view: ClusterView, below: int, work: Callable[[list[Running]], Ints]) -> None:
        """`work` returns the cost of losing each pod."""
        levels = view.ids_below(below)
        ids = np.fromiter(chain.from_iterable(level for _, level in levels), dtype=np.int64)
        sizes = np.array([len(level) for _, level in levels], dtype=np.int64)
        priorities = np.repeat(np.array([priority for priority, _ in levels], dtype=np.int64), sizes)
        # Until they are sorted by cost, units are known by their place in the order of ids.
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
        victim_of = numbers[owners]
        self._pods, self._victims = pods, dict[int, Victim]()
        #: The pods in order of their victims, and where the pods of each victim begin.
        self._first_pod = _starts(victim_of, len(order))
        self._order = _order_by_owner(victim_of, self._first_pod)
        self._budgets = self._budgets_by_victim(view, victim_of)
        self._index_entries(victim_of, _rows(view, len(ids), pods))

    def _budgets_by_victim(self, view: ClusterView, victim_of: Ints) -> dict[int, Counter[int]]:
        """For each victim with pods under budgets: how many of its pods each budget covers."""
        if not any(map(_BUDGETS, self._pods)):
            return {}
        found = {}
        covered = np.array([bool(pod.budgets) for pod in self._pods], dtype=np.bool_)
        for number in distinct(victim_of[covered].tolist()).tolist():
            known = (budget for pod in self._pods_of(number) for budget in pod.budgets)
            budgets = Counter(budget for budget in known if view.budget(budget) is not None)
            if budgets:
                found[number] = budgets
        return found

    def _index_entries(self, victim_of: Ints, rows: Ints) -> None:
        """One entry for each victim and row: owner, row, and the record of the amounts freed there."""
        record_of, requests = _distinct_requests(self._pods)
        #: Amounts freed, by resource; entries refer to them by index.
        self.records: list[Mapping[str, int]] = list(map(dict, requests))
        pods = self._order[rows[self._order] >= 0]
        if len(self._pods) > len(self.units):
            pods = self._merged_by_row(pods, victim_of, rows, record_of)
        self.owners, self.rows, self.record_of = victim_of[pods], rows[pods], record_of[pods]
        #: Where the entries of each victim begin, and the end.
        self.first_entry = _starts(self.owners, len(self.units))

    def _merged_by_row(self, pods: Ints, victim_of: Ints, rows: Ints, record_of: Ints) -> Ints:
        """Of the pods of a victim that share a row only the first; its record becomes the sum of all of them."""
        spots = victim_of[pods] * (int(rows.max(initial=0)) + 1) + rows[pods]
        order = np.argsort(spots, kind="stable")
        starts = np.flatnonzero(np.diff(spots[order], prepend=-1))
        ends = np.append(starts[1:], len(pods))
        for low, high in zip(starts[ends - starts > 1].tolist(), ends[ends - starts > 1].tolist(), strict=True):
            sharing, sums = pods[order[low:high]].tolist(), dict[str, int]()
            for at in sharing:
                for resource, amount in self._pods[at].requests:
                    sums[resource] = sums.get(resource, 0) + amount
            record_of[sharing[0]] = len(self.records)
            self.records.append(sums)
        return pods[np.sort(order[starts])]

    def _pods_of(self, number: int) -> list[Running]:
        low, high = self._first_pod.item(number), self._first_pod.item(number + 1)
        return [self._pods[at] for at in self._order[low:high].tolist()]

    def any_under_budget(self, numbers: Ints) -> bool:
        """Whether a budget covers any of these victims."""
        return bool(self._budgets) and not self._budgets.keys().isdisjoint(numbers.tolist())

    def victim(self, number: int) -> Victim:
        """The victim with a number, made on first access."""
        found = self._victims.get(number)
        if found is None:
            low, high = self.first_entry.item(number), self.first_entry.item(number + 1)
            records = (self.records[index] for index in self.record_of[low:high].tolist())
            found = self._victims[number] = Victim(
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
    """A subset of a victim table, the cheapest first."""

    __slots__ = ("numbers", "table")

    def __init__(self, table: VictimTable, numbers: Ints) -> None:
        self.table, self.numbers = table, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> Victim: ...
    @overload
    def __getitem__(self, at: slice) -> Victims: ...
    def __getitem__(self, at: int | slice) -> Victim | Victims:
        if isinstance(at, slice):
            return Victims(self.table, self.numbers[at])
        return self.table.victim(self.numbers.item(at))

    def __iter__(self) -> Iterator[Victim]:
        return map(self.table.victim, self.numbers.tolist())

    @property
    def units(self) -> Ints:
        return self.table.units[self.numbers]

    @property
    def priorities(self) -> Ints:
        return self.table.priorities[self.numbers]

    @property
    def works(self) -> Ints:
        return self.table.works[self.numbers]

    @property
    def highest(self) -> int:
        return int(self.table.priorities[self.numbers[-1]])

    @property
    def lowest(self) -> int:
        return int(self.table.priorities[self.numbers[0]])

    @property
    def any_under_budget(self) -> bool:
        return self.table.any_under_budget(self.numbers)

    def by_domain(self, domains: Ints) -> list[tuple[int, Victims]]:
        """The whole table by domain, given the domain of every row; a victim in several domains is in each of them."""
        owners, places = self.table.owners, domains[self.table.rows]
        order = np.lexsort((owners, places))
        owners, places = owners[order], places[order]
        # A victim on several rows of a domain is listed once.
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = (np.diff(owners) != 0) | (np.diff(places) != 0)
        owners, places = owners[first], places[first]
        ends = [*(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
        starts = [0, *ends[:-1]] if len(places) else []
        return [
            (places.item(low), Victims(self.table, owners[low:high])) for low, high in zip(starts, ends, strict=False)
        ]

    def below(self, priority: int) -> Victims:
        """Those of a lower priority."""
        return self[: int(np.searchsorted(self.priorities, priority))]

    def with_units(self, units: Collection[int]) -> list[Victim]:
        """Those whose unit is among these."""
        each = zip(self.numbers.tolist(), self.units.tolist(), strict=True)
        return [self.table.victim(number) for number, unit in each if unit in units]

    def only(self, victims: Iterable[Victim]) -> Victims:
        """A subset as a selection of the same table."""
        return Victims(self.table, np.array([victim.number for victim in victims], dtype=np.int64))


def numbers_of(victims: Sequence[Victim]) -> Ints | list[int]:
    """Their numbers in the table, without making objects of a selection."""
    return victims.numbers if isinstance(victims, Victims) else [victim.number for victim in victims]


def units_of(victims: Iterable[Victim]) -> list[int]:
    """Their units, without making objects of a selection."""
    return victims.units.tolist() if isinstance(victims, Victims) else [victim.unit for victim in victims]


def _evictable(view: ClusterView, ids: Ints) -> tuple[list[Running], Ints]:
    """The evictable pods of these units, and for each the place of its unit among `ids`, which ascend."""
    if PODS_PER_UNIT * len(ids) < view.running_count:
        pods = [pod for unit in ids.tolist() for pod in view.pods_of(unit) if pod.evictable]
    else:
        pods = [pod for pod in view.all_running() if pod.evictable]
    units = np.fromiter(map(_UNIT, pods), dtype=np.int64, count=len(pods))
    places = np.searchsorted(ids, units)
    known = places < len(ids)
    known[known] = ids[places[known]] == units[known]
    if not known.all():
        pods = [pod for pod, is_known in zip(pods, known.tolist(), strict=True) if is_known]
        places = places[known]
    return pods, places


def _ordered(priorities: Ints, works: Ints) -> Ints:
    """The stable order by priority, then work."""
    steps = np.searchsorted(distinct(priorities.tolist()), priorities)
    width = int(works.max(initial=0)) + 1
    if width * (len(steps) + 1) < LARGEST_KEY and int(works.min(initial=0)) >= 0:
        return np.argsort(steps * width + works, kind="stable")  # one sort instead of two
    return np.lexsort((works, priorities))


def _rows(view: ClusterView, units: int, pods: list[Running]) -> Ints:
    """The row of every pod's node, -1 for an unknown node."""
    if units > view.node_table.size // NODES_PER_UNIT:
        row_of = {name: row for row, name in enumerate(view.node_names())}.get
        return np.array([row_of(name, -1) for name in map(_NODE, pods)], dtype=np.int64)
    known = map(view.node_table.row, map(_NODE, pods))
    return np.array([-1 if row is None else row for row in known], dtype=np.int64)


def _distinct_requests(pods: list[Running]) -> tuple[Ints, list[Requests]]:
    """For each pod the index of its requests among the distinct ones, and these; thousands of pods share a few.

    Requests are told apart by object identity, which is fast; equal ones may be listed more than once.
    """
    ids = np.fromiter(map(id, map(_REQUESTS, pods)), dtype=np.int64, count=len(pods))
    order = np.argsort(ids)
    first = order[np.flatnonzero(np.diff(ids[order], prepend=-1))]
    return np.searchsorted(ids[first], ids), [pods[at].requests for at in first.tolist()]


def _starts(owners: Ints, number: int) -> Ints:
    """Where the items of each owner begin once they are sorted by owner, and the end."""
    starts = np.zeros(number + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, minlength=number), out=starts[1:])
    return starts


def _order_by_owner(owners: Ints, starts: Ints) -> Ints:
    """The order that sorts items by owner."""
    if (np.diff(starts) == 1).all():  # one item each: a permutation, no sort needed
        order = np.empty(len(owners), dtype=np.int64)
        order[owners] = np.arange(len(owners))
        return order
    return np.argsort(owners, kind="stable")
