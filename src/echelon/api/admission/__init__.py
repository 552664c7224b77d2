"""Admission: checks and defaults that depend on *other* objects, as pure functions of (object, old, reader).

    create   namespace active → priority → protection finalizer → per kind; once it is valid: limit ranges
    update   per kind
    delete   protected namespaces

Errors are `ApiError`s (403, or 404 for a missing namespace); changes are made in place.
"""

from __future__ import annotations

from ..objects import meta
from ..scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    COMPOSITE_POD_GROUPS,
    JOB_SETS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    VOLUME_CLAIMS,
    Object,
    Resource,
)
from . import (
    jobset_features,
    limit_ranges,
    namespaces,
    priority,
    protection,
    trainjob,
)
from .older_forms import convert_older_forms
from .pods import exclusive_placement, pod_defaults
from .reader import Reader
from .switched_off import drop_job_scheduling

__all__ = [
    "Reader",
    "admit_create",
    "admit_delete",
    "admit_update",
    "check_create",
    "check_update",
    "convert_older_forms",
    "drop_job_scheduling",
    "warnings",
]

_GROUPS = (POD_GROUPS.kind, COMPOSITE_POD_GROUPS.kind)
_RUNTIMES = (TRAINING_RUNTIMES.kind, CLUSTER_TRAINING_RUNTIMES.kind)


def admit_create(resource: Resource, obj: Object, reader: Reader) -> None:
    """Complete a new object in place; `ApiError` if it is not admitted."""
    if resource.namespaced:
        namespaces.must_be_open(resource, obj, reader)
    if resource.custom is not None:
        return
    kind = resource.kind
    if kind == PODS.kind or kind in _GROUPS:
        priority.resolve(resource, obj, reader)
    if kind in _GROUPS:
        protection.protect(resource, obj)
    elif kind == PODS.kind:
        limit_ranges.complete(obj, reader)
        pod_defaults.tolerate_failing_nodes(obj)
        pod_defaults.label_priority(obj)
        exclusive_placement.complete(obj, reader)
    elif kind == PRIORITY_CLASSES.kind:
        priority.single_default(resource, obj, reader)
    elif kind == TRAIN_JOBS.kind:
        trainjob.create(obj, reader)
    elif kind in _RUNTIMES:
        trainjob.runtime(resource, obj)


def check_create(resource: Resource, obj: Object, reader: Reader) -> None:
    """`ApiError` if a valid new object is not allowed beside others."""
    if resource is PODS or resource is VOLUME_CLAIMS:
        limit_ranges.check(resource, obj, reader)
    elif resource is JOB_SETS:
        jobset_features.check_create(obj, reader)


def admit_update(resource: Resource, new: Object, old: Object, reader: Reader) -> None:
    """`ApiError` if other objects forbid the change; tolerations of pods are completed as at creation."""
    if resource.custom is not None:
        return
    if resource is PODS:
        if new["spec"].get("tolerations") != old["spec"].get("tolerations"):
            pod_defaults.tolerate_failing_nodes(new)
    elif resource.kind == PRIORITY_CLASSES.kind:
        priority.single_default(resource, new, reader)
    elif resource.kind == TRAIN_JOBS.kind:
        trainjob.update(new, old, reader)
    elif resource.kind in _RUNTIMES and new.get("spec") != old.get("spec"):
        trainjob.runtime(resource, new, old)


def check_update(resource: Resource, new: Object, old: Object, reader: Reader) -> None:
    """`ApiError` if a valid change is not allowed beside other objects; pods keep their requests and limits."""
    if resource is VOLUME_CLAIMS and not meta.deleting(old):
        limit_ranges.check(resource, new, reader)
    elif resource is JOB_SETS:
        jobset_features.check_update(new, old, reader)


def admit_delete(resource: Resource, obj: Object, reader: Reader) -> None:
    """`ApiError` if the object is protected from deletion."""
    if resource is NAMESPACES:
        namespaces.may_be_deleted(obj)


def warnings(resource: Resource, obj: Object, reader: Reader) -> list[str]:
    """Warnings that depend on other objects."""
    if resource is TRAIN_JOBS:
        return trainjob.warnings(obj, reader)
    return trainjob.runtime_warnings(obj, reader) if resource.kind in _RUNTIMES and resource.custom is None else []
