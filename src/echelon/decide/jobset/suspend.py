"""Suspending and resuming the Jobs of a JobSet.

A Job's template may change only while it is suspended, so what was changed in the JobSet meanwhile (labels,
annotations, node selector, tolerations, scheduling gates, resources) goes to its Jobs in the same write that resumes
them.  Most servers let a template change only if its Job never started, so the start time of one that did is taken back
first, as JobSet's own controller does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ...api.objects.subtree import items, mapping
from ...api.scheme import JOB_SETS, JOBS, Object
from ...api.verbs import Patch, PatchType
from ...api.views.job_views import JobView
from ...base import quantity
from ..plan import ApplyPatch, Note
from .child import attempt_annotation, build, change
from .children import SortedJobs, job_index, parent
from .model import JobSet, ReplicatedJob
from .scheduling_groups import Membership
from .startup import Startable
from .status import RESTARTING, SUSPENDED, JobSetStatusDraft

_CONTAINERS = ("containers", "initContainers")


def suspend(jobs: SortedJobs, status: JobSetStatusDraft) -> list[ApplyPatch]:
    status.set_true(SUSPENDED, "SuspendedJobs", "jobset is suspended")
    status.set_false(RESTARTING, "JobSetSuspended", "jobset is suspended")
    return [change(job, {"suspend": True}) for job in jobs.active if not job.spec.suspend]


def regrouped(js: JobSet, jobs: SortedJobs, members: dict[str, Membership]) -> list[JobView]:
    """Suspended Jobs whose pods name another group than they should now: only a new Job can name another."""
    stopped = [job for job in jobs.active if job.spec.suspend and _template_can_change(job)]
    return [job for job in stopped if _group(job) != _wanted_group(js, job, members)]


def _group(job: JobView) -> str:
    return job.spec.template.group_name


def _wanted_group(js: JobSet, job: JobView, members: dict[str, Membership]) -> str:
    if job.name in members:
        return members[job.name].group
    rj = js.by_name.get(parent(job))
    return "" if rj is None else rj.template.spec.template.group_name


def resume(
    js: JobSet, startable: Startable, jobs: SortedJobs, members: dict[str, Membership], status: JobSetStatusDraft
) -> list[ApplyPatch]:
    """Resume the Jobs whose turn has come; the condition follows once none is left behind a startup order."""
    changes: list[ApplyPatch] = []
    held = False
    suspended: defaultdict[str, list[JobView]] = defaultdict(list)
    for job in jobs.active:
        if job.spec.suspend and not job.deleting:
            suspended[parent(job)].append(job)
    for rj in startable.open:
        for job in suspended[rj.name]:
            template = _template_patch(js, rj, job, members)
            if template and not _template_can_change(job):
                held = True
                continue
            if template and job.status.start_time:
                changes.append(_as_if_never_started(job))
                held = True
                continue
            refused = Note(JOB_SETS, js.obj, "Warning", _refusal(template), "{error}") if template else None
            spec = {"suspend": False} | ({"template": template} if template else {})
            changes.append(change(job, spec, refused, attempt_annotation(js)))
    if not held and startable.starting is None:
        status.set_false(SUSPENDED, "ResumeJobs", "jobset is resumed")
    return changes


def _as_if_never_started(job: JobView) -> ApplyPatch:
    """Its Job controller sets the time anew when it resumes."""
    body = {"metadata": {"uid": job.uid}, "status": {"startTime": None}}
    patch = Patch(PatchType.MERGE, body)
    return ApplyPatch(JOBS, job.namespace, job.name, patch, subresource="status", gone_is_fine=True)


def _refusal(template: Object) -> str:
    """The reason of the event if the server refuses a changed template."""
    containers = any(part in mapping(template, "spec") for part in _CONTAINERS)
    return "FailedResourcePropagation" if containers else "FailedTemplatePropagation"


def _template_can_change(job: JobView) -> bool:
    """Never started, or known to have stopped."""
    return not job.status.active and (not job.status.start_time or job.is_true(SUSPENDED))


def _template_patch(js: JobSet, rj: ReplicatedJob, job: JobView, members: dict[str, Membership]) -> Object:
    """The merge patch that brings the parts of a Job's pod template that may change up to date; {} if they are."""
    wanted = build(js, rj, job_index(job), members.get(job.name))["spec"]["template"]
    current = job.spec.template.metadata
    patch: Object = {}
    # Others add labels and annotations of their own: ours are merged in, theirs stay.
    metadata = {
        part: changed
        for part, stored in (("labels", current.labels), ("annotations", current.annotations))
        if (changed := _changed(wanted["metadata"][part], stored))
    }
    if metadata:
        patch["metadata"] = metadata
    spec = _spec_patch(wanted["spec"], job.obj["spec"]["template"]["spec"])
    return patch | ({"spec": spec} if spec else {})


def _changed(wanted: dict[str, Any], current: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wanted.items() if current.get(key) != value}


def _spec_patch(wanted: Object, current: Object) -> Object:
    """Placement is replaced as a whole, so that nothing stale survives."""
    patch: Object = {}
    selector, old_selector = mapping(wanted, "nodeSelector"), mapping(current, "nodeSelector")
    if selector != old_selector:
        patch["nodeSelector"] = {**dict.fromkeys(old_selector), **selector}
    for part in ("tolerations", "schedulingGates"):
        if items(wanted, part) != items(current, part):
            patch[part] = items(wanted, part) or None
    for part in _CONTAINERS:
        resized = _with_resources(items(current, part), items(wanted, part))
        if resized != items(current, part):
            patch[part] = resized
    return patch


def _with_resources(current: Sequence[Object], wanted: Sequence[Object]) -> list[Object]:
    """The containers of a Job as the server completed them, with the requests and limits of the JobSet."""
    by_name = {container.get("name"): container for container in wanted}
    result: list[Object] = []
    for container in current:
        amounts = mapping(by_name.get(container.get("name")) or {}, "resources")
        if not _same(amounts, mapping(container, "resources")):
            kept = {part: value for part, value in mapping(container, "resources").items() if part == "claims"}
            container = {**container, "resources": kept | {p: v for p, v in amounts.items() if p != "claims"}}
        result.append(container)
    return result


def _same(wanted: Object, current: Object) -> bool:
    """Whether requests and limits are equal, however they are written."""
    return all(
        mapping(wanted, part).keys() == mapping(current, part).keys()
        and all(quantity.same(amount, mapping(current, part)[name]) for name, amount in mapping(wanted, part).items())
        for part in ("requests", "limits")
    )
