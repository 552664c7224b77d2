"""One decision about a JobSet, in the order in which it matters.

    classify Jobs → finished? → delete earlier attempts → at an end? → Service → groups → Jobs → (un)suspend

A failure or a success only changes the status; the writes that follow from it are decided when that is stored.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...api import meta
from ...api.scheme import JOB_SETS, JOBS, SERVICES, Object
from ..plan import NOTHING, Create, Delete, Draft, Note, Plan
from . import children as childhood
from . import deadline, failure_policy, group_objects, groups, job, naming, order, service, success_policy, suspend, ttl
from .conditions import RESTARTING, StatusDraft, finished
from .group_objects import GroupObjects
from .model import CONTROLLER_NAME, JobSet, Observed, read

_LOOK_AGAIN_SECONDS = 10.0


def decide(jobset: Object, observed: Observed, now: float) -> Plan:
    if meta.deleting(jobset) or (jobset.get("spec") or {}).get("managedBy", CONTROLLER_NAME) != CONTROLLER_NAME:
        return NOTHING
    js = read(jobset)
    draft, status = Draft(), StatusDraft(jobset, now)
    children = childhood.classify(js, observed.jobs)
    counts = childhood.count(js, children)
    status.body["replicatedJobsStatus"] = childhood.status_of(js, counts)

    if finished(jobset):
        draft.stage(*_deletions([*children.active, *children.previous]))
        ttl.apply(js, now, draft)
        return _finish(draft, status)

    draft.stage(*_deletions(children.previous))
    if not js.suspended and sum(c.ready + c.succeeded for c in counts.values()) == js.jobs_in_total:
        status.set_false(RESTARTING, "JobsReady", "all jobs are ready")
    deadline.keep_time(js, now, status)
    if not _ends(js, children, now, draft, status):
        _run(js, children, counts, observed, draft, status)
    return _finish(draft, status)


def _ends(js: JobSet, children: childhood.Children, now: float, draft: Draft, status: StatusDraft) -> bool:
    """Whether this attempt is over.  Failure goes before success; with a deadline, success and deadline before it."""
    timed = js.spec.get("activeDeadlineSeconds") is not None
    if success_policy.succeeded(js, children) and (timed or not children.failed):
        status.complete()
        return True
    if timed and deadline.missed(js, now, draft, status):
        return True
    if children.failed:
        failure_policy.apply(js, children.failed, status)
    return bool(children.failed)


def _run(
    js: JobSet,
    children: childhood.Children,
    counts: dict[str, childhood.Counts],
    observed: Observed,
    draft: Draft,
    status: StatusDraft,
) -> None:
    """What a JobSet that goes on needs: its Service, its groups, the Jobs whose turn has come, all running or none."""
    headless = service.missing(js, observed)
    if headless is not None:
        draft.stage(Create(SERVICES, headless, refused=_refusal(js, "HeadlessServiceCreationFailed")))
    wanted = group_objects.build(js, groups.compile_tree(js))
    walked = order.walk(js, counts)
    if not js.suspended:
        progress = group_objects.ensure(js, wanted, observed)
        status.notes.extend(progress.notes)
        if not progress.clear:
            draft.requeue(_LOOK_AGAIN_SECONDS)
            return
        for stage in progress.stages:
            draft.stage(*stage)
    draft.stage(*_missing_jobs(js, walked, children, wanted, observed, draft, status))
    if js.suspended:
        draft.stage(*suspend.suspend(children, status))
        draft.stage(*_deletions(suspend.regrouped(js, children, wanted.members)))
        draft.stage(*group_objects.leftovers(observed))
    else:
        draft.stage(*suspend.resume(js, walked, children, wanted.members, status))
        order.report_startup(js, walked, status)


def _missing_jobs(
    js: JobSet,
    walked: order.Walk,
    children: childhood.Children,
    wanted: GroupObjects,
    observed: Observed,
    draft: Draft,
    status: StatusDraft,
) -> list[Create]:
    strategy = (js.spec.get("failurePolicy") or {}).get("restartStrategy")
    if strategy == "BlockingRecreate" and children.previous:
        return []
    creations: list[Create] = []
    for rj in walked.open:
        for index in range(rj.replicas):
            name = naming.job_name(js.name, rj.name, index)
            if name in children.names:
                continue
            foreign = observed.find(JOBS, name)
            if foreign is not None:
                status.notes.append(_name_taken(js, foreign))
                draft.requeue(_LOOK_AGAIN_SECONDS)
                continue
            made = job.build(js, rj, index, wanted.members.get(name))
            creations.append(Create(JOBS, made, refused=_refusal(js, "JobCreationFailed")))
    return creations


def _name_taken(js: JobSet, foreign: Object) -> Note:
    owner = meta.controller_of(foreign)
    whose = f"belongs to {owner['kind']} {owner['name']}" if owner else "has no owner"
    message = f"Job {meta.name(foreign)} exists and {whose}; delete it, or rename the JobSet"
    return Note(JOB_SETS, js.obj, "Warning", "JobCreationFailed", message)


def _refusal(js: JobSet, reason: str) -> Note:
    """The event to record, with the server's words, if it refuses a creation."""
    return Note(JOB_SETS, js.obj, "Warning", reason, "{error}")


def _deletions(jobs: Iterable[Object]) -> list[Delete]:
    """Foreground: a Job's name is free again only when its pods are gone."""
    return [
        Delete(JOBS, meta.namespace(one), meta.name(one), meta.uid(one), "Foreground")
        for one in jobs
        if not meta.deleting(one)
    ]


def _finish(draft: Draft, status: StatusDraft) -> Plan:
    write = status.write()
    if write is not None:
        draft.status(write)
    for note in status.notes:
        draft.note(note)
    return draft.done()
