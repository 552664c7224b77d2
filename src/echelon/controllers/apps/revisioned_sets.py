"""What the controllers of StatefulSets and DaemonSets watch and read alike: sets, their pods and their revisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from ...api.objects import meta
from ...api.scheme import CONTROLLER_REVISIONS, NAMESPACES, PODS, Object
from ...api.views.pod_views import PodView
from ...api.views.replica_views import ControllerRevisionView, DaemonSetView, StatefulSetView
from ...client.informer import Caches, ViewCache, by_controller
from ...decide.apps.claimed_sets import ObservedSet
from ..orphan_index import ORPHANS, SELECTORS, adopters, orphan_labels, selected_labels
from ..runner import Source, controller_key, own_key
from .replicas import REPLICAS, replicated_by

#: Nodes and pods change in bursts.
BATCH_SECONDS = 0.1

Owner = TypeVar("Owner", StatefulSetView, DaemonSetView)


class RevisionedSets(Generic[Owner]):
    def __init__(self, caches: Caches, view: type[Owner]) -> None:
        self.owners: ViewCache[Owner] = caches.views(view, {SELECTORS: selected_labels})
        self._resource = view.resource
        self._set_of = controller_key(view.resource.kind)
        self._pods = caches.views(PodView, {REPLICAS: replicated_by, ORPHANS: orphan_labels})
        indexes = {"controller": by_controller, ORPHANS: orphan_labels}
        self._revisions = caches.views(ControllerRevisionView, indexes)
        self._namespaces = caches.of(NAMESPACES)

    def sources(self) -> Sequence[Source]:
        return (
            Source(self._resource, own_key),
            Source(CONTROLLER_REVISIONS, self._set_of),
            Source(PODS, self._sets_of_pod, BATCH_SECONDS),
        )

    def observed(self, owner: Owner, room: int) -> ObservedSet[Owner]:
        namespace, space = self._namespaces.get(owner.namespace), owner.namespace
        label = selected_labels(owner.obj)[0]
        return ObservedSet(
            owner=owner,
            owned=self._pods.find(REPLICAS, owner.uid),
            orphans=() if owner.deleting else self._pods.find(ORPHANS, label),
            revisions=self._revisions.find("controller", owner.uid),
            orphan_revisions=() if owner.deleting else self._revisions.find(ORPHANS, label),
            revision_named=lambda name: self._revisions.get(f"{space}/{name}"),
            namespace_closed=namespace is not None and meta.deleting(namespace),
            room=room,
        )

    def _sets_of_pod(self, pod: Object) -> Iterable[str]:
        if not len(self.owners):
            return  # asked for every pod of the cluster
        yield from self._set_of(pod)
        yield from adopters(pod, self.owners)
