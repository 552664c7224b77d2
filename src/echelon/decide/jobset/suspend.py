"""Suspending and resuming the Jobs of a JobSet.

A Job's template may change only while it is suspended, so what was changed in the JobSet meanwhile (labels,
annotations, node selector, tolerations, scheduling gates) goes to its Jobs in the same write that resumes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...api.objects import meta
from ...api.scheme import JOBS, Object
from ...api.verbs import Patch, PatchType
from ..plan import ApplyPatch
from .child import build
from .children import JOB_INDEX, SortedJobs, is_suspended, parent
from .model import JobSet, ReplicatedJob
from .scheduling_groups import Membership
from .startup import Startable
from .status import RESTARTING, SUSPENDED, JobSetStatusDraft


def suspend(jobs: SortedJobs, status: JobSetStatusDraft) -> list[ApplyPatch]:
    status.set_true(SUSPENDED, "SuspendedJobs", "jobset is suspended")
    status.set_false(RESTARTING, "JobSetSuspended", "jobset is suspended")
    return [_patch(job, {"suspend": True}) for job in jobs.active if not is_suspended(job)]


def regrouped(js: JobSet, jobs: SortedJobs, members: dict[str, Membership]) -> list[Object]:
    """Suspended Jobs whose pods name another group than they should now: only a new Job can name another."""
    return [
        job
        for job in jobs.active
        if is_suspended(job) and _template_can_change(job) and _group_of(job) != _wanted_group(js, job, members)
    ]


def _group_of(job: Object) -> str:
    return str((job["spec"]["template"]["spec"].get("schedulingGroup") or {}).get("podGroupName") or "")


def _wanted_group(js: JobSet, job: Object, members: dict[str, Membership]) -> str:
    if meta.name(job) in members:
        return members[meta.name(job)].group
    own = [rj.pod_spec.get("schedulingGroup") or {} for rj in js.replicated if rj.name == parent(job)]
    return str(own[0].get("podGroupName") or "") if own else ""


def resume(
    js: JobSet, startable: Startable, jobs: SortedJobs, members: dict[str, Membership], status: JobSetStatusDraft
) -> list[ApplyPatch]:
    """Resume the Jobs whose turn has come; the condition follows once none is left behind a startup order."""
    changes: list[ApplyPatch] = []
    held = False
    for rj in startable.open:
        for job in _suspended_jobs(jobs.active, rj):
            template = _template_patch(js, rj, job, members)
            if template and not _template_can_change(job):
                held = True
                continue
            changes.append(_patch(job, {"suspend": False} | ({"template": template} if template else {})))
    if not held and startable.starting is None:
        status.set_false(SUSPENDED, "ResumeJobs", "jobset is resumed")
    return changes


def _suspended_jobs(active: Sequence[Object], rj: ReplicatedJob) -> list[Object]:
    return [job for job in active if parent(job) == rj.name and is_suspended(job) and not meta.deleting(job)]


def _template_can_change(job: Object) -> bool:
    """As the API server sees it: never started, or known to have stopped."""
    status = job.get("status") or {}
    never_started = "startTime" not in status
    return not status.get("active") and (never_started or meta.condition_is(job, SUSPENDED))


def _patch(job: Object, spec: Object) -> ApplyPatch:
    body = {"metadata": {"uid": meta.uid(job)}, "spec": spec}
    return ApplyPatch(JOBS, meta.namespace(job), meta.name(job), Patch(PatchType.MERGE, body), gone_is_fine=True)


def _template_patch(js: JobSet, rj: ReplicatedJob, job: Object, members: dict[str, Membership]) -> Object:
    """The merge patch that brings the parts of a Job's pod template that may change up to date; {} if they are."""
    wanted = build(js, rj, int(meta.labels(job)[JOB_INDEX]), members.get(meta.name(job)))["spec"]["template"]
    current = job["spec"]["template"]
    patch: Object = {}
    # Others add labels and annotations of their own: ours are merged in, theirs stay.
    metadata = {
        part: changed
        for part in ("labels", "annotations")
        if (changed := _changed(wanted["metadata"].get(part) or {}, (current.get("metadata") or {}).get(part) or {}))
    }
    if metadata:
        patch["metadata"] = metadata
    spec = _spec_patch(wanted["spec"], current["spec"])
    return patch | ({"spec": spec} if spec else {})


def _changed(wanted: dict[str, Any], current: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wanted.items() if current.get(key) != value}


def _spec_patch(wanted: Object, current: Object) -> Object:
    """Placement is replaced as a whole, so that nothing stale survives."""
    patch: Object = {}
    selector, old_selector = wanted.get("nodeSelector") or {}, current.get("nodeSelector") or {}
    if selector != old_selector:
        patch["nodeSelector"] = {**dict.fromkeys(old_selector), **selector}
    for part in ("tolerations", "schedulingGates"):
        if (wanted.get(part) or []) != (current.get(part) or []):
            patch[part] = wanted.get(part) or None
    return patch
