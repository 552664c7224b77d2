"""What the own search left open, as a question to CP-SAT: irregular trees, optional groups, mixed pods of many sizes.

A variable says which domain a group is seated in (for equal leaves: how many are), another how many nodes of a kind
are filled with which set of pods.  Everything is counted in pods, so numbers stay small.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .agenda import Found, NotFound, Steps
from .amounts import Measure
from .bounds import inside, own_level
from .filling import Amounts, Counts
from .layout import Ints
from .pack import Order, deal
from .parts import Part
from .regions import Region, rows_of
from .room import Counting, Packing
from .solver import Solver

#: Variables beyond this are not even written down.
LARGEST_MODEL = 60_000
#: Ways to fill a node that are written down; nodes that can be filled in more ways are left open.
MOST_FILLS = 2_000


class _TooLarge(Exception):
    pass


def exact(room: Counting | Packing, part: Part, region: Region, steps: Steps) -> Found | NotFound | None:
    """Place the tree, or prove that it cannot be; None if it is too large or has rules that the solver is not told."""
    if not told(room, part, region):
        return None
    solver = Solver()
    model = _Model(room, solver.cp)
    try:
        model.build(part, region)
    except _TooLarge:
        return None
    found = solver.solve(steps, linearization=2)
    return model.found(solver) if found else NotFound(proved=found is False)


def told(room: Counting | Packing, root: Part, region: Region) -> bool:
    """Whether all keys are listed levels, none of them wider than what is around, and nobody minds who is near."""
    if region.rows is not None or room.between_pods:
        return False
    stack = [(root, region.level)]
    while stack:
        part, around = stack.pop()
        level = own_level(room, part)
        if part.exclusive is not None or any(key not in room.layout.level_of for key in part.keys):
            return False
        if part.keys and level <= around:
            return False
        stack += [(child, max(level, around)) for child in part.children]
    return True


@dataclass(slots=True)
class _Seat:
    """Equal parts (mostly one) and, by domain of a level, the variable that says how many are seated there."""

    parts: list[Part]
    level: int
    where: dict[int, Any]
    #: Pods by domain and ask, where the need can be met in several ways.
    pods: dict[tuple[int, int], Any] = field(default_factory=dict)


class _Model:
    def __init__(self, room: Counting | Packing, cp: Any) -> None:
        self.room, self.layout, self.cp = room, room.layout, cp
        self.seats: list[_Seat] = []
        self.nodes: _Nodes | None = None
        self._size = 0

    def build(self, root: Part, region: Region) -> None:
        seat = self._root(root, region)
        self._children(seat)
        leaves = [seat for seat in self.seats if seat.parts[0].is_leaf and seat.parts[0].need]
        if isinstance(self.room, Counting):
            self._counted(leaves, self.room)
        elif leaves:
            self.nodes = _Nodes(self, self.room, leaves, region)

    def integer(self, most: int) -> Any:
        self._size += 1
        if self._size > LARGEST_MODEL:
            raise _TooLarge
        return self.cp.new_int_var(0, most, "")

    # ---- groups

    def _root(self, root: Part, region: Region) -> _Seat:
        here = _Seat([root], region.level, {region.index: 1})
        if root.keys:
            return self._within([root], here, must=True)
        self.seats.append(here)
        if root.is_leaf:
            self._composition(here)
        return here

    def _children(self, seat: _Seat) -> None:
        """Seats for the children of one composite, and those below."""
        parent = seat.parts[0]
        must = parent.need >= len(parent.children)
        alike: dict[object, list[Part]] = {}
        for number, child in enumerate(parent.children):
            countable = child.is_leaf and not child.pins and (len(child.asks) == 1 or child.need == child.supply)
            alike.setdefault(child.type if countable else ("single", number), []).append(child)
        seats = [self._within(parts, seat, must) for parts in alike.values()]
        if not must:
            self.cp.add(_total(seats) >= parent.need * sum(seat.where.values()))
        for inner in seats:
            if not inner.parts[0].is_leaf:
                self._children(inner)

    def _within(self, parts: list[Part], around: _Seat, must: bool) -> _Seat:
        """Equal parts in domains of their key, each inside a domain in which the part above them is seated."""
        part, number = parts[0], len(parts)
        level = max(own_level(self.room, part), around.level)
        seat = _Seat(parts, level, {})
        for outer, there in around.where.items():
            here = [(index, self.integer(number)) for index in self._admitted(part, around.level, outer, level)]
            seat.where.update(here)
            total = sum(variable for _, variable in here)
            self.cp.add(total == number * there if must else total <= number * there)
        self.seats.append(seat)
        if part.is_leaf:
            self._composition(seat)
        return seat

    def _admitted(self, part: Part, outer_level: int, outer: int, level: int) -> list[int]:
        low, high = self.layout.inner(outer_level, outer, level)
        fitting = inside(self.room, part, level, low, high) >= 1
        rows = self.layout.starts(level)[low:high]
        for key in part.keys:
            wider = self.layout.level_of[key]
            fitting &= self.layout.named(wider)[self.layout.domains(wider)[rows]]
        if part.pins:
            pinned = set(self.layout.domains(level)[list(part.pins)].tolist())
            fitting &= np.array([pinned == {index} for index in range(low, high)], dtype=np.bool_)
        return [low + int(spot) for spot in np.flatnonzero(fitting)]

    def _composition(self, seat: _Seat) -> None:
        """How a leaf that takes some of its members makes up its number."""
        part = seat.parts[0]
        if part.need == part.supply or not part.need or isinstance(self.room, Counting):
            return
        for domain, there in seat.where.items():
            for number, ask in enumerate(part.asks):
                pods = seat.pods[domain, number] = self.integer(ask.most * len(seat.parts))
                self.cp.add(pods <= ask.most * there)
                self.cp.add(pods >= ask.least * there)
            self.cp.add(sum(seat.pods[domain, number] for number in range(len(part.asks))) == part.need * there)

    def _counted(self, leaves: list[_Seat], room: Counting) -> None:
        """For every domain: no more pods in it, or in its parts, than it has slots."""
        for level in room.levels:
            inside_of: dict[int, list[Any]] = {}
            for seat in leaves:
                if seat.level >= level:
                    for domain, there in seat.where.items():
                        row = int(self.layout.starts(seat.level)[domain])
                        inside_of.setdefault(int(self.layout.domains(level)[row]), []).append(
                            seat.parts[0].need * there
                        )
            slots = room.slots(room.shape, level)
            for domain, pods in inside_of.items():
                self.cp.add(sum(pods) <= int(slots[domain]))

    # ---- the answer

    def found(self, solver: Solver) -> Found:
        found = Found([], [])
        for seat in self.seats:
            waiting = list(seat.parts)
            for domain, there in seat.where.items():
                for _ in range(solver.value(there)):
                    found.seats.append((waiting.pop(0), Region(seat.level, domain)))
        if self.nodes is not None:
            self.nodes.put(solver, found)
        return found


class _Nodes:
    """Pods onto nodes: how many nodes of a kind are filled with which set of pods, in every narrowest domain."""

    def __init__(self, model: _Model, room: Packing, leaves: list[_Seat], region: Region) -> None:
        self.model, self.layout, self.leaves = model, room.layout, leaves
        self.shapes = list(dict.fromkeys(ask.shape for seat in leaves for ask in seat.parts[0].asks))
        self.level = max((seat.level for seat in leaves), default=region.level)
        #: By narrowest domain: rows of one kind, and the variable for each way to fill one.
        self.fills: dict[int, list[tuple[list[int], list[tuple[Counts, Any]]]]] = {}
        self._write_fills(room, rows_of(self.layout, region))
        #: Pods of leaves seated at a level, by level, shape and narrowest domain.
        self.shares: dict[tuple[int, int, int], Any] = {}
        for level in sorted({seat.level for seat in leaves}):
            self._write_shares(level)
        for domain, kinds in self.fills.items():
            for number in range(len(self.shapes)):
                offered = sum(fill[number] * variable for _, ways in kinds for fill, variable in ways)
                asked = [
                    share for (_, shape, where), share in self.shares.items() if (shape, where) == (number, domain)
                ]
                model.cp.add(sum(asked) <= offered)

    def _write_fills(self, room: Packing, rows: Ints) -> None:
        measure = Measure(room, self.shapes)
        takes = [measure.takes(shape) for shape in self.shapes]
        may = np.stack([room.slots_by_row(shape) > 0 for shape in self.shapes]).T.tolist()
        offers, domains = measure.offers.T.tolist(), self.layout.domains(self.level).tolist()
        kinds: dict[tuple[int, Amounts, tuple[bool, ...]], list[int]] = {}
        for row in rows.tolist():
            if any(may[row]):
                kinds.setdefault((domains[row], tuple(offers[row]), tuple(may[row])), []).append(row)
        known: dict[object, list[Counts]] = {}
        for (domain, amounts, allowed), alike in kinds.items():
            if (amounts, allowed) not in known:
                known[amounts, allowed] = _full_sets(takes, amounts, allowed)
            ways = [(fill, self.model.integer(len(alike))) for fill in known[amounts, allowed]]
            self.model.cp.add(sum(variable for _, variable in ways) <= len(alike))
            self.fills.setdefault(domain, []).append((alike, ways))

    def _write_shares(self, level: int) -> None:
        """What the leaves of a level need in each of their domains is divided among the narrowest domains inside."""
        asked: dict[tuple[int, int], list[Any]] = {}
        for seat in self.leaves:
            if seat.level == level:
                for domain, there in seat.where.items():
                    for number, ask in enumerate(seat.parts[0].asks):
                        pods = seat.pods.get((domain, number), ask.most * there)
                        asked.setdefault((domain, self.shapes.index(ask.shape)), []).append(pods)
        for (domain, shape), pods in asked.items():
            low, high = self.layout.inner(level, domain, self.level)
            inner = [index for index in range(low, high) if index in self.fills]
            if level == self.level:
                self.shares[level, shape, domain] = sum(pods)
                continue
            slots = {
                index: sum(len(rows) * max(fill[shape] for fill, _ in ways) for rows, ways in self.fills[index])
                for index in inner
            }
            for index in inner:
                self.shares[level, shape, index] = self.model.integer(slots[index])
            self.model.cp.add(sum(self.shares[level, shape, index] for index in inner) == sum(pods))

    def put(self, solver: Solver, found: Found) -> None:
        """Rows for the pods of all leaves."""
        counts = np.zeros((len(self.shapes), self.layout.size), dtype=np.int64)
        for kinds in self.fills.values():
            for rows, ways in kinds:
                filled = [fill for fill, variable in ways for _ in range(solver.value(variable))]
                for row, fill in zip(rows, filled, strict=False):
                    counts[:, row] = fill
        regions = {part.group: region for part, region in found.seats}
        for level in sorted({seat.level for seat in self.leaves}):
            pods = self._of_level(solver, level, counts)
            for seat in self.leaves:
                for part in seat.parts if seat.level == level else ():
                    if part.group in regions:
                        self._deal(solver, seat, part, regions[part.group], pods, found)

    def _of_level(self, solver: Solver, level: int, counts: Ints) -> Ints:
        """Take from the counts what leaves of a level get in each narrowest domain."""
        pods = np.zeros_like(counts)
        for (where, shape, domain), share in self.shares.items():
            if where == level:
                low, high = self.layout.span(self.level, domain)
                have = counts[shape, low:high]
                taken = np.clip(solver.value(share) - (np.cumsum(have) - have), 0, have)
                counts[shape, low:high] -= taken
                pods[shape, low:high] += taken
        return pods

    def _deal(self, solver: Solver, seat: _Seat, part: Part, region: Region, pods: Ints, found: Found) -> None:
        rows = rows_of(self.layout, region)
        for number, ask in enumerate(part.asks):
            wanted = ask.most if part.need == part.supply else part.need
            if part.need != part.supply and len(part.asks) > 1:
                wanted = solver.value(seat.pods[region.index, number])
            have = pods[self.shapes.index(ask.shape)]
            for put in deal([Order(part, ask, wanted)], rows, {ask.shape: have[rows]}):
                have[put.rows] -= put.counts
                found.puts.append(put)


def _full_sets(takes: list[Amounts], offers: Amounts, may: tuple[bool, ...]) -> list[Counts]:
    """The sets of pods that fill a node so that no other pod could be added."""
    found: list[Counts] = []
    pending: list[tuple[Counts, Amounts]] = [((), offers)]
    if not all(map(any, takes)):
        raise _TooLarge  # pods that take nothing: no node is ever full of them
    tried = 0
    while pending:
        chosen, left = pending.pop()
        tried += 1
        if len(chosen) == len(takes):
            open_to = [one for one, allowed in zip(takes, may, strict=True) if allowed]
            if not any(_fits(one, left) for one in open_to):
                found.append(chosen)
            continue
        if len(found) > MOST_FILLS or tried > 20 * MOST_FILLS:
            raise _TooLarge
        one, number = takes[len(chosen)], 0
        while True:
            pending.append(((*chosen, number), left))
            if not may[len(chosen)] or not _fits(one, left):
                break
            left = tuple(have - used for have, used in zip(left, one, strict=True))
            number += 1
    return found


def _fits(one: Amounts, left: Amounts) -> bool:
    return all(used <= have for used, have in zip(one, left, strict=True))


def _total(seats: list[_Seat]) -> Any:
    return sum(there for seat in seats for there in seat.where.values())
