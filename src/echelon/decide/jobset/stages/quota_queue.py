"""The queue in front of the quotas of one namespace: which stages of its JobSets may run.

    JobSets, their Jobs, ResourceQuotas, pods ─► decide ─► patches of two annotations per JobSet: what it was
                                                           granted, and what it waits for

A stage is granted as a whole or not at all.  What is granted stays reserved until its Jobs end, so that two JobSets
never hold half of what each of them needs.  The line: higher priority first, then JobSets that have begun, then the
older one.  Whoever waits for a resource keeps later ones from taking it; those who do not need it pass.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ....api.admission.quota_usage import QuotaTerms, kind_of
from ....api.objects import meta
from ....api.objects.vocabulary import ADMITTED_STAGES, JOBSET_NAME, QUOTA_WAIT, REPLICATED_JOB_NAME
from ....api.scheme import JOB_SETS, PODS, Object
from ....api.verbs import Patch, PatchType
from ....api.views.job_views import JobSetView, JobView
from ....base import quantity
from ...plan import ApplyPatch, Draft, Plan
from .. import children
from ..model import JobSet, ReplicatedJob, managed_elsewhere, read
from . import admission, amounts, stage_progress
from .partition import Stage, stages_of

_POD = kind_of(PODS)
#: (name of a quota, resource).
_Account = tuple[str, str]
#: (name of a JobSet, name of a replicated job).
_Owner = tuple[str, str]
_Sums = Counter[_Account]


@dataclass(frozen=True)
class Namespace:
    """What the caches know about one namespace."""

    #: JobSets that ask for admission, or have leftovers of an earlier one.
    jobsets: Sequence[JobSetView]
    jobs: Callable[[JobSetView], Sequence[JobView]]
    quotas: Sequence[Object]
    pods: Callable[[], Iterable[Object]]
    #: The value of a PriorityClass; "" is the default.
    priority: Callable[[str], int]


@dataclass(frozen=True)
class _Request:
    """A stage of a JobSet (or all of it) that needs a reservation."""

    js: JobSet
    key: str
    title: str
    members: tuple[ReplicatedJob, ...]
    #: Pods that its Jobs may still have at a time, by replicated job.
    pods: Mapping[str, int]
    #: What each stage needs from its beginning to its end, to see whether it can ever run.
    stages: tuple[Stage, ...]
    order: tuple[int, bool, str, str]

    @property
    def owners(self) -> list[_Owner]:
        return [(self.js.name, rj.name) for rj in self.members]


@dataclass
class _Answer:
    granted: list[str] = field(default_factory=list)
    #: "Reason: message", of the first that waits.
    waits: str = ""


class _Books:
    """What is free in every quota, and who waits for what."""

    def __init__(self, namespace: Namespace) -> None:
        self.terms = [QuotaTerms.of(quota) for quota in namespace.quotas]
        self.terms = [terms for terms in self.terms if _POD in terms.by_kind]
        self.hard = {
            (terms.name, name): quantity.exact(terms.hard[name]) for terms in self.terms for name in terms.by_kind[_POD]
        }
        self.free: _Sums = Counter(self.hard)
        #: Accounts that somebody waits for, with whom.
        self.claimed: dict[_Account, str] = {}
        self.by_owner: dict[_Owner, _Sums] = defaultdict(Counter)
        for pod in namespace.pods() if self.terms else ():
            labels = meta.labels(pod)
            use = self._use(pod)
            self.by_owner[labels.get(JOBSET_NAME, ""), labels.get(REPLICATED_JOB_NAME, "")].update(use)
            self.free.subtract(use)

    def _use(self, pod: Object) -> _Sums:
        return Counter(
            {
                (terms.name, name): quantity.exact(amount)
                for terms in self.terms
                for name, amount in terms.usage(_POD, pod).items()
            }
        )

    def need(self, js: JobSet, pods: Mapping[str, int]) -> _Sums:
        """What so many pods of each replicated job use."""
        needed: _Sums = Counter()
        for name, count in pods.items():
            for account, amount in self._use(amounts.pod_of(js, js.by_name[name])).items() if count else ():
                needed[account] += amount * count
        return needed

    def more(self, request: _Request) -> _Sums:
        """What a request needs beyond what its pods use already."""
        beyond: _Sums = Counter()
        for rj in request.members:
            need, has = self.need(request.js, {rj.name: request.pods[rj.name]}), self.by_owner[request.js.name, rj.name]
            beyond.update({account: max(0, amount - has[account]) for account, amount in need.items()})
        return beyond

    def grant(self, request: _Request) -> None:
        self.free.subtract(self.more(request))

    def refuse(self, request: _Request, blocked: Iterable[_Account]) -> None:
        """What it lacks goes to it first, and what it does not lack is kept for it."""
        more = self.more(request)
        for account in blocked:
            self.claimed.setdefault(account, request.js.name)
            del more[account]
        self.free.subtract(more)


def decide(namespace: Namespace) -> Plan:
    """Grant what fits, in order, and tell the others what they wait for."""
    answers = {jobset.name: _Answer() for jobset in namespace.jobsets}
    requests = [request for jobset in namespace.jobsets for request in _requests(namespace, jobset)]
    books = _Books(namespace)
    waiting: list[_Request] = []
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


def _requests(namespace: Namespace, jobset: JobSetView) -> list[_Request]:
    mode = admission.mode_of(jobset)
    if not mode or jobset.deleting or jobset.finished or managed_elsewhere(jobset) or jobset.spec.suspend:
        return []
    js = read(jobset)
    jobs = children.classify(js, namespace.jobs(jobset))
    counts = children.count(js, jobs)
    seen = stage_progress.StageProgress(js, jobs, counts)
    begun = bool(jobs.succeeded or admission.admitted(jobset))
    stages = stages_of(js)

    def request(key: str, title: str, members: tuple[ReplicatedJob, ...]) -> _Request:
        pods = {rj.name: stage_progress.outstanding(rj, counts) * rj.pods_per_job for rj in members}
        priority = max(namespace.priority(rj.pod_spec.priority_class_name) for rj in members)
        order = (-priority, not begun, jobset.metadata.creation_timestamp, js.name)
        return _Request(js, key, title, members, pods, stages, order)

    if mode == "whole":
        return [request(admission.WHOLE, js.name, js.replicated)] if js.replicated else []
    return [request(stage.key, stage.title, stage.members) for stage in stage_progress.open_stages(seen)]


def _why_not(books: _Books, request: _Request) -> str:
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


def _never(books: _Books, request: _Request) -> str:
    """Why a JobSet can never run under the quotas as they are, "" if it can."""
    js = request.js
    stages = [Stage(js.replicated, frozenset())] if request.key == admission.WHOLE else request.stages
    for stage in stages:
        need = books.need(js, {rj.name: rj.pods for rj in stage.members})
        for (quota, resource), amount in sorted(need.items()):
            if amount > books.hard[quota, resource]:
                what = "the JobSet" if request.key == admission.WHOLE else stage.title
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
