"""A small cluster in plain numbers, for the exact search of `optimum`: what nodes still take, which are alike.

Pods that mind one another are judged by the rules of `ties`, on arrays; all others by their requests alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ..cluster.regions import Region, rows_of
from ..cluster.slots import UNLIMITED
from ..cluster.view import ClusterView
from ..records.demand import Shape
from ..space.canonical import Part, shapes_of
from ..space.rule_state import RuleState, has_pod_rules
from ..space.trial_state import AmountState


class Ground:
    """Free amounts of every row while pods come and go; shapes go by their number."""

    def __init__(self, view: ClusterView, root: Part, parts: list[Part], keys: list[str]) -> None:
        self.view, self.table = view, view.node_table
        self.shapes: list[Shape] = shapes_of(root)
        self._numbers = {shape: number for number, shape in enumerate(self.shapes)}
        self._room = RuleState(view, parts, (), -1) if has_pod_rules(root) else AmountState(view, parts, (), -1)
        self._rules = self._room if isinstance(self._room, RuleState) and self._room.has_rules else None
        self.extras_may_help = self._room.extras_may_help
        known = self.table.resources
        names = sorted({name for shape in self.shapes for name, amount in shape.requests if amount > 0} & known.keys())
        self.asked = [
            [(names.index(name), amount) for name, amount in shape.requests if amount > 0 and name in known]
            for shape in self.shapes
        ]
        self.resources = range(len(names))
        self.free: list[list[int]] = self.table.free[[known[name] for name in names]].T.tolist()
        self._may = [self._usable(shape).tolist() for shape in self.shapes]
        self._exclusive = any(part.exclusive for part in parts)
        self._counts = [[0] * self.table.size for _ in self.shapes]
        self._kinds = self._alike(keys, {row for part in parts for row in part.pins})
        self._rows: dict[object, list[int]] = {}
        self._sums: dict[object, int] = {}

    def _usable(self, shape: Shape) -> np.ndarray:
        unknown = any(amount > 0 and name not in self.table.resources for name, amount in shape.requests)
        fits: np.ndarray = self._room.fits(shape) & (not unknown)
        return fits

    def _alike(self, keys: list[str], pinned: set[int]) -> list[int]:
        """A number per row, equal for rows that may be exchanged."""
        if self._rules is not None or self._exclusive:
            return list(range(self.table.size))
        found: dict[object, int] = {}
        kinds = []
        columns = [self._domains(key) for key in keys]
        for row in range(self.table.size):
            own = row if row in pinned else -1
            look = (own, *(column[row] for column in columns), tuple(self.free[row]), *(may[row] for may in self._may))
            kinds.append(found.setdefault(look, len(found)))
        return kinds

    def _domains(self, key: str) -> list[int]:
        """The domain of each row; those of a single row are all alike, as far as wider ones are."""
        level = self.table.level_of.get(key)
        if level is None:
            ids: list[int] = self.table.column(key).ids.tolist()
            return ids
        domains, sizes = self.table.domains(level), np.diff(self.table.starts(level), append=self.table.size)
        named = self.table.named(level)[domains]
        found: list[int] = np.where(sizes[domains] > 1, domains, np.where(named, -1, -2)).tolist()
        return found

    # ---- regions

    def rows(self, region: Region) -> list[int]:
        found = self._rows.get(region.key)
        if found is None:
            found = self._rows[region.key] = rows_of(self.table, region).tolist()
        return found

    def look(self, region: Region) -> object:
        """What a region is for all that is still to come; single nodes that are alike are one."""
        rows = self.rows(region)
        return self._look(rows[0]) if len(rows) == 1 else region.key

    def spare(self, shape: int, region: Region) -> int:
        """Slots of a shape before anything is placed; none are counted where pods mind others."""
        found = self._sums.get((shape, region.key))
        if found is None:
            found = 0
            if not self.shapes[shape].has_pod_rules:
                found = int(self.view.slot_cache.slots(self.shapes[shape]).rows[self.rows(region)].sum())
            self._sums[shape, region.key] = found
        return found

    def most(self, shape: int, region: Region) -> int:
        """Pods of a shape that a region takes at most, as it stands."""
        return sum(self._by_amounts(shape, row) for row in self.rows(region))

    def roominess(self, region: Region) -> tuple[int, ...]:
        return (*(self.most(shape, region) for shape in range(len(self.shapes))), *self.rows(region)[:1])

    def totals(self) -> list[int]:
        """What is left of each resource in all."""
        return [sum(max(0, free[number]) for free in self.free) for number in self.resources]

    # ---- pods

    def number(self, shape: Shape) -> int:
        return self._numbers[shape]

    def room(self, shape: int, row: int) -> int:
        """Pods of a shape that a row still takes."""
        if self._rules is not None:
            return int(self._rules.slots_by_row(self.shapes[shape])[row])
        return self._by_amounts(shape, row)

    def _by_amounts(self, shape: int, row: int) -> int:
        if not self._may[shape][row]:
            return 0
        free = self.free[row]
        return max(0, min((free[number] // amount for number, amount in self.asked[shape]), default=UNLIMITED))

    def rows_for(self, shape: int, region: Region) -> list[int]:
        """Rows of a region with room for a shape, tight ones first, those that are alike side by side."""
        found = [(self.room(shape, row), self._kinds[row], row) for row in self.rows(region)]
        return [row for room, _, row in sorted(found) if room]

    def past_equals(self, rows: list[int], spot: int) -> int:
        """The first of the rows after `spot` that is not alike to it, as it stands."""
        look, after = self._look(rows[spot]), spot + 1
        while after < len(rows) and self._look(rows[after]) == look:
            after += 1
        return after

    def _look(self, row: int) -> tuple[int, ...]:
        return (self._kinds[row], *self.free[row])

    def put(self, shape: int, row: int, count: int) -> bool:
        """Put pods on a row; False, and nothing done, if they cannot stay there."""
        self._charge(shape, row, count)
        if self._rules is not None:
            rows = np.array([row], dtype=np.int64)
            self._rules.put(rows, self.shapes[shape], np.array([count], dtype=np.int64))
            if not self._rules.holds(rows, self.shapes[shape]):
                self.take(shape, row, count)
                return False
        return True

    def take(self, shape: int, row: int, count: int) -> None:
        self._charge(shape, row, -count)
        if self._rules is not None:
            rows = np.array([row], dtype=np.int64)
            self._rules.put(rows, self.shapes[shape], np.array([-count], dtype=np.int64))

    def _charge(self, shape: int, row: int, count: int) -> None:
        self._counts[shape][row] += count
        free = self.free[row]
        for number, amount in self.asked[shape]:
            free[number] -= amount * count

    def complete(self) -> bool:
        return self._room.complete()

    def signature(self) -> object:
        """Equal for states from which the same can still be done."""
        if self._rules is not None:
            return tuple(map(tuple, self._counts)), self._room.claims_signature()
        if self._exclusive:
            return tuple(map(tuple, self.free)), self._room.claims_signature()
        return tuple(sorted(map(self._look, range(len(self.free)))))

    @contextmanager
    def claimed(self, part: Part, region: Region) -> Iterator[bool]:
        """Hold a domain for a part that wants one for itself; False if another group has it."""
        if part.exclusive is None:
            yield True
        else:
            with self._room.claimed(part, region) as mine:
                yield mine
