"""What is free in the quotas of one namespace, for the queue of stages that wait for it.

Amounts are exact, in nano-units.  Pods that exist count as the server counts them; what is granted to a stage beyond
the pods that it has is taken off what is free.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ....api.admission import limit_ranges
from ....api.admission.quota_usage import QuotaTerms, kind_of
from ....api.objects import meta
from ....api.objects.vocabulary import JOBSET_NAME, REPLICATED_JOB_NAME
from ....api.scheme import PODS, Object
from ....base import quantity
from ..model import JobSet, ReplicatedJob
from . import amounts
from .partition import Stage

_POD = kind_of(PODS)
#: (name of a quota, resource).
QuotaAccount = tuple[str, str]
Sums = Counter[QuotaAccount]
#: (name of a JobSet, name of a replicated job).
_Owner = tuple[str, str]


@dataclass(frozen=True)
class QuotaRequest:
    """A stage of a JobSet, or all of it, that needs a reservation."""

    js: JobSet
    #: As annotations call it.
    key: str
    members: tuple[ReplicatedJob, ...]
    #: Pods that its Jobs may still have at a time, by replicated job.
    pods: Mapping[str, int]
    #: All stages of the JobSet, to see whether it can ever run.
    stages: tuple[Stage, ...]
    #: Its place in the line.
    order: tuple[int, bool, str, str]


class QuotaBooks:
    """What is free in every quota, and who waits for what."""

    def __init__(
        self, quotas: Iterable[Object], limit_ranges: Sequence[Object], pods: Callable[[], Iterable[Object]]
    ) -> None:
        self._terms = [terms for terms in map(QuotaTerms.of, quotas) if _POD in terms.by_kind]
        self._limit_ranges = limit_ranges
        self._pods: dict[_Owner, Object] = {}
        self.hard = {
            (terms.name, name): quantity.exact(terms.hard[name])
            for terms in self._terms
            for name in terms.by_kind[_POD]
        }
        self.free: Sums = Counter(self.hard)
        #: Accounts that somebody waits for, with whom.
        self.claimed: dict[QuotaAccount, str] = {}
        self._used: dict[_Owner, Sums] = defaultdict(Counter)
        for pod in pods() if self._terms else ():
            use, labels = self._use(pod), meta.labels(pod)
            self._used[labels.get(JOBSET_NAME, ""), labels.get(REPLICATED_JOB_NAME, "")].update(use)
            self.free.subtract(use)

    def _use(self, pod: Object) -> Sums:
        return Counter(
            {
                (terms.name, name): quantity.exact(amount)
                for terms in self._terms
                for name, amount in terms.usage(_POD, pod).items()
            }
        )

    def need(self, js: JobSet, pods: Mapping[str, int]) -> Sums:
        """What so many pods of each replicated job use."""
        needed: Sums = Counter()
        for name, count in pods.items():
            for account, amount in self._use(self._pod(js, js.by_name[name])).items() if count > 0 else ():
                needed[account] += amount * count
        return needed

    def unstated(self, js: JobSet, rj: ReplicatedJob) -> str:
        """What the containers of a replicated job have to state, because a quota limits it, and do not; or ""."""
        found = ((terms.name, terms.unstated(_POD, self._pod(js, rj))) for terms in self._terms)
        return next((f"{lacking}, says quota {name}" for name, lacking in found if lacking), "")

    def _pod(self, js: JobSet, rj: ReplicatedJob) -> Object:
        """A pod of a replicated job as the server will store it."""
        known = self._pods.get((js.name, rj.name))
        if known is None:
            known = self._pods[js.name, rj.name] = amounts.pod_of(js, rj)
            limit_ranges.fill_in(known, self._limit_ranges)
        return known

    def more(self, request: QuotaRequest) -> Sums:
        """What a request needs beyond what its pods use already."""
        beyond: Sums = Counter()
        for rj in request.members:
            need, has = self.need(request.js, {rj.name: request.pods[rj.name]}), self._used[request.js.name, rj.name]
            beyond.update({account: max(0, amount - has[account]) for account, amount in need.items()})
        return beyond

    def grant(self, request: QuotaRequest) -> None:
        self.free.subtract(self.more(request))

    def refuse(self, request: QuotaRequest, blocked: Iterable[QuotaAccount]) -> None:
        """What it lacks goes to it first, and what it does not lack is kept for it."""
        more = self.more(request)
        for account in blocked:
            self.claimed.setdefault(account, request.js.name)
            del more[account]
        self.free.subtract(more)
