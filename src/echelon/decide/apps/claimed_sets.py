"""StatefulSets and DaemonSets before their pods: pods and revisions are claimed, the newest template is stored.

claimed ─► `stateful`, `daemons`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...api.objects.subtree import mapping
from ...api.views.pod_views import PodView
from ...api.views.replica_views import ControllerRevisionView, DaemonSetView, StatefulSetView
from ..plan import NOTHING, Plan, StatusWrite
from . import revisions
from .claims import claim
from .replicas import MOST_PER_SYNC

Owner = TypeVar("Owner", bound=StatefulSetView | DaemonSetView, covariant=True)


@dataclass(frozen=True)
class ObservedSet(Generic[Owner]):
    owner: Owner
    owned: Sequence[PodView]
    orphans: Sequence[PodView]
    revisions: Sequence[ControllerRevisionView]
    orphan_revisions: Sequence[ControllerRevisionView]
    #: The revision of a name in the namespace.
    revision_named: Callable[[str], ControllerRevisionView | None]
    namespace_closed: bool = False
    #: The most pods to create now.
    room: int = MOST_PER_SYNC


@dataclass(frozen=True)
class ClaimedSet:
    """The pods and revisions that are an owner's."""

    pods: Sequence[PodView]
    #: Its revisions, oldest first.
    history: Sequence[ControllerRevisionView]
    #: The name of the revision of the template as it stands.
    update: str


def claimed(observed: ObservedSet[StatefulSetView | DaemonSetView], orphans: Iterable[PodView]) -> ClaimedSet | Plan:
    """What to write first, if there is anything; `orphans` are the pods that it may adopt."""
    owner = observed.owner
    pods, claims = claim(owner, owner.selector, observed.owned, [pod for pod in orphans if not pod.ended])
    claims += claim(owner, owner.selector, (), observed.orphan_revisions)[1]
    if claims:
        return Plan((tuple(claims),))
    history = sorted(observed.revisions, key=lambda one: (one.number, one.metadata.creation_timestamp, one.name))
    newest = revisions.newest(owner, owner.status.collision_count, history, observed.revision_named)
    if newest.collides:
        status = {**mapping(owner.obj, "status"), "collisionCount": owner.status.collision_count + 1}
        return Plan(status=StatusWrite(owner.resource, owner.obj, status))
    if newest.write is not None:
        # Its change leads here again.
        return NOTHING if owner.deleting or observed.namespace_closed else Plan(((newest.write,),))
    return ClaimedSet(pods, history, newest.name)
