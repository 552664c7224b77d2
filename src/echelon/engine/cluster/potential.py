"""Potential slots: how many pods could run around nodes that changed if all pods that may be evicted were gone.

    view.stirred ─► Potential    potential free amounts per node, for demands of one priority
                        └──────► Thresholds    shapes with a number of slots each; which of them are reached in the
                                               domains of nodes that changed

This is an upper bound: whole units are evicted or stay, and other demands compete.  Where it is too low nothing fits,
with or without evictions.  Certificates of blocked demands (`blocked_certificates`) are built on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ..records.demand import LARGEST, Shape, given
from .arrays import Ints
from .free_amounts import clip
from .node_filters import allowed
from .node_table import NodeTable
from .slots import UNLIMITED, count_slots, roll_up
from .topology import Path
from .view import ClusterView, Running

#: In domains with more rows slots are not counted after every change but bounded from the last count.
WIDE = 256
#: Numbers per array operation.
CHUNK = 1 << 18
#: Kinds of constraints that are kept without a shape that has them.
_SPARE_KINDS = 64
#: More slots than can be needed.
NEVER = 1 << 60


class Potential:
    """Free amounts without nominated pods and without pods below a priority (None: with all running pods)."""

    def __init__(self, view: ClusterView, below: int | None) -> None:
        self._view = view
        self._below = below
        #: By node: what the ignored pods there hold.
        self._held: dict[str, dict[str, int]] = {}
        #: The same by resource and row, for one numbering of rows.
        self._more: dict[str, Ints] = {}
        self._numbering = -1
        #: Slots of shapes by level and first row of a domain, until the next change.
        self._totals: dict[tuple[Shape, int, int], int] = {}
        #: The last answer of `by_domain`.
        self._rolled: tuple[Shape, int, Ints] | None = None
        self._read({pod.node for pod in view.all_running() if self._is_ignored(pod)})

    @property
    def table(self) -> NodeTable:
        return self._view.node_table

    def catch_up(self, nodes: Collection[str]) -> None:
        """Read these nodes again."""
        if nodes:
            self._totals.clear()
            self._rolled = None
            self._read(nodes)

    def total(self, shape: Shape, level: int, row: int) -> int:
        """Potential slots of a shape in the domain of a level around a row."""
        table = self._view.node_table
        first, end = table.span(level, table.domains(level).item(row))
        found = self._totals.get((shape, level, first))
        if found is None:
            found = int(self.slots(shape, np.arange(first, end, dtype=np.int64)).sum())
            self._totals[shape, level, first] = found
        return found

    def free(self, resource: str, rows: Ints) -> Ints | None:
        """The potential free amount of a resource on rows; None if no node has any."""
        table = self._view.node_table
        number = table.resources.get(resource)
        if number is None:
            return None
        now: Ints = table.free[number, rows]
        if self._numbering != table.shape:
            self._number(table)
        more = self._more.get(resource)
        return now if more is None else now + more[rows]

    def slots(self, shape: Shape, rows: Ints) -> Ints:
        """Potential slots of a shape on rows."""
        asked = [(self.free(name, rows), given(name), clip(amount)) for name, amount in shape.requests if amount > 0]
        if any(free is None and not unsaid for free, unsaid, _ in asked):
            return np.zeros(len(rows), dtype=np.int64)
        slots = count_slots(((free, amount) for free, _, amount in asked if free is not None), len(rows))
        return np.where(allowed(self._view.node_table, shape, rows), slots, 0)

    def by_domain(self, shape: Shape, level: int) -> Ints:
        """Potential slots of a shape in each domain of a level."""
        table, last = self._view.node_table, self._rolled
        if last is None or last[0] is not shape or last[1] != level:
            rows = self.slots(shape, np.arange(table.size, dtype=np.int64))
            self._rolled = last = (shape, level, roll_up(table, rows, level))
        return last[2]

    def _is_ignored(self, pod: Running) -> bool:
        if pod.coming:
            return True
        unit = self._view.unit(pod.unit) if self._below is not None else None
        return unit is not None and self._below is not None and unit.priority < self._below

    def _read(self, nodes: Iterable[str]) -> None:
        for name in nodes:
            sums: dict[str, int] = {}
            for pod in self._view.pods_on(name):
                if self._is_ignored(pod):
                    for resource, amount in pod.requests:
                        sums[resource] = sums.get(resource, 0) + clip(amount)
            if sums != self._held.get(name, {}):
                self._hold(name, sums)

    def _hold(self, name: str, sums: dict[str, int]) -> None:
        if sums:
            self._held[name] = sums
        else:
            del self._held[name]
        table = self._view.node_table
        row = table.row(name)
        if self._numbering != table.shape or row is None:
            return
        for resource in {**self._more, **sums}:
            self._column(resource, table.size)[row] = sums.get(resource, 0)

    def _number(self, table: NodeTable) -> None:
        self._numbering = table.shape
        self._more.clear()
        for name, sums in self._held.items():
            row = table.row(name)
            if row is not None:
                for resource, amount in sums.items():
                    self._column(resource, table.size)[row] = amount

    def _column(self, resource: str, size: int) -> Ints:
        found = self._more.get(resource)
        if found is None:
            found = self._more[resource] = np.zeros(size, dtype=np.int64)
        return found


class Reached(NamedTuple):
    """A shape that has reached its number of slots in one domain, and the rows in it that changed."""

    shape: Shape
    slots: int
    rows: tuple[int, ...]


class Thresholds:
    """For shapes needed within one domain of a level: the number of slots from which on to report them."""

    def __init__(self, potential: Potential, level: int) -> None:
        self._potential = potential
        self._level = level
        self._number: dict[Shape, int] = {}
        self._shapes: list[Shape] = []
        self._unused: list[int] = []
        #: By number of a shape.
        self._least: Ints = np.full(8, NEVER, dtype=np.int64)
        self._kind: Ints = np.zeros(8, dtype=np.int64)
        #: Requests by resource and number of a shape.
        self._asked: dict[str, Ints] = {}
        #: Constraints besides amounts, and one shape for each.
        self._kinds: dict[object, int] = {}
        self._examples: list[Shape] = []
        #: Upper bounds of slots in wide domains, by path and number of a shape.
        self._bounds: dict[Path, Ints] = {}

    def __len__(self) -> int:
        return len(self._number)

    @property
    def kinds(self) -> int:
        """The number of different constraints."""
        return len(self._examples)

    def set(self, shape: Shape, slots: int) -> None:
        """Report a shape from this many slots on."""
        number = self._number.get(shape)
        if number is None:
            number = self._enter(shape)
        self._least[number] = slots

    def drop(self, shape: Shape) -> None:
        """Report a shape no longer."""
        number = self._number.pop(shape)
        self._least[number] = NEVER
        self._unused.append(number)
        if len(self._examples) > 2 * len(self._number) + _SPARE_KINDS:
            self._forget_kinds()

    def reached(self, rows: Iterable[int]) -> Iterator[Reached]:
        """Shapes with a slot on one of these rows and enough slots in its domain."""
        table = self._potential.table
        domains, named = table.domains(self._level), table.named(self._level)
        by_domain: dict[int, list[int]] = {}
        for row in rows:
            domain = domains.item(row)
            if named[domain]:
                by_domain.setdefault(domain, []).append(row)
        asked = np.flatnonzero(self._least < NEVER)
        for domain, inside in by_domain.items():
            here = self._totals(asked, np.array(inside, dtype=np.int64))
            first, end = table.span(self._level, domain)
            path, wide = self._path(first), end - first > WIDE
            which = self._bounded(path, asked, here) if wide else asked[here > 0]
            totals = self._totals(which, np.arange(first, end, dtype=np.int64))
            if wide:
                self._bounds[path][which] = totals
            else:
                self._bounds.pop(path, None)  # left over from when it was wide
            for number in np.flatnonzero(totals >= self._least[which]).tolist():
                yield Reached(self._shapes[which.item(number)], totals.item(number), tuple(inside))

    def _path(self, row: int) -> Path:
        return self._potential.table.path(row)[: self._level + 1]

    def _bounded(self, path: Path, asked: Ints, here: Ints) -> Ints:
        """Shapes that may be reached in a wide domain; `here` are their slots on the rows that changed."""
        bounds = self._bounds_of(path)
        bounds[asked] = np.minimum(bounds[asked] + here, NEVER)
        return asked[(here > 0) & (bounds[asked] >= self._least[asked])]

    def _bounds_of(self, path: Path) -> Ints:
        """Unlimited for shapes that were not counted yet."""
        bounds = self._bounds.get(path)
        if bounds is None:
            bounds = self._bounds[path] = np.full(len(self._least), NEVER, dtype=np.int64)
        return bounds

    def _totals(self, which: Ints, rows: Ints) -> Ints:
        """The sum of slots on these rows, for shapes by number."""
        found = np.zeros(len(which), dtype=np.int64)
        step = max(1, CHUNK // max(1, len(rows)))
        for begin in range(0, len(which), step):
            found[begin : begin + step] = self._slots(which[begin : begin + step], rows).sum(axis=1)
        return found

    def _slots(self, which: Ints, rows: Ints) -> Ints:
        found = np.full((len(which), len(rows)), UNLIMITED, dtype=np.int64)
        for resource, asked in self._asked.items():
            amounts = asked[which]
            asking = amounts > 0
            free = self._potential.free(resource, rows) if asking.any() else None
            if free is not None:
                each = free[np.newaxis] // np.where(asking, amounts, 1)[:, np.newaxis]
                np.minimum(found, each, out=found, where=asking[:, np.newaxis])
            elif not given(resource):
                found[asking] = 0
        np.maximum(found, 0, out=found)
        kinds = self._kind[which]
        for kind in sorted(set(kinds.tolist())):
            fine = allowed(self._potential.table, self._examples[kind], rows)
            if not fine.all():
                found[kinds == kind] *= fine
        return found

    def _enter(self, shape: Shape) -> int:
        if self._unused:
            number = self._unused.pop()
            self._shapes[number] = shape
            for bounds in self._bounds.values():
                bounds[number] = NEVER
        else:
            number = len(self._shapes)
            self._shapes.append(shape)
            if number == len(self._least):
                self._grow()
        self._number[shape] = number
        wanted = {name: clip(amount) for name, amount in shape.requests if amount > 0}
        for name in wanted:
            if name not in self._asked:
                self._asked[name] = np.zeros(len(self._least), dtype=np.int64)
        for name, asked in self._asked.items():
            asked[number] = wanted.get(name, 0)
        self._kind[number] = self._kind_of(shape)
        self._count(shape, number)
        return number

    def _count(self, shape: Shape, number: int) -> None:
        """The bounds of a new shape in wide domains are its slots now."""
        table = self._potential.table
        starts = table.starts(self._level)
        sizes = np.diff(starts, append=table.size)
        wide = np.flatnonzero(sizes > WIDE).tolist()
        totals = self._potential.by_domain(shape, self._level) if wide else starts
        for domain in wide:
            self._bounds_of(self._path(starts.item(domain)))[number] = totals[domain]

    def _grow(self) -> None:
        """Double the arrays."""
        size = len(self._least)
        never, zeros = np.full(size, NEVER, dtype=np.int64), np.zeros(size, dtype=np.int64)
        self._least = np.concatenate([self._least, never])
        self._kind = np.concatenate([self._kind, zeros])
        self._asked = {name: np.concatenate([asked, zeros]) for name, asked in self._asked.items()}
        self._bounds = {path: np.concatenate([bounds, never]) for path, bounds in self._bounds.items()}

    def _kind_of(self, shape: Shape) -> int:
        excessive = any(amount > LARGEST for _, amount in shape.requests)
        constraints = (shape.node_selector, shape.node_terms, shape.tolerations, shape.unsupported, shape.volumes)
        kind = (*constraints, shape.devices, shape.waits, excessive)
        number = self._kinds.get(kind)
        if number is None:
            number = self._kinds[kind] = len(self._examples)
            self._examples.append(shape)
        return number

    def _forget_kinds(self) -> None:
        """Drop kinds without a shape."""
        self._kinds.clear()
        self._examples.clear()
        for shape, number in self._number.items():
            self._kind[number] = self._kind_of(shape)
