"""Allowed changes of a JobSet: suspend, TTL and, while suspended, the scheduling fields of its pod templates."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ..errors import FieldError, invalid
from ..scheme import Object

#: Immutable; may not be added or removed either.
IMMUTABLE = (
    "network",
    "successPolicy",
    "failurePolicy",
    "startupPolicy",
    "executionPolicy",
    "volumeClaimPolicies",
    "coordinator",
)
_POD_METADATA = ("labels", "annotations")
_POD_SPEC = ("nodeSelector", "tolerations", "schedulingGates")

Part = Mapping[str, Any]


def check(new: Part, old: Part) -> list[FieldError]:
    """Errors of a new JobSet spec against the old one."""
    problems = [
        invalid(f"spec.{field}", new.get(field), "Value is immutable")
        for field in IMMUTABLE
        if new.get(field) != old.get(field)
    ]
    if new.get("managedBy") != old.get("managedBy"):
        problems.append(invalid("spec.managedBy", new.get("managedBy"), "field is immutable"))
    if new.get("scheduling") != old.get("scheduling") and not old.get("suspend"):
        problems.append(invalid("spec.scheduling", new.get("scheduling"), "field is immutable once unsuspended"))
    return problems + _replicated(new, old)


def _replicated(new: Part, old: Part) -> list[FieldError]:
    # Either side: a queue may restore templates in the write that suspends, and adapt them in the one that resumes.
    adaptable = bool(old.get("suspend") or new.get("suspend"))
    was: list[Object] = list(old.get("replicatedJobs") or ())
    before = {replicated.get("name"): replicated for replicated in was}
    now = [
        _adapted(replicated, before.get(replicated.get("name"))) if adaptable else replicated
        for replicated in new.get("replicatedJobs") or ()
    ]
    if now == was:
        return []
    changed = [replicated.get("name") for replicated in now if replicated != before.get(replicated.get("name"))]
    removed = [name for name in before if all(replicated.get("name") != name for replicated in now)]
    return [invalid("spec.replicatedJobs", changed + removed, "field is immutable")]


def _adapted(replicated: Object, old: Object | None) -> Object:
    """The entry with the fields restored that may change while suspended."""
    if old is None:
        return replicated
    result: Object = copy.deepcopy(replicated)
    template, was = _pod_template(result), _pod_template(old)
    _put_back(template, was, "metadata", _POD_METADATA)
    _put_back(template, was, "spec", _POD_SPEC)
    return result


def _pod_template(replicated: Object) -> Object:
    job = (replicated.get("template") or {}).get("spec") or {}
    return job.get("template") or {}


def _put_back(template: Object, old: Object, part: str, names: tuple[str, ...]) -> None:
    was = old.get(part) or {}
    now = {field: value for field, value in (template.get(part) or {}).items() if field not in names}
    now |= {field: was[field] for field in names if field in was}
    if now or part in old:
        template[part] = now
    else:
        template.pop(part, None)
