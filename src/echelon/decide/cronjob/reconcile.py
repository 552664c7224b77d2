"""One decision about a CronJob.

    what its Jobs say → status → old Jobs go → is a Job due? → may it run beside others? → create it

The status is written before a Job is made, and a new Job enters it by being seen.  Its name says for which minute it
was made, so a crash in between does not make it twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from ...api.objects import meta
from ...api.scheme import CRON_JOBS, JOBS, Object
from ...api.views.cron_job_views import CronJobView
from ...api.views.job_views import JobView
from ...base.instants import parse, to_time
from ..plan import Create, Delete, Draft, Note, Plan
from ..status_draft import StatusDraft
from . import due
from .model import BY_HAND, SCHEDULED_AT, Observed, job_name, scheduled_at

#: A decision that comes a moment too early would be taken twice.
_AFTER_SECONDS = 0.1


def reconcile(observed: Observed, now: float) -> Plan:
    cron_job, draft = observed.cron_job, Draft()
    status = _status(observed, now)
    draft.stage(*_expired(cron_job, observed.jobs, status))
    if status.write() is not None:
        draft.requeue(0)
    elif not (cron_job.deleting or cron_job.spec.suspend or observed.namespace_closed):
        _start(observed, now, draft, status)
    return status.finish(draft)


# -- what is ----------------------------------------------------------------------------------------------------


def _status(observed: Observed, now: float) -> StatusDraft:
    """Which Jobs run, when the last one was started, and when one last succeeded."""
    cron_job = observed.cron_job
    status = StatusDraft(CRON_JOBS, cron_job.obj, now)
    listed = {one.uid for one in cron_job.status.active}
    started = [cron_job.status.last_schedule_time, *(to_time(at) for job in observed.jobs if (at := scheduled_at(job)))]
    succeeded = [cron_job.status.last_successful_time]
    active: list[JobView] = []
    for job in observed.jobs:
        if job.finished:
            ended = "Complete" if job.is_true("Complete") else "Failed"
            if job.uid in listed:
                status.note("Normal", "SawCompletedJob", f"Saw completed job: {job.name}, condition: {ended}")
            if ended == "Complete":
                succeeded.append(job.status.completion_time)
        elif job.uid in listed or scheduled_at(job) is not None:
            active.append(job)
        elif BY_HAND not in job.annotations:
            text = f"Saw a job that the controller did not create or forgot: {job.name}"
            status.note("Warning", "UnexpectedJob", text)
    there = {job.uid for job in observed.jobs}
    for one in cron_job.status.active:
        if one.uid not in there:
            status.note("Normal", "MissingJob", f"Active job went missing: {one.name}")
    _put(status.body, "active", [_reference(job) for job in sorted(active, key=_age)])
    _put(status.body, "lastScheduleTime", _last(started))
    _put(status.body, "lastSuccessfulTime", _last(succeeded))
    return status


def _put(body: Object, key: str, value: object) -> None:
    if value:
        body[key] = value
    else:
        body.pop(key, None)


def _last(times: Iterable[str]) -> str:
    return max(filter(None, times), key=parse, default="")


def _age(job: JobView) -> tuple[bool, str, str]:
    """Oldest first; those that have not begun last."""
    return not job.status.start_time, job.status.start_time, job.name


def _reference(job: JobView) -> Object:
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "namespace": job.namespace,
        "name": job.name,
        "uid": job.uid,
    }


def _expired(cron_job: CronJobView, jobs: Iterable[JobView], status: StatusDraft) -> list[Delete]:
    """Finished Jobs beyond the history limits, the oldest first."""
    spec, doomed = cron_job.spec, list[JobView]()
    finished = sorted((job for job in jobs if job.finished and not job.deleting), key=_age)
    for ending, limit in (
        ("Complete", spec.successful_jobs_history_limit),
        ("Failed", spec.failed_jobs_history_limit),
    ):
        if limit is not None:
            kept = [job for job in finished if job.is_true(ending)]
            doomed += kept[: max(0, len(kept) - limit)]
    return _delete(doomed, status)


def _delete(jobs: Iterable[JobView], status: StatusDraft) -> list[Delete]:
    deletions: list[Delete] = []
    for job in jobs:
        deletions.append(Delete(JOBS, job.namespace, job.name, job.uid))
        status.note("Normal", "SuccessfulDelete", f"Deleted job {job.name}")
    return deletions


# -- what is due ------------------------------------------------------------------------------------------------


def _start(observed: Observed, now: float, draft: Draft, status: StatusDraft) -> None:
    cron_job = observed.cron_job
    if observed.zone is None:
        zone = cron_job.spec.time_zone or ""
        status.note("Warning", "UnknownTimeZone", f'invalid timeZone: "{zone}": unknown time zone {zone}')
        return
    try:
        found = due.look(cron_job, observed.zone, now)
    except due.CannotSchedule as error:
        status.note("Warning", error.reason, str(error))
        return
    draft.requeue(max(0.0, found.next - now) + _AFTER_SECONDS)
    if found.missed is not None:
        when = datetime.fromtimestamp(found.missed, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
        status.note("Warning", "MissSchedule", f"Missed scheduled time to start a job: {when}")
    if found.too_many:
        text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        status.note("Warning", "TooManyMissedTimes", text)
    if found.at is not None and _may_run(observed, draft, status):
        _create(observed, found.at, draft, status)


def _may_run(observed: Observed, draft: Draft, status: StatusDraft) -> bool:
    """Whether another Job may start now; with Replace those that run go first."""
    policy = observed.cron_job.spec.concurrency_policy
    listed = {one.uid for one in observed.cron_job.status.active}
    active = [job for job in observed.jobs if job.uid in listed and not job.finished]
    if policy == "Forbid" and active:
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        status.note("Normal", "JobAlreadyActive", text)
        return False
    if policy == "Replace":
        draft.stage(*_delete([job for job in active if not job.deleting], status))
    return True


def _create(observed: Observed, at: float, draft: Draft, status: StatusDraft) -> None:
    cron_job = observed.cron_job
    name = job_name(cron_job, at)
    taken = observed.find(JOBS, name)
    if taken is not None:
        if not meta.controlled_by(taken, cron_job.uid):
            text = f"Error creating job: Job {name} exists and does not belong to this CronJob; delete or rename it"
            status.note("Warning", "FailedCreate", text)
        return
    assert observed.zone is not None
    draft.stage(
        Create(
            JOBS,
            build(cron_job, name, datetime.fromtimestamp(at, observed.zone)),
            Note(CRON_JOBS, cron_job.obj, "Normal", "SuccessfulCreate", "Created job {name}"),
            Note(CRON_JOBS, cron_job.obj, "Warning", "FailedCreate", "Error creating job: {error}"),
        )
    )
    draft.requeue(0)


def build(cron_job: CronJobView, name: str, at: datetime) -> Object:
    """The Job for one time of the schedule."""
    template = cron_job.spec.job_template
    metadata = template.get("metadata") or {}
    when = at.isoformat(timespec="seconds").replace("+00:00", "Z")
    made: Object = {
        "name": name,
        "namespace": cron_job.namespace,
        "annotations": {**(metadata.get("annotations") or {}), SCHEDULED_AT: when},
        "ownerReferences": [meta.owner_reference(cron_job.obj, CRON_JOBS)],
    }
    if metadata.get("labels"):
        made["labels"] = dict(metadata["labels"])
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": made, "spec": template.get("spec") or {}}
