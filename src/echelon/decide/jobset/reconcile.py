"""One decision about a JobSet, in the order in which it matters.

    classify Jobs → finished? → delete earlier attempts → at an end? → Service → groups → Jobs → (un)suspend

A failure or a success only changes the status; the writes that follow from it are decided when that is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...api.objects import meta
from ...api.scheme import JOB_SETS, JOBS, SERVICES, Object
from ..plan import NOTHING, Create, Delete, Draft, Note, Plan
from . import children as childhood
from . import (
    deadline,
    failure_policy,
    group_objects,
    groups,
    job,
    naming,
    order,
    service,
    success_policy,
    suspend,
    ttl,
)
from .conditions import RESTARTING, StatusDraft, finished
from .group_objects import GroupObjects
from .model import CONTROLLER_NAME, JobSet, Observed, read

_LOOK_AGAIN_SECONDS = 10.0


@dataclass(frozen=True)
class _Scene:
    """One JobSet as it is, and the decision about it being written."""

    js: JobSet
    observed: Observed
    children: childhood.Children
    counts: dict[str, childhood.Counts]
    now: float
    draft: Draft
    status: StatusDraft


def decide(jobset: Object, observed: Observed, now: float) -> Plan:
    if meta.deleting(jobset) or (jobset.get("spec") or {}).get("managedBy", CONTROLLER_NAME) != CONTROLLER_NAME:
        return NOTHING
    js = read(jobset)
    children = childhood.classify(js, observed.jobs)
    counts = childhood.count(js, children)
    scene = _Scene(js, observed, children, counts, now, Draft(), StatusDraft(jobset, now))
    scene.status.body["replicatedJobsStatus"] = childhood.status_of(js, counts)
    if finished(jobset):
        scene.draft.stage(*_deletions([*children.active, *children.previous]))
        ttl.apply(js, now, scene.draft)
    else:
        scene.draft.stage(*_deletions(children.previous))
        _note_readiness(scene)
        deadline.keep_time(js, now, scene.status)
        if not _ends(scene):
            _run(scene)
    return _plan(scene)


def _note_readiness(scene: _Scene) -> None:
    """A restart is over when every Job is ready or done."""
    up = sum(number.ready + number.succeeded for number in scene.counts.values())
    if not scene.js.suspended and up == scene.js.jobs_in_total:
        scene.status.set_false(RESTARTING, "JobsReady", "all jobs are ready")


def _ends(scene: _Scene) -> bool:
    """Whether this attempt is over.  Failure goes before success; with a deadline, success and deadline before it."""
    js, failed = scene.js, scene.children.failed
    timed = js.spec.get("activeDeadlineSeconds") is not None
    if success_policy.succeeded(js, scene.children) and (timed or not failed):
        scene.status.complete()
        return True
    if timed and deadline.missed(js, scene.now, scene.draft, scene.status):
        return True
    if failed:
        failure_policy.apply(js, failed, scene.status)
    return bool(failed)


def _run(scene: _Scene) -> None:
    """What a JobSet that goes on needs: its Service, its groups, the Jobs whose turn has come, all running or none."""
    js, draft, status = scene.js, scene.draft, scene.status
    headless = service.missing(js, scene.observed)
    if headless is not None:
        draft.stage(Create(SERVICES, headless, refused=_refusal(js, "HeadlessServiceCreationFailed")))
    wanted = group_objects.build(js, groups.compile_tree(js))
    walked = order.walk(js, scene.counts)
    if js.suspended:
        draft.stage(*_missing_jobs(scene, walked, wanted))
        draft.stage(*suspend.suspend(scene.children, status))
        draft.stage(*_deletions(suspend.regrouped(js, scene.children, wanted.members)))
        draft.stage(*group_objects.leftovers(scene.observed))
        return
    if _make_groups(scene, wanted):
        draft.stage(*_missing_jobs(scene, walked, wanted))
        draft.stage(*suspend.resume(js, walked, scene.children, wanted.members, status))
        order.report_startup(js, walked, status)


def _make_groups(scene: _Scene, wanted: GroupObjects) -> bool:
    """Plan the missing groups; False if a name is not free yet and Jobs have to wait."""
    progress = group_objects.ensure(scene.js, wanted, scene.observed)
    scene.status.notes.extend(progress.notes)
    if not progress.clear:
        scene.draft.requeue(_LOOK_AGAIN_SECONDS)
        if all(map(childhood.is_suspended, scene.children.active)):
            scene.draft.stage(*group_objects.stranded(scene.observed))
        return False
    for stage in progress.stages:
        scene.draft.stage(*stage)
    return True


def _missing_jobs(scene: _Scene, walked: order.Walk, wanted: GroupObjects) -> list[Create]:
    js, children = scene.js, scene.children
    strategy = (js.spec.get("failurePolicy") or {}).get("restartStrategy")
    if strategy == "BlockingRecreate" and children.previous:
        return []
    creations: list[Create] = []
    for rj in walked.open:
        for index in range(rj.replicas):
            name = naming.job_name(js.name, rj.name, index)
            if name in children.names:
                continue
            foreign = scene.observed.find(JOBS, name)
            if foreign is not None:
                scene.status.notes.append(_name_taken(js, foreign))
                scene.draft.requeue(_LOOK_AGAIN_SECONDS)
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


def _plan(scene: _Scene) -> Plan:
    write = scene.status.write()
    if write is not None:
        scene.draft.status(write)
    for note in scene.status.notes:
        scene.draft.note(note)
    return scene.draft.done()
