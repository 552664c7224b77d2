"""One decision about a JobSet, in the order in which it matters.

    classify Jobs → finished? → delete earlier attempts → at an end?
    → Service, claims → groups → Jobs → (un)suspend → stages

A failure or a success only changes the status; the writes that follow from it are decided when that is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...api.scheme import JOB_SETS, JOBS, SERVICES, TRAIN_JOBS, Object
from ...api.views.job_views import JobSetView, JobView
from .. import creation_trouble, gang_trouble, ttl
from ..plan import NOTHING, Create, Delete, Draft, Note, Plan
from . import (
    child,
    child_names,
    children,
    deadline,
    failure_policy,
    group_objects,
    scheduling_groups,
    startup,
    success_policy,
    suspend,
)
from .group_objects import GroupObjects
from .model import JobSet, Observed, managed_elsewhere, read
from .restarts import execution_attempts, in_place
from .stages import admission, quota_timeout, stage_report
from .status import COMPLETED, FAILED, RESTARTING, JobSetStatusDraft
from .upkeep import elastic_jobs, service, volume_claims

_LOOK_AGAIN_SECONDS = 10.0
#: Events about what cannot be made as things are: somebody else has the name, or something is missing.
_HINDERED = ("JobCreationFailed", "GroupNameTaken", "PVCCreationFailed", "ServiceNotOwned")
#: A decision must not hold up the process for long.
_MOST_JOBS_PER_DECISION = 100


@dataclass(frozen=True)
class _Decision:
    """One JobSet as it is, and the decision about it being written."""

    js: JobSet
    observed: Observed
    jobs: children.SortedJobs
    counts: dict[str, children.Counts]
    now: float
    draft: Draft
    status: JobSetStatusDraft


def reconcile(observed: Observed, now: float) -> Plan:
    jobset = observed.jobset
    if jobset.deleting:
        return NOTHING
    if managed_elsewhere(jobset):
        return _only_expired(jobset, now)
    js = read(jobset, observed.placement)
    sorted_jobs = children.classify(js, observed.jobs)
    counts = children.count(js, sorted_jobs)
    decision = _Decision(js, observed, sorted_jobs, counts, now, Draft(), JobSetStatusDraft(jobset.obj, now))
    decision.status.body["replicatedJobsStatus"] = children.status_of(js, sorted_jobs, counts)
    if jobset.finished:
        decision.draft.stage(*_deletions([*sorted_jobs.active, *sorted_jobs.previous]))
        ttl.expire(jobset, js.spec.ttl_seconds_after_finished, (COMPLETED, FAILED), now, decision.draft)
    else:
        decision.draft.stage(*_deletions(sorted_jobs.previous))
        _note_readiness(decision)
        deadline.keep_time(js, now, decision.status)
        if not _ends(decision):
            _run(decision)
    _tell_gangs(decision)
    _tell_creations(decision)
    stage_report.report(js, sorted_jobs, counts, decision.status)
    return decision.status.finish(decision.draft)


def _only_expired(jobset: JobSetView, now: float) -> Plan:
    """Of a JobSet that another controller runs, nothing is touched but its time to live."""
    draft = Draft()
    if jobset.finished:
        ttl.expire(jobset, jobset.spec.ttl_seconds_after_finished, (COMPLETED, FAILED), now, draft)
    return draft.done()


def _tell_creations(decision: _Decision) -> None:
    """Say on the JobSet what cannot be made, because somebody else has the name or the server refuses."""
    hindered = [note for note in decision.status.notes if note.reason in _HINDERED]
    also = gang_trouble.owner_of(decision.js.view, TRAIN_JOBS)
    if hindered or not creation_trouble.repeat(decision.status, decision.jobs.active, also):
        creation_trouble.tell(decision.status, hindered)
    creation_trouble.if_refused(JOB_SETS, decision.js.obj, decision.draft, decision.now)
    if hindered:
        decision.draft.requeue(_LOOK_AGAIN_SECONDS)


def _tell_gangs(decision: _Decision) -> None:
    """Say on the JobSet, and on its TrainJob, that a gang is not placed; Jobs with gangs of their own have said it."""
    js, status = decision.js, decision.status
    if js.suspended or js.view.finished or decision.jobs.failed:
        gang_trouble.clear(status, "JobSetSuspended" if js.suspended else "JobSetEnded")
        return
    gangs = gang_trouble.in_use(decision.observed.gangs, decision.jobs.active)
    gang_trouble.tell(gangs, status, decision.draft, decision.now, gang_trouble.owner_of(js.view, TRAIN_JOBS))


def _note_readiness(decision: _Decision) -> None:
    """A restart is over when every Job is ready or done."""
    up = sum(number.ready + number.succeeded for number in decision.counts.values())
    if not decision.js.suspended and up == decision.js.jobs_in_total:
        decision.status.set_false(RESTARTING, "JobsReady", "all jobs are ready")


def _ends(decision: _Decision) -> bool:
    """Whether this attempt is over.  Failure goes before success; with a deadline, success and deadline before it."""
    js, failed = decision.js, decision.jobs.failed
    timed = js.spec.active_deadline_seconds is not None
    if success_policy.succeeded(js, decision.jobs) and (timed or not failed):
        decision.status.complete()
        return True
    if timed and deadline.missed(js, decision.now, decision.draft, decision.status):
        return True
    if failed:
        failure_policy.apply(js, failed, decision.status)
        return True
    return quota_timeout.missed(js, decision.now, decision.draft, decision.status)


def _run(decision: _Decision) -> None:
    """What a JobSet that goes on needs: its Service, its groups, the Jobs whose turn has come, all running or none."""
    js, draft, status = decision.js, decision.draft, decision.status
    headless = service.missing(js, decision.observed)
    if headless is not None:
        draft.stage(Create(SERVICES, headless, refused=_refusal(js, "HeadlessServiceCreationFailed")))
    status.notes.extend((*service.taken(js, decision.observed), *children.unreadable(js, decision.jobs)))
    mountable = _make_claims(decision)
    wanted = group_objects.build(js, scheduling_groups.compile_tree(js))
    startable = startup.startable(js, decision.counts)
    held_back = admission.held_back(js)
    if js.suspended:
        draft.stage(*(_missing_jobs(decision, startable, wanted, held_back) if mountable else ()))
        draft.stage(*suspend.suspend(decision.jobs, status))
        draft.stage(*elastic_jobs.resized_jobs(js, decision.jobs))
        draft.stage(*_deletions(suspend.regrouped(js, decision.jobs, wanted.members)))
        draft.stage(*group_objects.leftovers(decision.observed))
        return
    if execution_attempts.begins(js, decision.jobs, status):
        return
    if _make_groups(decision, wanted):
        for stage in elastic_jobs.resized_groups(wanted, decision.observed, js.uid):
            draft.stage(*stage)
        draft.stage(*elastic_jobs.resized_jobs(js, decision.jobs))
        draft.stage(*(_missing_jobs(decision, startable, wanted, held_back) if mountable else ()))
        draft.stage(*suspend.resume(js, startable.without(held_back), decision.jobs, wanted.members, status))
        startup.report_startup(js, startable, status)
        in_place.advance(js, decision.jobs, decision.observed.pods, status)


def _make_claims(decision: _Decision) -> bool:
    """Plan the missing volume claims; False if a name is not free yet and Jobs have to wait."""
    found = volume_claims.missing(decision.js, decision.observed)
    decision.status.notes.extend(found.notes)
    decision.draft.stage(*found.creations)
    if not found.clear:
        decision.draft.requeue(_LOOK_AGAIN_SECONDS)
    return found.clear


def _make_groups(decision: _Decision, wanted: GroupObjects) -> bool:
    """Plan the missing groups; False if a name is not free yet and Jobs have to wait."""
    progress = group_objects.ensure(decision.js, wanted, decision.observed)
    decision.status.notes.extend(progress.notes)
    if not progress.clear:
        decision.draft.requeue(_LOOK_AGAIN_SECONDS)
        if all(job.spec.suspend for job in decision.jobs.active):
            decision.draft.stage(*group_objects.stranded(decision.observed))
        return False
    for stage in progress.stages:
        decision.draft.stage(*stage)
    return True


def _missing_jobs(
    decision: _Decision, startable: startup.Startable, wanted: GroupObjects, held_back: frozenset[str]
) -> list[Create]:
    """Jobs that are held back for quota are made, suspended."""
    js, jobs = decision.js, decision.jobs
    policy = js.spec.failure_policy
    if policy is not None and policy.restart_strategy == "BlockingRecreate" and jobs.previous:
        return []
    creations: list[Create] = []
    for rj in startable.open:
        if child.priority_is_unknown(js, rj):
            decision.status.notes.append(_no_priority(js, rj.pod_spec.priority_class_name))
            decision.draft.requeue(_LOOK_AGAIN_SECONDS)
            continue
        for index in range(rj.replicas):
            if len(creations) == _MOST_JOBS_PER_DECISION:
                # The Jobs made now bring the next decision.
                return creations
            name = child_names.job_name(js.name, rj.name, index)
            if name in jobs.names or index in jobs.remembered[rj.name]:
                continue
            foreign = decision.observed.find(JOBS, name)
            if foreign is not None:
                decision.status.notes.append(_name_taken(js, foreign))
                decision.draft.requeue(_LOOK_AGAIN_SECONDS)
                continue
            made = child.build(js, rj, index, wanted.members.get(name))
            made["spec"]["suspend"] = js.suspended or rj.name in held_back
            creations.append(Create(JOBS, made, refused=_refusal(js, "JobCreationFailed")))
    return creations


def _no_priority(js: JobSet, name: str) -> Note:
    message = f"no PriorityClass with name {name} was found; exclusive placement needs its value, create it"
    return Note(JOB_SETS, js.obj, "Warning", "JobCreationFailed", message)


def _name_taken(js: JobSet, foreign: Object) -> Note:
    message = f"{creation_trouble.whose(JOBS, foreign)}; delete it, or rename the JobSet"
    return Note(JOB_SETS, js.obj, "Warning", "JobCreationFailed", message)


def _refusal(js: JobSet, reason: str) -> Note:
    """The event to record, with the server's words, if it refuses a creation."""
    return Note(JOB_SETS, js.obj, "Warning", reason, "{error}")


def _deletions(jobs: Iterable[JobView]) -> list[Delete]:
    """Foreground: a Job's name is free again only when its pods are gone."""
    return [Delete(JOBS, job.namespace, job.name, job.uid, "Foreground") for job in jobs if not job.deleting]
