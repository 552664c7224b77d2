"""ReplicaSets, ReplicationControllers, Deployments, StatefulSets and DaemonSets."""

from __future__ import annotations

from typing import Any

from ..objects.selectors import LabelSelector
from ..scheme import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Object,
)
from .object_view import Conditioned, ObjectView, ViewPart
from .pod_views import PodTemplate


class ReplicaSetSpec(ViewPart, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    #: A label selector, or for ReplicationControllers a map of labels.
    selector: dict[str, Any] | None = None
    template: PodTemplate = PodTemplate()


class ReplicaSetStatus(Conditioned, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0


class ReplicaSetView(
    ObjectView[ReplicaSetSpec, ReplicaSetStatus], resource=REPLICA_SETS, spec=ReplicaSetSpec, status=ReplicaSetStatus
):
    __slots__ = ()

    @property
    def selector(self) -> LabelSelector:
        return LabelSelector.from_object(self.spec.selector)


class ReplicationControllerView(
    ObjectView[ReplicaSetSpec, ReplicaSetStatus],
    resource=REPLICATION_CONTROLLERS,
    spec=ReplicaSetSpec,
    status=ReplicaSetStatus,
):
    __slots__ = ()

    @property
    def selector(self) -> LabelSelector:
        return LabelSelector.from_object({"matchLabels": self.spec.selector or {}})


class RollingUpdate(ViewPart, frozen=True):
    max_unavailable: int | str = 0
    max_surge: int | str = 0


class DeploymentStrategy(ViewPart, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class DeploymentSpec(ViewPart, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    paused: bool = False
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None
    selector: dict[str, Any] | None = None
    strategy: DeploymentStrategy = DeploymentStrategy()


class DeploymentStatus(Conditioned, frozen=True):
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    collision_count: int = 0


class DeploymentView(
    ObjectView[DeploymentSpec, DeploymentStatus], resource=DEPLOYMENTS, spec=DeploymentSpec, status=DeploymentStatus
):
    __slots__ = ()

    @property
    def selector(self) -> LabelSelector:
        return LabelSelector.from_object(self.spec.selector)


class StatefulRollingUpdate(ViewPart, frozen=True):
    partition: int = 0
    max_unavailable: int | str = 1


class StatefulStrategy(ViewPart, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: StatefulRollingUpdate | None = None


class StatefulOrdinals(ViewPart, frozen=True):
    start: int = 0


class StatefulSetSpec(ViewPart, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    pod_management_policy: str = "OrderedReady"
    revision_history_limit: int = 10
    service_name: str = ""
    selector: dict[str, Any] | None = None
    update_strategy: StatefulStrategy = StatefulStrategy()
    ordinals: StatefulOrdinals = StatefulOrdinals()
    #: As written, to be copied into claims.
    volume_claim_templates: tuple[dict[str, Any], ...] = ()


class StatefulSetStatus(Conditioned, frozen=True):
    current_replicas: int = 0
    current_revision: str = ""
    collision_count: int = 0


class StatefulSetView(
    ObjectView[StatefulSetSpec, StatefulSetStatus],
    resource=STATEFUL_SETS,
    spec=StatefulSetSpec,
    status=StatefulSetStatus,
):
    __slots__ = ()

    @property
    def selector(self) -> LabelSelector:
        return LabelSelector.from_object(self.spec.selector)


class DaemonRollingUpdate(ViewPart, frozen=True):
    max_unavailable: int | str = 1
    max_surge: int | str = 0


class DaemonStrategy(ViewPart, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: DaemonRollingUpdate = DaemonRollingUpdate()


class DaemonSetSpec(ViewPart, frozen=True):
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    selector: dict[str, Any] | None = None
    update_strategy: DaemonStrategy = DaemonStrategy()


class DaemonSetStatus(Conditioned, frozen=True):
    collision_count: int = 0


class DaemonSetView(
    ObjectView[DaemonSetSpec, DaemonSetStatus], resource=DAEMON_SETS, spec=DaemonSetSpec, status=DaemonSetStatus
):
    __slots__ = ()

    @property
    def selector(self) -> LabelSelector:
        return LabelSelector.from_object(self.spec.selector)


class ControllerRevisionView(ObjectView[ViewPart, Conditioned], resource=CONTROLLER_REVISIONS):
    """A stored template of a StatefulSet or DaemonSet."""

    __slots__ = ()

    @property
    def number(self) -> int:
        found = self.obj.get("revision")
        return found if isinstance(found, int) else 0

    @property
    def data(self) -> Object:
        found = self.obj.get("data")
        return found if isinstance(found, dict) else {}
