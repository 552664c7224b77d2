"""The controller of lost pods: unbound ones that are being deleted, and those whose node is gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api.objects import meta
from ..api.scheme import NODES, PODS, Object, Resource
from ..api.views.pod_views import PodView
from ..client.informer import Caches
from ..decide.lost_pods import reconcile
from ..decide.plan import NOTHING, Plan
from .runner import Source

_NODE = "node"


class LostPodController:
    name = "pod-garbage-collector"

    def __init__(self, caches: Caches) -> None:
        self._pods = caches.views(PodView, {_NODE: node_of})
        self._nodes = caches.of(NODES)

    def sources(self) -> Sequence[Source]:
        return (Source(PODS, self._suspect), Source(NODES, self._pods_of_lost_node))

    def doubts(self, key: str) -> Iterable[tuple[Resource, str, str]]:
        pod = self._pods.get(key)
        if pod is not None and pod.spec.node_name and self._nodes.get(pod.spec.node_name) is None:
            yield NODES, "", pod.spec.node_name

    def decide(self, key: str, now: float) -> Plan:
        pod = self._pods.get(key)
        if pod is None:
            return NOTHING
        return reconcile(pod, self._nodes.get(pod.spec.node_name) is not None, now)

    def _suspect(self, pod: Object) -> Iterable[str]:
        nodes = list(node_of(pod))
        lost = self._nodes.get(nodes[0]) is None if nodes else meta.deleting(pod)
        return (meta.key(pod),) if lost else ()

    def _pods_of_lost_node(self, node: Object) -> Iterable[str]:
        if self._nodes.get(meta.name(node)) is not None:
            return ()
        return [pod.key for pod in self._pods.find(_NODE, meta.name(node))]


def node_of(pod: Object) -> Iterable[str]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()
