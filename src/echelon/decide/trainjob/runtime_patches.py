"""runtimePatches: changes to the runtime's JobSet template, by strategic merge, in list order."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ...api.objects.subtree import items, mapping
from ...api.patching import strategic_merge
from ...api.scheme import Object
from .model import CannotBuild, TrainJob

_POD_TEMPLATE = {"$ref": "io.k8s.api.core.v1.PodTemplateSpec"}


def apply(tj: TrainJob, template: Object) -> Object:
    """The runtime's template with all patches of the TrainJob merged in."""
    result = deepcopy(template)
    for patch in tj.spec.runtime_patches:
        wanted = mapping(patch, "trainingRuntimeSpec", "template")
        _merge_metadata(result, wanted.get("metadata"))
        replicated_jobs = items(result, "spec", "replicatedJobs")
        for change in items(wanted, "spec", "replicatedJobs"):
            _patch_replicated_job(replicated_jobs, change)
    return result


def _patch_replicated_job(replicated_jobs: list[Object], change: Object) -> None:
    target = next((rj for rj in replicated_jobs if rj["name"] == change["name"]), None)
    if target is None:
        raise CannotBuild(f"runtimePatches: the runtime has no replicated job {change['name']!r}")
    job_change = mapping(change, "template")
    job = target.setdefault("template", {})
    _merge_metadata(job, job_change.get("metadata"))
    pod_change = mapping(job_change, "spec", "template")
    if pod_change:
        spec = job.setdefault("spec", {})
        spec["template"] = strategic_merge.merge(_POD_TEMPLATE, mapping(spec, "template"), pod_change)


def _merge_metadata(target: Object, change: dict[str, Any] | None) -> None:
    for part in ("labels", "annotations"):
        if change and change.get(part):
            metadata = target.setdefault("metadata", {})
            metadata[part] = {**mapping(metadata, part), **change[part]}
