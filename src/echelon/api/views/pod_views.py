"""Pods, and the pod templates of other kinds."""

from __future__ import annotations

from ..objects.vocabulary import POD_GROUP
from ..scheme import PODS
from .object_view import Conditioned, Metadata, ObjectView, ViewPart


class SchedulingGroup(ViewPart, frozen=True):
    pod_group_name: str = ""


class SchedulingGate(ViewPart, frozen=True):
    name: str = ""


class PodSpec(ViewPart, frozen=True):
    """What is read of a pod apart from where it fits; `placement_views` has that."""

    node_name: str = ""
    scheduler_name: str = ""
    restart_policy: str = "Always"
    active_deadline_seconds: int | None = None
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduling_group: SchedulingGroup = SchedulingGroup()
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class Terminated(ViewPart, frozen=True):
    exit_code: int = 0
    finished_at: str = ""


class ContainerState(ViewPart, frozen=True):
    terminated: Terminated | None = None


class ContainerStatus(ViewPart, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(Conditioned, frozen=True):
    phase: str = "Pending"
    nominated_node_name: str = ""
    start_time: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class PodView(ObjectView[PodSpec, PodStatus], resource=PODS, spec=PodSpec, status=PodStatus):
    __slots__ = ()

    @property
    def phase(self) -> str:
        """Read without the rest of the status: every event about a pod asks for it."""
        status = self.obj.get("status")
        phase = status.get("phase") if isinstance(status, dict) else None
        return phase if isinstance(phase, str) else "Pending"

    @property
    def ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def group_name(self) -> str:
        """The PodGroup that the pod names, by its label or in its spec; "" for none."""
        return self.metadata.labels.get(POD_GROUP) or self.spec.scheduling_group.pod_group_name


class PodTemplate(ViewPart, frozen=True):
    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()

    @property
    def group_name(self) -> str:
        """The PodGroup that the pods name, by their label or in their spec; "" for none."""
        return self.metadata.labels.get(POD_GROUP) or self.spec.scheduling_group.pod_group_name
