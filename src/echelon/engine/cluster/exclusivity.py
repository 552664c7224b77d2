"""Exclusive domains: groups of one rank share no domain of their exclusivity key.

Holders are counted per node; their domains are derived per (key, rank) and kept until nodes are added or removed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..records.demand import Exclusive
from .arrays import Bools
from .node_table import NodeTable

#: The domain of a key that a row is in: a number at a listed level, else the label's value; None without the label.
Held = int | str | None


class Holding:
    """The holders of one exclusivity: pods by group and node, and their domains for one state of the table."""

    __slots__ = ("domains", "of_group", "pods", "shape", "taken")

    def __init__(self) -> None:
        #: (group, node) -> pods
        self.pods: dict[tuple[int, str], int] = {}
        self.shape = -1
        #: domain -> group -> nodes
        self.domains: dict[Held, dict[int, int]] = {}
        self.of_group: dict[int, dict[Held, None]] = {}
        #: Which domains of the key's level are held; built on first use.
        self.taken: Bools | None = None


class Exclusivity:
    """Exclusive holders by domain."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._holdings: dict[Exclusive, Holding] = {}

    def clear(self) -> None:
        """Forget all holders."""
        self._holdings.clear()

    def seen_from(self, table: NodeTable) -> Exclusivity:
        """The same holders on the table of a trial: pods by node are shared, derived domains are not."""
        other = Exclusivity(table)
        for exclusive, holding in self._holdings.items():
            other._holdings[exclusive] = Holding()
            other._holdings[exclusive].pods = holding.pods
        return other

    def count(self, exclusive: Exclusive, group: int, nodes: Iterable[str], times: int) -> None:
        """Add (1) or remove (-1) pods of a group; a node is listed once for each of its pods."""
        holding = self._holdings.get(exclusive)
        if holding is None:
            holding = self._holdings[exclusive] = Holding()
        pods, changed = holding.pods, list[str]()
        for node in nodes:
            before = pods.get((group, node), 0)
            after = before + times
            if after:
                pods[group, node] = after
            else:
                del pods[group, node]
            if (before > 0) != (after > 0):
                changed.append(node)
        # Domains derived from another state of the table are derived anew on next use.
        if changed and holding.shape == self._table.shape:
            self._note(holding, exclusive.key, group, changed, times)

    def holders(self, exclusive: Exclusive) -> dict[Held, dict[int, int]]:
        """domain -> the groups that hold it (with the number of nodes they hold there)."""
        return self._current(exclusive).domains

    def taken(self, exclusive: Exclusive) -> Bools:
        """Which domains of the key's level are held, as an array; callers copy it."""
        holding = self._current(exclusive)
        if holding.taken is None:
            level = self._table.level_of[exclusive.key]
            holding.taken = np.zeros(len(self._table.starts(level)), dtype=np.bool_)
            holding.taken[[domain for domain in holding.domains if isinstance(domain, int)]] = True
        return holding.taken

    def domains_of(self, exclusive: Exclusive, group: int) -> list[Held]:
        """The domains that one group holds."""
        return list(self._current(exclusive).of_group.get(group, ()))

    def domain(self, key: str, row: int) -> Held:
        level = self._table.level_of.get(key)
        if level is None:
            return self._table.nodes[row].labels.get(key) or None
        index = self._table.domains(level).item(row)
        return index if self._table.named(level)[index] else None

    def _current(self, exclusive: Exclusive) -> Holding:
        """A holding with its domains, for the nodes as they are now."""
        holding = self._holdings.get(exclusive)
        if holding is None:
            holding = self._holdings[exclusive] = Holding()
        if holding.shape != self._table.shape:
            holding.shape, holding.taken = self._table.shape, None
            holding.domains.clear()
            holding.of_group.clear()
            nodes: dict[int, list[str]] = {}
            for (group, node), number in holding.pods.items():
                if number > 0:  # in a trial a pod may be removed more than once
                    nodes.setdefault(group, []).append(node)
            for group, held in nodes.items():
                self._note(holding, exclusive.key, group, held, 1)
        return holding

    def _note(self, holding: Holding, key: str, group: int, nodes: Iterable[str], times: int) -> None:
        """Count nodes of a group in their domains."""
        rows = [row for row in map(self._table.row, nodes) if row is not None]
        mine = holding.of_group.setdefault(group, {})
        for domain, number in self._domains(key, rows).items():
            groups = holding.domains.setdefault(domain, {})
            groups[group] = groups.get(group, 0) + number * times
            mine[domain] = None
            if not groups[group]:
                del groups[group], mine[domain]
            if not groups:
                del holding.domains[domain]
            if holding.taken is not None and isinstance(domain, int):
                holding.taken[domain] = bool(groups)
        if not mine:
            del holding.of_group[group]

    def _domains(self, key: str, rows: list[int]) -> dict[Held, int]:
        """Rows per domain of a key."""
        found: dict[Held, int] = {}
        level = self._table.level_of.get(key)
        known = None if level is None else self._table.domains(level)
        for row in rows:
            domain = self.domain(key, row) if known is None else known.item(row)
            found[domain] = found.get(domain, 0) + 1
        found.pop(None, None)
        if level is not None and not self._table.all_named(level):
            named = self._table.named(level)
            return {domain: number for domain, number in found.items() if named[int(domain or 0)]}
        return found
