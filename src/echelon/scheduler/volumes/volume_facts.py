"""What binding on first use reads of claims, volumes, classes and CSI objects, and whether they match."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...api.objects.selectors import LabelSelector
from ...api.views.storage_views import ClaimView, StorageCapacityView, StorageClassView, VolumeView
from ...base import quantity
from ...engine import NodeTerm, Requirement

_CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
_FILES = "Filesystem"
#: Plugins that were part of Kubernetes: the field of a volume, and the CSI driver that attaches and makes it now.
_FORMER_PLUGINS = {
    "kubernetes.io/aws-ebs": ("awsElasticBlockStore", "ebs.csi.aws.com"),
    "kubernetes.io/gce-pd": ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    "kubernetes.io/azure-disk": ("azureDisk", "disk.csi.azure.com"),
    "kubernetes.io/azure-file": ("azureFile", "file.csi.azure.com"),
    "kubernetes.io/cinder": ("cinder", "cinder.csi.openstack.org"),
    "kubernetes.io/vsphere-volume": ("vsphereVolume", "csi.vsphere.vmware.com"),
    "kubernetes.io/portworx-volume": ("portworxVolume", "pxd.portworx.com"),
}


@dataclass(frozen=True, slots=True)
class VolumeWish:
    """What an unbound claim asks of its volume; equal wishes want the same volumes."""

    storage_class: str
    size: int
    access_modes: tuple[str, ...]
    mode: str
    selector: LabelSelector
    attributes_class: str = ""

    @property
    def name(self) -> str:
        """The resource that counts volumes for it, as people read it where it is missing."""
        kind = [*self.access_modes, *([self.mode] if self.mode != _FILES else [])]
        kind += [f"attributes {self.attributes_class}"] if self.attributes_class else []
        if not self.selector.empty:
            # Sets of equal values may list them in another order.
            said = [(one.key, one.operator, sorted(one.values)) for one in self.selector.requirements]
            kind.append(f"selector {hashlib.sha256(repr(said).encode()).hexdigest()[:6]}")
        size = quantity.spelt("storage", self.size)
        return f"free volumes of class {self.storage_class} of {size} ({', '.join(kind)})"

    def takes(self, volume: VolumeView) -> bool:
        """Whether a volume is large enough and of the right kind."""
        spec = volume.spec
        return (
            spec.storage_class_name == self.storage_class
            and set(self.access_modes) <= set(spec.access_modes)
            and self.suits(volume)
            and self.selector.matches(volume.labels)
        )

    def suits(self, volume: VolumeView) -> bool:
        """Whether a volume can be bound at all, also one that was set aside for the claim."""
        spec = volume.spec
        return (
            (spec.volume_mode or _FILES) == self.mode
            and spec.volume_attributes_class_name == self.attributes_class
            and size_of(spec.capacity) >= self.size
        )


def class_of(claim: ClaimView) -> str:
    return claim.annotations.get(_CLASS) or claim.spec.storage_class_name


def wish_of(claim: ClaimView) -> VolumeWish:
    spec = claim.spec
    return VolumeWish(
        class_of(claim),
        size_of(spec.resources.requests),
        tuple(sorted(spec.access_modes)),
        spec.volume_mode or _FILES,
        LabelSelector.from_object(claim.spec.selector or {}),
        spec.volume_attributes_class_name,
    )


def driver_of(volume: VolumeView) -> str:
    """The CSI driver that attaches a volume, "" if none does."""
    if volume.spec.csi is not None:
        return volume.spec.csi.driver
    spec = volume.obj.get("spec") or {}
    return next((driver for source, driver in _FORMER_PLUGINS.values() if spec.get(source) is not None), "")


def driver_behind(provisioner: str) -> str:
    """The CSI driver that attaches what a provisioner makes."""
    return _FORMER_PLUGINS[provisioner][1] if provisioner in _FORMER_PLUGINS else provisioner


def size_of(amounts: Mapping[str, Any]) -> int:
    return quantity.parse(amounts["storage"], "storage") if "storage" in amounts else 0


def is_for(volume: VolumeView, claim: ClaimView) -> bool:
    """Whether a volume was set aside for a claim before it was bound."""
    reference = volume.spec.claim_ref
    named = reference is not None and (reference.namespace, reference.name) == (claim.namespace, claim.name)
    return bool(named and reference is not None and reference.uid in ("", claim.uid))


def topologies(storage_class: StorageClassView) -> tuple[NodeTerm, ...] | None:
    """The nodes for which a class can make volumes; None for all."""
    allowed = storage_class.obj.get("allowedTopologies")
    if not allowed:
        return None
    return tuple(
        NodeTerm(
            tuple(
                Requirement(one["key"], "In", tuple(one.get("values") or ()))
                for one in term.get("matchLabelExpressions") or ()
            )
        )
        for term in allowed
    )


def capacity_term(capacity: StorageCapacityView) -> NodeTerm:
    """The nodes that a CSIStorageCapacity is about; without a selector none."""
    topology = capacity.obj.get("nodeTopology")
    if topology is None:
        return NodeTerm()
    labels = [Requirement(key, "In", (value,)) for key, value in sorted((topology.get("matchLabels") or {}).items())]
    labels += [
        Requirement(one["key"], one["operator"], tuple(one.get("values") or ()))
        for one in topology.get("matchExpressions") or ()
    ]
    return NodeTerm(tuple(labels) or (Requirement("kubernetes.io/hostname", "Exists"),))


def suffices(capacity: StorageCapacityView, size: int) -> bool:
    """Whether a volume of this size can be made out of what is left."""
    told = capacity.obj.get("maximumVolumeSize") or capacity.obj.get("capacity")
    return told is not None and quantity.parse(told, "storage") >= size
