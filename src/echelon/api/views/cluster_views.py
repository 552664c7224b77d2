"""Nodes, leases, namespaces and PodDisruptionBudgets."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..scheme import LEASES, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS
from .object_view import Conditioned, ObjectView, ViewPart


class NodeTaint(ViewPart, frozen=True):
    key: str = ""
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    time_added: str = ""


class NodeSpec(ViewPart, frozen=True):
    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class NodeStatus(Conditioned, frozen=True):
    #: Quantities as written.
    allocatable: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    capacity: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    declared_features: tuple[str, ...] = ()


class NodeView(ObjectView[NodeSpec, NodeStatus], resource=NODES, spec=NodeSpec, status=NodeStatus):
    __slots__ = ()

    @property
    def ready(self) -> str:
        """The status of the condition Ready: True, False or Unknown; "" if the node has never said."""
        found = self.condition("Ready")
        return "" if found is None else found.status


class LeaseSpec(ViewPart, frozen=True):
    renew_time: str = ""
    lease_duration_seconds: int = 0


class LeaseView(ObjectView[LeaseSpec, ViewPart], resource=LEASES, spec=LeaseSpec, status=ViewPart):
    __slots__ = ()


class NamespaceSpec(ViewPart, frozen=True):
    finalizers: tuple[str, ...] = ()


class NamespaceView(ObjectView[NamespaceSpec, Conditioned], resource=NAMESPACES, spec=NamespaceSpec):
    __slots__ = ()


class BudgetSpec(ViewPart, frozen=True):
    selector: dict[str, Any] | None = None
    #: A count or a percentage.
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class BudgetStatus(Conditioned, frozen=True):
    observed_generation: int = 0
    disruptions_allowed: int | None = None
    #: Pods whose eviction was granted, with the time of that.
    disrupted_pods: dict[str, str] = msgspec.field(default_factory=dict)


class BudgetView(
    ObjectView[BudgetSpec, BudgetStatus], resource=POD_DISRUPTION_BUDGETS, spec=BudgetSpec, status=BudgetStatus
):
    __slots__ = ()
