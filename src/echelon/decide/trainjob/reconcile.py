"""One decision about a TrainJob.

    runtime snapshot → build → Secrets, ConfigMaps → Workload → PodGroups → JobSet → status from the JobSet → deadline

What refers to a stored object's uid waits for the next decision, which follows as soon as that object is stored.
"""

from __future__ import annotations

from dataclasses import replace

from ...api.objects import meta
from ...api.objects.foreign_gangs import ForeignGang
from ...api.objects.subtree import mapping
from ...api.objects.vocabulary import GANG_START, GROUP_PER_JOB
from ...api.scheme import (
    COMPOSITE_POD_GROUPS,
    CONFIG_MAPS,
    JOB_SETS,
    POD_GROUPS,
    SECRETS,
    TRAIN_JOBS,
    WORKLOADS,
    Object,
    Resource,
)
from ...api.verbs import Patch, PatchType
from ...api.views.group_views import WorkloadView
from ...api.views.job_views import JobSetView, JobTemplate
from ...api.views.object_view import read as read_part
from .. import ttl
from ..plan import NOTHING, ApplyPatch, Create, Delete, Draft, Note, Plan
from . import child, foreign_groups, group_objects, reporting_pods, runtime_snapshot, scheduling_groups
from .group_names import group_name
from .model import CannotBuild, Observed, TrainJob, managed_elsewhere, read
from .scheduling_groups import Tree
from .status import COMPLETE, FAILED, TrainJobStatusDraft, missed_deadline

_RETRY_SECONDS = 5.0
_MESSAGE_LIMIT = 950


def reconcile(observed: Observed, now: float) -> Plan:
    trainjob = observed.trainjob
    if trainjob.deleting or managed_elsewhere(trainjob):
        return NOTHING
    tj = read(trainjob)
    if tj.runtime_resource is not None:
        tj = runtime_snapshot.limited(tj, observed)
    draft, status = Draft(), TrainJobStatusDraft(tj, now)
    existing = _find_jobset(tj, observed)
    current = existing if existing is not None and existing.controlled_by(tj.uid) else None
    if tj.runtime_resource is None:
        status.unsupported_runtime()
    elif trainjob.finished:
        _clean_up(tj, current, draft)
        ttl.expire(trainjob, tj.spec.ttl_seconds_after_finished, (COMPLETE, FAILED), now, draft)
    else:
        try:
            _run(tj, observed, existing, draft)
        except CannotBuild as problem:
            message = str(problem) if len(str(problem)) <= _MESSAGE_LIMIT else str(problem)[:_MESSAGE_LIMIT] + "…"
            draft.note(Note(TRAIN_JOBS, tj.obj, "Warning", "TrainJobResourcesCreationFailed", message))
            draft.requeue(_RETRY_SECONDS)
    status.suspension()
    status.follow(current)
    left = status.deadline()
    if left is not None:
        draft.requeue(left)
    return status.finish(draft)


def _find_jobset(tj: TrainJob, observed: Observed) -> JobSetView | None:
    """The JobSet of the TrainJob's name, whatever its owner."""
    found = observed.find(JOB_SETS, tj.name)
    return None if found is None else JobSetView(found)


def _run(tj: TrainJob, observed: Observed, existing: JobSetView | None, draft: Draft) -> None:
    resolved = runtime_snapshot.resolve(tj, observed)
    if resolved.snapshot is not None:
        draft.stage(_create(tj, resolved.snapshot))
    if existing is not None and not existing.controlled_by(tj.uid):
        raise CannotBuild(f"JobSet {tj.name} exists and belongs to someone else; delete it, or rename the TrainJob")
    built = child.build(tj, resolved.runtime)
    if reporting_pods.wanted(tj, resolved.runtime):
        built = _with_reports(tj, built, observed, existing, draft)
    _sync_mounted(tj, built, observed, draft)
    foreign = foreign_groups.wanted(resolved.runtime)
    if foreign is not None:
        _group_elsewhere(foreign, tj, resolved.runtime, built, observed, draft)
    grouped = scheduling_groups.is_grouped(resolved.runtime) or bool(group_objects.parent_name(tj))
    waits = grouped and not _runs_ungrouped(existing)
    if waits and not _group(tj, resolved.runtime, built, observed, existing, draft):
        return
    _sync_jobset(tj, built.jobset, existing, draft)


def _with_reports(
    tj: TrainJob, built: child.Built, observed: Observed, existing: JobSetView | None, draft: Draft
) -> child.Built:
    """What pods need to report progress; where nobody would take the reports, an event that says so."""
    if observed.takes_reports:
        reporting_pods.inject(tj, built.replicated_jobs)
        return replace(built, objects=[*built.objects, reporting_pods.certificate(tj, observed)])
    if existing is None:
        message = "this API server takes no progress reports: pods start without what they need to report"
        draft.note(Note(TRAIN_JOBS, tj.obj, "Warning", "ProgressReportsUnavailable", message))
    return built


def _sync_mounted(tj: TrainJob, built: child.Built, observed: Observed, draft: Draft) -> None:
    """Secrets and ConfigMaps that the pods mount; keys that exist are kept."""
    for secret in built.keys:
        if _own(tj, observed, SECRETS, secret.name) is None:
            draft.stage(_create(tj, secret.make(tj, secret.name, observed.entropy)))
    for wanted in built.objects:
        current = _own(tj, observed, CONFIG_MAPS, meta.name(wanted))
        if current is None:
            draft.stage(_create(tj, wanted))
        elif current.get("data") != wanted["data"]:
            body = {"metadata": {"uid": meta.uid(current)}, "data": wanted["data"]}
            patch = Patch(PatchType.MERGE, body)
            draft.stage(ApplyPatch(CONFIG_MAPS, tj.namespace, meta.name(wanted), patch))


def _group_elsewhere(
    gang: ForeignGang, tj: TrainJob, runtime: Object, built: child.Built, observed: Observed, draft: Draft
) -> None:
    """The group for another scheduler; like the JobSet it changes only while the TrainJob is suspended."""
    kind = foreign_groups.served(gang, observed)
    group = foreign_groups.members(built.replicated_jobs, mapping(runtime, "spec", "mlPolicy"))
    foreign_groups.join(gang, tj, group)
    wanted = foreign_groups.pod_group(gang, kind, tj, runtime, built.jobset, group, built.pods)
    current = _own(tj, observed, kind, tj.name)
    if current is None:
        draft.stage(_create(tj, wanted, resource=kind))
    elif tj.suspended and (change := foreign_groups.update(kind, current, wanted)) is not None:
        draft.stage(change)


def _own(tj: TrainJob, observed: Observed, resource: Resource, name: str) -> Object | None:
    """The TrainJob's object of that name; someone else's is never taken."""
    found = observed.find(resource, name)
    if found is not None and not meta.controlled_by(found, tj.uid):
        kind = resource.kind
        raise CannotBuild(f"{kind} {name} exists and belongs to someone else; delete it, or rename the TrainJob")
    return found


def _runs_ungrouped(existing: JobSetView | None) -> bool:
    """A JobSet that began without groups keeps going without: its pod templates cannot change."""
    if existing is None:
        return False
    templates = [read_part(JobTemplate, rj.template) for rj in existing.spec.replicated_jobs]
    return not any(one.spec.template.group_name or GROUP_PER_JOB in one.metadata.annotations for one in templates)


def _group(
    tj: TrainJob, runtime: Object, built: child.Built, observed: Observed, existing: JobSetView | None, draft: Draft
) -> bool:
    """Workload and groups; False while the JobSet has to wait for them."""
    parent = group_objects.parent_name(tj)
    if parent:
        gang = scheduling_groups.trainer_group(tj, runtime, built)
        stored, below = group_objects.below_parent(tj, gang, observed)
        return _ensure_groups(tj, built, stored, (below,), observed, existing, draft, parent)
    together = scheduling_groups.starts_together(runtime)
    tree = scheduling_groups.compile_groups(tj, runtime, built)
    if together:
        scheduling_groups.untangle(built, tree)
        tree = scheduling_groups.compile_groups(tj, runtime, built)
    own = group_objects.find_workload(tj, observed)
    if own is None:
        name = group_objects.new_workload_name(tj, observed)
        draft.stage(_create(tj, group_objects.workload(tj, name, tree), _adjusted(tj, tree)))
        return False
    return _ensure_groups(tj, built, own, tree, observed, existing, draft)


def _adjusted(tj: TrainJob, tree: Tree) -> Note | None:
    for leaf in scheduling_groups.leaves(tree):
        if leaf.late:
            minimum = leaf.terms["schedulingPolicy"]["gang"]["minCount"]
            message = (
                f"the gang {leaf.template} is complete with {minimum} of {minimum + leaf.late} pods: the others start "
                f"when these are ready; to start all at once annotate the runtime with {GANG_START}: together"
            )
            return Note(TRAIN_JOBS, tj.obj, "Normal", "GangMinCountAdjusted", message)
    return None


def _join(tj: TrainJob, built: child.Built, workload: str, tree: Tree) -> None:
    for leaf in scheduling_groups.leaves(tree):
        name = group_name(tj, workload, leaf.template, leaf.jobs)
        child.join(built, leaf.replicated_jobs, name, per_job=leaf.jobs > 0)


def _ensure_groups(
    tj: TrainJob,
    built: child.Built,
    stored: WorkloadView,
    tree: Tree,
    observed: Observed,
    existing: JobSetView | None,
    draft: Draft,
    parent: str = "",
) -> bool:
    _join(tj, built, stored.name, tree)
    if tj.suspended:
        if existing is not None and _is_quiet(existing):
            _delete_groups(observed, draft)
        return True
    for level in group_objects.levels(tj, stored, tree, parent):
        missing: list[Create] = []
        for group in level:
            found = observed.find(_RESOURCES[group["kind"]], meta.name(group))
            if found is None:
                missing.append(_create(tj, group))
            elif meta.deleting(found):
                return False
            elif not meta.controlled_by(found, tj.uid):
                whose = f"{group['kind']} {meta.name(found)} exists and belongs to someone else"
                raise CannotBuild(f"{whose}; delete it")
        draft.stage(*missing)
    return True


def _delete_groups(observed: Observed, draft: Draft) -> None:
    """PodGroups first: a CompositePodGroup that is deleted stays as long as it has groups."""
    for resource in (POD_GROUPS, COMPOSITE_POD_GROUPS):
        leaving = [one for one in observed.groups if one.resource == resource and not one.deleting]
        draft.stage(*(Delete(resource, one.namespace, one.name, one.uid) for one in leaving))


def _is_quiet(existing: JobSetView) -> bool:
    """Suspended, and none of its Jobs has a pod left."""
    return existing.spec.suspend and not any(entry.active for entry in existing.status.replicated_jobs_status)


def _sync_jobset(tj: TrainJob, wanted: Object, existing: JobSetView | None, draft: Draft) -> None:
    if existing is None:
        created = Note(TRAIN_JOBS, tj.obj, "Normal", "JobSetCreated", "JobSet {name} created")
        draft.stage(_create(tj, wanted, created))
    elif not existing.deleting and (tj.suspended or existing.spec.suspend):
        change = child.update(existing.obj, wanted)
        if change is not None:
            draft.stage(change)


def _clean_up(tj: TrainJob, current: JobSetView | None, draft: Draft) -> None:
    """A TrainJob that missed its deadline takes its JobSet down; every other end leaves things as they are."""
    if missed_deadline(tj.view) and current is not None and not current.deleting:
        draft.stage(Delete(JOB_SETS, tj.namespace, current.name, current.uid))


_MADE = (CONFIG_MAPS, SECRETS, WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS, JOB_SETS)
_RESOURCES = {resource.kind: resource for resource in _MADE}


def _create(tj: TrainJob, obj: Object, created: Note | None = None, resource: Resource | None = None) -> Create:
    refused = Note(TRAIN_JOBS, tj.obj, "Warning", "TrainJobResourcesCreationFailed", "{error}")
    return Create(resource or _RESOURCES[obj["kind"]], obj, created=created, refused=refused)
