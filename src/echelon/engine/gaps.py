"""What slots cost: how many a demand lacks, what each victim can add at most, and where slots are cheap.

Two uses: a lower bound of the loss in a region, and a first set of victims to start from.  The latter prices the
slots of every node - free ones cost nothing, further ones the work of the cheapest victims there - and lets the
tree pick cheap domains.  It is a guess for trees and victims that span nodes, and right for single pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from .capacity import roll_up
from .demand import Shape
from .layout import Ints, Layout, clip
from .parts import Part, shapes_of
from .regions import Region, rows_of
from .victims import Trial, Victim

#: A violated budget weighs more than any work.
VIOLATION = float(1 << 50)
INFINITE = float("inf")


class Gaps:
    """The arithmetic of one shape: slots now, slots with all victims gone, and each victim's share."""

    def __init__(self, trial: Trial, aim: Part, victims: list[Victim]) -> None:
        # Pods that mind others wait for more than slots: no arithmetic then.
        tied = any(shape.tied for shape in shapes_of(aim))
        shapes = [shape for shape, least in aim.least.items() if least > 0 and not tied]
        self.shape: Shape | None = shapes[0] if shapes else None
        self.layout: Layout = trial.view.layout
        self.need = aim.least[self.shape] if self.shape else 0
        self._gains: dict[int, dict[int, int]] = {}
        if self.shape is None:
            return
        requests = ((name, clip(amount)) for name, amount in self.shape.requests if amount > 0)
        self._requests = [
            (name, self.layout.resources[name], amount) for name, amount in requests if name in self.layout.resources
        ]
        trial.take_out(())
        self.free = self.layout.free.copy()
        self.now = trial.view.capacity.slots(self.shape).rows.copy()
        trial.take_out(victims)
        self.most = trial.view.capacity.slots(self.shape).rows.copy()
        trial.take_out(())
        for victim in victims:
            self._gains[victim.unit] = {row: self._gain(row, freed) for row, freed in victim.freed.items()}

    def lacking(self, region: Region) -> int:
        """Slots missing in a region while nobody is gone."""
        if self.shape is None:
            return 0
        if region.rows is None:
            return self.need - int(roll_up(self.layout, self.now, region.level)[region.index])
        return self.need - int(self.now[region.rows].sum())

    def could_suffice(self, region: Region) -> bool:
        """Whether there are slots enough once all victims are gone."""
        return self.shape is None or int(self.most[rows_of(self.layout, region)].sum()) >= self.need

    def gain(self, victim: Victim, inside: frozenset[int]) -> int:
        """The most slots that evicting a victim adds among these rows, whatever else is gone."""
        return sum(gain for row, gain in self._gains.get(victim.unit, {}).items() if row in inside)

    def slots_with(self, row: int, freed: Mapping[str, int]) -> int:
        """The slots of a row once so much is given back there."""
        if not self.most[row]:
            return 0
        room = ((self._free_on(row, known) + freed.get(name, 0)) // amount for name, known, amount in self._requests)
        return max(0, min(room))

    def _free_on(self, row: int, known: int) -> int:
        return int(self.free[known, row])

    def _gain(self, row: int, freed: Mapping[str, int]) -> int:
        """Resources that never run out on a row do not count: they are not what a slot waits for."""
        assert self.shape is not None
        most, best = int(self.most[row]), 0
        for name, known, amount in self._requests:
            if self._free_on(row, known) // amount < most:
                best = max(best, -(-freed.get(name, 0) // amount))
        return min(best, most - int(self.now[row]))


def least_cost(missing: int, offers: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The least work and the fewest units that close a gap with (work, slots) offers, fractions allowed."""
    if missing <= 0:
        return 0, 0
    useful = sorted((work / gain, gain) for work, gain in offers if gain > 0)
    total, left = 0.0, missing
    for rate, gain in useful:
        total += rate * min(gain, left)
        left -= gain
        if left <= 0:
            break
    return int(total), -(-missing // max(gain for _, gain in useful)) if useful else 0


@dataclass(slots=True)
class _Stairs:
    """The priced slots of a region's rows, in row order."""

    rows: Ints
    costs: np.ndarray[tuple[int], np.dtype[np.float64]]


class Ledger:
    """The slots of a region while victims go and come back; for one leaf of equal pods they are all that counts."""

    def __init__(self, gaps: Gaps, region: Region) -> None:
        self._gaps = gaps
        self._inside = frozenset(rows_of(gaps.layout, region).tolist())
        self._lacking = self._missing = gaps.lacking(region)
        self._freed: dict[int, dict[str, int]] = {}
        self._gone: dict[int, Victim] = {}

    def enough(self) -> bool:
        return self._missing <= 0

    def make_gone(self, victims: Iterable[Victim]) -> None:
        """Let exactly these be gone."""
        wanted = {victim.unit: victim for victim in victims}
        if len(self._gone) > 4 * len(wanted):  # beginning anew is shorter
            self._missing = self._lacking
            self._freed.clear()
            self._gone.clear()
        for victim in [victim for unit, victim in self._gone.items() if unit not in wanted]:
            self.put_back(victim)
        for unit, victim in wanted.items():
            if unit not in self._gone:
                self.take_out(victim)

    def take_out(self, victim: Victim) -> None:
        self._gone[victim.unit] = victim
        self._move(victim, 1)

    def put_back(self, victim: Victim) -> None:
        del self._gone[victim.unit]
        self._move(victim, -1)

    def _move(self, victim: Victim, times: int) -> None:
        for row, freed in victim.freed.items():
            if row in self._inside:
                sums = self._freed.setdefault(row, {})
                before = self._gaps.slots_with(row, sums)
                for name, amount in freed.items():
                    sums[name] = sums.get(name, 0) + amount * times
                self._missing -= self._gaps.slots_with(row, sums) - before


class Market:
    """Slots of one region with their prices, from which a tree picks."""

    def __init__(self, trial: Trial, gaps: Gaps, region: Region, victims: list[Victim]) -> None:
        self.layout, self.region, self.gaps = gaps.layout, region, gaps
        spread = {victim.unit: max(1, len(victim.freed)) for victim in victims}
        price = {v.unit: (v.work + 1 + VIOLATION * trial.violates(v)) / spread[v.unit] for v in victims}
        self._on_row: dict[int, list[Victim]] = {}
        for victim in sorted(victims, key=lambda victim: (price[victim.unit], victim.unit)):
            for row in victim.freed:
                self._on_row.setdefault(row, []).append(victim)
        self._stairs = self._priced(price)

    def pick(self, part: Part) -> list[Victim] | None:
        """Victims whose going gives the part its slots, about as cheaply as can be; None if this finds no way."""
        taken = self._place(part, self.region, np.zeros(len(self._stairs.rows), dtype=np.bool_))
        if taken is None:
            return None
        chosen: dict[int, Victim] = {}
        for row, count in Counter(self._stairs.rows[taken[1]].tolist()).items():
            for victim in self._prefix(row, count):
                chosen[victim.unit] = victim
        return list(chosen.values())

    # ---- prices

    def _priced(self, price: Mapping[int, float]) -> _Stairs:
        rows: list[int] = []
        costs: list[float] = []
        for row in rows_of(self.layout, self.region).tolist():
            steps = self._row_costs(row, price)
            rows += [row] * len(steps)
            costs += steps
        return _Stairs(np.array(rows, dtype=np.int64), np.array(costs))

    def _row_costs(self, row: int, price: Mapping[int, float]) -> list[float]:
        """What the first, second, … slot of a row costs, evened out so that later slots are never cheaper."""
        slots = min(int(self.gaps.now[row]), self.gaps.need)
        pools: list[tuple[float, int]] = [(0.0, slots)] if slots else []
        freed: dict[str, int] = {}
        cost = 0.0
        for victim in self._on_row.get(row, ()):
            cost += price[victim.unit]
            _add(freed, victim.freed[row])
            gained = min(self.gaps.slots_with(row, freed), self.gaps.need) - slots
            if gained > 0:
                slots += gained
                pools.append((cost, gained))
                cost = 0.0
                while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
                    last = pools.pop()
                    pools[-1] = (pools[-1][0] + last[0], pools[-1][1] + last[1])
        return [total / count for total, count in pools for _ in range(count)]

    def _prefix(self, row: int, count: int) -> Iterable[Victim]:
        """The cheapest victims of a row that must go for `count` slots."""
        freed: dict[str, int] = {}
        for victim in self._on_row.get(row, ()):
            if min(self.gaps.slots_with(row, freed), self.gaps.need) >= count:
                return
            _add(freed, victim.freed[row])
            yield victim

    # ---- picking

    def _place(self, part: Part, region: Region, used: np.ndarray) -> tuple[float, np.ndarray] | None:
        """The price of the slots a part takes in a region, and all slots used then."""
        best: tuple[float, np.ndarray] | None = None
        for inner in self._domains(part, region):
            found = self._inside(part, inner, used)
            if found is not None and (best is None or found[0] < best[0]):
                best = found
        return best

    def _domains(self, part: Part, region: Region) -> list[Region]:
        levels = [self.layout.level_of.get(key, -1) for key in part.keys]
        level = max(levels, default=-1)
        if level <= region.level or region.rows is not None:
            return [region]
        low, high = self.layout.inner(region.level, region.index, level)
        named = self.layout.named(level)
        pinned = {int(self.layout.domains(level)[row]) for row in part.pins}
        return [Region(level, index) for index in range(low, high) if named[index] and pinned <= {index}]

    def _inside(self, part: Part, region: Region, used: np.ndarray) -> tuple[float, np.ndarray] | None:
        if part.children:
            return self._children(part, region, used)
        first, last = self._span(region)
        open_costs = np.where(used[first:last], INFINITE, self._stairs.costs[first:last])
        if part.need > len(open_costs):
            return None
        order = np.argsort(open_costs, kind="stable")[: part.need]
        total = float(open_costs[order].sum())
        if total == INFINITE:
            return None
        after = used.copy()
        after[first + order] = True
        return total, after

    def _children(self, part: Part, region: Region, used: np.ndarray) -> tuple[float, np.ndarray] | None:
        total, have = 0.0, 0
        children = list(part.children)
        if part.need < len(children):
            alone = {id(child): self._place(child, region, used) for child in children}
            children.sort(key=lambda child: found[0] if (found := alone[id(child)]) else INFINITE)
        for child in children:
            if have == part.need:
                break
            found = self._place(child, region, used)
            if found is not None:
                total, used, have = total + found[0], found[1], have + 1
        return (total, used) if have >= part.need else None

    def _span(self, region: Region) -> tuple[int, int]:
        low, high = self.layout.span(region.level, region.index)
        first, last = np.searchsorted(self._stairs.rows, (low, high)).tolist()
        return first, last


def _add(sums: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        sums[name] = sums.get(name, 0) + amount
