"""Fields of parts that a control plane runs without: dropped from what is written, with a warning.

A Job that already has the field keeps it, as with a feature gate of Kubernetes that is turned off later.
"""

from __future__ import annotations

from collections.abc import Callable

from ..scheme import CRON_JOBS, JOBS, Object, Resource

_JOB = ("spec",)
_CRON_JOB = ("spec", "jobTemplate", "spec")


def drop_job_scheduling(resource: Resource, new: Object, old: Object | None, warn: Callable[[str], None]) -> None:
    """Without Workloads for Jobs: take `scheduling` out of a spec that did not have it."""
    path = _JOB if resource is JOBS else _CRON_JOB if resource is CRON_JOBS else None
    if path is None or "scheduling" not in _part(new, path) or "scheduling" in _part(old or {}, path):
        return
    del _part(new, path)["scheduling"]
    field = ".".join((*path, "scheduling"))
    warn(f"{field} is dropped: this control plane runs Jobs without Workloads")


def _part(obj: Object, path: tuple[str, ...]) -> Object:
    for field in path:
        obj = obj.get(field) or {}
    return obj
