"""The controller of exclusive placement under schedulers other than ours: followers are where their leader is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api.admission.pods.exclusive_placement import domain_key, is_grouped, is_leader
from ...api.objects import meta
from ...api.objects.subtree import mapping
from ...api.scheme import NODES, PODS, Object
from ...api.views.pod_views import PodView
from ...client.informer import Caches, by_controller
from ...decide.nodes.exclusive_placement import reconcile
from ...decide.plan import NOTHING, Plan
from ..runner import Source

_CONTROLLER = "controller"


class ExclusivePlacementController:
    name = "exclusive-placement"

    def __init__(self, caches: Caches) -> None:
        self._pods = caches.views(PodView, {_CONTROLLER: by_controller})
        self._nodes = caches.of(NODES)

    def sources(self) -> Sequence[Source]:
        return (Source(PODS, _bound_leader),)

    def decide(self, key: str, now: float) -> Plan:
        leader = self._pods.get(key)
        owner = leader.controller if leader is not None else None
        if leader is None or owner is None or not list(_bound_leader(leader.obj)):
            return NOTHING
        mates = self._pods.find(_CONTROLLER, owner.uid)
        followers = [pod for pod in mates if not is_leader(pod.obj)]
        node = self._nodes.get(leader.spec.node_name)
        return reconcile(leader, domain_key(leader.obj), node, followers, now)


def _bound_leader(pod: Object) -> Iterable[str]:
    bound = bool(mapping(pod, "spec").get("nodeName")) and not meta.deleting(pod)
    return [meta.key(pod)] if bound and is_leader(pod) and domain_key(pod) and not is_grouped(pod) else ()
