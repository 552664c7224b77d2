"""Sees pods that no node will end: unbound ones that are being deleted, and those whose node is gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api.objects import meta
from ..api.scheme import NODES, PODS, Object, Resource
from ..client.informer import Caches
from ..decide.lost_pods import end
from ..decide.plan import NOTHING, Plan
from .runner import Source

_NODE = "node"


class LostPodController:
    name = "pod-garbage-collector"

    def __init__(self, caches: Caches) -> None:
        self._pods = caches.of(PODS, {_NODE: node_of})
        self._nodes = caches.of(NODES)

    def sources(self) -> Sequence[Source]:
        return (Source(PODS, self._suspect), Source(NODES, self._pods_of_lost_node))

    def doubts(self, key: str) -> Iterable[tuple[Resource, str, str]]:
        pod = self._pods.get(key)
        for name in node_of(pod) if pod else ():
            if self._nodes.get(name) is None:
                yield NODES, "", name

    def decide(self, key: str, now: float) -> Plan:
        pod = self._pods.get(key)
        if pod is None:
            return NOTHING
        return end(pod, all(self._nodes.get(name) is not None for name in node_of(pod)), now)

    def _suspect(self, pod: Object) -> Iterable[str]:
        nodes = list(node_of(pod))
        lost = self._nodes.get(nodes[0]) is None if nodes else meta.deleting(pod)
        return (meta.key(pod),) if lost else ()

    def _pods_of_lost_node(self, node: Object) -> Iterable[str]:
        if self._nodes.get(meta.name(node)) is not None:
            return ()
        return [meta.key(pod) for pod in self._pods.find(_NODE, meta.name(node))]


def node_of(pod: Object) -> Iterable[str]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()
