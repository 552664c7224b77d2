"""One sync of a Deployment, and what it decided in few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from echelon.api.scheme import REPLICA_SETS, Object
from echelon.api.views.pod_views import PodView
from echelon.api.views.replica_views import DeploymentView, ReplicaSetView
from echelon.decide.apps.deployment_sets import DESIRED_REPLICAS, MAX_REPLICAS
from echelon.decide.apps.rollout import ObservedDeployment, reconcile
from echelon.decide.plan import ApplyPatch, Create, Delete, Plan

from .objects import NOW, replicated, template


def deployment(
    replicas: int = 10, surge: int | str = 3, unavailable: int | str = 2, metadata: Object | None = None, **spec: Any
) -> Object:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    given = {"replicas": replicas, "template": template("new"), "strategy": rolling, **spec}
    obj = replicated("Deployment", "web", metadata, **given)
    obj["status"] = {}
    return obj


def sized_for(replicas: int, most: int) -> Object:
    """The annotations of a ReplicaSet that was sized for a Deployment of so many replicas."""
    return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(most)}


@dataclass(frozen=True)
class Decided:
    plan: Plan

    @property
    def _actions(self) -> list[Any]:
        return [action for stage in self.plan.stages for action in stage]

    @property
    def sizes(self) -> dict[str, int]:
        """ReplicaSets that get another size."""
        patches = {one.name: one.patch.body for one in self._actions if isinstance(one, ApplyPatch)}
        return {name: body["spec"]["replicas"] for name, body in patches.items() if "replicas" in body.get("spec", {})}

    @property
    def patches(self) -> dict[str, Object]:
        return {one.name: one.patch.body for one in self._actions if isinstance(one, ApplyPatch)}

    @property
    def created(self) -> list[Object]:
        return [one.obj for one in self._actions if isinstance(one, Create)]

    @property
    def deleted(self) -> list[str]:
        return [one.name for one in self._actions if isinstance(one, Delete) and one.resource is REPLICA_SETS]

    @property
    def events(self) -> list[str]:
        return [f"{note.type} {note.reason} {note.message}" for note in self.plan.notes]

    @property
    def status(self) -> Object:
        assert self.plan.status is not None
        return self.plan.status.status

    def condition(self, type_: str) -> Object | None:
        return next((one for one in self.status["conditions"] if one["type"] == type_), None)


def decided(
    owner: Object,
    *sets: Object,
    orphans: Sequence[Object] = (),
    pods: Sequence[Object] = (),
    named: dict[str, Object] | None = None,
    now: float = NOW,
    namespace_closed: bool = False,
) -> Decided:
    observed = ObservedDeployment(
        DeploymentView(owner),
        owned=[ReplicaSetView(one) for one in sets],
        orphans=[ReplicaSetView(one) for one in orphans],
        pods=lambda uid: [view for one in pods if (view := PodView(one)).controlled_by(uid)],
        named=lambda name: ReplicaSetView(named[name]) if named and name in named else None,
        namespace_closed=namespace_closed,
    )
    return Decided(reconcile(observed, now))
