"""Who holds which domain exclusively: groups of one rank share no domain of their exclusivity key.

Holders are counted per node; their domains are derived per (key, rank) and kept until nodes join or leave.
"""

from __future__ import annotations

import numpy as np

from .demand import Exclusive
from .layout import Bools, Layout

#: The domain of a key that a row is in: a number at a listed level, else the label's value; None without the label.
Held = int | str | None


class Occupancy:
    """Exclusive holders by domain."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        #: exclusivity -> (group, node) -> pods
        self._pods: dict[Exclusive, dict[tuple[int, str], int]] = {}
        #: exclusivity -> domain -> group -> nodes; valid for one shape of the layout
        self._held: dict[Exclusive, dict[Held, dict[int, int]]] = {}
        #: (exclusivity, group) -> domains it holds
        self._domains_of: dict[tuple[Exclusive, int], dict[Held, None]] = {}
        #: exclusivity -> which domains of its level are held by anyone
        self._taken: dict[Exclusive, Bools] = {}
        self._shape = -1

    def count(self, exclusive: Exclusive, group: int, node: str, times: int) -> None:
        pods = self._pods.setdefault(exclusive, {})
        before = pods.get((group, node), 0)
        after = before + times
        if after:
            pods[group, node] = after
        else:
            del pods[group, node]
        # What was derived from another shape of the layout is derived anew when next asked for.
        current = self._shape == self._layout.shape
        if current and (before > 0) != (after > 0) and exclusive in self._held:
            domain = self._note(exclusive, group, node, 1 if after else -1)
            if isinstance(domain, int) and exclusive in self._taken:
                self._taken[exclusive][domain] = domain in self._held[exclusive]

    def holders(self, exclusive: Exclusive) -> dict[Held, dict[int, int]]:
        """domain -> the groups that hold it (with the number of nodes they hold there)."""
        if self._shape != self._layout.shape:
            self._held.clear()
            self._taken.clear()
            self._domains_of.clear()
            self._shape = self._layout.shape
        held = self._held.get(exclusive)
        if held is None:
            held = self._held[exclusive] = {}
            for group, node in self._pods.get(exclusive, {}):
                self._note(exclusive, group, node, 1)
        return held

    def taken(self, exclusive: Exclusive) -> Bools:
        """The same as an array over the domains of the key's level, whoever holds them; callers copy it."""
        holders = self.holders(exclusive)
        taken = self._taken.get(exclusive)
        if taken is None:
            level = self._layout.level_of[exclusive.key]
            taken = self._taken[exclusive] = np.zeros(len(self._layout.starts(level)), dtype=np.bool_)
            taken[[domain for domain in holders if isinstance(domain, int)]] = True
        return taken

    def domains_of(self, exclusive: Exclusive, group: int) -> list[Held]:
        """What one group holds."""
        self.holders(exclusive)
        return list(self._domains_of.get((exclusive, group), ()))

    def domain(self, key: str, row: int) -> Held:
        level = self._layout.level_of.get(key)
        if level is None:
            return self._layout.nodes[row].labels.get(key) or None
        index = int(self._layout.domains(level)[row])
        return index if self._layout.named(level)[index] else None

    def _note(self, exclusive: Exclusive, group: int, node: str, times: int) -> Held:
        """Count a node of a group in its domain, which is returned."""
        row = self._layout.row(node)
        domain = None if row is None else self.domain(exclusive.key, row)
        if domain is None:
            return None
        held = self._held[exclusive]
        groups = held.setdefault(domain, {})
        groups[group] = groups.get(group, 0) + times
        mine = self._domains_of.setdefault((exclusive, group), {})
        mine[domain] = None
        if not groups[group]:
            del groups[group], mine[domain]
        if not groups:
            del held[domain]
        return domain
