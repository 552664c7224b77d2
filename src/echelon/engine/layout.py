"""Nodes as arrays in topology order, so that a domain is a run of rows and a roll-up is one `reduceat`.

Rows are sorted by (path, name), where the path holds a node's values of the configured levels, widest first.
The level -1 stands for the whole cluster.  Rows are inserted and removed in batches; values within a row change
in place and leave a trace in `log`, from which the capacity caches catch up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from .demand import LARGEST, PORT, Taint, given

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Rows = slice | Ints
Path = tuple[str, ...]
Item = TypeVar("Item")

#: Resources that every node has; all others are devices.
PLAIN = ("cpu", "memory", "ephemeral-storage", "pods")
#: Nodes that are added one by one; more of them at once.
FEW = 8
#: Up to so many resources it is not worth looking for those that nobody uses.
_FEW_RESOURCES = 64


class NodeLike(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def allocatable(self) -> Mapping[str, int]: ...
    @property
    def taints(self) -> tuple[Taint, ...]: ...
    @property
    def unschedulable(self) -> bool: ...


def is_device(resource: str) -> bool:
    return resource not in PLAIN and not resource.startswith(PORT)


def _has_devices(node: NodeLike) -> bool:
    return any(amount > 0 and is_device(name) for name, amount in node.allocatable.items())


def clip(amount: int) -> int:
    return min(max(amount, -LARGEST), LARGEST)


def distinct(numbers: Iterable[int]) -> Ints:
    """The different numbers in order; `np.unique` would load a masked-array package for it."""
    return np.array(sorted(set(numbers)), dtype=np.int64)


def run(rows: Sequence[int]) -> Rows:
    """Distinct rows in order, as a slice if they lie side by side: arrays are read and written quicker that way."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return slice(rows[0], rows[-1] + 1)
    return np.array(rows, dtype=np.int64)


def merged(old: list[Item], at: Sequence[int], new: Sequence[Item]) -> list[Item]:
    """New items in front of the old ones at these positions, which ascend; the old list is used up."""
    if len(new) <= FEW:
        for place, item in reversed(list(zip(at, new, strict=True))):
            old.insert(place, item)
        return old
    found: list[Item] = []
    start = 0
    for place, item in zip(at, new, strict=True):
        found += old[start:place]
        found.append(item)
        start = place
    return found + old[start:]


def _shared(path: Path, other: Path) -> int:
    """How many of the first values two paths have in common."""
    return next((number for number, pair in enumerate(zip(path, other, strict=True)) if pair[0] != pair[1]), len(path))


class Column:
    """One label over all nodes: an id per row, -1 where the label is missing."""

    def __init__(self) -> None:
        self.ids: Ints = np.empty(0, dtype=np.int64)
        self.values: dict[str, int] = {}

    def encode(self, value: str | None) -> int:
        return -1 if value is None else self.values.setdefault(value, len(self.values))


class Layout:
    """The arrays.  `epoch` changes whenever row numbers or the log lose their meaning for a cache."""

    def __init__(self, levels: Sequence[str]) -> None:
        self.levels = tuple(levels)
        self.level_of = {key: number for number, key in enumerate(self.levels)}
        self.epoch = 0
        #: Changes whenever row numbers or labels change.
        self.shape = 0
        self.clear()

    def clear(self) -> None:
        """No nodes, whatever was there before."""
        self.epoch += 1
        self.shape += 1
        self.log: list[int] = []
        #: Rows whose labels, taints or cordon changed; a part of `log`.
        self.relabelled: list[int] = []
        #: By row.
        self.nodes: list[NodeLike] = []
        #: Rows move when nodes come and go; a node keeps its ticket, and `_row_of` follows by one array assignment.
        self._ticket_of: dict[str, int] = {}
        self._tickets: Small = np.zeros(0, dtype=np.int32)
        self._row_of: Small = np.zeros(0, dtype=np.int32)
        self._returned: list[int] = []
        self.resources: dict[str, int] = {}
        self.free: Ints = np.zeros((0, 0), dtype=np.int64)
        #: With so many resources those that nobody uses are looked for.
        self._shed_at = _FEW_RESOURCES
        #: What a node has of each resource unless it says otherwise.
        self._given: Ints = np.zeros(0, dtype=np.int64)
        self.cordoned: Bools = np.zeros(0, dtype=np.bool_)
        self.cordons = 0
        #: Rows with anything beyond what every node has.
        self.devices: Bools = np.zeros(0, dtype=np.bool_)
        self.with_devices = 0
        self.taint_sets: dict[tuple[Taint, ...], int] = {}
        self.taints: Ints = np.zeros(0, dtype=np.int64)
        self._columns: dict[str, Column] = {}
        #: By level and row: whether a domain begins there, and whether the node has the label.
        self._first: Bools = np.zeros((len(self.levels), 0), dtype=np.bool_)
        self._labelled: Bools = np.zeros((len(self.levels), 0), dtype=np.bool_)
        self._derived: dict[Any, Any] = {}
        self._charged: tuple[tuple[tuple[str, int], ...], Ints] = ((), np.zeros((0, 1), dtype=np.int64))

    # ---- rows

    @property
    def size(self) -> int:
        return len(self.nodes)

    def path_of(self, node: NodeLike) -> Path:
        labels = node.labels
        return tuple([labels.get(key, "") for key in self.levels])

    def row(self, name: str) -> int | None:
        ticket = self._ticket_of.get(name)
        return None if ticket is None else self._row_of.item(ticket)

    def name(self, row: int) -> str:
        return self.nodes[row].name

    def path(self, row: int) -> Path:
        return self.path_of(self.nodes[row])

    def insert(self, nodes: Iterable[tuple[NodeLike, Mapping[str, int]]]) -> None:
        """Add nodes, each with what is free on it; none of them may be known yet."""
        fresh = sorted(nodes, key=lambda each: self._place_of(each[0]))
        if not fresh:
            return
        added = [node for node, _ in fresh]
        at = self._spots(added)
        amounts = self._amounts([free for _, free in fresh])
        self.nodes = merged(self.nodes, at, added)
        self._tickets = np.insert(self._tickets, at, [self._issue(node.name) for node in added])
        self.free = np.insert(self.free, at, amounts, axis=1)
        self.cordoned = np.insert(self.cordoned, at, [node.unschedulable for node in added])
        self.devices = np.insert(self.devices, at, [_has_devices(node) for node in added])
        self.taints = np.insert(self.taints, at, [self._taint_set(node.taints) for node in added])
        for key, column in self._columns.items():
            column.ids = np.insert(column.ids, at, [column.encode(node.labels.get(key)) for node in added])
        self._first = np.insert(self._first, at, False, axis=1)
        labelled = [[value != "" for value in self.path_of(node)] for node in added]
        self._labelled = np.insert(self._labelled, at, np.array(labelled, dtype=np.bool_).T, axis=1)
        self._reshape(dict.fromkeys(row for spot, place in enumerate(at) for row in (place + spot, place + spot + 1)))

    def _spots(self, added: Sequence[NodeLike]) -> list[int]:
        """In front of which row each node belongs; they are in order, and neighbours often go to one spot."""
        found: list[int] = []
        for node in added:
            place = self._place_of(node)
            spot = found[-1] if found else -1
            if spot < 0 or (spot < self.size and self._place_of(self.nodes[spot]) < place):
                spot = bisect_left(self.nodes, place, key=self._place_of)
            found.append(spot)
        return found

    def remove(self, names: Iterable[str]) -> None:
        rows = sorted(row for row in map(self.row, names) if row is not None)
        if not rows:
            return
        for row in reversed(rows):
            self._returned.append(self._ticket_of.pop(self.nodes.pop(row).name))
        self._tickets = np.delete(self._tickets, rows)
        self.free = np.delete(self.free, rows, axis=1)
        self.cordoned = np.delete(self.cordoned, rows)
        self.devices = np.delete(self.devices, rows)
        self.taints = np.delete(self.taints, rows)
        for column in self._columns.values():
            column.ids = np.delete(column.ids, rows)
        self._first = np.delete(self._first, rows, axis=1)
        self._labelled = np.delete(self._labelled, rows, axis=1)
        self._reshape(row - spot for spot, row in enumerate(rows))

    def replace(self, node: NodeLike, free: Mapping[str, int]) -> None:
        """A known node on its old path has other labels, taints or amounts."""
        row = self.row(node.name)
        assert row is not None
        if self.nodes[row].labels != node.labels:
            self.shape += 1
        self.nodes[row] = node
        self.free[:, row] = self._amounts([free])[:, 0]
        self.cordons += node.unschedulable - int(self.cordoned[row])
        self.cordoned[row] = node.unschedulable
        self.with_devices += _has_devices(node) - int(self.devices[row])
        self.devices[row] = _has_devices(node)
        self.taints[row] = self._taint_set(node.taints)
        for key, column in self._columns.items():
            column.ids[row] = column.encode(node.labels.get(key))
        self.touch(row)
        self.relabelled.append(row)

    def _place_of(self, node: NodeLike) -> tuple[Path, str]:
        """What rows are ordered by."""
        return self.path_of(node), node.name

    def _issue(self, name: str) -> int:
        """A ticket for a new node, as small as can be."""
        ticket = self._returned.pop() if self._returned else len(self._ticket_of)
        self._ticket_of[name] = ticket
        return ticket

    def _amounts(self, free: Sequence[Mapping[str, int]]) -> Ints:
        """One column for each: what is given without saying, and what is said."""
        for each in free:
            self.learn(each)
        found = np.repeat(self._given[:, np.newaxis], len(free), axis=1)
        for number, each in enumerate(free):
            for resource, amount in each.items():
                found[self.resources[resource], number] = clip(amount)
        return found

    def charge(self, row: int, requests: Iterable[tuple[str, int]], times: int) -> None:
        """Take `times` pods' requests from a row; a negative number gives back."""
        for resource, amount in requests:
            known = self.resources.get(resource)
            if known is None:
                self.learn((resource,))
                known = self.resources[resource]
            self.free[known, row] -= (amount if -LARGEST <= amount <= LARGEST else clip(amount)) * times
        self.touch(row)

    def charge_rows(self, rows: Mapping[int, int], requests: Iterable[tuple[str, int]]) -> None:
        """Take as many pods' requests from each row as stands beside it."""
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
        """All resources in one go."""
        each = self._column_of(tuple(requests))
        taken = each * counts
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
        """Whoever is so far behind counts anew."""
        if len(self.log) > 4 * self.size + 1024:
            self._forget_log()

    def knows(self, requests: Iterable[tuple[str, int]]) -> bool:
        """Whether there is an array for each resource."""
        known = self.resources
        return all(name in known for name, _ in requests)

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
        """Give up the arrays of ports that no pod takes; only between decisions, since resources are renumbered.

        Pods may ask for any port, and each that was ever asked for would cost a number per node for ever.
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

    def _taint_set(self, taints: tuple[Taint, ...]) -> int:
        return self.taint_sets.setdefault(taints, len(self.taint_sets))

    def _reshape(self, rows: Iterable[int]) -> None:
        """Row numbers moved: note where domains begin at these rows, forget what was derived from the old ones."""
        for row in rows:
            if row >= self.size:
                continue
            shared = _shared(self.path(row), self.path(row - 1)) if row else 0
            self._first[:shared, row] = False
            self._first[shared:, row] = True
        if len(self._row_of) < len(self._tickets):
            self._row_of = np.zeros(2 * len(self._tickets), dtype=np.int32)
        self._row_of[self._tickets] = np.arange(self.size, dtype=np.int32)
        self.cordons, self.with_devices = int(self.cordoned.sum()), int(self.devices.sum())
        self._forget_log()
        self._derived.clear()
        self.shape += 1

    def _forget_log(self) -> None:
        self.epoch += 1
        self.log.clear()
        self.relabelled.clear()

    # ---- labels and domains

    def column(self, key: str) -> Column:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = Column()
            labels = (node.labels.get(key) for node in self.nodes)
            column.ids = np.fromiter((column.encode(value) for value in labels), dtype=np.int64, count=self.size)
        return column

    def starts(self, level: int) -> Ints:
        """First row of every domain of a level, in order."""
        found: Ints | None = self._derived.get(level)
        if found is None:
            whole = np.zeros(1, dtype=np.int64)
            found = whole if level < 0 else np.flatnonzero(self._first[level]).astype(np.int64)
            self._derived[level] = found
        return found

    def domains(self, level: int) -> Ints:
        """The domain of a level that each row is in."""
        found: Ints | None = self._derived.get(("rows", level))
        if found is None:
            whole = np.zeros(self.size, dtype=np.int64)
            found = whole if level < 0 else np.cumsum(self._first[level], dtype=np.int64) - 1
            self._derived["rows", level] = found
        return found

    def named(self, level: int) -> Bools:
        """Which domains of a level exist by label; nodes without the label form none."""
        found: Bools | None = self._derived.get(("named", level))
        if found is None:
            found = np.ones(1, dtype=np.bool_) if level < 0 else self._labelled[level][self._first[level]]
            self._derived["named", level] = found
        return found

    def all_named(self, level: int) -> bool:
        found: bool | None = self._derived.get(("all named", level))
        if found is None:
            found = self._derived["all named", level] = bool(self.named(level).all())
        return found

    def nested(self, outer: int, inner: int) -> Ints:
        """For every domain of the outer level the number of its first domain of the inner level."""
        found: Ints | None = self._derived.get(("nested", outer, inner))
        if found is None:
            found = np.searchsorted(self.starts(inner), self.starts(outer)).astype(np.int64)
            self._derived["nested", outer, inner] = found
        return found

    def span(self, level: int, index: int) -> tuple[int, int]:
        """The rows of one domain, as a half-open interval."""
        starts = self.starts(level)
        end = int(starts[index + 1]) if index + 1 < len(starts) else self.size
        return int(starts[index]), end

    def inner(self, outer: int, index: int, inner: int) -> tuple[int, int]:
        """The domains of the inner level inside one domain of the outer level, as a half-open interval."""
        nested = self.nested(outer, inner)
        end = int(nested[index + 1]) if index + 1 < len(nested) else len(self.starts(inner))
        return int(nested[index]), end

    def opened(self, level: int, index: int) -> tuple[int, int, int] | None:
        """The widest level below a domain at which it falls into several, and these; None if into single nodes."""
        derived, key = self._derived, ("opened", level, index)
        if key not in derived:
            derived[key] = self._open(level, index)
        found: tuple[int, int, int] | None = derived[key]
        return found

    def _open(self, level: int, index: int) -> tuple[int, int, int] | None:
        low, high = self.span(level, index)
        while level + 1 < len(self.levels):
            first, last = self.inner(level, index, level + 1)
            if last - first == high - low:
                break  # one node each, as at the host level: rows will do
            level, index = level + 1, first
            if last - first > 1:
                return level, first, last
        return None

    def domain_path(self, level: int, index: int) -> Path:
        """What a domain is called: its values from the widest level down, missing labels left out."""
        if level < 0:
            return ()
        labels = self.nodes[self.starts(level).item(index)].labels
        return tuple([labels[key] for key in self.levels[: level + 1] if labels.get(key)])
