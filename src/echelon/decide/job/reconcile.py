"""One decision about a Job: everything observed goes in, one `Plan` comes out.

    adopt pods → groups first (Workload → PodGroup) → count → has it ended? ── yes → note it, then end its pods
                                                                            └─ no  → create or delete pods
                                                                  → track ended pods → one status write

Each step that others must be able to rely on is written, and seen again, before the next one is planned; so a
crash between any two writes finds its way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...api.scheme import JOBS, PODS
from ...api.views.pod_views import PodView
from .. import creation_trouble, gang_trouble, ttl
from ..plan import NOTHING, Action, Create, Delete, Draft, Note, Plan
from . import adoption, child, children, outcome, scaling, scheduling_groups, tracking
from .model import Job, JobPod, Observed, read, read_pod, tracked
from .status import JobStatusDraft


def reconcile(observed: Observed, now: float) -> Plan:
    job = read(observed.job)
    if observed.job.finished:
        leftover = abandon([*observed.owned, *observed.orphans])
        return leftover if leftover.stages else _expire(job, now)
    if job.spec.completion_mode not in ("Indexed", "NonIndexed"):
        message = f"Unknown completion mode {job.spec.completion_mode}"
        return Plan(notes=(Note(JOBS, job.obj, "Warning", "UnknownCompletionMode", message),))
    claims = adoption.adopt_and_release(observed.job, observed.owned, observed.orphans)
    if claims:
        return Plan(stages=(claims,), requeue_after=0)
    groups = _groups(job, observed)
    if groups.actions:
        draft = Draft()
        for action in groups.actions:
            draft.stage(action)
        draft.requeue(0)
        creation_trouble.if_refused(JOBS, job.obj, draft, now)
        return draft.done()
    return _run(job, [read_pod(pod) for pod in observed.owned], groups, observed, now)


def _expire(job: Job, now: float) -> Plan:
    draft = Draft()
    ttl.expire(job.view, job.spec.ttl_seconds_after_finished, ("Complete", "Failed"), now, draft)
    return draft.done()


def abandon(owned: Sequence[PodView]) -> Plan:
    """Remove the finalizers of pods that will not be counted any more: their Job is gone or has ended."""
    stripped = tuple(adoption.strip(pod) for pod in owned if tracked(pod))
    return Plan(stages=(stripped,)) if stripped else NOTHING


def _groups(job: Job, observed: Observed) -> scheduling_groups.GroupStep:
    if not observed.grouping:
        return scheduling_groups.switched_off(job)
    status = job.status
    suspended_ever = job.view.condition("Suspended") is not None
    begun = bool(observed.owned or status.start_time or status.succeeded or status.failed or suspended_ever)
    pods = scheduling_groups.MemberPods(
        may_create=not (begun or job.deleting or observed.namespace_closed),
        joined=tuple(sorted({pod.group_name for pod in observed.owned if pod.group_name and not pod.deleting})),
    )
    return scheduling_groups.step(job, pods, observed.workloads, observed.groups)


def _run(job: Job, mine: list[JobPod], groups: scheduling_groups.GroupStep, observed: Observed, now: float) -> Plan:
    draft = Draft()
    start = job.start_time
    if start is None and not job.suspended:
        start = now
    status = JobStatusDraft(job, start, now)
    counted = children.count(job, mine)
    end = outcome.decide(job, mine, counted, start, now)
    changes = scaling.Changes()
    if end is None and not job.deleting:
        changes = scaling.manage(job, mine, counted, now)
    held = scaling.last_failed_per_index(job, mine, counted)
    if end is None:
        end = outcome.completed(job, counted, len(counted.active) - len(changes.delete))
        if end is None and not job.deleting:
            status.suspension()
    doomed = counted.active if end is not None and end.recorded else changes.delete
    counting = tracking.track(job, mine, end, held)
    changes = _hold_back(changes, observed.namespace_closed, counting.moves)
    _plan_deletions(draft, job, doomed, uncounted=end is None or not end.recorded)
    draft.stage(*(adoption.strip(pod.view) for pod in counting.strip))
    if changes.create:
        creation_trouble.if_refused(JOBS, job.obj, draft, now)
    for batch in _growing_batches([_create(job, index, groups.group, held) for index in changes.create]):
        draft.stage(*batch)

    survivors = len(counted.active) - len(doomed) + len(changes.create)
    gone_ready = sum(pod.ready for pod in doomed)
    terminating = counted.terminating + len(doomed)
    status.pods(survivors, counted.ready - gone_ready, terminating)
    status.counters(counting, counted)
    if end is not None:
        _conclude(status, end, counting, terminating)
    _wake(draft, job, end, changes, start, now)
    status.grouping(groups.problem)
    creation_trouble.tell(status, ())
    if end is not None or job.suspended:
        gang_trouble.clear(status, "JobSuspended" if end is None else "JobEnded")
    else:
        gang_trouble.tell(replace(observed.gangs, pods=observed.owned), status, draft, now)
    return status.finish(draft)


def _hold_back(changes: scaling.Changes, namespace_closed: bool, counting: bool) -> scaling.Changes:
    """New pods may be refused, which ends the plan; so counting comes first, and they follow at once."""
    if changes.create and (namespace_closed or counting):
        return scaling.Changes(delete=changes.delete, wait=None if namespace_closed else 0.0)
    return changes


def _plan_deletions(draft: Draft, job: Job, doomed: Sequence[JobPod], uncounted: bool) -> None:
    """Pods that go before the Job has ended must not count as failed: they lose their finalizer first."""
    if uncounted:
        draft.stage(*(adoption.strip(pod.view) for pod in doomed if pod.tracked))
    draft.stage(*(Delete(PODS, job.namespace, pod.name, pod.uid) for pod in doomed))
    for pod in doomed:
        draft.note(Note(JOBS, job.obj, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}"))


def _create(job: Job, index: int | None, group: str, held: dict[int, JobPod]) -> Create:
    last_failed = held.get(index) if index is not None else None
    return Create(
        PODS,
        child.build(job, index, group, last_failed),
        Note(JOBS, job.obj, "Normal", "SuccessfulCreate", "Created pod: {name}"),
        Note(JOBS, job.obj, "Warning", "FailedCreate", "Error creating: {error}"),
    )


def _growing_batches(actions: Sequence[Action]) -> list[Sequence[Action]]:
    """1, 2, 4, 8 …: a refusal is met by one request, not by hundreds."""
    batches: list[Sequence[Action]] = []
    begin, size = 0, 1
    while begin < len(actions):
        batches.append(actions[begin : begin + size])
        begin, size = begin + size, size * 2
    return batches


def _conclude(status: JobStatusDraft, end: outcome.Outcome, counting: tracking.Tracking, lingering: int) -> None:
    if not end.recorded:
        # Failures that do not fit into this write must be recorded before success forgives the rest.
        if not (end.success and counting.capped):
            status.interim(end)
    elif counting.settled and lingering == 0:
        status.terminal(end)


def _wake(
    draft: Draft, job: Job, end: outcome.Outcome | None, changes: scaling.Changes, start: float | None, now: float
) -> None:
    if end is not None:
        return
    left = outcome.deadline_in(job, start, now)
    for wait in (left, changes.wait):
        if wait is not None:
            draft.requeue(max(wait, 0.0))
