"""The cluster as the engine sees it: nodes, running pods, the units in which they are evicted, disruption budgets.

The view lives as long as the scheduler and is updated by events in time proportional to the change.  Behind it are
the nodes as arrays (`node_table`), slots per shape (`slots`), pods by identity (`pod_index`) and exclusive domains
(`exclusivity`).

Three of the engine's undo mechanisms are here.  They change the arrays for a trial; the records stay:

    without     pods are gone (reservation, victims whose pods already leave): undone when the block ends
    with_more   more pods run (extras are added one by one): undone when the block ends
    enlarged    a copy with more nodes, for fixes that add nodes: nothing to undo

An exception in a trial ends in `recount`, which derives the arrays anew from the records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

from ..records.demand import Exclusive, Identity, PodTerm, Preference, Taint, given
from ..records.validate import amounts
from .arrays import Ints
from .exclusivity import Exclusivity
from .node_table import NodeTable
from .pod_index import PodIndex
from .slots import SlotCache
from .topology import NodeLike


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    labels: Mapping[str, str]
    #: Exact integers per resource, in the units of `Shape.requests`; holds `pods`.
    allocatable: Mapping[str, int]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """What is evicted as one: the highest ancestor with disruption mode `all`, else a single pod."""

    id: int
    #: Priority of the root of its hierarchy.
    priority: int
    #: For messages, such as `JobSet/low-0`.
    name: str = ""


class Running(NamedTuple):
    """A pod that holds capacity on a node: bound, assumed, or nominated there.

    A tuple, since thousands are created per second.
    """

    pod: int
    node: str
    requests: tuple[tuple[str, int], ...]
    unit: int
    started: float
    #: The leaf group it belongs to (for exclusivity), -1 if none.
    group: int = -1
    exclusive: Exclusive | None = None
    #: Ids of the disruption budgets that cover it.
    budgets: tuple[int, ...] = ()
    #: False once it is being evicted: it is no victim any more.
    evictable: bool = True
    #: What terms of other pods match, and its own required anti-affinity.
    identity: Identity | None = None
    repels: tuple[PodTerm, ...] = ()
    #: Nominated: its node is reserved, but it does not run yet, and may never.
    coming: bool = False
    #: Its preferred terms about pods, and its required affinity as preferences.
    preferences: tuple[Preference, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget: how many more of its pods may be evicted."""

    id: int
    allowed: int


class ClusterView:
    """Nodes, running pods, units and budgets, kept up to date by single changes."""

    def __init__(self, levels: Sequence[str]) -> None:
        """`levels` are the topology keys that nest, from the widest to the narrowest."""
        self.levels = tuple(levels)
        self._node_table = NodeTable(self.levels)
        self._pod_index = PodIndex()
        self._slot_cache = SlotCache(self._node_table, self._pod_index)
        self._exclusivity = Exclusivity(self._node_table)
        self._nodes: dict[str, Node] = {}
        #: Nodes that were added or removed since the arrays were last updated.
        self._joining: dict[str, None] = {}
        self._leaving: dict[str, None] = {}
        self._running: dict[int, Running] = {}
        self._on_node: dict[str, dict[int, None]] = {}
        self._of_unit: dict[int, dict[int, None]] = {}
        self._units: dict[int, Unit] = {}
        self._of_priority: dict[int, dict[int, None]] = {}
        self._budgets: dict[int, Budget] = {}
        #: How often all arrays were derived anew: a trial that began before that has nothing left to undo.
        self._recounts = 0
        #: Nodes that changed since the last call of `stirred`, and whether free amounts may have grown there.
        self._stirred: dict[str, bool] = {}

    # ---- changes

    def put_node(self, node: Node) -> None:
        old = self._nodes.get(node.name)
        if old == node:
            return
        amounts("node", node.name, "allocatable", node.allocatable.items())
        self._nodes[node.name] = node
        self._stirred[node.name] = True
        if old is None:
            self._joining[node.name] = None
        elif self._node_table.path_of(old) != self._node_table.path_of(node):
            self._retire(node.name)
            self._joining[node.name] = None
        elif node.name not in self._joining:
            self._node_table.replace(node, self._free_on(node))

    def remove_node(self, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            self._retire(name)
            self._stirred[name] = True

    def relevel(self, levels: Sequence[str]) -> None:
        """Other topology keys nest from now on: all arrays are derived anew, which is rare."""
        self.levels = tuple(levels)
        self._node_table.relevel(self.levels)
        self.recount()
        self._stirred.update(dict.fromkeys(self._nodes, True))

    def put_unit(self, unit: Unit) -> None:
        number, priority = unit.id, unit.priority
        old = self._units.get(number)
        if old is not None:
            if old.priority != priority:
                self._stirred.update((pod.node, True) for pod in self.pods_of(number))
            self.remove_unit(number)
        self._units[number] = unit
        alike = self._of_priority.get(priority)
        if alike is None:
            alike = self._of_priority[priority] = {}
        alike[number] = None

    def remove_unit(self, unit_id: int) -> None:
        unit = self._units.pop(unit_id, None)
        if unit is not None:
            _drop(self._of_priority, unit.priority, unit_id)

    def put_budget(self, budget: Budget) -> None:
        self._budgets[budget.id] = budget

    def remove_budget(self, budget_id: int) -> None:
        self._budgets.pop(budget_id, None)

    def bind(self, pod: Running) -> None:
        """Add a running pod; a second call for the same pod replaces the first."""
        self.bind_all((pod,))

    def bind_all(self, pods: Iterable[Running]) -> None:
        """Add the pods of a gang, with one change of the arrays for all that have the same requests."""
        pods, fresh, checked = list(pods), list[Running](), None
        for pod in pods:
            if pod.requests is not checked:
                amounts("pod", pod.pod, "requests", pod.requests, 0)
                checked = pod.requests
        running, on_node, of_unit, stirred = self._running, self._on_node, self._of_unit, self._stirred
        for pod in pods:
            number, node, unit = pod.pod, pod.node, pod.unit
            old = running.get(number)
            if old is not None:
                if old == pod:
                    continue
                self.unbind(number)
            running[number] = pod
            here = on_node.get(node)
            if here is None:
                on_node[node] = {number: None}
            else:
                here[number] = None
            together = of_unit.get(unit)
            if together is None:
                of_unit[unit] = {number: None}
            else:
                together[number] = None
            if node not in stirred:
                stirred[node] = False
            fresh.append(pod)
        self._hold(fresh, 1)

    def unbind(self, pod_id: int) -> None:
        self.unbind_all((pod_id,))

    def unbind_all(self, pod_ids: Iterable[int]) -> None:
        """Remove pods; unknown ones are passed over."""
        gone = []
        for pod_id in pod_ids:
            pod = self._running.pop(pod_id, None)
            if pod is not None:
                _drop(self._on_node, pod.node, pod_id)
                _drop(self._of_unit, pod.unit, pod_id)
                self._stirred[pod.node] = True
                gone.append(pod)
        self._hold(gone, -1)

    def stirred(self) -> dict[str, bool]:
        """The nodes that changed since the last call, and whether free amounts may have grown there."""
        found, self._stirred = self._stirred, {}
        return found

    # ---- reading

    def node_names(self) -> list[str]:
        """All nodes in topology order."""
        return [node.name for node in self.node_table.nodes]

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def free_in_all(self) -> dict[str, int]:
        """What is free of each resource on all nodes that are not cordoned; a node with too much on it has none."""
        table = self.node_table
        free = table.free[:, ~table.cordoned].clip(min=0).sum(axis=1)
        return {resource: int(free[row]) for resource, row in table.resources.items()}

    def running(self, pod_id: int) -> Running | None:
        return self._running.get(pod_id)

    def pods_on(self, node: str) -> list[Running]:
        return [self._running[pod] for pod in self._on_node.get(node, {})]

    def number_on(self, node: str) -> int:
        return len(self._on_node.get(node, ()))

    def pods_of(self, unit_id: int) -> list[Running]:
        return [self._running[pod] for pod in self._of_unit.get(unit_id, {})]

    @property
    def running_count(self) -> int:
        return len(self._running)

    def all_running(self) -> Iterator[Running]:
        return iter(self._running.values())

    def unit(self, unit_id: int) -> Unit | None:
        return self._units.get(unit_id)

    def units(self) -> list[Unit]:
        return list(self._units.values())

    def units_below(self, priority: int) -> list[Unit]:
        """Units of lower priority, the lowest first."""
        lower = sorted(each for each in self._of_priority if each < priority)
        return [self._units[unit] for each in lower for unit in self._of_priority[each]]

    def ids_below(self, priority: int) -> list[tuple[int, list[int]]]:
        """The same as ids, priority by priority."""
        return [(each, list(self._of_priority[each])) for each in sorted(self._of_priority) if each < priority]

    def budget(self, budget_id: int) -> Budget | None:
        return self._budgets.get(budget_id)

    def domain_of(self, node: str, key: str) -> tuple[str, ...] | None:
        """The domain of a topology key that a node lies in; None if the node is unknown or lacks the label."""
        known = self._nodes.get(node)
        if known is None or not known.labels.get(key):
            return None
        levels = self.levels
        if key not in levels:
            return (known.labels[key],)
        wider = levels[: levels.index(key) + 1]
        return tuple(value for value in (known.labels.get(level, "") for level in wider) if value)

    def fingerprint(self) -> str:
        """A hash of everything the view holds, derived arrays included."""
        node_table, digest = self.node_table, hashlib.sha256()
        resources = sorted(node_table.resources)
        for row, listed in enumerate(node_table.nodes):
            path, name, node = node_table.path(row), listed.name, self._nodes[listed.name]
            free = {r: int(node_table.free[node_table.resources[r], row]) for r in resources}
            free = {r: amount for r, amount in free.items() if amount != given(r)}
            digest.update(repr((path, name, sorted(node.labels.items()), sorted(node.allocatable.items()))).encode())
            digest.update(repr((node.taints, node.unschedulable, free)).encode())
        for table in (self._running, self._units, self._budgets):
            digest.update(repr(sorted(table.items())).encode())
        return digest.hexdigest()

    def equals(self, other: ClusterView) -> bool:
        return self.fingerprint() == other.fingerprint()

    # ---- for the engine's own modules

    @property
    def node_table(self) -> NodeTable:
        """The arrays, up to date."""
        if self._joining or self._leaving:
            self._catch_up()
        return self._node_table

    @property
    def slot_cache(self) -> SlotCache:
        return self._slot_cache

    @property
    def exclusivity(self) -> Exclusivity:
        return self._exclusivity

    @property
    def pod_index(self) -> PodIndex:
        return self._pod_index

    def hold(self, pods: Iterable[Running], times: int) -> None:
        """In a trial, give back (-1) or take again (1) what pods hold; the records stay."""
        # Added nodes count the pods of the records: after this they would count these pods, too.
        self._catch_up()
        self._hold(list(pods), times)

    def _hold(self, pods: Sequence[Running], times: int) -> None:
        """Take the requests of pods (1) or give them back (-1)."""
        self._pod_index.count_all(pods, times)
        rows: dict[int, int] = {}
        requests: tuple[tuple[str, int], ...] = ()
        alone: tuple[Exclusive, int] | None = None
        nodes: list[str] = []
        row_of = self._row if self._joining or self._leaving else self._node_table.row
        node, row = "", None  # pods of a gang that share a node are consecutive
        for pod in pods:
            if pod.exclusive is not None:
                if alone is None or alone[0] is not pod.exclusive or alone[1] != pod.group:
                    if alone is not None:
                        self._exclusivity.count(*alone, nodes, times)
                    alone, nodes = (pod.exclusive, pod.group), []
                nodes.append(pod.node)
            if pod.node != node:
                node = pod.node
                row = row_of(node)
            if row is None:
                continue
            if pod.requests is not requests and pod.requests != requests:
                if rows:
                    self._node_table.charge_rows(rows, requests)
                rows, requests = {}, pod.requests
            rows[row] = rows.get(row, 0) + times
        if rows:
            self._node_table.charge_rows(rows, requests)
        if alone is not None:
            self._exclusivity.count(*alone, nodes, times)

    def _row(self, node: str) -> int | None:
        """The row of a node; None if it is not in the arrays, or about to be added or removed."""
        if node in self._joining or node not in self._nodes:
            return None
        return self._node_table.row(node)

    def enlarged(self, nodes: Iterable[Node]) -> ClusterView:
        """A copy for a trial with more nodes: it shares the records and has its own arrays.

        Adding nodes to the view itself would move rows and invalidate every cache.  The copy is for reading, and
        lives no longer than the trial.
        """
        more = copy(self)
        more._node_table = self.node_table.enlarged([(node, node.allocatable) for node in nodes])
        more._slot_cache = SlotCache(more._node_table, self._pod_index)
        more._exclusivity = self._exclusivity.seen_from(more._node_table)
        return more

    def recount(self) -> None:
        """Derive all arrays anew from the records, after an exception in a trial."""
        self._recounts += 1
        self._leaving.clear()
        self._joining = dict.fromkeys(self._nodes)
        self._node_table.clear()
        self._exclusivity.clear()
        self._pod_index.clear()
        for pod in self._running.values():
            if pod.exclusive is not None:
                self._exclusivity.count(pod.exclusive, pod.group, (pod.node,), 1)
            if pod.identity is not None:
                self._pod_index.count(pod, 1)

    @contextmanager
    def without(self, pods: Iterable[Running]) -> Iterator[None]:
        """The view without these pods, until the block ends."""
        gone, recounts = list(pods), self._recounts
        self.hold(gone, -1)
        try:
            yield
        finally:
            if recounts == self._recounts:
                self.hold(gone, 1)

    @contextmanager
    def with_more(self, rows: Ints, requests: tuple[tuple[str, int], ...], counts: Ints) -> Iterator[None]:
        """The view with `counts` more pods of these requests on the rows, until the block ends."""
        recounts = self._recounts
        self._node_table.charge_many(rows, requests, counts)
        try:
            yield
        finally:
            if recounts == self._recounts:
                self._node_table.charge_many(rows, requests, -counts)

    def _catch_up(self) -> None:
        """Add and remove nodes in the arrays, all at once."""
        if self._leaving:
            self._node_table.remove(self._leaving)
            self._leaving.clear()
        if self._joining:
            joining = [self._nodes[name] for name in self._joining]
            self._node_table.insert([(node, self._free_on(node)) for node in joining])
            self._joining.clear()

    def _retire(self, name: str) -> None:
        if self._joining.pop(name, 0) == 0:
            self._leaving[name] = None

    def _free_on(self, node: NodeLike) -> Mapping[str, int]:
        if node.name not in self._on_node:
            return node.allocatable
        free = dict(node.allocatable)
        for pod in self.pods_on(node.name):
            for resource, amount in pod.requests:
                free[resource] = free.get(resource, given(resource)) - amount
        return free


def _drop(table: dict[str, dict[int, None]] | dict[int, dict[int, None]], key: object, pod: int) -> None:
    """Remove a pod from an index; an empty entry goes with it."""
    pods = table[key]  # type: ignore[index]
    del pods[pod]
    if not pods:
        del table[key]  # type: ignore[arg-type]
