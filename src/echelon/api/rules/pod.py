"""Rules of Pod: initial status, and the few fields that may change.

`spec.nodeName` is written by the binding subresource and cannot be changed by an update.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...base.instants import to_time
from ..errors import FieldError, forbidden_field, invalid
from ..scheme import Object
from . import fields, podspec, resources
from .kind import KindRules

GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"
MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
#: Kept when a status write leaves them out.
_KEPT_STATUS = ("qosClass", "observedGeneration", "resourceClaimStatuses")

Part = Mapping[str, Any]


def _start(obj: Object, now: float) -> None:
    spec = obj["spec"]
    status: Object = {"phase": "Pending", "qosClass": resources.quality_of_service(spec)}
    if spec.get("schedulingGates"):
        gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": GATED_MESSAGE}
        status["conditions"] = [{**gated, "lastTransitionTime": to_time(now)}]
    obj["status"] = status


def _keep_status(new: Object, old: Object) -> None:
    status = new.setdefault("status", {})
    for field in _KEPT_STATUS:
        if field in (old.get("status") or {}):
            status.setdefault(field, old["status"][field])


def _validate(obj: Object) -> list[FieldError]:
    return podspec.check("spec", obj.get("spec") or {})


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    """Check each mutable field by its own rule, then that nothing else has changed."""
    now, was = new.get("spec") or {}, old.get("spec") or {}
    if now == was:
        return []
    for field in ("containers", "initContainers"):
        if len(now.get(field) or ()) != len(was.get(field) or ()):
            return [forbidden_field(f"spec.{field}", "pod updates may not add or remove containers")]
    problems = [
        *_images(now),
        *_deadline(now.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")),
        *_tolerations(now.get("tolerations") or (), was.get("tolerations") or ()),
        *_gates(now.get("schedulingGates") or (), was.get("schedulingGates") or ()),
        *fields.frozen("spec.schedulingGroup", now.get("schedulingGroup"), was.get("schedulingGroup")),
    ]
    if was.get("schedulingGates"):
        problems += _while_gated(now, was)
    rest = _with_mutable_parts_of(now, was)
    if rest != was:
        changed = sorted(field for field in {*rest, *was} if rest.get(field) != was.get(field))
        problems.append(forbidden_field("spec", f"{MAY_CHANGE}; changed: {', '.join(changed)}"))
    return problems


def _with_mutable_parts_of(new: Part, old: Part) -> Object:
    """`new` with the mutable fields restored; any remaining difference is an error."""
    spec: Object = copy.deepcopy(dict(new))
    own_rule = ["activeDeadlineSeconds", "tolerations", "schedulingGates", "schedulingGroup"]
    if old.get("schedulingGates"):
        own_rule += ["nodeSelector", "affinity"]
    if old.get("terminationGracePeriodSeconds", 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        own_rule.append("terminationGracePeriodSeconds")
    for field in own_rule:
        spec.pop(field, None)
        if field in old:
            spec[field] = old[field]
    for field in ("containers", "initContainers"):
        for container, was in zip(spec.get(field) or (), old.get(field) or (), strict=True):
            if "image" in was:
                container["image"] = was["image"]
    return spec


def _images(spec: Part) -> list[FieldError]:
    return [
        FieldError("FieldValueRequired", f"{path}.image", "Required value")
        for path, container in podspec.containers("spec", spec)
        if not container.get("image")
    ]


def _deadline(new: int | None, old: int | None) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        return [] if old is None else [invalid(path, None, "must not update from a positive integer to nil value")]
    if not 1 <= new <= fields.INT32_MAX:
        return [invalid(path, new, f"must be between 1 and {fields.INT32_MAX}, inclusive")]
    if old is not None and new > old:
        return [invalid(path, new, "must be less than or equal to previous value")]
    return []


def _tolerations(new: Sequence[Part], old: Sequence[Part]) -> list[FieldError]:
    def without_seconds(items: Sequence[Part]) -> set[frozenset[tuple[str, Any]]]:
        return {frozenset(one for one in item.items() if one[0] != "tolerationSeconds") for item in items}

    if without_seconds(old) <= without_seconds(new):
        return []
    return [forbidden_field("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _gates(new: Sequence[Part], old: Sequence[Part]) -> list[FieldError]:
    known = fields.by_name(old)
    return [
        forbidden_field(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for index, gate in enumerate(new)
        if gate.get("name") not in known
    ]


def _while_gated(new: Part, old: Part) -> list[FieldError]:
    """While a pod has scheduling gates, its node selector and affinity may be narrowed."""
    problems: list[FieldError] = []
    selector, was = new.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in was.items()):
        detail = "existing entries may not change; a gated pod may only add some"
        problems.append(invalid("spec.nodeSelector", selector, detail))
    if not _narrower(new, old):
        detail = "a gated pod may only add expressions to its required node affinity"
        problems.append(invalid("spec.affinity", new.get("affinity"), detail))
    return problems


def _narrower(new: Part, old: Part) -> bool:
    required = "requiredDuringSchedulingIgnoredDuringExecution"

    def terms(spec: Part) -> list[Part]:
        node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        return list((node.get(required) or {}).get("nodeSelectorTerms") or ())

    def others(spec: Part) -> dict[str, Any]:
        return {key: value for key, value in (spec.get("affinity") or {}).items() if key != "nodeAffinity"}

    before, after = terms(old), terms(new)
    if others(new) != others(old) or (before and len(before) != len(after)):
        return False

    def expressions(term: Part, field: str) -> set[bytes]:
        return {msgspec.json.encode(one, order="sorted") for one in term.get(field) or ()}

    return all(
        expressions(was, field) <= expressions(now, field)
        for now, was in zip(after, before, strict=False)
        for field in ("matchExpressions", "matchFields")
    )


def _validate_status(new: Object, old: Object) -> list[FieldError]:
    status, was = new.get("status") or {}, old.get("status") or {}
    problems = fields.optional("status.nominatedNodeName", status.get("nominatedNodeName"), fields.long_name)
    if was.get("qosClass") and status.get("qosClass") != was["qosClass"]:
        problems.append(invalid("status.qosClass", status.get("qosClass"), "field is immutable"))
    return problems


POD = KindRules(
    start=_start,
    keep_status=_keep_status,
    validate_create=_validate,
    validate_update=_validate_update,
    validate_status=_validate_status,
    status_metadata=("labels", "annotations", "finalizers"),
)
