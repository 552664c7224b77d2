"""Tells which topology levels are used and which nodes contradict them: log, events on nodes, gauges.

loop ─► TopologyReport.chosen(Levels) ─► log, events on the nodes in the wrong place
                                      └► echelon_scheduler_topology_… , read at each scrape
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric

from ...api.cluster.topology_levels import Contradiction, Levels, Reversal
from ...api.scheme import NODES
from ...client.events import Recorder
from ...client.informer import Caches

log = logging.getLogger(__name__)

#: name -> what it is, its labels
TOPOLOGY_GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "echelon_scheduler_topology_level": ("Topology keys in use, 1 for the widest.", ("key", "source")),
    "echelon_scheduler_topology_contradictions": ("Domains that nodes put into two wider ones.", ("key",)),
    "echelon_scheduler_topology_unlabelled_nodes": ("Nodes without a label that others have.", ("key",)),
}
#: Contradictions for which nodes get an event, at each change of levels: the log and the command name them all.
_MOST_EVENTS = 10


class TopologyReport:
    """Reports levels once per change, and nodes in the wrong place whenever they are others."""

    def __init__(self, recorder: Recorder, caches: Caches, registry: CollectorRegistry) -> None:
        self._recorder = recorder
        self._nodes = caches.of(NODES)
        self._levels: Levels | None = None
        registry.register(self)

    def chosen(self, levels: Levels) -> None:
        before, self._levels = self._levels, levels
        if before is None or (before.keys, before.source) != (levels.keys, levels.source):
            log.info("topology levels from %s: %s", levels.source, " > ".join(levels.keys))
        known = set(map(_told, before.contradictions)) if before is not None else set()
        fresh = [one for one in levels.contradictions if _told(one) not in known]
        for one in fresh:
            log.warning("topology: %s", one)
        for one in fresh[:_MOST_EVENTS]:
            self._tell_node(one)

    @property
    def names_nodes(self) -> bool:
        """Whether some nodes lack a label or are in the wrong place: more of the same kind may come."""
        return self._levels is not None and bool(self._levels.contradictions or self._levels.unlabelled)

    def _tell_node(self, one: Contradiction | Reversal) -> None:
        """An event on the first node that is not where most nodes of its domain are."""
        node = self._nodes.get(one.odd_nodes[0])
        if node is not None:
            self._recorder.record(NODES, node, "Warning", "TopologyContradiction", str(one))

    def describe(self) -> Iterator[Metric]:
        """Nothing is known before the first scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        levels = self._levels or Levels(())
        values: tuple[dict[tuple[str, ...], int], ...] = (
            {(key, levels.source): number for number, key in enumerate(levels.keys, 1)},
            {(key,): count for key, count in Counter(one.narrow for one in levels.contradictions).items()},
            {(key,): len(names) for key, names in levels.unlabelled},
        )
        for (name, (text, labels)), found in zip(TOPOLOGY_GAUGES.items(), values, strict=True):
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for key, value in found.items():
                gauge.add_metric(key, value)
            yield gauge


def _told(one: Contradiction | Reversal) -> tuple[object, ...]:
    """What makes it worth another word: not the nodes that are where they belong."""
    return one.narrow, one.wide, one.value if isinstance(one, Contradiction) else one.example, one.odd_nodes
