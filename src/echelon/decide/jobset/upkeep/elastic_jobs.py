"""Elastic Jobs: a change of parallelism and completions goes to the Jobs in place, and to the gangs of their pods.

group sizes (Workload, then PodGroups) ─► sizes of Jobs ─► the Job controller adds or removes pods
"""

from __future__ import annotations

from typing import Any

from ....api.objects import meta
from ....api.objects.subtree import items, mapping
from ....api.scheme import JOB_SETS, WORKLOADS, Object
from ....api.verbs import Patch, PatchType
from ...plan import ApplyPatch, Note
from ..child import change
from ..children import SortedJobs, parent
from ..group_objects import GroupObjects
from ..model import JobSet, Observed

_LISTS = ("podGroupTemplates", "compositePodGroupTemplates")


def resized_jobs(js: JobSet, jobs: SortedJobs) -> list[ApplyPatch]:
    """Patches of the Jobs that have not ended and whose size is not that of their template."""
    changes: list[ApplyPatch] = []
    refused = Note(JOB_SETS, js.obj, "Warning", "JobScalingFailed", "{error}")
    for job in jobs.active:
        rj = js.by_name.get(parent(job))
        if rj is None or job.deleting:
            continue
        wanted, now = rj.template.spec, job.spec
        if wanted.completion_mode != "Indexed" or wanted.completions is None:
            continue
        size = 1 if wanted.parallelism is None else wanted.parallelism
        if size == wanted.completions and (now.parallelism, now.completions) != (size, size):
            changes.append(change(job, {"parallelism": size, "completions": size}, refused))
    return changes


def resized_groups(wanted: GroupObjects, observed: Observed, uid: str) -> list[list[ApplyPatch]]:
    """Patches of the gangs that are of another size than they should be, layer by layer."""
    stages: list[list[ApplyPatch]] = []
    for layer in wanted.layers:
        stage: list[ApplyPatch] = []
        for resource, obj in layer:
            found = observed.find(resource, meta.name(obj))
            if found is None or meta.deleting(found) or not meta.controlled_by(found, uid):
                continue
            body = _templates_patch(obj, found) if resource is WORKLOADS else _gang_patch(obj["spec"], found["spec"])
            if body:
                # Lists of templates go whole, and only as long as they are what we saw.
                part = "resourceVersion" if resource is WORKLOADS else "uid"
                seen = {part: found["metadata"][part]}
                patch = Patch(PatchType.MERGE, {"metadata": seen, "spec": body})
                stage.append(ApplyPatch(resource, meta.namespace(found), meta.name(found), patch))
        if stage:
            stages.append(stage)
    return stages


def _gang(level: Object) -> Object:
    return mapping(mapping(level, "schedulingPolicy"), "gang")


def _gang_patch(wanted: Object, found: Object) -> Object:
    size = _gang(wanted).get("minCount")
    if size is None or _gang(found).get("minCount") in (None, size):
        return {}
    return {"schedulingPolicy": {"gang": {"minCount": size}}}


def _templates_patch(wanted: Object, found: Object) -> Object:
    """The lists of templates with the sizes they should have, if that changes any; lists are replaced whole."""
    resized = _resized(wanted["spec"], found["spec"])
    return {part: resized[part] for part in _LISTS if resized.get(part) != found["spec"].get(part)}


def _resized(wanted: Object, found: Object) -> dict[str, Any]:
    result = dict(found)
    if _gang_patch(wanted, found):
        gang = {**_gang(found), "minCount": _gang(wanted)["minCount"]}
        result["schedulingPolicy"] = {**found["schedulingPolicy"], "gang": gang}
    for part in _LISTS:
        by_name = {one.get("name"): one for one in items(wanted, part)}
        if part in found:
            result[part] = [_resized(by_name.get(one.get("name")) or {}, one) for one in items(found, part)]
    return result
