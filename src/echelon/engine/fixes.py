"""What would let a blocked demand in, found by trying: each fix was applied to a trial and the demand fitted.

Cheap questions first, and no more fixes than the options allow.  The view is as before when this is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ..base.paths import spoken
from .agenda import Found, Steps
from .capacity import room
from .demand import Bound, Composite, Demand, Group, Leaf, PodClass, Shape, given
from .fit import allowed
from .parts import Canon, weight
from .preempt import preempt
from .regions import CLUSTER, Region, path_of, rows_of
from .search import search
from .verdict import Fix, Shortage
from .view import ClusterView, Node, Running

#: Steps for one trial and for all of them; an open answer counts as "does not fit".
TRIAL_STEPS = 1_000
ALL_STEPS = 10_000
#: No fix asks for more nodes than this to be emptied.
NODES_FREED = 512
#: What a trial costs before its search begins.
STEPS_PER_GROUP = 3


def fixes(view: ClusterView, demand: Demand, shortages: tuple[Shortage, ...], now: float) -> tuple[Fix, ...]:
    """Changes that make the demand fit, at most as many as the options allow."""
    causes = [shortage for shortage in shortages if shortage.have < shortage.need] or list(shortages[:1])
    kinds: dict[tuple[object, ...], list[Shortage]] = {}
    for shortage in causes:
        kinds.setdefault((shortage.need, shortage.have, shortage.key, shortage.of_groups), []).append(shortage)
    different: dict[tuple[str, int], Fix] = {}
    trials = _Trials(view, demand, list(kinds.values()), now).all()
    while len(different) < view.options.limits.fixes:
        fix = next(trials, None)
        if fix is None:
            break
        if not any(_is_within(known, fix) for known in different.values()):
            different.setdefault((fix.kind, fix.group), fix)
    return tuple(different.values())


def _is_within(known: Fix, fix: Fix) -> bool:
    """Whether a fix says no more than one that is known and names a narrower domain."""
    same = (known.kind, known.amount) == (fix.kind, fix.amount) and fix.kind in ("free", "add")
    return same and known.domain[: len(fix.domain)] == fix.domain


class _Trials:
    def __init__(self, view: ClusterView, demand: Demand, causes: list[list[Shortage]], now: float) -> None:
        """`causes` holds shortages by kind; what helps one of a kind is tried for all of it."""
        self.view, self.demand, self.causes, self.now = view, demand, causes, now
        self.groups = {group.id: group for group in _walk(demand.root)}
        self.steps = Steps(ALL_STEPS)
        self.own = {bound.member for leaf in demand.leaves() for bound in leaf.bound}

    def all(self) -> Iterator[Fix]:
        yield from self._fields()
        yield from self._releases()
        yield from self._evictions()
        for alike in self.causes[: self.view.options.limits.fixes]:
            yield from self._freed(alike[0])
            yield from self._added(alike[0])
            yield from self._lowered(alike)
            yield from self._widened(alike)

    def _fits(self, root: Group) -> bool:
        """Whether the tree would advance: come to hold, or hold more than it does now."""
        for aim in Canon(self.view).aims(root):
            self.steps.left -= STEPS_PER_GROUP * len(self.groups)
            if self.steps.left <= 0:
                return False
            trial = Steps(min(TRIAL_STEPS, self.steps.left))
            self.steps.left -= trial.left
            found = search(self.view, aim, CLUSTER, trial)
            self.steps.left += trial.left
            if isinstance(found, Found):
                return True
        return False

    # ---- changes of the demand

    def _fields(self) -> Iterator[Fix]:
        fields = sorted(
            {name for leaf in self.demand.leaves() for pods in leaf.classes for name in pods.shape.unsupported}
        )
        if fields:
            root = _rebuilt(self.demand.root, _supported)
            if self._fits(root):
                yield Fix("field", f"remove {', '.join(fields)} from the pods: placement cannot honour it yet")

    def _releases(self) -> Iterator[Fix]:
        for leaf in self.demand.leaves():
            if not leaf.bound or not leaf.classes:
                continue
            pods = [pod for pod in (self.view.running(bound.member) for bound in leaf.bound) if pod is not None]
            with self.view.without(pods):
                fits = self._fits(_rebuilt(self.demand.root, _releasing(leaf.id)))
            if fits:
                number = len(leaf.bound)
                noun = "pod" if number == 1 else f"{number} pods"
                nodes = ", ".join(sorted({bound.node for bound in leaf.bound})[:3])
                yield Fix("release", f"release the bound {noun} on {nodes}", leaf.id, number)

    def _lowered(self, alike: list[Shortage]) -> Iterator[Fix]:
        shortage, group = alike[0], self.groups[alike[0].group]
        floor = len(group.bound) if isinstance(group, Leaf) else 0
        if not floor < shortage.have < shortage.need:
            return
        field = "minCount" if isinstance(group, Leaf) else "minGroupCount"
        root = _rebuilt(self.demand.root, _with_minimum({each.group for each in alike}, shortage.have))
        if self._fits(root):
            text = f"lower {field} from {shortage.need} to {shortage.have}{_all(alike)}"
            yield Fix("lower", text, group.id, shortage.have, groups=tuple(each.group for each in alike))

    def _widened(self, alike: list[Shortage]) -> Iterator[Fix]:
        group = self.groups[alike[0].group]
        if group.topology is None or (isinstance(group, Leaf) and group.exclusive is not None):
            return
        levels = self.view.options.levels
        wider = reversed(levels[: levels.index(group.topology)]) if group.topology in levels else ()
        carried = [key for key in wider if any(key in node.labels for node in self._all_nodes())]
        for key in (*carried, None):
            if self._fits(_rebuilt(self.demand.root, _with_topology({each.group for each in alike}, key))):
                text = (
                    f"widen {_short(group.topology)} to {_short(key)}"
                    if key
                    else f"drop the {_short(group.topology)} key"
                )
                yield Fix("widen", text + _all(alike), group.id, groups=tuple(each.group for each in alike))
                return

    # ---- changes of the cluster

    def _evictions(self) -> Iterator[Fix]:
        if self.demand.may_preempt:
            return
        evict = preempt(self.view, replace(self.demand, may_preempt=True), self.now)
        if evict is not None:
            units = [self.view.unit(unit) for unit in evict.units]
            names = ", ".join(unit.name or f"unit {unit.id}" for unit in units[:3] if unit is not None)
            yield Fix("evict", f"evict {names}{' …' if len(units) > 3 else ''}", amount=len(units))

    def _freed(self, shortage: Shortage) -> Iterator[Fix]:
        """The fewest nodes, emptiest first, that must be empty in the best domain."""
        shape, region = self._largest(shortage), self._best_region(shortage)
        if shape is None or region is None:
            return
        busy = [name for name in self._by_use(shape, region) if self._strangers(name)]
        most, guess = min(len(busy), NODES_FREED), self._guess(shortage, shape, self._model(shape, region))
        number = _fewest(most, lambda count: self._fits_without(busy[:count]), guess)
        if number:
            names = ", ".join(busy[: min(number, 3)]) + (" …" if number > 3 else "")
            text = f"free {number} {'node' if number == 1 else 'nodes'}{self._where(region)} ({names})"
            yield Fix("free", text, shortage.group, number, path_of(self.view.layout, region))

    def _added(self, shortage: Shortage) -> Iterator[Fix]:
        """The fewest nodes like the best one there that must be added to the best domain."""
        shape, region = self._largest(shortage), self._best_region(shortage)
        model = None if shape is None or region is None else self._model(shape, region)
        if model is None or region is None:
            return
        where, path = self._where(region, "to"), path_of(self.view.layout, region)
        most, guess = min(64, shortage.need), self._guess(shortage, shape, model)
        with _clones(self.view, model, most) as clones:
            number = _fewest(most, lambda count: self._fits_with(clones[:count]), guess)
        if number and self._minds() and number < most:
            # Empty places are domains too, and a spread over hosts counts them: once more with no others.
            with _clones(self.view, model, number) as clones:
                number = number if self._fits_with(clones) else 0
        if number:
            text = f"add {number} {'node' if number == 1 else 'nodes'} like {model.name}{where}"
            yield Fix("add", text, shortage.group, number, path)

    def _minds(self) -> bool:
        """Whether pods of the demand are to be spread: then empty nodes matter."""
        return any(pods.shape.spread for leaf in self.demand.leaves() for pods in leaf.classes)

    def _guess(self, shortage: Shortage, shape: Shape | None, model: Node | None) -> int:
        """Nodes like this that make up for the missing pods of a leaf; where groups are missing, begin with one."""
        if shortage.of_groups or shape is None or model is None:
            return 1
        return -(-(shortage.need - shortage.have) // max(1, _slots_when_empty(model, shape)))

    def _fits_without(self, names: list[str]) -> bool:
        with self.view.without([pod for name in names for pod in self._strangers(name)]):
            return self._fits(self.demand.root)

    def _strangers(self, name: str) -> list[Running]:
        """Pods on a node that are not members of the demand."""
        return [pod for pod in self.view.pods_on(name) if pod.pod not in self.own]

    def _fits_with(self, clones: list[Node]) -> bool:
        for clone in clones:
            self.view.put_node(clone)
        try:
            return self._fits(self.demand.root)
        finally:
            for clone in clones:
                self.view.put_node(replace(clone, allocatable={}))

    # ---- looking around

    def _all_nodes(self) -> Iterator[Node]:
        for name in self.view.node_names():
            node = self.view.node(name)
            if node is not None:
                yield node

    def _largest(self, shortage: Shortage) -> Shape | None:
        shapes = [pods.shape for leaf in _leaves(self.groups[shortage.group]) for pods in leaf.classes]
        return max(shapes, key=weight) if shapes else None

    def _best_region(self, shortage: Shortage) -> Region | None:
        """The first domain that was tried, if it is one of a listed level."""
        layout = self.view.layout
        level = layout.level_of.get(shortage.key) if shortage.key else -1
        if level is None or not shortage.tried:
            return None
        best = shortage.tried[0].domain
        domains = range(len(layout.starts(level)))
        return next((Region(level, index) for index in domains if layout.domain_path(level, index) == best), None)

    def _by_use(self, shape: Shape, region: Region) -> list[str]:
        """Nodes of a region that the shape may use, emptiest first."""
        layout = self.view.layout
        rows = rows_of(layout, region)
        rows = rows[allowed(layout, shape, rows)]
        slots = room(layout, layout.free[:, rows], shape)
        order = np.lexsort((rows, -slots))
        names = [layout.name(int(row)) for row in rows[order].tolist()]
        return sorted(names, key=lambda name: len(self.view.pods_on(name)))

    def _model(self, shape: Shape, region: Region) -> Node | None:
        """The node of a region that would take most pods of the shape if it were empty."""
        best: tuple[int, Node] | None = None
        for name in self._by_use(shape, region):
            node = self.view.node(name)
            assert node is not None
            slots = _slots_when_empty(node, shape)
            if slots > 0 and (best is None or slots > best[0]):
                best = (slots, node)
        return best[1] if best else None

    def _where(self, region: Region, word: str = "in") -> str:
        return f" {word} {spoken(path_of(self.view.layout, region))}" if region.level >= 0 else ""


def _all(alike: list[Shortage]) -> str:
    return f" in all {len(alike)} such groups" if len(alike) > 1 else ""


def _short(key: str) -> str:
    return key.rsplit("/", 1)[-1]


def _slots_when_empty(node: Node, shape: Shape) -> int:
    wanted = [(resource, amount) for resource, amount in shape.requests if amount > 0]
    has = [(node.allocatable.get(resource, given(resource)), amount) for resource, amount in wanted]
    return min((have // amount for have, amount in has), default=0)


def _fewest(most: int, enough: Callable[[int], bool], guess: int) -> int:
    """The least number from 1 to `most` that is enough, 0 if none is; more never hurts, a good guess comes cheap."""
    high = max(1, min(guess, most))
    low = high - 1
    if low and enough(low):
        low, high = 0, low
    while high <= most and not enough(high):
        low, high = high, min(high * 2, most) if high < most else most + 1
    if high > most:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@contextmanager
def _clones(view: ClusterView, model: Node, count: int) -> Iterator[list[Node]]:
    """Copies of a node, for which the view holds places without capacity meanwhile: rows are dear to move."""
    clones = []
    for number in range(1, count + 1):
        name = f"{model.name}+{number}"
        labels = {key: name if value == model.name else value for key, value in model.labels.items()}
        clones.append(replace(model, name=name, labels=labels))
    for clone in clones:
        view.try_node(replace(clone, allocatable={}))
    try:
        yield clones
    finally:
        for clone in clones:
            view.remove_node(clone.name)


# ---- changed trees


def _walk(group: Group) -> Iterator[Group]:
    yield group
    if isinstance(group, Composite):
        for child in group.children:
            yield from _walk(child)


def _leaves(group: Group) -> Iterator[Leaf]:
    return (each for each in _walk(group) if isinstance(each, Leaf))


def _rebuilt(group: Group, change: Callable[[Group], Group]) -> Group:
    """The same tree with every group passed through `change`."""
    if isinstance(group, Composite):
        group = replace(group, children=tuple(_rebuilt(child, change) for child in group.children))
    return change(group)


def _supported(group: Group) -> Group:
    if isinstance(group, Composite):
        return group
    return replace(
        group, classes=tuple(replace(pods, shape=replace(pods.shape, unsupported=())) for pods in group.classes)
    )


def _releasing(leaf_id: int) -> Callable[[Group], Group]:
    """Bound members of one leaf wait again, with the shape of their role's pods."""

    def change(group: Group) -> Group:
        if group.id != leaf_id or not isinstance(group, Leaf):
            return group
        shapes = {pods.role: pods.shape for pods in reversed(group.classes)}
        again = tuple(_waiting(bound, shapes.get(bound.role, group.classes[0].shape)) for bound in group.bound)
        return replace(group, classes=group.classes + again, bound=())

    return change


def _waiting(bound: Bound, shape: Shape) -> PodClass:
    return PodClass(shape, (bound.member,), bound.role)


def _with_minimum(groups: set[int], minimum: int) -> Callable[[Group], Group]:
    def change(group: Group) -> Group:
        if group.id not in groups:
            return group
        if isinstance(group, Leaf):
            return replace(group, min_count=minimum)
        return replace(group, min_groups=minimum)

    return change


def _with_topology(groups: set[int], key: str | None) -> Callable[[Group], Group]:
    return lambda group: replace(group, topology=key) if group.id in groups else group
