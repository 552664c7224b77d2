"""Why a demand is blocked: for every group of its tree what it needs, what the best domains offer, and what shuts
nodes out.  The numbers come from the roll-up bound; where that is too kind, from trying smaller needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .agenda import Found, Steps
from .bounds import copies
from .capacity import room as room_of
from .demand import Composite, Demand, Group, Leaf, Shape
from .fit import allowed, exclusions
from .layout import Bools, Ints, clip, distinct
from .parts import Canon, Part, weight
from .regions import CLUSTER, Region, path_of, rows_of, split_by_label
from .room import Counting, Packing
from .search import model, search
from .terms import closures
from .verdict import DomainCount, Shortage
from .view import ClusterView

RegionAt = Callable[[int], Region]

#: Steps for one "how many would fit" question; the answer is a number for people, not a verdict.
TRIAL_STEPS = 400


def shortages(view: ClusterView, demand: Demand) -> tuple[Shortage, ...]:
    """One for every group: those that fail by themselves first, innermost first, then those that only wait."""
    canon, known = Canon(view), dict[tuple[int, int, int], Shortage]()
    found: list[tuple[tuple[bool, int], Shortage]] = []
    level: list[Group] = [demand.root]
    depth = 0
    while level:
        for group in level:
            part = canon.part(group, "minimum")
            # Groups that are alike lack the same.
            kind = (part.type, *_held(group))
            if kind not in known:
                known[kind] = _Group(view, group, part).shortage()
            shortage = replace(known[kind], group=group.id)
            found.append(((shortage.have >= shortage.need, -depth), shortage))
        level = [child for group in level if isinstance(group, Composite) for child in group.children]
        depth += 1
    found.sort(key=lambda item: item[0])
    return tuple(shortage for _, shortage in found)


def _held(group: Group) -> tuple[int, int]:
    """The minimum of a group and what it has of it in bound members."""
    return (group.min_count, len(group.bound)) if isinstance(group, Leaf) else (group.min_groups, 0)


class _Group:
    """One group by itself, as if it had the cluster alone."""

    def __init__(self, view: ClusterView, group: Group, part: Part) -> None:
        self.view, self.group, self.part, self.layout = view, group, part, view.layout
        self.room: Counting | Packing = model(view, self.part, CLUSTER)
        self.need, self.bound = _held(group)
        if self.part.supply and self.bound >= self.need and isinstance(group, Leaf):
            self.need = self.bound + 1  # the minimum is there; one more pod is what it waits for

    def shortage(self) -> Shortage:
        regions, offers = self._offers()
        order = np.argsort(-offers, kind="stable")[: self.view.options.limits.domains_listed].tolist()
        tried = [self._count(regions(spot), int(offers[spot])) for spot in order]
        tried.sort(key=lambda count: -count.have)
        best = max((count.have for count in tried), default=self.bound)
        key = self.part.keys[-1] if self.part.keys else ""
        return Shortage(
            self.group.id, self.need, best, key, tuple(tried), len(offers), self._exclusions(),
            of_groups=isinstance(self.group, Composite),
        )  # fmt: skip

    def _offers(self) -> tuple[RegionAt, Ints]:
        """The domains of its key and, for each, how much of the need the bound promises."""
        key = self.part.keys[-1] if self.part.keys else None
        level = -1 if key is None else self.layout.level_of.get(key)
        if level is None:
            return self._unlisted(str(key))
        count = len(self.layout.starts(level))
        offers = self._promised(level, 0, count)
        indices = np.flatnonzero(self._admissible(level))
        return (lambda spot: Region(level, int(indices[spot]))), offers[indices]

    def _admissible(self, level: int) -> Bools:
        fine = self.layout.named(level).copy()
        if self.part.pins:
            pinned = distinct(self.layout.domains(level)[list(self.part.pins)].tolist())
            fine &= np.isin(np.arange(len(fine)), pinned)
        return fine

    def _unlisted(self, key: str) -> tuple[RegionAt, Ints]:
        regions = split_by_label(self.layout, CLUSTER, key)
        offers = []
        for region in regions:
            rows = rows_of(self.layout, region)
            room = sum(
                min(int(self.view.capacity.slots(shape).rows[rows].sum()), most)
                for shape, most in self._supply().items()
            )
            offers.append(self.bound + room if isinstance(self.group, Leaf) else self.need)
        return regions.__getitem__, np.array(offers, dtype=np.int64)

    def _promised(self, level: int, low: int, high: int) -> Ints:
        if isinstance(self.group, Leaf):
            total = np.full(high - low, self.bound, dtype=np.int64)
            for shape, most in self._supply().items():
                total += np.minimum(self.room.slots(shape, level)[low:high], most)
            if self.part.exclusive and self.layout.level_of.get(self.part.exclusive.key) == level:
                total[self.room.held_domains(self.part)[low:high]] = self.bound
            return total
        kinds = Counter(child.type for child in self.part.children)
        total = np.zeros(high - low, dtype=np.int64)
        for kind, number in kinds.items():
            child = next(child for child in self.part.children if child.type == kind)
            total += np.minimum(copies(self.room, child, level, low, high), number)
        if isinstance(self.room, Counting):
            sizes = np.cumsum(sorted(child.pods for child in self.part.children))
            slots = self.room.slots(self.room.shape, level)[low:high]
            total = np.minimum(total, np.searchsorted(sizes, slots, side="right"))
        return total

    def _supply(self) -> Counter[Shape]:
        supply = Counter[Shape]()
        for ask in self.part.asks:
            supply[ask.shape] += ask.most
        return supply

    def _count(self, region: Region, promised: int) -> DomainCount:
        have = promised if promised < self.need and self._exact() else self._reached(region, promised)
        short = self._short_of(region) if have < self.need else ""
        return DomainCount(path_of(self.layout, region), self.need, have, short, self._holder(region))

    def _exact(self) -> bool:
        return isinstance(self.group, Leaf) and isinstance(self.room, Counting)

    def _reached(self, region: Region, promised: int) -> int:
        """The most that fits in a region, by trying; what the trial budget cannot settle counts as too much."""
        part = replace(self.part, keys=(), exclusive=None)
        low, high = min(promised, self.bound), min(promised, self.need)
        while low < high:
            goal = (low + high + 1) // 2 if high < self.need else high
            smaller = relaxed(part, goal - self.bound)
            if isinstance(search(self.view, smaller, region, Steps(TRIAL_STEPS)), Found):
                low = goal
            else:
                high = goal - 1
        return promised if low == self.need else low

    def _short_of(self, region: Region) -> str:
        """The resource that runs out first for the largest pods below."""
        shape = self._largest()
        if shape is None:
            return ""
        rows = rows_of(self.layout, region)
        fine = rows[allowed(self.layout, shape, rows)]
        totals = [
            (int(_by_resource(self.view, name, amount, fine).sum()), name)
            for name, amount in shape.requests
            if amount > 0
        ]
        return min(totals)[1] if len(fine) and totals else ""

    def _largest(self) -> Shape | None:
        shapes = [ask.shape for leaf in _leaves(self.part) for ask in leaf.asks]
        return max(shapes, key=weight) if shapes else None

    def _holder(self, region: Region) -> str:
        exclusive = self.part.exclusive
        if exclusive is None:
            return ""
        domain = self.view.occupancy.domain(exclusive.key, int(rows_of(self.layout, region)[0]))
        groups = self.view.occupancy.holders(exclusive).get(domain, {})
        others = [group for group in groups if group != self.part.group]
        if not others:
            return ""
        pod = next(pod for pod in self.view.all_running() if pod.group == others[0] and pod.exclusive == exclusive)
        unit = self.view.unit(pod.unit)
        return (unit.name if unit else "") or f"group {pod.group}"

    def _exclusions(self) -> dict[str, int]:
        """Nodes that take no pod of the leaf's largest shape, each counted once under its first reason."""
        if not isinstance(self.group, Leaf) or self._largest() is None:
            return {}
        shape = self._largest()
        assert shape is not None
        return excluded_nodes(self.view, shape)


def excluded_nodes(view: ClusterView, shape: Shape) -> dict[str, int]:
    layout, reasons = view.layout, {}
    open_rows = np.ones(layout.size, dtype=np.bool_)
    company = closures(layout, view.company, shape) if shape.tied else ()
    for reason, shut in (*exclusions(layout, shape), *company):
        number = int((open_rows & shut).sum())
        if number:
            reasons[reason] = number
        open_rows &= ~shut
    rows = np.flatnonzero(open_rows)
    full = rows[room_of(layout, layout.free[:, rows], shape) == 0]
    if len(full):
        requests = [(name, amount) for name, amount in shape.requests if amount > 0]
        counts = np.stack([_by_resource(view, name, amount, full) for name, amount in requests])
        first = np.argmin(counts, axis=0)
        for number, (name, _) in enumerate(requests):
            nodes = int((first == number).sum())
            if nodes:
                reasons[f"short of {name}"] = nodes
    return reasons


def relaxed(part: Part, need: int) -> Part:
    """The same part with a smaller need."""
    if part.is_leaf:
        return replace(part, need=need, pods=need, least={part.asks[0].shape: need} if len(part.asks) == 1 else {})
    pods = sum(sorted(child.pods for child in part.children)[:need])
    return replace(part, need=need, pods=pods, least=part.least if need >= len(part.children) else {})


def _leaves(part: Part) -> list[Part]:
    return [part] if part.is_leaf else [leaf for child in part.children for leaf in _leaves(child)]


def _by_resource(view: ClusterView, name: str, amount: int, rows: Ints) -> Ints:
    """How many pods each row would take if this resource alone counted."""
    known = view.layout.resources.get(name)
    if known is None:
        return np.zeros(len(rows), dtype=np.int64)
    pods: Ints = np.maximum(view.layout.free[known, rows] // clip(amount), 0)
    return pods
