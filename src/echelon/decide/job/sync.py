"""One look at a Job: everything observed goes in, one `Plan` comes out.

    claim pods → groups first (Workload → PodGroup) → count → has it ended? ── yes → note it, then end its pods
                                                                            └─ no  → create or delete pods
                                                                  → track ended pods → one status write

Each step that others must be able to rely on is written, and seen again, before the next one is planned; so a
crash between any two writes finds its way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...api.objects import meta
from ...api.scheme import JOBS, PODS, Object
from ..plan import NOTHING, Action, Create, Delete, Draft, Note, Plan, StatusWrite
from . import claim, outcome, pods, shape, tally, tracking, ttl, workload
from .status import StatusDraft
from .view import Job, JobPod, read_job, read_pod


@dataclass(frozen=True)
class Observed:
    job: Object
    #: Pods controlled by this Job.
    owned: Sequence[Object]
    #: Pods without a controller that might match its selector.
    orphans: Sequence[Object]
    #: Workloads that name this Job, or the controller it delegates to.
    workloads: Sequence[Object]
    #: PodGroups controlled by this Job.
    groups: Sequence[Object]
    #: The namespace takes no new objects.
    namespace_closed: bool = False


def sync(seen: Observed, now: float) -> Plan:
    job = read_job(seen.job)
    if job.finished:
        leftover = abandon([*seen.owned, *seen.orphans])
        return leftover if leftover.stages else ttl.expire(seen.job, now)
    if job.mode not in ("Indexed", "NonIndexed"):
        message = f"Unknown completion mode {job.mode}"
        return Plan(notes=(Note(JOBS, seen.job, "Warning", "UnknownCompletionMode", message),))
    claims = claim.settle(seen.job, seen.owned, seen.orphans)
    if claims:
        return Plan(stages=(claims,), requeue_after=0)
    groups = _groups(job, seen)
    if groups.blocked or groups.actions:
        notes = (groups.note,) if groups.note else ()
        return Plan(tuple((action,) for action in groups.actions), notes=notes, requeue_after=_after(groups))
    return _run(job, [read_pod(pod) for pod in seen.owned], groups, seen.namespace_closed, now)


def abandon(owned: Sequence[Object]) -> Plan:
    """Nobody will count these pods any more: their Job is gone or has ended."""
    stripped = tuple(claim.strip(pod) for pod in owned if claim.tracked(pod))
    return Plan(stages=(stripped,)) if stripped else NOTHING


def _after(groups: workload.Step) -> float | None:
    """Look again at once when something was written; else wait for somebody to change things."""
    return 0 if groups.actions else None


def _groups(job: Job, seen: Observed) -> workload.Step:
    status = job.status
    suspended_ever = meta.find_condition(job.obj, "Suspended") is not None
    begun = bool(
        seen.owned or status.get("startTime") or status.get("succeeded") or status.get("failed") or suspended_ever
    )
    return workload.step(job, begun or seen.namespace_closed, seen.workloads, seen.groups)


def _run(job: Job, mine: list[JobPod], groups: workload.Step, namespace_closed: bool, now: float) -> Plan:
    draft = Draft()
    start = job.start_time
    if start is None and not job.suspended:
        start = now
    status = StatusDraft(job, start, now)
    counted = tally.count(job, mine)
    end = outcome.decide(job, mine, counted, start, now)
    changes = pods.Changes()
    if end is None and not job.deleting:
        changes = pods.manage(job, mine, counted, now)
    held = pods.last_failed_per_index(job, mine, counted)
    if end is None:
        end = outcome.completed(job, counted, len(counted.active) + len(changes.create) - len(changes.delete))
        if end is None and not job.deleting:
            status.suspension()
    doomed = counted.active if end is not None and end.recorded else changes.delete
    tracked = tracking.track(job, mine, end, held)
    changes = _hold_back(changes, namespace_closed, tracked.moves)
    _plan_deletions(draft, job, doomed, uncounted=end is None or not end.recorded)
    draft.stage(*(claim.strip(pod.obj) for pod in tracked.strip))
    for batch in _growing_batches([_create(job, index, groups.group, held) for index in changes.create]):
        draft.stage(*batch)

    survivors = len(counted.active) - len(doomed) + len(changes.create)
    gone_ready = sum(pod.ready for pod in doomed)
    terminating = counted.terminating + len(doomed)
    status.pods(survivors, counted.ready - gone_ready, terminating)
    status.counters(tracked, counted)
    if end is not None:
        _conclude(status, end, tracked, survivors + terminating)
    _wake(draft, job, end, changes, start, now)
    return _finish(draft, job, groups, status)


def _hold_back(changes: pods.Changes, namespace_closed: bool, counting: bool) -> pods.Changes:
    """New pods may be refused, which ends the plan; so counting comes first, and they follow at once."""
    if changes.create and (namespace_closed or counting):
        return pods.Changes(delete=changes.delete, wait=None if namespace_closed else 0.0)
    return changes


def _plan_deletions(draft: Draft, job: Job, doomed: Sequence[JobPod], uncounted: bool) -> None:
    """Pods that go before the Job has ended must not count as failed: they lose their finalizer first."""
    if uncounted:
        draft.stage(*(claim.strip(pod.obj) for pod in doomed if pod.tracked))
    draft.stage(*(Delete(PODS, meta.namespace(pod.obj), pod.name, pod.uid) for pod in doomed))
    for pod in doomed:
        draft.note(Note(JOBS, job.obj, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}"))


def _create(job: Job, index: int | None, group: str, held: dict[int, JobPod]) -> Create:
    last_failed = held.get(index) if index is not None else None
    return Create(
        PODS,
        shape.pod(job, index, group, last_failed),
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


def _conclude(status: StatusDraft, end: outcome.Outcome, tracked: tracking.Tracking, lingering: int) -> None:
    if not end.recorded:
        # Failures that do not fit into this write must be recorded before success forgives the rest.
        if not (end.success and tracked.capped):
            status.interim(end)
    elif tracked.settled and lingering == 0:
        status.terminal(end)


def _wake(
    draft: Draft, job: Job, end: outcome.Outcome | None, changes: pods.Changes, start: float | None, now: float
) -> None:
    if end is not None:
        return
    left = outcome.deadline_in(job, start, now)
    for wait in (left, changes.wait):
        if wait is not None:
            draft.requeue(max(wait, 0.0))


def _finish(draft: Draft, job: Job, groups: workload.Step, status: StatusDraft) -> Plan:
    if groups.note:
        draft.note(groups.note)
    wanted = status.done()
    if wanted != job.status:
        draft.status(StatusWrite(JOBS, job.obj, wanted))
    for note in status.notes:
        draft.note(note)
    return draft.done()
