"""PersistentVolumeClaims, PersistentVolumes and StorageClasses."""

from __future__ import annotations

from ..scheme import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from .object_view import Conditioned, ObjectView, ViewPart
from .placement_views import NodeSelector


class ClaimSpec(ViewPart, frozen=True):
    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()


class ClaimStatus(Conditioned, frozen=True):
    phase: str = ""


class ClaimView(ObjectView[ClaimSpec, ClaimStatus], resource=VOLUME_CLAIMS, spec=ClaimSpec, status=ClaimStatus):
    __slots__ = ()


class VolumeNodeAffinity(ViewPart, frozen=True):
    required: NodeSelector | None = None


class VolumeSpec(ViewPart, frozen=True):
    node_affinity: VolumeNodeAffinity = VolumeNodeAffinity()


class VolumeView(ObjectView[VolumeSpec, Conditioned], resource=VOLUMES, spec=VolumeSpec):
    __slots__ = ()


class StorageClassView(ObjectView[ViewPart, Conditioned], resource=STORAGE_CLASSES):
    __slots__ = ()

    @property
    def volume_binding_mode(self) -> str:
        return str(self.obj.get("volumeBindingMode") or "")
