"""The controller of lost pods: unbound ones that are being deleted, and those whose node is gone or out of service."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.objects import meta
from ...api.scheme import NODES, PODS, Object, Resource
from ...api.views.cluster_views import NodeView
from ...api.views.pod_views import PodView
from ...client.informer import Caches
from ...decide.nodes.lost_pods import is_out_of_service, reconcile
from ...decide.plan import NOTHING, Plan
from ..runner import Source

#: The index of pods by their node.
NODE = "node"


class LostPodController:
    name = "pod-garbage-collector"

    def __init__(self, caches: Caches) -> None:
        self._pods = caches.views(PodView, {NODE: node_of})
        self._nodes = caches.views(NodeView)

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
        return reconcile(pod, self._nodes.get(pod.spec.node_name), now)

    def _suspect(self, pod: Object) -> Iterable[str]:
        deleting = meta.deleting(pod)
        for name in node_of(pod):
            node = self._nodes.get(name)
            lost = node is None or (deleting and is_out_of_service(node))
            return (meta.key(pod),) if lost else ()
        return (meta.key(pod),) if deleting else ()

    def _pods_of_lost_node(self, node: Object) -> Iterable[str]:
        current = self._nodes.get(meta.name(node))
        if current is not None and not is_out_of_service(current):
            return ()
        return [pod.key for pod in self._pods.find(NODE, meta.name(node))]


def node_of(pod: Object) -> Iterable[str]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()
