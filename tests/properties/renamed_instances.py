"""The same world under other names and ids, told in another order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import TypeVar

from echelon.engine import Bound, ClusterView, Composite, Demand, Group, Node, PodClass, Unit
from echelon.testing.placement import LEVELS
from tests.properties.hierarchies import Instance

T = TypeVar("T")
HOST = LEVELS["host"]


class Disguise:
    """Nodes, domains, pods, groups and units renamed and shuffled; selectors speak of `pool`, which stays."""

    def __init__(self, rng: Random, instance: Instance) -> None:
        self.rng, self.old = rng, instance
        view = instance.cluster.view
        self.nodes: list[Node] = [node for node in map(view.node, view.node_names()) if node is not None]
        self.names = self._renamed([node.name for node in self.nodes], "m")
        values = {node.labels[key] for node in self.nodes for key in LEVELS.values() if key in node.labels}
        self.values = self._renamed(sorted(values - set(self.names)), "v")
        self._ids: dict[int, int] = {}

    def view(self) -> ClusterView:
        old, fresh = self.old.cluster.view, ClusterView(self.old.cluster.view.levels)
        for node in self._shuffled(self.nodes):
            fresh.put_node(replace(node, name=self.names[node.name], labels=self._labels(node.labels)))
        for unit in self._shuffled(old.units()):
            fresh.put_unit(Unit(self._id(unit.id), unit.priority))
        for pod in self._shuffled(old.all_running()):
            names = {"node": self.names[pod.node], "unit": self._id(pod.unit), "group": self._id(pod.group)}
            fresh.bind(pod._replace(pod=self._id(pod.pod), **names))  # type: ignore[arg-type]
            for budget in map(old.budget, pod.budgets):
                if budget is not None:
                    fresh.put_budget(budget)
        return fresh

    def demand(self) -> Demand:
        return replace(self.old.demand, root=self._group(self.old.demand.root))

    def _group(self, group: Group) -> Group:
        if isinstance(group, Composite):
            children = tuple(self._shuffled(map(self._group, group.children)))
            return replace(group, id=self._id(group.id), children=children)
        classes = tuple(
            PodClass(pods.shape, tuple(map(self._id, self._shuffled(pods.members))), pods.role)
            for pods in self._shuffled(group.classes)
        )
        bound = tuple(Bound(self._id(each.member), self.names[each.node], each.role) for each in group.bound)
        return replace(group, id=self._id(group.id), classes=classes, bound=bound)

    def _id(self, old: int) -> int:
        if old not in self._ids:
            self._ids[old] = old if old < 0 else self.rng.randrange(1 << 20) * 1000 + len(self._ids)
        return self._ids[old]

    def _labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        names = {**self.values, **self.names}
        return {key: names[value] if key in LEVELS.values() else value for key, value in labels.items()}

    def _renamed(self, old: list[str], prefix: str) -> dict[str, str]:
        numbers = self._shuffled(range(len(old)))
        return {name: f"{prefix}{number:02d}" for name, number in zip(old, numbers, strict=True)}

    def _shuffled(self, things: Iterable[T]) -> list[T]:
        found = list(things)
        self.rng.shuffle(found)
        return found
