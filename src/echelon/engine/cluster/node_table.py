"""The nodes of the view as arrays: rows in topology order, free amounts, labels, taints and cordons.

    `view` ─► NodeTable.insert, remove, replace ─► rows (`topology`), free amounts (`free_amounts`), labels, taints
                                                └► read by `node_filters`, `slots`, the search

Rows are inserted and removed in batches; a change within a row is made in place and noted in `log`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

import numpy as np

from ..records.demand import Taint
from .arrays import Bools, Ints, Small, spliced
from .free_amounts import FreeAmounts, is_device
from .topology import NodeLike, Topology


class LabelColumn:
    """One label over all nodes: an id per row, -1 where the label is missing."""

    def __init__(self) -> None:
        self.ids: Ints = np.empty(0, dtype=np.int64)
        self.values: dict[str, int] = {}

    def copy(self) -> LabelColumn:
        twin = LabelColumn()
        twin.ids, twin.values = self.ids.copy(), dict(self.values)
        return twin

    def encode(self, value: str | None) -> int:
        return -1 if value is None else self.values.setdefault(value, len(self.values))


class NodeTable(Topology, FreeAmounts):
    """The arrays.  `epoch` changes whenever row numbers or the log become invalid for a cache."""

    def __init__(self, levels: Sequence[str]) -> None:
        Topology.__init__(self, levels)
        FreeAmounts.__init__(self)
        #: Changes whenever row numbers or labels change.
        self.shape = 0
        self._clear_facts()

    def clear(self) -> None:
        """Remove all nodes."""
        self._clear_rows()
        self._empty()
        self._clear_facts()

    def _clear_facts(self) -> None:
        self.shape += 1
        #: Rows move when nodes are added or removed; a node keeps its ticket, one assignment updates `_row_of`.
        self._ticket_of: dict[str, int] = {}
        self._tickets: Small = np.zeros(0, dtype=np.int32)
        self._row_of: Small = np.zeros(0, dtype=np.int32)
        self._returned: list[int] = []
        self.cordoned: Bools = np.zeros(0, dtype=np.bool_)
        self.cordons = 0
        #: Rows with devices: resources that not every node has.
        self.devices: Bools = np.zeros(0, dtype=np.bool_)
        self.with_devices = 0
        self.taint_sets: dict[tuple[Taint, ...], int] = {}
        #: Those with the effect PreferNoSchedule.
        self.soft_taints: tuple[Taint, ...] = ()
        self.taints: Ints = np.zeros(0, dtype=np.int64)
        self._columns: dict[str, LabelColumn] = {}

    def row(self, name: str) -> int | None:
        ticket = self._ticket_of.get(name)
        return None if ticket is None else self._row_of.item(ticket)

    def insert(self, nodes: Iterable[tuple[NodeLike, Mapping[str, int]]]) -> None:
        """Add new nodes, each with its free amounts."""
        fresh = sorted(nodes, key=lambda each: self._place_of(each[0]))
        if not fresh:
            return
        added = [node for node, _ in fresh]
        at = self._spots(added)
        self._insert_amounts(at, [free for _, free in fresh])
        self._insert_rows(at, added)
        self._tickets = spliced(self._tickets, at, [self._issue(node.name) for node in added])
        self.cordoned = spliced(self.cordoned, at, [node.unschedulable for node in added])
        self.devices = spliced(self.devices, at, [_has_devices(node) for node in added])
        self.taints = spliced(self.taints, at, [self._taint_set(node.taints) for node in added])
        for key, column in self._columns.items():
            column.ids = spliced(column.ids, at, [column.encode(node.labels.get(key)) for node in added])
        self._renumber()

    def enlarged(self, nodes: Sequence[tuple[NodeLike, Mapping[str, int]]]) -> NodeTable:
        """A copy with at least one more node; changes to it do not affect this table."""
        more = copy(self)
        more.log, more.relabelled, more._derived = [], [], {}
        more.nodes, more._ticket_of, more._returned = list(self.nodes), dict(self._ticket_of), list(self._returned)
        more._row_of, more.resources, more.taint_sets = self._row_of.copy(), dict(self.resources), dict(self.taint_sets)
        more._columns = {key: column.copy() for key, column in self._columns.items()}
        more.insert(nodes)  # all other arrays are new ones after it
        return more

    def remove(self, names: Iterable[str]) -> None:
        rows = sorted(row for row in map(self.row, names) if row is not None)
        if not rows:
            return
        self._delete_amounts(rows)
        self._returned += [self._ticket_of.pop(node.name) for node in self._delete_rows(rows)]
        self._tickets = np.delete(self._tickets, rows)
        self.cordoned = np.delete(self.cordoned, rows)
        self.devices = np.delete(self.devices, rows)
        self.taints = np.delete(self.taints, rows)
        for column in self._columns.values():
            column.ids = np.delete(column.ids, rows)
        self._renumber()

    def replace(self, node: NodeLike, free: Mapping[str, int]) -> None:
        """Update the labels, taints or amounts of a known node whose path is unchanged."""
        row = self.row(node.name)
        assert row is not None
        if self.nodes[row].labels != node.labels:
            self.shape += 1
        self.nodes[row] = node
        self._set_amounts(row, free)
        self.cordons += node.unschedulable - int(self.cordoned[row])
        self.cordoned[row] = node.unschedulable
        self.with_devices += _has_devices(node) - int(self.devices[row])
        self.devices[row] = _has_devices(node)
        self.taints[row] = self._taint_set(node.taints)
        for key, column in self._columns.items():
            column.ids[row] = column.encode(node.labels.get(key))
        self.touch(row)
        self.relabelled.append(row)

    def column(self, key: str) -> LabelColumn:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn()
            labels = (node.labels.get(key) for node in self.nodes)
            column.ids = np.fromiter((column.encode(value) for value in labels), dtype=np.int64, count=self.size)
        return column

    def _issue(self, name: str) -> int:
        """A ticket for a new node, the smallest unused one."""
        ticket = self._returned.pop() if self._returned else len(self._ticket_of)
        self._ticket_of[name] = ticket
        return ticket

    def _taint_set(self, taints: tuple[Taint, ...]) -> int:
        known = self.taint_sets.get(taints)
        if known is None:
            known = self.taint_sets[taints] = len(self.taint_sets)
            self.soft_taints += tuple([taint for taint in taints if taint.effect == "PreferNoSchedule"])
        return known

    def _renumber(self) -> None:
        """Update what depends on row numbers."""
        if len(self._row_of) < len(self._tickets):
            self._row_of = np.zeros(2 * len(self._tickets), dtype=np.int32)
        self._row_of[self._tickets] = np.arange(self.size, dtype=np.int32)
        self.cordons, self.with_devices = int(self.cordoned.sum()), int(self.devices.sum())
        self._forget_log()
        self.shape += 1


def _has_devices(node: NodeLike) -> bool:
    return any(amount > 0 and is_device(name) for name, amount in node.allocatable.items())
