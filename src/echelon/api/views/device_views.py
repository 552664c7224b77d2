"""ResourceClaims and their templates, ResourceSlices, DeviceClasses and taint rules: devices and who asks for them."""

from __future__ import annotations

from typing import Any

import msgspec

from ..objects.vocabulary import POD_CLAIM_NAME
from ..scheme import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from .object_view import Conditioned, ObjectView, ViewPart
from .placement_views import NodeSelector


class CelSelector(ViewPart, frozen=True):
    expression: str = ""


class DeviceSelector(ViewPart, frozen=True):
    cel: CelSelector = CelSelector()


class DeviceToleration(ViewPart, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class WantedDevices(ViewPart, frozen=True):
    """`exactly` of a request, or one of its alternatives."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: dict[str, Any] | None = None
    derived_attributes: tuple[dict[str, Any], ...] = ()


class DeviceRequest(ViewPart, frozen=True):
    name: str = ""
    exactly: WantedDevices | None = None
    first_available: tuple[WantedDevices, ...] = ()


class DeviceConstraint(ViewPart, frozen=True):
    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class ClaimedDevices(ViewPart, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()


class ResourceClaimSpec(ViewPart, frozen=True):
    devices: ClaimedDevices = ClaimedDevices()


class AllocatedDevice(ViewPart, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    skip_node_operations: tuple[str, ...] = ()


class AllocatedDevices(ViewPart, frozen=True):
    results: tuple[AllocatedDevice, ...] = ()


class Allocation(ViewPart, frozen=True):
    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class Consumer(ViewPart, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(ViewPart, frozen=True):
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaimView(
    ObjectView[ResourceClaimSpec, ResourceClaimStatus],
    resource=RESOURCE_CLAIMS,
    spec=ResourceClaimSpec,
    status=ResourceClaimStatus,
):
    __slots__ = ()

    @property
    def made_for(self) -> str:
        """The entry of its owner's `spec.resourceClaims` that it was made for, "" if it was made by hand."""
        return self.annotations.get(POD_CLAIM_NAME, "")


class ResourceClaimTemplateView(ObjectView[ViewPart, Conditioned], resource=RESOURCE_CLAIM_TEMPLATES):
    __slots__ = ()


class DevicePool(ViewPart, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class DeviceTaint(ViewPart, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class SliceDevice(ViewPart, frozen=True):
    name: str = ""
    attributes: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    capacity: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    taints: tuple[DeviceTaint, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    consumes_counters: tuple[dict[str, Any], ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binds_to_node: bool = False
    allow_multiple_allocations: bool = False
    node_allocatable_resources: dict[str, Any] = msgspec.field(default_factory=dict)


class ResourceSliceSpec(ViewPart, frozen=True):
    driver: str = ""
    pool: DevicePool = DevicePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[SliceDevice, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class ResourceSliceView(ObjectView[ResourceSliceSpec, Conditioned], resource=RESOURCE_SLICES, spec=ResourceSliceSpec):
    __slots__ = ()


class DeviceClassSpec(ViewPart, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceClassView(ObjectView[DeviceClassSpec, Conditioned], resource=DEVICE_CLASSES, spec=DeviceClassSpec):
    __slots__ = ()


class DeviceTaintSelector(ViewPart, frozen=True):
    """Devices by name; what is not given matches all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(ViewPart, frozen=True):
    #: None selects no device.
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRuleView(
    ObjectView[DeviceTaintRuleSpec, Conditioned], resource=DEVICE_TAINT_RULES, spec=DeviceTaintRuleSpec
):
    __slots__ = ()
