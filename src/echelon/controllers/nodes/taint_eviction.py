"""The taint eviction controller: ends pods that do not tolerate a taint with the effect NoExecute, whoever set it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.objects import meta
from ...api.scheme import NODES, PODS, Object
from ...api.views.cluster_views import NodeTaint, NodeView
from ...api.views.pod_views import PodView
from ...client.informer import Caches
from ...decide.nodes.taint_eviction import NO_EXECUTE, reconcile
from ...decide.plan import NOTHING, Plan
from ..runner import Source
from .lost_pods import NODE, node_of


class TaintEvictionController:
    name = "taint-eviction"

    def __init__(self, caches: Caches) -> None:
        self._nodes = caches.views(NodeView)
        self._pods = caches.views(PodView, {NODE: node_of})
        #: Node name → its taints with the effect NoExecute, each with the time when it was first seen.
        self._tainted: dict[str, dict[tuple[str, str], float]] = {}

    def sources(self) -> Sequence[Source]:
        return (Source(PODS, self._on_tainted), Source(NODES, self._pods_of_tainted))

    def decide(self, key: str, now: float) -> Plan:
        pod = self._pods.get(key)
        node = None if pod is None else self._nodes.get(pod.spec.node_name)
        if pod is None or node is None:
            return NOTHING
        seen = self._tainted.setdefault(node.name, {})

        def since(taint: NodeTaint) -> float:
            return seen.setdefault((taint.key, taint.value), now)

        return reconcile(pod, node, since, now)

    def _on_tainted(self, pod: Object) -> Iterable[str]:
        if not self._tainted:
            return ()
        return [meta.key(pod) for node in node_of(pod) if node in self._tainted]

    def _pods_of_tainted(self, node: Object) -> Iterable[str]:
        name = meta.name(node)
        current = self._nodes.get(name)
        taints = () if current is None else current.spec.taints
        keys = {(taint.key, taint.value) for taint in taints if taint.effect == NO_EXECUTE}
        if not keys:
            self._tainted.pop(name, None)
            return ()
        known = self._tainted.get(name, {})
        self._tainted[name] = {key: at for key, at in known.items() if key in keys}
        return [pod.key for pod in self._pods.find(NODE, name)]
