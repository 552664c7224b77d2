"""The node lifecycle controller: leases that expire, conditions that become taints, pods that are no longer ready."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.objects import meta
from ...api.objects.vocabulary import NODE_LEASES
from ...api.scheme import LEASES, NODES, PODS, Object
from ...api.views.cluster_views import LeaseView, NodeView
from ...api.views.pod_views import PodView
from ...client.informer import Caches
from ...decide.nodes.lifecycle import Heartbeat, reconcile
from ...decide.plan import NOTHING, Plan
from ..runner import Source, own_key
from .lost_pods import NODE, node_of


class NodeLifecycleController:
    name = "node-lifecycle"

    def __init__(self, caches: Caches) -> None:
        self._nodes = caches.views(NodeView)
        self._leases = caches.views(LeaseView)
        self._pods = caches.views(PodView, {NODE: node_of})
        self._heartbeats: dict[str, Heartbeat] = {}
        #: Nodes whose pods are to be marked as not ready.
        self._unreachable: set[str] = set()

    def sources(self) -> Sequence[Source]:
        return (Source(NODES, own_key), Source(LEASES, _leased), Source(PODS, self._on_unreachable))

    def decide(self, key: str, now: float) -> Plan:
        node = self._nodes.get(key)
        if node is None or node.deleting:
            self._heartbeats.pop(key, None)
            self._unreachable.discard(key)
            return NOTHING
        if node.ready != "Unknown":
            self._unreachable.discard(key)
            return reconcile(node, self._heartbeat(key, now), (), now)
        self._unreachable.add(key)
        return reconcile(node, self._heartbeat(key, now), self._pods.find(NODE, key), now)

    def _heartbeat(self, node: str, now: float) -> Heartbeat | None:
        lease = self._leases.get(f"{NODE_LEASES}/{node}")
        if lease is None:
            self._heartbeats.pop(node, None)
            return None
        known = self._heartbeats.get(node)
        if known is None or known.lease.spec != lease.spec:
            known = self._heartbeats[node] = Heartbeat(lease, now)
        return known

    def _on_unreachable(self, pod: Object) -> Iterable[str]:
        if not self._unreachable:
            return ()
        return [node for node in node_of(pod) if node in self._unreachable]


def _leased(lease: Object) -> Iterable[str]:
    """The node that renews a lease."""
    return (meta.name(lease),) if meta.namespace(lease) == NODE_LEASES else ()
