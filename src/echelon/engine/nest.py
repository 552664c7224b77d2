"""Nested packing, for trees in which every group must hold in one domain of its own key and little may be left over.

Composites go into blocks, their gangs into racks, pods onto nodes: at each level the same question, which parts go
into which domain.  Domains are filled one after the other, each only with sets of parts that waste no more than all
domains together may; whether a set's children fit inside is the same question one level down.  Equal parts are one
kind with a count.  What failed is remembered, so nothing is tried twice; if all fails, that is a proof.  Rounds of
growing budget try sets of large parts first and sets of small parts first in turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .agenda import Found, NotFound, Put, Steps
from .backtrack import tightest_first
from .bounds import own_level
from .capacity import roll_up
from .layout import Ints
from .parts import Part, walk, weight
from .regions import Region
from .room import Counting, Packing

Counts = tuple[int, ...]
Seats = list[tuple[Part, Region]]

#: Steps of the first round, which prefers large parts and then small ones; each round has four times as many.
FIRST_ROUND = 500
#: More domains than this side by side are left to the other search.
DOMAINS = 200
#: And so are amounts so unlike that their common unit is finer than this part of a domain.
FINEST = 1 << 16


class _OutOfSteps(Exception):
    pass


@dataclass(slots=True)
class _Inside:
    """Parts that were found to fit into a domain together, down to the pods."""

    seats: Seats
    puts: list[Put]


def nest(room: Counting | Packing, part: Part, region: Region, steps: Steps) -> Found | NotFound | None:
    """Place the tree, or prove that it cannot be; None if the tree is of another kind."""
    if region.rows is not None or part.keys or not part.children or not _suits(room, part, region.level):
        return None
    share = FIRST_ROUND
    while steps.left > 0:
        for large_first in (True, False):
            budget = Steps(min(share, steps.left))
            before, packing = budget.left, _Nest(room, part, budget, large_first)
            try:
                inside = packing.inside([part], region)
            except _OutOfSteps:
                steps.left -= before
                continue
            steps.left -= before - budget.left
            return Found(inside.seats, inside.puts) if inside else NotFound(proved=not packing.open)
        share *= 4
    return NotFound(proved=False)


def _suits(room: Counting | Packing, part: Part, around: int) -> bool:
    """Whether all children must hold, and share one listed level narrower than what is around them."""
    if part.pins or part.exclusive is not None or len(part.keys) > 1:
        return False
    if not part.children:
        return 0 < part.need <= part.supply and (isinstance(room, Counting) or part.need == part.supply)
    levels = {own_level(room, child) for child in part.children}
    kinds = {bool(child.children) for child in part.children}
    if part.need < len(part.children) or len(levels) > 1 or len(kinds) > 1:
        return False
    (level,) = levels
    listed = all(key in room.layout.level_of for child in part.children for key in child.keys)
    return listed and level > around and all(_suits(room, child, level) for child in part.children)


class _Nest:
    def __init__(self, room: Counting | Packing, part: Part, steps: Steps, large_first: bool) -> None:
        self.large_first = large_first
        self.room, self.layout, self.steps = room, room.layout, steps
        #: Whether a set of pods was given up on without proof.
        self.open = False
        self._sizes: dict[int, Ints] = {}
        self._rolls: dict[int, Ints] = {}
        total = self._size(part)
        free = self._capacity(-1)[:, 0]
        #: The scarcest amount; the others are only checked.
        self.main = int(np.argmax(total / np.maximum(free, 1)))
        leaves = [int(self._size(leaf)[self.main]) for leaf in walk(part) if leaf.is_leaf]
        #: The unit in which the scarcest amount is counted; all sizes are multiples of it.
        self.unit = max(1, math.gcd(*leaves))

    def inside(self, parts: list[Part], region: Region) -> _Inside | None:
        """Whether these parts, all seated in this region, fit into it together."""
        seats: Seats = [(part, region) for part in parts]
        children = [child for part in parts for child in part.children]
        if children:
            found = _Domains(self, children, region).fill()
            return None if found is None else _Inside(seats + found.seats, found.puts)
        if isinstance(self.room, Counting):
            return _Inside(seats, [])
        puts = self._largest_first(parts, region)
        return None if puts is None else _Inside(seats, puts)

    def step(self) -> None:
        self.steps.left -= 1
        if self.steps.left <= 0:
            raise _OutOfSteps

    def size(self, part: Part) -> Ints:
        found = self._sizes.get(part.type)
        if found is None:
            found = self._sizes[part.type] = self._size(part)
        return found

    def capacity(self, level: int) -> Ints:
        """What is free in each domain of a level, by amount."""
        found = self._rolls.get(level)
        if found is None:
            found = self._rolls[level] = self._capacity(level)
        return found

    def _size(self, part: Part) -> Ints:
        """What a part takes at least: pods where slots are counted, else every resource."""
        if isinstance(self.room, Counting):
            return np.array([part.pods], dtype=np.int64)
        total = np.zeros(len(self.layout.resources), dtype=np.int64)
        for leaf in walk(part):
            for ask in leaf.asks:
                for name, amount in ask.shape.requests:
                    if name in self.layout.resources:
                        total[self.layout.resources[name]] += amount * ask.most
        return total

    def _capacity(self, level: int) -> Ints:
        if isinstance(self.room, Counting):
            return self.room.slots(self.room.shape, level)[None, :]
        free = np.maximum(self.room.free, 0)
        return np.stack([roll_up(self.layout, row, level) for row in free])

    def _largest_first(self, parts: list[Part], region: Region) -> list[Put] | None:
        """Pods of all parts onto nodes, largest first into the tightest: right where sizes divide one another."""
        room = self.room
        assert isinstance(room, Packing)
        asks = [(part, ask) for part in parts for ask in part.asks]
        puts: list[Put] = []
        low, high = self.layout.span(region.level, region.index)
        for part, ask in sorted(asks, key=lambda item: weight(item[1].shape), reverse=True):
            if int(room.slots_by_row(ask.shape)[low:high].sum()) < ask.most:
                break
            rows, counts = tightest_first(room, ask.shape, region, ask.most)
            room.put(rows, ask.shape, counts)
            puts.append(Put(part, ask, rows, counts))
        for put in puts:
            room.put(put.rows, put.ask.shape, -put.counts)
        if len(puts) == len(asks):
            return puts
        self.open = True
        return None


class _Domains:
    """Parts of one level into the domains of their key inside a region."""

    def __init__(self, nest: _Nest, parts: list[Part], region: Region) -> None:
        self.nest, layout = nest, nest.layout
        self.level = own_level(nest.room, parts[0])
        of_kind: dict[int, list[Part]] = {}
        for part in parts:
            of_kind.setdefault(part.type, []).append(part)
        self.kinds = sorted(of_kind.values(), key=lambda kind: (-int(nest.size(kind[0])[nest.main]), kind[0].type))
        #: One row for each kind.
        self.amounts = np.stack([nest.size(kind[0]) for kind in self.kinds])
        self.sizes = [int(amount) // nest.unit for amount in self.amounts[:, nest.main]]
        low, high = layout.inner(region.level, region.index, self.level)
        capacity, named = nest.capacity(self.level), layout.named(self.level)
        domains = [index for index in range(low, high) if named[index]]
        self.domains = sorted(domains, key=lambda index: (-int(capacity[nest.main, index]), index))
        self.capacity = [capacity[:, index] for index in self.domains]
        self.rooms = [int(amounts[nest.main]) // nest.unit for amounts in self.capacity]
        #: What this and all later domains have of the scarcest amount.
        self.ahead = np.append(np.cumsum(self.rooms[::-1])[::-1], 0).tolist()
        #: From which domain on all are alike: there the largest part left goes into the first, wherever it could go.
        contents = [nest.room.content(self.level, index) for index in self.domains]
        self.alike = next(at for at in range(len(contents) + 1) if len(set(contents[at:])) <= 1)
        #: Pods that are laid out one by one cost most and seldom fail: they come when all else is settled.
        self.late = isinstance(nest.room, Packing) and not parts[0].children
        self._dead: set[tuple[int, Counts]] = set()
        self._found: list[_Inside] = []

    def fill(self) -> _Inside | None:
        counts = tuple(len(kind) for kind in self.kinds)
        if len(self.domains) > DOMAINS or max(self.rooms, default=0) > FINEST:
            raise _OutOfSteps
        if not self._from(0, counts):
            return None
        seats, puts = Seats(), list[Put]()
        for inside in self._found:
            seats += inside.seats
            puts += inside.puts
        return _Inside(seats, puts)

    def _from(self, at: int, left: Counts) -> bool:
        """Whether the domains from the `at`-th on can take what is left."""
        if not any(left):
            return True
        slack = self.ahead[at] - sum(number * size for number, size in zip(left, self.sizes, strict=True))
        if at == len(self.domains) or slack < 0 or (at, left) in self._dead:
            return False
        for chosen in self._fills(left, at, slack):
            self.nest.step()
            inside = None if self.late else self._inside(at, chosen, left)
            if inside is None and not self.late:
                continue
            rest = tuple(have - taken for have, taken in zip(left, chosen, strict=True))
            found = len(self._found)
            if self._from(at + 1, rest):
                inside = inside or self._inside(at, chosen, left)
                if inside is not None:
                    self._found.append(inside)
                    return True
            del self._found[found:]
        self._dead.add((at, left))
        return False

    def _inside(self, at: int, chosen: Counts, left: Counts) -> _Inside | None:
        """The chosen parts, the last of their kinds, in the domain; an empty set fits everywhere."""
        taken = zip(self.kinds, chosen, left, strict=True)
        parts = [part for kind, number, have in taken for part in kind[have - number : have]]
        if not parts:
            return _Inside([], [])
        return self.nest.inside(parts, Region(self.level, self.domains[at]))

    def _fills(self, left: Counts, at: int, slack: int) -> Iterator[Counts]:
        """Sets of parts that leave no more than `slack` unused, large parts first; a bit per sum tells what can be."""
        sizes, room = self.sizes, self.rooms[at]
        sums = [1]  # of the kinds from the last back to each
        for size, number in zip(reversed(sizes), reversed(left), strict=True):
            reach = sums[-1]
            for _ in range(number):
                reach |= reach << size
            sums.append(reach & ((1 << (room + 1)) - 1))
        sums.reverse()
        pending: list[tuple[int, int, Counts]] = [(0, 0, ())]
        while pending:
            kind, used, chosen = pending.pop()
            wanted = max(0, room - slack - used)
            if not (sums[kind] >> wanted) & ((1 << (room - used - wanted + 1)) - 1):
                continue
            if kind == len(sizes):
                if (np.array(chosen, dtype=np.int64) @ self.amounts <= self.capacity[at]).all():
                    yield chosen
                continue
            most = min(left[kind], (room - used) // sizes[kind] if sizes[kind] else left[kind])
            least = 1 if at >= self.alike and left[kind] and not any(left[:kind]) else 0
            numbers = range(least, most + 1) if self.nest.large_first else range(most, least - 1, -1)
            pending += [(kind + 1, used + number * sizes[kind], (*chosen, number)) for number in numbers]
