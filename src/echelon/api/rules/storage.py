"""Rules of PersistentVolumeClaim, PersistentVolume, StorageClass and the CSI kinds, as far as scheduling reads them.

Sizes, access modes and binding fields are checked as in kube-apiserver; of volume sources only that there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import FieldError, forbidden_field, invalid, required
from ..objects.subtree import items, mapping
from ..scheme import Object
from . import fields, pod_placement, resources
from .kind import KindRules

#: What a PersistentVolume's spec holds beside its one source.
_BESIDE_SOURCE = frozenset(
    (
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
        "storageClassName", "volumeAttributesClassName", "volumeMode",
    )
)  # fmt: skip
_ALONE = "ReadWriteOncePod"


def _start(obj: Object, now: float) -> None:
    obj["status"] = {"phase": "Pending"}


def _modes(path: str, modes: Sequence[str]) -> list[FieldError]:
    if not modes:
        return [required(path, "at least 1 access mode is required")]
    if _ALONE in modes and len(modes) > 1:
        return [forbidden_field(path, f"may not use {_ALONE} with other access modes")]
    return []


def _size(path: str, amounts: Mapping[str, Any]) -> list[FieldError]:
    if "storage" not in amounts:
        return [required(f"{path}[storage]")]
    if resources.milli("storage", amounts["storage"]) <= 0:
        return [invalid(f"{path}[storage]", amounts["storage"], "must be greater than zero")]
    return []


# ---- claims


def _claim(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problems = _modes("spec.accessModes", spec.get("accessModes") or ())
    problems += pod_placement.label_selector("spec.selector", spec.get("selector"))
    problems += _size("spec.resources.requests", (spec.get("resources") or {}).get("requests") or {})
    return problems + fields.optional("spec.storageClassName", spec.get("storageClassName"), fields.long_name)


def _claim_update(new: Object, old: Object) -> list[FieldError]:
    """An unbound claim may be bound, a bound one may grow; nothing else may change."""
    now, was = dict(new.get("spec") or {}), old.get("spec") or {}
    if not was.get("volumeName"):
        for field in ("volumeName", "storageClassName"):
            if not was.get(field):
                _as_before(field, now, was)
    if (old.get("status") or {}).get("phase") == "Bound":
        _as_before("resources", now, was)
        _as_before("volumeAttributesClassName", now, was)
    if now == was:
        return _claim(new)
    detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    return [*_claim(new), forbidden_field("spec", detail)]


def _as_before(field: str, now: Object, was: Mapping[str, Any]) -> None:
    if field in was:
        now[field] = was[field]
    else:
        now.pop(field, None)


CLAIM = KindRules(start=_start, validate_create=_claim, validate_update=_claim_update)


# ---- volumes


def _sources(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in spec.items() if field not in _BESIDE_SOURCE and value is not None}


def _volume(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    problems = _modes("spec.accessModes", spec.get("accessModes") or ())
    capacity = spec.get("capacity") or {}
    problems += _size("spec.capacity", capacity) if capacity else [required("spec.capacity")]
    sources = list(_sources(spec))
    if not sources:
        problems.append(required("spec", "must specify a volume type"))
    problems += [forbidden_field(f"spec.{source}", "may not specify more than 1 volume type") for source in sources[1:]]
    problems += _node_affinity("spec.nodeAffinity", spec)
    return problems + fields.optional("spec.storageClassName", spec.get("storageClassName"), fields.long_name)


def _node_affinity(path: str, spec: Mapping[str, Any]) -> list[FieldError]:
    affinity = spec.get("nodeAffinity")
    if affinity is None:
        return [required(path, "Local volume requires node affinity")] if spec.get("local") else []
    selector = affinity.get("required")
    if selector is None:
        return [required(f"{path}.required", "must specify required node constraints")]
    return pod_placement.node_selector(f"{path}.required", selector)


def _volume_update(new: Object, old: Object) -> list[FieldError]:
    problems = _volume(new)
    if _sources(new.get("spec") or {}) != _sources(old.get("spec") or {}):
        detail = "spec.persistentvolumesource is immutable after creation"
        problems.append(forbidden_field("spec.persistentvolumesource", detail))
    return problems


VOLUME = KindRules(start=_start, validate_create=_volume, validate_update=_volume_update)


# ---- classes


def _class(obj: Object) -> list[FieldError]:
    problems = fields.needed("provisioner", obj.get("provisioner"), fields.label_key)
    return problems + fields.one_of("reclaimPolicy", obj.get("reclaimPolicy", "Delete"), ("Delete", "Retain"))


def _class_update(new: Object, old: Object) -> list[FieldError]:
    problems = _class(new)
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if (new.get(field) or None) != (old.get(field) or None):
            problems.append(forbidden_field(field, f"updates to {field} are forbidden."))
    return problems + fields.frozen("volumeBindingMode", new.get("volumeBindingMode"), old.get("volumeBindingMode"))


STORAGE_CLASS = KindRules(validate_create=_class, validate_update=_class_update)


# ---- drivers


def _driver_update(new: Object, old: Object) -> list[FieldError]:
    now, was = mapping(new, "spec"), mapping(old, "spec")
    return [
        problem
        for field in ("attachRequired", "volumeLifecycleModes")
        for problem in fields.frozen(f"spec.{field}", now.get(field), was.get(field))
    ]


def _csi_node(obj: Object) -> list[FieldError]:
    drivers = items(obj, "spec", "drivers")
    problems = fields.unique("spec.drivers", drivers)
    for index, driver in enumerate(drivers):
        path = f"spec.drivers[{index}]"
        problems += fields.needed(f"{path}.name", driver.get("name"), fields.long_name)
        problems += [] if driver.get("nodeID") else [required(f"{path}.nodeID")]
        problems += fields.not_negative(f"{path}.allocatable.count", mapping(driver, "allocatable").get("count"))
    return problems


def _csi_node_update(new: Object, old: Object) -> list[FieldError]:
    return _csi_node(new)


def _capacity(obj: Object) -> list[FieldError]:
    problems = fields.needed("storageClassName", obj.get("storageClassName"), fields.long_name)
    return problems + pod_placement.label_selector("nodeTopology", obj.get("nodeTopology"))


def _capacity_update(new: Object, old: Object) -> list[FieldError]:
    return [
        *_capacity(new),
        *fields.frozen("nodeTopology", new.get("nodeTopology"), old.get("nodeTopology")),
        *fields.frozen("storageClassName", new.get("storageClassName"), old.get("storageClassName")),
    ]


CSI_DRIVER = KindRules(validate_update=_driver_update)
CSI_NODE = KindRules(validate_create=_csi_node, validate_update=_csi_node_update)
CSI_STORAGE_CAPACITY = KindRules(validate_create=_capacity, validate_update=_capacity_update)
