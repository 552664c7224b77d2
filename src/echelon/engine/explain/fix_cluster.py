"""Fixes that change the cluster: nodes added or emptied, units evicted that the demand itself may not evict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..cluster.node_filters import allowed
from ..cluster.node_table import NodeTable
from ..cluster.regions import Region, path_of, rows_of
from ..cluster.running_terms import matches
from ..cluster.slots import count_slots_of_one, slots_in
from ..cluster.view import Node, Running
from ..preemption.preempt import preempt
from ..records.demand import Exclusive, Leaf, Limits, Peers, Shape, given
from ..records.domain_owners import is_ownership
from ..records.verdict import Cost, Fix, Shortage, UnitName
from .diagnose import meant
from .fix_trials import FEW_UNITS, Trials, fewest

#: No fix asks for more nodes than this to be emptied, or to be added.
NODES_FREED, NODES_ADDED = 512, 64
#: Nodes whose units are considered for eviction, and single units that are tried.
NODES_SEARCHED, UNITS_TRIED = 64, 4

#: Whether a number of nodes is enough.
Enough = Callable[[int], bool]


class ClusterFixes:
    def __init__(self, trials: Trials, now: float, limits: Limits) -> None:
        self.trials, self.view, self.demand, self.now = trials, trials.view, trials.demand, now
        self.causes, self.limits = trials.causes, limits
        self._models: dict[tuple[Shape, int, int], Node | None] = {}

    def added(self) -> Iterator[Fix]:
        yield from self._first(self._added)

    def evicting(self) -> Iterator[Fix]:
        """Nodes to empty, and units to evict that the demand may not preempt itself."""
        yield from self._first(self._freed)
        if self.demand.may_preempt:
            yield from self._first(self._forbidden)
            return
        evict = preempt(self.view, replace(self.demand, may_preempt=True), self.now, self.limits)
        if evict is not None:
            yield self._eviction(evict.units)

    def _first(self, find: Callable[[Shortage, Shape, Region], Fix | None]) -> Iterator[Fix]:
        """The fix for the innermost cause that has one, in the best domain that has one."""
        for alike in self.causes:
            shape = self.trials.largest(alike[0])
            regions = self.trials.best_regions(alike[0])
            found = (find(alike[0], shape, region) for region in regions if shape is not None)
            fix = next((fix for fix in found if fix is not None), None)
            if fix is not None:
                yield fix
                return

    def _eviction(self, ids: Sequence[int]) -> Fix:
        units = [unit for unit in map(self.view.unit, ids) if unit is not None]
        pods = sum(pod.evictable for unit in ids for pod in self.view.pods_of(unit))
        victims = tuple(UnitName(unit.id, unit.name, unit.priority) for unit in units)
        return Fix("evict", amount=len(units), units=tuple(ids), victims=victims, cost=Cost(evicted=pods))

    def _forbidden(self, shortage: Shortage, shape: Shape, region: Region) -> Fix | None:
        """A few units of a domain whose eviction is enough, whatever their priority; for many, `_freed` lists nodes."""
        missing = 1 if shortage.of_groups else shortage.need - shortage.have
        holders = self._holders(shortage, shape, region)
        gains = self._gains(shape, region) if self._could_gain(shape, region) >= missing else {}
        alone = sorted((unit for unit in gains if gains[unit] >= missing), key=self._size)
        together = sorted(gains, key=lambda unit: (-gains[unit], *self._size(unit)))[:FEW_UNITS]
        closed = [*([unit] for unit in holders[:UNITS_TRIED]), holders] if len(holders) > 1 else [holders]
        trials = [*([unit] for unit in alone[:UNITS_TRIED])]
        trials += [together[:number] for number in range(2, len(together) + 1)]
        trials = [units for units in trials if sum(gains[unit] for unit in units) >= missing]
        for units in (*closed, *trials):
            if 0 < len(units) <= FEW_UNITS and self._fits_gone(units):
                return self._eviction(units)
        return None

    def _holders(self, shortage: Shortage, shape: Shape, region: Region) -> list[int]:
        """The units for which a domain is closed: they have it alone, or are where the group needs one alone."""
        group = self.trials.groups[shortage.group]
        exclusive = group.exclusive if isinstance(group, Leaf) else None
        if exclusive is None and shape.identity is None:
            return []
        names = [self.view.node_table.name(row) for row in rows_of(self.view.node_table, region).tolist()]
        own = [term.peers for term in shape.anti_affinity if is_ownership(term.peers)]
        units = {
            pod.unit: None
            for name in names
            for pod in self.trials.strangers(name)
            if pod.evictable and pod.group != shortage.group and _closes(pod, exclusive, shape, own)
        }
        return sorted(units, key=self._size)

    def _could_gain(self, shape: Shape, region: Region) -> int:
        """The most slots that evicting a few units could free."""
        model, names = self._model(shape, region), self.trials.by_use(shape, region)[:NODES_SEARCHED]
        nodes = Counter(unit for name in names for unit in {pod.unit for pod in self.trials.strangers(name)})
        most = _slots(model.allocatable, _wanted(shape)) if model is not None else 0
        return most * sum(number for _, number in nodes.most_common(FEW_UNITS))

    def _gains(self, shape: Shape, region: Region) -> dict[int, int]:
        """Unit -> slots of the shape that its eviction frees on nodes of a region."""
        table, gains, wanted = self.view.node_table, dict[int, int](), _wanted(shape)
        for name in self.trials.by_use(shape, region)[:NODES_SEARCHED]:
            row = table.row(name)
            assert row is not None
            free = {resource: int(table.free[number, row]) for resource, number in table.resources.items()}
            given_back: dict[int, dict[str, int]] = {}
            for pod in self.trials.strangers(name):
                if pod.evictable and self.view.unit(pod.unit) is not None:
                    back = given_back.setdefault(pod.unit, {})
                    for resource, amount in pod.requests:
                        back[resource] = back.get(resource, 0) + amount
            before = _slots(free, wanted)
            for unit, back in given_back.items():
                after = _slots({name: amount + back.get(name, 0) for name, amount in free.items()}, wanted)
                gains[unit] = gains.get(unit, 0) + after - before
        return {unit: gain for unit, gain in gains.items() if gain > 0}

    def _size(self, unit: int) -> tuple[int, int, int]:
        known = self.view.unit(unit)
        return len(self.view.pods_of(unit)), known.priority if known else 0, unit

    def _fits_gone(self, units: list[int]) -> bool:
        gone = [
            pod for unit in units for pod in self.view.pods_of(unit) if pod.evictable and pod.pod not in self.trials.own
        ]
        with self.view.without(gone):
            return self.trials.fits(self.demand.root)

    def _freed(self, shortage: Shortage, shape: Shape, region: Region) -> Fix | None:
        """The fewest nodes, emptiest first, that must be empty in a domain."""
        busy = [name for name in self.trials.by_use(shape, region) if self.trials.strangers(name)]
        most, guess = min(len(busy), NODES_FREED), self._guess(shortage, shape, self._model(shape, region))
        least = max(1, guess) if self._is_counted(shortage) else 1  # no node frees more slots than the model has
        number = fewest(most, lambda count: self._fits_without(busy[:count]), guess, least)
        if not number:
            return None
        pods = sum(len(self.trials.strangers(name)) for name in busy[:number])
        path, nodes = path_of(self.view.node_table, region), tuple(busy[:number])
        return Fix("free", shortage.group, number, path, nodes=nodes, cost=Cost(evicted=pods))

    def _added(self, shortage: Shortage, shape: Shape, region: Region) -> Fix | None:
        """The fewest nodes like the best one there that must be added to a domain."""
        model, most = self._model(shape, region), min(NODES_ADDED, shortage.need)
        if model is None or not most:
            return None
        enough = self._counted_with(shortage, shape, region, model) or self._fits_with(model, most)
        number = fewest(most, enough, self._guess(shortage, shape, model))
        if number and self._minds() and number < most and not self._fits_with(model, number)(number):
            # Nodes without capacity are domains too, and a spread over hosts counts them: check without them.
            return None
        if not number:
            return None
        path = path_of(self.view.node_table, region)
        return Fix("add", shortage.group, number, path, nodes=(model.name,), cost=Cost(nodes_added=number))

    def _minds(self) -> bool:
        """Whether the demand has topology spread constraints, which count empty nodes."""
        return any(pods.shape.spread for leaf in self.demand.leaves() for pods in leaf.classes)

    def _guess(self, shortage: Shortage, shape: Shape | None, model: Node | None) -> int:
        """How many nodes like this hold the missing pods of a leaf; 1 where groups are missing."""
        if shortage.of_groups or shape is None or model is None:
            return 1
        return -(-(shortage.need - shortage.have) // max(1, _slots(model.allocatable, _wanted(shape))))

    def _fits_without(self, names: list[str]) -> bool:
        with self.view.without([pod for name in names for pod in self.trials.strangers(name)]):
            return self.trials.fits(self.demand.root)

    def _is_counted(self, shortage: Shortage) -> bool:
        """Whether the demand is one leaf of equal pods, for which the number of slots decides."""
        leaf = self.demand.root
        if not isinstance(leaf, Leaf) or leaf.bound or leaf.exclusive or len(leaf.classes) != 1:
            return False
        (pods,) = leaf.classes
        return not pods.shape.has_pod_rules and shortage.present >= shortage.need

    def _counted_with(self, shortage: Shortage, shape: Shape, region: Region, model: Node) -> Enough | None:
        """Whether n nodes like this give enough slots; None if slots do not decide or clones lie elsewhere."""
        clone, path_of = _clone(model, 1), self.view.node_table.path_of
        inside = slice(region.level + 1)
        if not self._is_counted(shortage) or path_of(clone)[inside] != path_of(model)[inside]:
            return None
        alone = NodeTable(self.view.levels)
        alone.insert([(clone, clone.allocatable)])
        each = int(slots_in(alone, alone.free, shape)[0]) if allowed(alone, shape)[0] else 0
        have = int(self.view.slot_cache.slots(shape).roll(region.level)[region.index])
        return lambda count: have + count * each >= shortage.need

    def _fits_with(self, model: Node, most: int) -> Enough:
        """Whether the demand fits with a number of nodes like this; clones beyond the number have no capacity."""
        clones = [_clone(model, number) for number in range(1, most + 1)]
        enlarged, usable = self.view.enlarged(clones), most

        def fits(count: int) -> bool:
            nonlocal usable
            for number in range(min(count, usable), max(count, usable)):
                clone = clones[number] if number < count else replace(clones[number], allocatable={})
                enlarged.node_table.replace(clone, clone.allocatable)
            usable = count
            return self.trials.fits(self.demand.root, enlarged)

        return fits

    def _model(self, shape: Shape, region: Region) -> Node | None:
        """The node of a region that would take most pods of the shape if it were empty."""
        key = (shape, region.level, region.index)
        if key not in self._models:
            nodes = [node for node in map(self.view.node, self.trials.by_use(shape, region)) if node is not None]
            wanted = _wanted(shape)
            slots = [_slots(node.allocatable, wanted) for node in nodes]
            most = max(slots, default=0)
            self._models[key] = nodes[slots.index(most)] if most else None
        return self._models[key]


def _closes(pod: Running, exclusive: Exclusive | None, shape: Shape, own: Sequence[Peers]) -> bool:
    """Whether a running pod makes a domain another's, or one that cannot be had alone."""
    if exclusive is not None and pod.exclusive == exclusive:
        return True
    if pod.exclusive is not None and any(
        is_ownership(term.peers) and matches(term.peers, shape) for term in pod.repels
    ):
        return True
    return any(meant(peers, pod) for peers in own)


def _wanted(shape: Shape) -> list[tuple[str, int, int]]:
    """Resource, requested amount, and what a node has that does not list the resource."""
    return [(resource, amount, given(resource)) for resource, amount in shape.requests if amount > 0]


def _slots(free: Mapping[str, int], wanted: list[tuple[str, int, int]]) -> int:
    """How many pods fit into free amounts."""
    return count_slots_of_one((free.get(resource, unsaid), amount) for resource, amount, unsaid in wanted)


def _clone(model: Node, number: int) -> Node:
    name = f"{model.name}+{number}"
    labels = {key: name if value == model.name else value for key, value in model.labels.items()}
    return replace(model, name=name, labels=labels)
