"""runtimePatches: changes to the runtime's JobSet template, by strategic merge, in list order."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ...api.patching import strategic_merge
from ...api.scheme import Object
from .model import CannotBuild, TrainJob

_POD_TEMPLATE = {"$ref": "io.k8s.api.core.v1.PodTemplateSpec"}


def apply(tj: TrainJob, template: Object) -> Object:
    """The runtime's template with all patches of the TrainJob merged in."""
    result = deepcopy(template)
    for patch in tj.spec.get("runtimePatches") or ():
        wanted = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        _merge_metadata(result, wanted.get("metadata"))
        replicated_jobs = (result.get("spec") or {}).get("replicatedJobs") or []
        for change in (wanted.get("spec") or {}).get("replicatedJobs") or ():
            _patch_replicated_job(replicated_jobs, change)
    return result


def _patch_replicated_job(replicated_jobs: list[Object], change: Object) -> None:
    target = next((rj for rj in replicated_jobs if rj["name"] == change["name"]), None)
    if target is None:
        raise CannotBuild(f"runtimePatches: the runtime has no replicated job {change['name']!r}")
    job_change = change.get("template") or {}
    job = target.setdefault("template", {})
    _merge_metadata(job, job_change.get("metadata"))
    pod_change = (job_change.get("spec") or {}).get("template")
    if pod_change:
        spec = job.setdefault("spec", {})
        spec["template"] = strategic_merge.merge(_POD_TEMPLATE, spec.get("template") or {}, pod_change)


def _merge_metadata(target: Object, change: dict[str, Any] | None) -> None:
    for part in ("labels", "annotations"):
        if change and change.get(part):
            metadata = target.setdefault("metadata", {})
            metadata[part] = {**(metadata.get(part) or {}), **change[part]}
