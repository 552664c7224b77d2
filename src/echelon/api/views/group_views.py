"""Workloads, PodGroups and CompositePodGroups."""

from __future__ import annotations

from typing import Any

import msgspec

from ..scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, WORKLOADS
from .object_view import Conditioned, ObjectView, ViewPart


class Gang(ViewPart, frozen=True):
    #: Pods of a PodGroup; 0 if it is not stated.
    min_count: int = 0
    #: Child groups of a CompositePodGroup; 0 if it is not stated.
    min_group_count: int = 0


class SchedulingPolicy(ViewPart, frozen=True):
    gang: Gang | None = None
    basic: dict[str, Any] | None = None


class TopologyConstraint(ViewPart, frozen=True):
    key: str = ""


class SchedulingConstraints(ViewPart, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class WorkloadReference(ViewPart, frozen=True):
    workload_name: str = ""
    template_name: str = ""


class GroupSpec(ViewPart, frozen=True):
    """The spec of a PodGroup or CompositePodGroup."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    disruption_mode: dict[str, Any] = msgspec.field(default_factory=dict)
    priority: int = 0
    preemption_policy: str = ""
    workload_ref: WorkloadReference = WorkloadReference()
    parent_composite_pod_group_name: str = ""
    resource_claims: tuple[Any, ...] = ()

    @property
    def min_count(self) -> int | None:
        """minCount of a gang; None for any other policy."""
        gang = self.scheduling_policy.gang
        return None if gang is None else gang.min_count


class GroupView(ObjectView[GroupSpec, Conditioned], resource=POD_GROUPS, spec=GroupSpec):
    """A PodGroup or a CompositePodGroup."""

    __slots__ = ()


class PodGroupView(GroupView, resource=POD_GROUPS, spec=GroupSpec):
    __slots__ = ()


class CompositePodGroupView(GroupView, resource=COMPOSITE_POD_GROUPS, spec=GroupSpec):
    __slots__ = ()


class ControllerReference(ViewPart, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class GroupTemplate(ViewPart, frozen=True):
    """A PodGroup or CompositePodGroup template of a Workload, with the templates in it."""

    name: str = ""
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    pod_group_templates: tuple[GroupTemplate, ...] = ()
    composite_pod_group_templates: tuple[GroupTemplate, ...] = ()

    @property
    def min_count(self) -> int | None:
        gang = self.scheduling_policy.gang
        return None if gang is None else gang.min_count


class WorkloadSpec(ViewPart, frozen=True):
    controller_ref: ControllerReference | None = None
    pod_group_templates: tuple[GroupTemplate, ...] = ()
    composite_pod_group_templates: tuple[GroupTemplate, ...] = ()


class WorkloadView(ObjectView[WorkloadSpec, Conditioned], resource=WORKLOADS, spec=WorkloadSpec):
    __slots__ = ()
