"""Table cells of PersistentVolumeClaims, PersistentVolumes, StorageClasses and ResourceClaims."""

from __future__ import annotations

from typing import Any

from ....api.objects import meta
from ....api.scheme import Object

_SHORT = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_UNSET = "<unset>"


def _modes(modes: Any) -> str:
    return ",".join(_SHORT.get(mode, mode) for mode in modes or ())


def phase(obj: Object, _now: float) -> str:
    if meta.deleting(obj):
        return "Terminating"
    return str((obj.get("status") or {}).get("phase") or "")


def claim_capacity(claim: Object, _now: float) -> str:
    """The capacity of a bound claim, "" before."""
    if not (claim.get("spec") or {}).get("volumeName"):
        return ""
    return str(((claim.get("status") or {}).get("capacity") or {}).get("storage", "0"))


def claim_modes(claim: Object, _now: float) -> str:
    bound = (claim.get("spec") or {}).get("volumeName")
    return _modes((claim.get("status") or {}).get("accessModes")) if bound else ""


def attributes_class(obj: Object, _now: float) -> str:
    return (obj.get("spec") or {}).get("volumeAttributesClassName") or _UNSET


def volume_mode(obj: Object, _now: float) -> str:
    return (obj.get("spec") or {}).get("volumeMode") or _UNSET


def volume_capacity(volume: Object, _now: float) -> str:
    return str(((volume.get("spec") or {}).get("capacity") or {}).get("storage", "0"))


def volume_modes(volume: Object, _now: float) -> str:
    return _modes((volume.get("spec") or {}).get("accessModes"))


def volume_claim(volume: Object, _now: float) -> str:
    claim = (volume.get("spec") or {}).get("claimRef") or {}
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def class_name(storage_class: Object, _now: float) -> str:
    is_default = meta.annotations(storage_class).get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{meta.name(storage_class)} (default)" if is_default else meta.name(storage_class)


def claim_state(claim: Object, _now: float) -> str:
    """How a ResourceClaim stands: `pending`, `allocated`, `allocated,reserved`, with `deleted` in front."""
    status, gone = claim.get("status") or {}, meta.deleting(claim)
    states = ["deleted"] if gone else []
    if status.get("allocation") is not None:
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    elif not gone:
        states.append("pending")
    return ",".join(states)
