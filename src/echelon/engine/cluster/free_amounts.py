"""Free amounts of every resource on every node: an array with one row per resource and one column per node.

    pods bound and unbound ─► FreeAmounts.charge ─► free   read by `slots`, trial states, bounds
                                            └─────► log    rows that changed; slot caches catch up from it

Nodes are added and removed through `node_table`, whose class extends this one: its rows are the columns here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..records.demand import LARGEST, PORT, given
from .arrays import Ints, Rows, run, spliced

#: Resources that every node has; all others are devices.
PLAIN = ("cpu", "memory", "ephemeral-storage", "pods")
#: With fewer resources unused ones are not looked for.
_FEW_RESOURCES = 64


def is_device(resource: str) -> bool:
    return resource not in PLAIN and not resource.startswith(PORT)


def clip(amount: int) -> int:
    return min(max(amount, -LARGEST), LARGEST)


class FreeAmounts:
    """Free amounts.  `epoch` changes whenever columns, resources or the log become invalid for a cache."""

    def __init__(self) -> None:
        self.epoch = 0
        self._empty()

    def _empty(self) -> None:
        """No nodes and no resources."""
        self.epoch += 1
        self.log: list[int] = []
        #: Rows whose labels, taints or cordon changed; a subset of `log`.
        self.relabelled: list[int] = []
        self.resources: dict[str, int] = {}
        self.free: Ints = np.zeros((0, 0), dtype=np.int64)
        #: From this number of resources on, unused ones are looked for.
        self._shed_at = _FEW_RESOURCES
        #: What a node has of each resource unless it says otherwise.
        self._given: Ints = np.zeros(0, dtype=np.int64)
        self._charged: tuple[tuple[tuple[str, int], ...], Ints] = ((), np.zeros((0, 1), dtype=np.int64))

    def charge(self, row: int, requests: Iterable[tuple[str, int]], times: int) -> None:
        """Take `times` pods' requests from a row; a negative number gives back."""
        for resource, amount in requests:
            known = self.resources.get(resource)
            if known is None:
                self.learn((resource,))
                known = self.resources[resource]
            taken = (amount if -LARGEST <= amount <= LARGEST else clip(amount)) * times
            self.free[known, row] = self.free.item(known, row) - taken
        self.touch(row)

    def charge_rows(self, rows: Mapping[int, int], requests: Iterable[tuple[str, int]]) -> None:
        """Take the requests of a number of pods from each row: row -> number."""
        if len(rows) == 1:
            ((row, times),) = rows.items()
            self.charge(row, requests, times)
        elif rows:
            ordered = sorted(rows)
            counts = [rows[row] for row in ordered]
            alike = counts.count(counts[0]) == len(counts)
            self._charge(run(ordered), requests, counts[0] if alike else np.array(counts, dtype=np.int64))
            self.log += ordered
            self._shorten_log()

    def charge_many(self, rows: Ints, requests: Iterable[tuple[str, int]], counts: Ints) -> None:
        """Take `counts` pods' requests from distinct rows at once; negative numbers give back."""
        self._charge(rows, requests, counts)
        self.log += rows.tolist()
        self._shorten_log()

    def _charge(self, rows: Rows, requests: Iterable[tuple[str, int]], counts: Ints | int) -> None:
        """All resources at once."""
        each = self._column_of(tuple(requests))
        taken = each if isinstance(counts, int) and counts == 1 else each * counts
        if isinstance(rows, slice):
            there = self.free[:, rows]
            np.subtract(there, taken, out=there)
        else:
            self.free[:, rows] -= taken

    def _column_of(self, requests: tuple[tuple[str, int], ...]) -> Ints:
        """What one pod takes of every resource; the last answer is kept, since pods come in gangs."""
        known, column = self._charged
        if known != requests or len(column) != len(self.resources):
            self.learn(resource for resource, _ in requests)
            column = np.zeros((len(self.resources), 1), dtype=np.int64)
            for resource, amount in requests:
                column[self.resources[resource], 0] += clip(amount)
            self._charged = requests, column
        return column

    def touch(self, row: int) -> None:
        self.log.append(row)
        self._shorten_log()

    def _shorten_log(self) -> None:
        """Drop a log that is longer than a full recount is worth."""
        if len(self.log) > 4 * self.free.shape[1] + 1024:
            self._forget_log()

    def knows(self, requests: Iterable[tuple[str, int]]) -> bool:
        """Whether there is an array for each resource."""
        known = self.resources
        for name, _ in requests:  # noqa: SIM110 - once per decision, and `all` would create a generator
            if name not in known:
                return False
        return True

    def learn(self, resources: Iterable[str]) -> None:
        """Keep an array for each of these from now on."""
        unknown = [name for name in dict.fromkeys(resources) if name not in self.resources]
        for name in unknown:
            self.resources[name] = len(self.resources)
        if unknown:
            more = np.array([given(name) for name in unknown], dtype=np.int64)
            self._given = np.concatenate([self._given, more])
            self.free = np.concatenate([self.free, np.repeat(more[:, np.newaxis], self.free.shape[1], axis=1)], axis=0)

    def shed(self) -> None:
        """Drop the arrays of host ports that no pod uses; only between decisions, since resources are renumbered.

        Pods may request any port, and each that was ever requested would cost a number per node for good.
        """
        if len(self.resources) < self._shed_at:
            return
        used = (self.free != self._given[:, np.newaxis]).any(axis=1)
        kept = [name for name, number in self.resources.items() if used[number] or not given(name)]
        if len(kept) < len(self.resources):
            rows = [self.resources[name] for name in kept]
            self.free, self._given = self.free[rows], self._given[rows]
            self.resources = {name: number for number, name in enumerate(kept)}
            self._charged = ((), np.zeros((0, 1), dtype=np.int64))
            self._forget_log()
        self._shed_at = 2 * len(self.resources) + _FEW_RESOURCES

    def _amounts(self, free: Sequence[Mapping[str, int]]) -> Ints:
        """One column per node: the listed amounts, defaults for the rest."""
        self.learn(resource for each in free for resource in each)
        unsaid = zip(self.resources, self._given.tolist(), strict=True)
        found = [[clip(each.get(resource, amount)) for each in free] for resource, amount in unsaid]
        return np.array(found, dtype=np.int64).reshape(len(found), len(free))

    def _insert_amounts(self, at: Sequence[int], free: Sequence[Mapping[str, int]]) -> None:
        amounts = self._amounts(free)
        self.free = spliced(self.free, at, amounts)

    def _delete_amounts(self, rows: Sequence[int]) -> None:
        self.free = np.delete(self.free, rows, axis=1)

    def _set_amounts(self, row: int, free: Mapping[str, int]) -> None:
        self.free[:, row] = self._amounts([free])[:, 0]

    def _forget_log(self) -> None:
        self.epoch += 1
        self.log.clear()
        self.relabelled.clear()
