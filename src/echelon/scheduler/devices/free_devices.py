"""Nodes by how many free devices of a kind they have: a choice looks at those that have enough and at no others.

    device given, taken back, come, gone ─► touch(node) ─┐
    nodes(kind, at least so many) ───────────────────────┴─► only touched nodes are counted again

A kind is counted when it is first asked for.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from .inventory import DeviceId, Inventory
from .selecting import DeviceKind


@dataclass(slots=True)
class _Counted:
    free: dict[str, int] = field(default_factory=dict)
    #: Nodes in order, by the number of their free devices.
    nodes: dict[int, list[str]] = field(default_factory=dict)

    def put(self, node: str, free: int) -> None:
        before = self.free.pop(node, 0)
        if free:
            self.free[node] = free
        if free == before:
            return
        if before:
            listed = self.nodes[before]
            del listed[bisect_left(listed, node)]
            if not listed:
                del self.nodes[before]
        if free:
            insort(self.nodes.setdefault(free, []), node)


class FreeDevices:
    def __init__(
        self,
        inventory: Inventory,
        selected: Mapping[DeviceKind, Collection[DeviceId]],
        is_free: Callable[[DeviceId], bool],
    ) -> None:
        self._inventory = inventory
        self._selected = selected
        self._is_free = is_free
        self._counted: dict[DeviceKind, _Counted] = {}
        self._touched: dict[str, None] = {}

    def touch(self, node: str) -> None:
        """A node has other devices, or others of them are free."""
        if self._counted:
            self._touched[node] = None

    def nodes(self, kind: DeviceKind, least: int) -> Iterator[str]:
        """Nodes with at least so many free devices of a kind, those with the fewest first, then by name."""
        self._recount()
        if kind not in self._counted:
            self._counted[kind] = self._count(kind)
        by_number = self._counted[kind].nodes
        return (node for number in sorted(by_number) if number >= least for node in by_number[number])

    def _recount(self) -> None:
        for kind in [one for one in self._counted if one not in self._selected]:
            del self._counted[kind]
        for node in self._touched:
            devices = self._inventory.on_node(node)
            for kind, counted in self._counted.items():
                ours = self._selected[kind]
                counted.put(node, sum(one.id in ours and self._is_free(one.id) for one in devices))
        self._touched = {}

    def _count(self, kind: DeviceKind) -> _Counted:
        free: Counter[str] = Counter()
        for one in self._selected.get(kind, ()):
            device = self._inventory.get(one)
            if device is not None and device.node and self._is_free(one):
                free[device.node] += 1
        found = _Counted(dict(free))
        for node in sorted(free):
            found.nodes.setdefault(free[node], []).append(node)
        return found
