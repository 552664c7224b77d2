"""PersistentVolumeClaims, PersistentVolumes, StorageClasses and what CSI drivers say of nodes."""

from __future__ import annotations

from typing import Any

import msgspec

from ..scheme import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from .object_view import Conditioned, ObjectView, ViewPart
from .placement_views import NodeSelector


class StorageAmounts(ViewPart, frozen=True):
    requests: dict[str, Any] = msgspec.field(default_factory=dict)


class ClaimSpec(ViewPart, frozen=True):
    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = ""
    volume_attributes_class_name: str = ""
    resources: StorageAmounts = StorageAmounts()
    selector: dict[str, Any] | None = None


class ClaimStatus(Conditioned, frozen=True):
    phase: str = ""


class ClaimView(ObjectView[ClaimSpec, ClaimStatus], resource=VOLUME_CLAIMS, spec=ClaimSpec, status=ClaimStatus):
    __slots__ = ()


class VolumeNodeAffinity(ViewPart, frozen=True):
    required: NodeSelector | None = None


class ClaimOfVolume(ViewPart, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(ViewPart, frozen=True):
    driver: str = ""


class VolumeSpec(ViewPart, frozen=True):
    node_affinity: VolumeNodeAffinity = VolumeNodeAffinity()
    capacity: dict[str, Any] = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = ""
    volume_attributes_class_name: str = ""
    claim_ref: ClaimOfVolume | None = None
    csi: CsiSource | None = None


class VolumeStatus(Conditioned, frozen=True):
    phase: str = ""


class VolumeView(ObjectView[VolumeSpec, VolumeStatus], resource=VOLUMES, spec=VolumeSpec, status=VolumeStatus):
    __slots__ = ()


class StorageClassView(ObjectView[ViewPart, Conditioned], resource=STORAGE_CLASSES):
    __slots__ = ()

    @property
    def volume_binding_mode(self) -> str:
        return str(self.obj.get("volumeBindingMode") or "")

    @property
    def provisioner(self) -> str:
        return str(self.obj.get("provisioner") or "")


class CsiDriverSpec(ViewPart, frozen=True):
    storage_capacity: bool = False


class CsiDriverView(ObjectView[CsiDriverSpec, Conditioned], resource=CSI_DRIVERS, spec=CsiDriverSpec):
    __slots__ = ()


class AttachableVolumes(ViewPart, frozen=True):
    count: int | None = None


class CsiNodeDriver(ViewPart, frozen=True):
    name: str = ""
    allocatable: AttachableVolumes = AttachableVolumes()


class CsiNodeSpec(ViewPart, frozen=True):
    drivers: tuple[CsiNodeDriver, ...] = ()


class CsiNodeView(ObjectView[CsiNodeSpec, Conditioned], resource=CSI_NODES, spec=CsiNodeSpec):
    __slots__ = ()

    @property
    def limits(self) -> dict[str, int]:
        """How many volumes of each driver can be attached, where that is limited."""
        found = {one.name: one.allocatable.count for one in self.spec.drivers}
        return {name: count for name, count in found.items() if count is not None}


class StorageCapacityView(ObjectView[ViewPart, Conditioned], resource=CSI_STORAGE_CAPACITIES):
    __slots__ = ()

    @property
    def storage_class(self) -> str:
        return str(self.obj.get("storageClassName") or "")
