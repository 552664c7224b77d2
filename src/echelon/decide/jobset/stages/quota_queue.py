"""The queue in front of the quotas of one namespace: which stages of its JobSets may run.

    JobSets, their Jobs, ResourceQuotas, pods ─► decide ─► patches of two annotations per JobSet: what it was
                                                           granted, and what it waits for

A stage is granted as a whole or not at all.  What is granted stays reserved until its Jobs end, so that two JobSets
never hold half of what each of them needs.  The line: higher priority first, then JobSets that have begun, then the
older one.  Whoever waits for a resource keeps later ones from taking it; those who do not need it pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ....api.objects.vocabulary import ADMITTED_STAGES, QUOTA_WAIT
from ....api.scheme import JOB_SETS, Object
from ....api.verbs import Patch, PatchType
from ....api.views.job_views import JobSetView, JobView
from ....base import quantity
from ...plan import ApplyPatch, Draft, Plan
from .. import children
from ..model import ReplicatedJob, managed_elsewhere, read
from . import admission, stage_progress
from .partition import Stage, stages_of
from .quota_books import QuotaBooks, QuotaRequest


@dataclass(frozen=True)
class Namespace:
    """What the caches know about one namespace."""

    #: JobSets that ask for admission, or have leftovers of an earlier one.
    jobsets: Sequence[JobSetView]
    jobs: Callable[[JobSetView], Sequence[JobView]]
    quotas: Sequence[Object]
    limit_ranges: Sequence[Object]
    pods: Callable[[], Iterable[Object]]
    #: The value of a PriorityClass; "" is the default.
    priority: Callable[[str], int]


@dataclass
class _Answer:
    granted: list[str] = field(default_factory=list)
    #: "Reason: message", of the first that waits.
    waits: str = ""


def decide(namespace: Namespace) -> Plan:
    """Grant what fits, in order, and tell the others what they wait for."""
    answers = {jobset.name: _Answer() for jobset in namespace.jobsets}
    requests = [request for jobset in namespace.jobsets for request in _requests(namespace, jobset)]
    books = QuotaBooks(namespace.quotas, namespace.limit_ranges, namespace.pods)
    waiting: list[QuotaRequest] = []
    for request in requests:
        if request.key in admission.admitted(request.js.view):
            books.grant(request)
            answers[request.js.name].granted.append(request.key)
        else:
            waiting.append(request)
    for request in sorted(waiting, key=lambda one: one.order):
        why = _why_not(books, request)
        answer = answers[request.js.name]
        if why:
            answer.waits = answer.waits or why
        else:
            books.grant(request)
            answer.granted.append(request.key)
    draft = Draft()
    draft.stage(*(patch for jobset in namespace.jobsets if (patch := _patch(jobset, answers[jobset.name]))))
    return draft.done()


def _requests(namespace: Namespace, jobset: JobSetView) -> list[QuotaRequest]:
    mode = admission.mode_of(jobset)
    if not mode or jobset.deleting or jobset.finished or managed_elsewhere(jobset) or jobset.spec.suspend:
        return []
    js = read(jobset)
    jobs = children.classify(js, namespace.jobs(jobset))
    counts = children.count(js, jobs)
    seen = stage_progress.StageProgress(js, jobs, counts)
    begun = bool(jobs.succeeded or admission.admitted(jobset))
    stages = stages_of(js)

    def request(key: str, members: tuple[ReplicatedJob, ...]) -> QuotaRequest:
        pods = {rj.name: stage_progress.outstanding(rj, counts) * rj.pods_per_job for rj in members}
        priority = max(namespace.priority(rj.pod_spec.priority_class_name) for rj in members)
        order = (-priority, not begun, jobset.queued_since, js.name)
        return QuotaRequest(js, key, members, pods, stages, order)

    if mode == "whole":
        return [request(admission.WHOLE, js.replicated)] if js.replicated else []
    return [request(stage.key, stage.members) for stage in stage_progress.open_stages(seen)]


def _why_not(books: QuotaBooks, request: QuotaRequest) -> str:
    """`Reason: message` if a request has to wait, and what it waits for is kept for it."""
    never = _never(books, request)
    if never:
        return f"{admission.TOO_SMALL}: {never}"
    more = books.more(request)
    blocked = [
        account
        for account, amount in sorted(more.items())
        if amount and (account in books.claimed or amount > books.free[account])
    ]
    if not blocked:
        return ""
    (quota, resource), first = blocked[0], books.claimed.get(blocked[0])
    free, hard = _spelt(max(0, books.free[blocked[0]])), _spelt(books.hard[blocked[0]])
    books.refuse(request, blocked)
    if first is not None:
        return f"{admission.WAITING}: {resource} of quota {quota} goes to JobSet {first} first"
    need = _spelt(more[quota, resource])
    return f"{admission.WAITING}: needs {need} of {resource}; quota {quota} has {free} of {hard} left"


def _never(books: QuotaBooks, request: QuotaRequest) -> str:
    """Why a JobSet can never run under the quotas as they are, "" if it can."""
    js, whole = request.js, request.key == admission.WHOLE
    for stage in [Stage(js.replicated)] if whole else request.stages:
        what = "the JobSet" if whole else stage.title
        for rj in stage.members:
            if lacking := books.unstated(js, rj):
                return f"{rj.name} {lacking}"
        need = books.need(js, {rj.name: rj.pods for rj in stage.members})
        for (quota, resource), amount in sorted(need.items()):
            if amount > books.hard[quota, resource]:
                hard = _spelt(books.hard[quota, resource])
                return f"{what} needs {_spelt(amount)} of {resource} at once, quota {quota} allows {hard}"
    return ""


def _spelt(nano: int) -> str:
    return quantity.canonical(f"{nano}n")


def _patch(jobset: JobSetView, answer: _Answer) -> ApplyPatch | None:
    wanted = {ADMITTED_STAGES: ",".join(sorted(answer.granted)), QUOTA_WAIT: answer.waits}
    changed = {name: value or None for name, value in wanted.items() if jobset.annotations.get(name, "") != value}
    if not changed:
        return None
    body = {"metadata": {"uid": jobset.uid, "annotations": changed}}
    return ApplyPatch(JOB_SETS, jobset.namespace, jobset.name, Patch(PatchType.MERGE, body), gone_is_fine=True)
