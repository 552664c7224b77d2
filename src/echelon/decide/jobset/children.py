"""The Jobs of a JobSet sorted by what they mean now, and the counts that the status shows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...api.objects.completion_indexes import NO_INDEXES, IndexSet, members
from ...api.objects.completion_indexes import of as indexes_of
from ...api.objects.vocabulary import JOBSET_PREFIX, REPLICATED_JOB_NAME, RESTART_ATTEMPT
from ...api.scheme import JOB_SETS, Object
from ...api.views.job_views import JobView, ReplicatedJobStatus
from ...base.decimals import read_count
from ..plan import Note
from .model import JobSet, ReplicatedJob
from .stages import kept_jobs

JOB_RESTART_ATTEMPT = JOBSET_PREFIX + "job-restart-attempt"
JOB_INDEX = JOBSET_PREFIX + "job-index"


_NOTHING_YET = ReplicatedJobStatus()


@dataclass(frozen=True)
class SortedJobs:
    """Every Job is in exactly one of these."""

    #: Of an attempt before the current one: to be deleted.
    previous: tuple[JobView, ...]
    active: tuple[JobView, ...]
    succeeded: tuple[JobView, ...]
    failed: tuple[JobView, ...]
    #: Labels do not say which of our Jobs it is, or of which attempt: not ours to judge, only its name is taken.
    unreadable: tuple[JobView, ...]
    #: By replicated job, the indexes of those that have succeeded in this attempt and are gone.
    remembered: Mapping[str, IndexSet]

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of Jobs that are there."""
        every = (*self.previous, *self.active, *self.succeeded, *self.failed, *self.unreadable)
        return frozenset(job.name for job in every)

    @cached_property
    def successes(self) -> Counter[str]:
        """By replicated job, how many Jobs have succeeded, whether they are still there or not."""
        found = Counter(map(parent, self.succeeded))
        found.update({name: len(gone) for name, gone in self.remembered.items()})
        return found


@dataclass(frozen=True)
class Counts:
    """Jobs of one replicated job by state."""

    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0

    @property
    def started(self) -> int:
        return self.ready + self.succeeded + self.failed


def classify(js: JobSet, jobs: Sequence[JobView]) -> SortedJobs:
    sorted_out: dict[str, list[JobView]] = {
        "previous": [],
        "active": [],
        "succeeded": [],
        "failed": [],
        "unreadable": [],
    }
    kept = kept_jobs.kept(js, jobs)
    present: defaultdict[str, set[int]] = defaultdict(set)
    for job in jobs:
        class_ = _class_of(js, job, kept)
        sorted_out[class_].append(job)
        if class_ not in ("previous", "unreadable"):
            present[parent(job)].add(job_index(job))
    remembered = {rj.name: _remembered(js, rj, present[rj.name]) for rj in js.replicated}
    return SortedJobs(**{name: tuple(found) for name, found in sorted_out.items()}, remembered=remembered)


def _remembered(js: JobSet, rj: ReplicatedJob, present: set[int]) -> IndexSet:
    """Whoever removed a finished Job, it does not run again before the whole JobSet does."""
    known = js.status_by_name.get(rj.name, _NOTHING_YET).completed_indexes
    if not known:
        return NO_INDEXES
    done = members(known, rj.replicas)
    return indexes_of(index for index in range(rj.replicas) if index in done and index not in present)


def _class_of(js: JobSet, job: JobView, kept: frozenset[str]) -> str:
    attempt = _number(job, RESTART_ATTEMPT)
    if attempt is None:
        return "unreadable"
    if attempt < js.restarts and parent(job) not in kept:
        return "previous"
    index, rj = _number(job, JOB_INDEX), js.by_name.get(parent(job))
    if index is None or rj is None or index >= rj.replicas:
        return "unreadable"
    if (_number(job, JOB_RESTART_ATTEMPT) or 0) < job_restarts(js, parent(job), index):
        return "previous"
    if job.is_true("Complete"):
        return "succeeded"
    return "failed" if job.is_true("Failed") else "active"


def unreadable(js: JobSet, jobs: SortedJobs) -> list[Note]:
    """A warning about every Job that is not counted."""
    message = "Job {}: its labels do not say which Job of which attempt it is; it is neither counted nor replaced"
    return [Note(JOB_SETS, js.obj, "Warning", "UnreadableJob", message.format(job.name)) for job in jobs.unreadable]


def _number(job: JobView, label: str) -> int | None:
    return read_count(job.labels.get(label, ""))


def job_index(job: JobView) -> int:
    """The place of a Job among those of its replicated job; of unreadable Jobs 0."""
    return _number(job, JOB_INDEX) or 0


def job_restarts(js: JobSet, replicated_job: str, index: int) -> int:
    """How often one Job alone has been restarted."""
    known = js.status_by_name.get(replicated_job)
    return known.job_restarts[index] if known is not None and index < len(known.job_restarts) else 0


def parent(job: JobView) -> str:
    """The replicated job a Job belongs to."""
    return job.labels.get(REPLICATED_JOB_NAME, "")


def count(js: JobSet, jobs: SortedJobs) -> dict[str, Counts]:
    """Counts by replicated job, over Jobs of the current attempt."""
    active: defaultdict[str, list[JobView]] = defaultdict(list)
    for job in jobs.active:
        active[parent(job)].append(job)
    failed = Counter(map(parent, jobs.failed))
    return {
        rj.name: Counts(
            ready=sum(map(_is_ready, active[rj.name])),
            succeeded=jobs.successes[rj.name],
            failed=failed[rj.name],
            active=sum(job.status.active > 0 for job in active[rj.name]),
            suspended=sum(job.spec.suspend for job in active[rj.name]),
        )
        for rj in js.replicated
    }


def _is_ready(job: JobView) -> bool:
    """All pods that should run at the same time are ready or done."""
    return job.status.ready + job.status.succeeded >= job.spec.concurrent_pods


def status_of(js: JobSet, jobs: SortedJobs, counts: Mapping[str, Counts]) -> list[Object]:
    """`replicatedJobsStatus`, by name descending; restart counters of single Jobs are carried over."""
    result: list[Object] = []
    done: defaultdict[str, list[int]] = defaultdict(list)
    for job in jobs.succeeded:
        done[parent(job)].append(job_index(job))
    for rj in sorted(js.replicated, key=lambda one: one.name, reverse=True):
        number = counts[rj.name]
        entry: Object = {
            "name": rj.name,
            "ready": number.ready,
            "succeeded": number.succeeded,
            "failed": number.failed,
            "active": number.active,
            "suspended": number.suspended,
        }
        if number.succeeded:
            entry["completedIndexes"] = str(indexes_of(done[rj.name]) | jobs.remembered[rj.name])
        old = js.status_by_name.get(rj.name, _NOTHING_YET)
        if old.job_restarts:
            entry["jobRestarts"] = list(old.job_restarts)
        if old.job_restarts_count_towards_max:
            entry["jobRestartsCountTowardsMax"] = list(old.job_restarts_count_towards_max)
        result.append(entry)
    return result
