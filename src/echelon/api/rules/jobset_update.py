"""Allowed changes of a JobSet: suspend, TTL and deadline, and the size of its Indexed Jobs until it has ended.

While it is suspended, also what its pod templates say about scheduling, and the resources of their containers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import FieldError, forbidden_field, invalid
from ..objects import meta
from ..scheme import Object
from .job import INDEXED

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
#: The size of an Indexed Job.
SIZE = ("parallelism", "completions")
_POD_METADATA = ("labels", "annotations")
_POD_SPEC = ("nodeSelector", "tolerations", "schedulingGates")
_CONTAINERS = ("containers", "initContainers")
_RESOURCES = ("requests", "limits")

Part = Mapping[str, Any]


def check(obj: Object, stored: Object) -> list[FieldError]:
    """Errors of a changed JobSet against the stored one."""
    new, old = obj.get("spec") or {}, stored.get("spec") or {}
    problems = [
        invalid(f"spec.{field}", new.get(field), "Value is immutable")
        for field in IMMUTABLE
        if new.get(field) != old.get(field)
    ]
    if new.get("managedBy") != old.get("managedBy"):
        problems.append(invalid("spec.managedBy", new.get("managedBy"), "field is immutable"))
    if new.get("scheduling") != old.get("scheduling") and not old.get("suspend"):
        problems.append(invalid("spec.scheduling", new.get("scheduling"), "field is immutable once unsuspended"))
    if resized(obj, stored):
        ended = meta.condition_is(stored, "Completed") or meta.condition_is(stored, "Failed")
        problems += [error for path, job, was in _sizes(new, old) for error in _resize(path, job, was, ended)]
    return problems + _replicated(new, old)


def resized(obj: Object, stored: Object) -> bool:
    """Whether the size of an Indexed Job has changed."""
    return any(_size(job) != _size(was) for _, job, was in _sizes(obj.get("spec") or {}, stored.get("spec") or {}))


def resources(obj: Object) -> list[Any]:
    """What the containers of all pod templates ask for."""
    return [
        container.get("resources")
        for replicated in (obj.get("spec") or {}).get("replicatedJobs") or ()
        for part in _CONTAINERS
        for container in (_pod_template(replicated).get("spec") or {}).get(part) or ()
    ]


def _sizes(new: Part, old: Part) -> Iterator[tuple[str, Part, Part]]:
    """Path, new and old spec of every Job whose size may change."""
    before = {replicated.get("name"): replicated for replicated in old.get("replicatedJobs") or ()}
    for index, replicated in enumerate(new.get("replicatedJobs") or ()):
        job, was = _job(replicated), _job(before.get(replicated.get("name")) or {})
        if was and job.get("completionMode") == INDEXED:
            yield f"spec.replicatedJobs[{index}].template.spec", job, was


def _size(job: Part) -> list[Any]:
    return [job.get(field) for field in SIZE]


def _resize(path: str, job: Part, old: Part, ended: bool) -> list[FieldError]:
    if _size(job) == _size(old):
        return []
    if ended:
        detail = "Cannot mutate parallelism or completions when JobSet is in a terminal state (Completed or Failed)"
        return [forbidden_field(path, detail)]
    problems = [
        invalid(f"{path}.{field}", job[field], f"{field} must be >= 1")
        for field in SIZE
        if field in job and job[field] != old.get(field) and job[field] < 1
    ]
    if job.get("completions") != job.get("parallelism", 1):
        detail = "completions must be equal to parallelism for Elastic Indexed Jobs"
        problems.append(invalid(f"{path}.completions", job.get("completions"), detail))
    return problems


def _replicated(new: Part, old: Part) -> list[FieldError]:
    # Either side: a queue may restore templates in the write that suspends, and adapt them in the one that resumes.
    adaptable = bool(old.get("suspend") or new.get("suspend"))
    was: list[Object] = list(old.get("replicatedJobs") or ())
    before = {replicated.get("name"): replicated for replicated in was}
    now = [
        _restored(replicated, before.get(replicated.get("name")), adaptable)
        for replicated in new.get("replicatedJobs") or ()
    ]
    if now == was:
        return []
    changed = [replicated.get("name") for replicated in now if replicated != before.get(replicated.get("name"))]
    removed = [name for name in before if all(replicated.get("name") != name for replicated in now)]
    return [invalid("spec.replicatedJobs", changed + removed, "field is immutable")]


def _restored(replicated: Object, old: Object | None, adaptable: bool) -> Object:
    """The entry with the fields put back that may change, any time or while suspended."""
    if old is None or replicated == old:
        return replicated
    result: Object = copy.deepcopy(replicated)
    if _job(result).get("completionMode") == INDEXED:
        _put_back(result.get("template") or {}, old.get("template") or {}, "spec", SIZE)
    if adaptable:
        template, was = _pod_template(result), _pod_template(old)
        _put_back(template, was, "metadata", _POD_METADATA)
        _put_back(template, was, "spec", _POD_SPEC)
        _put_back_resources(template.get("spec") or {}, was.get("spec") or {})
    return result


def _job(replicated: Part) -> Object:
    return (replicated.get("template") or {}).get("spec") or {}


def _pod_template(replicated: Object) -> Object:
    return _job(replicated).get("template") or {}


def _put_back_resources(pods: Object, old: Object) -> None:
    """Containers are matched by name; which claims they use stays."""
    for part in _CONTAINERS:
        before = {container.get("name"): container for container in old.get(part) or ()}
        for container in pods.get(part) or ():
            if container.get("name") in before:
                _put_back(container, before[container["name"]], "resources", _RESOURCES)


def _put_back(template: Object, old: Object, part: str, names: tuple[str, ...]) -> None:
    was = old.get(part) or {}
    now = {field: value for field, value in (template.get(part) or {}).items() if field not in names}
    now |= {field: was[field] for field in names if field in was}
    if now or part in old:
        template[part] = now
    else:
        template.pop(part, None)
