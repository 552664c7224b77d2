"""A Deployment: one ReplicaSet per template, the newest growing while the others shrink.

claim ReplicaSets ─┬► paused, or scaled meanwhile: sizes in proportion
                   ├► Recreate: old ones to zero, wait for their pods, then the newest
                   └► RollingUpdate: the newest up as far as maxSurge allows, else old ones down (maxUnavailable)
                            ─► old ReplicaSets beyond the history limit go ─► status

One sync does one step; the changes of ReplicaSets that follow lead to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...api.scheme import DEPLOYMENTS, REPLICA_SETS, Object
from ...api.views.pod_views import PodView
from ...api.views.replica_views import DeploymentView, ReplicaSetView
from ..plan import Create, Delete, Draft, Note, Plan, StatusWrite
from ..status_draft import EventType
from . import proportions, rollout_status
from .claims import claim
from .deployment_sets import (
    REVISION,
    WorkingSet,
    annotate,
    build,
    is_rolling,
    max_unavailable,
    new_name,
    new_size,
    next_revision,
    revision,
    split,
    template_of,
)
from .rollout_status import PROGRESSING, RolloutStatus

_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class ObservedDeployment:
    deployment: DeploymentView
    #: ReplicaSets that it controls, and those without a controller that it may select.
    owned: Sequence[ReplicaSetView]
    orphans: Sequence[ReplicaSetView]
    #: The pods of a ReplicaSet, by its uid.
    pods: Callable[[str], Sequence[PodView]]
    #: The ReplicaSet of a name in the namespace, whoever controls it.
    named: Callable[[str], ReplicaSetView | None]
    namespace_closed: bool = False


def reconcile(observed: ObservedDeployment, now: float) -> Plan:
    deployment = observed.deployment
    sets, claims = claim(deployment, deployment.selector, observed.owned, observed.orphans)
    if claims:
        # Their changes lead here again.
        return Plan((tuple(claims),))
    return _Rollout(observed, sets, now).plan()


class _Rollout:
    """One sync of one Deployment."""

    def __init__(self, observed: ObservedDeployment, sets: Sequence[ReplicaSetView], now: float) -> None:
        self._observed = observed
        self._deployment = observed.deployment
        self._new, self._old = split(observed.deployment, sets)
        self._status = RolloutStatus(observed.deployment, now)
        self._draft = Draft()
        #: The revision that the Deployment is annotated with.
        self._revision = observed.deployment.metadata.annotations.get(REVISION, "")

    @property
    def _all(self) -> list[WorkingSet]:
        return [*self._old, *([self._new] if self._new is not None else [])]

    def plan(self) -> Plan:
        spec = self._deployment.spec
        if self._deployment.deleting:
            return self._finish(rolling_out=False)
        self._status.pause_or_resume()
        if self._new is not None:
            self._follow_revision(self._new)
        if spec.paused or proportions.is_scaling(self._deployment, self._all):
            proportions.scale(self._deployment, self._new, self._old)
            if spec.paused:
                self._clean_up()
            return self._finish(rolling_out=False)
        if is_rolling(self._deployment):
            self._roll()
        else:
            self._recreate()
        return self._finish(rolling_out=True)

    def _follow_revision(self, new: WorkingSet) -> None:
        """The newest ReplicaSet gets the highest revision, and the Deployment the revision of it."""
        annotate(self._deployment, new, next_revision(self._old))
        self._revision = new.annotations.get(REVISION, "")
        if self._status.has_deadline and self._status.find(PROGRESSING) is None:
            self._status.set(PROGRESSING, "True", rollout_status.FOUND, f'Found new replica set "{new.name}"')

    # -- RollingUpdate ---------------------------------------------------------------------------------

    def _roll(self) -> None:
        if self._new is None:
            self._create()
        elif not self._grow(self._new) and not self._shrink(self._new):
            self._clean_up_if_complete()

    def _grow(self, new: WorkingSet) -> bool:
        wanted = self._deployment.spec.replicas
        if new.replicas == wanted:
            return False
        total = sum(one.replicas for one in self._all)
        size = wanted if new.replicas > wanted else new_size(self._deployment, total, new.replicas)
        return new.scale(self._deployment, size)

    def _shrink(self, new: WorkingSet) -> bool:
        """Scale old ReplicaSets down, pods that are not available first; True if any was."""
        old = [one for one in self._old if one.replicas > 0]
        least = self._deployment.spec.replicas - max_unavailable(self._deployment)
        unavailable = new.replicas - new.available
        most = sum(one.replicas for one in self._all) - least - unavailable
        if most <= 0:
            return False
        gone = 0
        for one in old:
            count = min(most - gone, one.replicas - one.available)
            if count > 0:
                one.scale(self._deployment, one.replicas - count)
                gone += count
        spare = sum(one.available for one in [*old, new]) - least
        for one in old:
            count = min(one.replicas, spare)
            if count > 0:
                one.scale(self._deployment, one.replicas - count)
                spare -= count
                gone += count
        return gone > 0

    # -- Recreate --------------------------------------------------------------------------------------

    def _recreate(self) -> None:
        running = [one for one in self._old if one.replicas > 0]
        for one in running:
            one.scale(self._deployment, 0)
        if running or self._old_pods_run():
            return
        if self._new is None:
            self._create()
        elif not self._new.scale(self._deployment, self._deployment.spec.replicas):
            self._clean_up_if_complete()

    def _old_pods_run(self) -> bool:
        return any(
            one.view.status.replicas > 0 or any(not pod.ended for pod in self._observed.pods(one.view.uid))
            for one in self._old
        )

    # -- writes ----------------------------------------------------------------------------------------

    def _create(self) -> None:
        if self._observed.namespace_closed:
            return
        taken = self._observed.named(new_name(self._deployment))
        if taken is not None:
            same = template_of(taken.obj) == template_of(self._deployment.obj)
            if not (taken.controlled_by(self._deployment.uid) and same):
                # Another name next time.
                self._status.collisions += 1
            return
        made = build(self._deployment, self._old)
        name, size = made["metadata"]["name"], made["spec"]["replicas"]
        refused = f'Failed to create new replica set "{name}": {{error}}'
        self._draft.stage(
            Create(REPLICA_SETS, made, refused=self._note("Warning", rollout_status.REFUSED, refused)),
        )
        if size:
            message = f"Scaled up replica set {name} from 0 to {size}"
            self._draft.note(self._note("Normal", "ScalingReplicaSet", message))
        self._revision = made["metadata"]["annotations"][REVISION]
        if self._status.has_deadline:
            self._refusal(refused)
            self._status.set(PROGRESSING, "True", rollout_status.CREATED, f'Created new replica set "{name}"')

    def _refusal(self, message: str) -> None:
        """The status if the creation is refused."""
        status = RolloutStatus(self._deployment, self._status.now)
        status.set(PROGRESSING, "False", rollout_status.REFUSED, message)
        body = {**(self._deployment.obj.get("status") or {}), "conditions": status.conditions}
        self._draft.refused(StatusWrite(DEPLOYMENTS, self._deployment.obj, body))

    def _clean_up_if_complete(self) -> None:
        if self._status.is_complete(self._deployment.obj.get("status") or {}):
            self._clean_up()

    def _clean_up(self) -> None:
        """Delete the oldest revisions beyond the history limit that have no pods."""
        limit = self._deployment.spec.revision_history_limit
        if limit is None or limit == _NO_LIMIT:
            return
        alive = [one for one in self._old if not one.view.deleting]
        alive.sort(key=lambda one: (revision(one.view), *one.age_order))
        surplus = [one.view for one in alive[: max(0, len(alive) - limit)] if _is_empty(one)]
        self._draft.stage(*(Delete(REPLICA_SETS, one.namespace, one.name, one.uid) for one in surplus))

    def _note(self, type_: EventType, reason: str, message: str) -> Note:
        return Note(DEPLOYMENTS, self._deployment.obj, type_, reason, message)

    def _finish(self, *, rolling_out: bool) -> Plan:
        for one in self._all:
            patch = one.patch()
            if patch is not None:
                # One after the other: if one fails, those decided after it would be wrong.
                self._draft.stage(patch)
            for message in one.scalings:
                self._draft.note(self._note("Normal", "ScalingReplicaSet", message))
        views, new = [one.view for one in self._all], self._new.view if self._new is not None else None
        counted = self._status.counted(views, new, sum(one.replicas for one in self._all))
        if rolling_out:
            self._status.progress(counted, new, views)
            wait = self._status.check_after(counted)
            if wait is not None:
                self._draft.requeue(wait)
        self._write_status({**counted, "conditions": self._status.conditions})
        return self._draft.done()

    def _write_status(self, status: Object) -> None:
        obj = self._deployment.obj
        annotations = self._deployment.metadata.annotations
        if self._revision and annotations.get(REVISION) != self._revision:
            metadata = {**obj["metadata"], "annotations": {**annotations, REVISION: self._revision}}
            self._draft.status(StatusWrite(DEPLOYMENTS, {**obj, "metadata": metadata}, status))
        elif status != obj.get("status"):
            self._draft.status(StatusWrite(DEPLOYMENTS, obj, status))


def _is_empty(one: WorkingSet) -> bool:
    view = one.view
    seen = view.metadata.generation <= view.status.observed_generation
    return view.status.replicas == 0 and one.replicas == 0 and seen
