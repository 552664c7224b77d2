"""Which topology levels the scheduler's view should have, as nodes and Topology objects come and change.

    Node events ───────┐
    Topology objects ──┼─► LevelWatch ─► loop: the view gets other levels before the next decision
    settings ──────────┘

Levels are chosen anew only when nodes with other topology labels than any before come, or the last of them goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...api.cluster.topology_levels import (
    FAMILIES,
    LabelledNode,
    Levels,
    TopologyObject,
    choose_levels,
    topology_labels,
)
from ...api.objects.vocabulary import HOSTNAME
from ...api.views.cluster_views import NodeView
from ...client.informer import Caches


class LevelWatch:
    """Chooses levels when something changed that matters to them."""

    def __init__(self, configured: Sequence[str] | None, caches: Caches) -> None:
        self._configured = configured
        self._nodes = caches.views(NodeView)
        self._objects: list[TopologyObject] = []
        self._keys = self._read_keys()
        #: How many nodes have the same labels of these keys.
        self._alike: Counter[tuple[str, ...]] = Counter()
        #: Whether levels have to be chosen anew.
        self.changed = True
        #: Whether nodes came, went or got other labels since `levels` was asked for.
        self.moved = False

    @property
    def is_configured(self) -> bool:
        return self._configured is not None

    def listen(self) -> None:
        self._nodes.add_handler(self._on_node, "scheduler")

    def set_objects(self, objects: list[TopologyObject]) -> None:
        """The Topology objects that there are now."""
        if objects != self._objects:
            self._objects, self.changed = objects, True
            self._keys = self._read_keys()
            self._alike = Counter(topology_labels(node.labels, self._keys) for node in self._nodes.all())

    def keys(self) -> tuple[str, ...]:
        """The levels for the nodes that there are now, from wide to narrow: one node of each kind tells all of it."""
        self.changed = False
        kinds = [LabelledNode("", dict(zip(self._keys, labels, strict=True))) for labels in self._alike]
        return choose_levels(kinds, self._configured, self._objects).keys

    def levels(self) -> Levels:
        """The same with where they came from, and the names of nodes that contradict them."""
        self.moved = False
        nodes = [LabelledNode(node.name, node.labels) for node in self._nodes.all()]
        return choose_levels(nodes, self._configured, self._objects)

    def _read_keys(self) -> tuple[str, ...]:
        """Every label that may be a level."""
        named = [one.keys for one in self._objects if one.keys]
        lists = [self._configured] if self._configured is not None else named or FAMILIES
        return tuple(dict.fromkeys(key for keys in lists for key in keys if key != HOSTNAME))

    def _on_node(self, old: NodeView | None, new: NodeView | None) -> None:
        if old is not None and new is not None and old.labels == new.labels:
            return
        self.moved = True
        if old is not None:
            gone = topology_labels(old.labels, self._keys)
            self._alike[gone] -= 1
            if self._alike[gone] <= 0:
                del self._alike[gone]
                self.changed = True
        if new is not None:
            come = topology_labels(new.labels, self._keys)
            self._alike[come] += 1
            self.changed = self.changed or self._alike[come] == 1
