"""The Jobs of a JobSet sorted by what they mean now, and the counts that the status shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...api.objects import meta
from ...api.objects.vocabulary import JOBSET_PREFIX, REPLICATED_JOB_NAME
from ...api.scheme import Object
from .model import JobSet, ReplicatedJob, concurrent_pods

RESTART_ATTEMPT = JOBSET_PREFIX + "restart-attempt"
JOB_RESTART_ATTEMPT = JOBSET_PREFIX + "job-restart-attempt"
JOB_INDEX = JOBSET_PREFIX + "job-index"


@dataclass(frozen=True)
class SortedJobs:
    """Every Job is in exactly one of these."""

    #: Of an attempt before the current one: to be deleted.
    previous: tuple[Object, ...]
    active: tuple[Object, ...]
    succeeded: tuple[Object, ...]
    failed: tuple[Object, ...]
    #: Without readable attempt label: not ours to judge, only its name is taken.
    unreadable: tuple[Object, ...]

    @cached_property
    def names(self) -> frozenset[str]:
        every = (*self.previous, *self.active, *self.succeeded, *self.failed, *self.unreadable)
        return frozenset(map(meta.name, every))


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


def classify(js: JobSet, jobs: Sequence[Object]) -> SortedJobs:
    sorted_out: dict[str, list[Object]] = {
        "previous": [],
        "active": [],
        "succeeded": [],
        "failed": [],
        "unreadable": [],
    }
    for job in jobs:
        sorted_out[_class_of(js, job)].append(job)
    return SortedJobs(**{name: tuple(found) for name, found in sorted_out.items()})


def _class_of(js: JobSet, job: Object) -> str:
    attempt = _number(job, RESTART_ATTEMPT)
    if attempt is None:
        return "unreadable"
    if attempt < js.restarts or (_number(job, JOB_RESTART_ATTEMPT) or 0) < _restarts_of(js, job):
        return "previous"
    if meta.condition_is(job, "Complete"):
        return "succeeded"
    return "failed" if meta.condition_is(job, "Failed") else "active"


def _number(job: Object, label: str) -> int | None:
    text = meta.labels(job).get(label, "")
    return int(text) if text.isdecimal() else None


def _restarts_of(js: JobSet, job: Object) -> int:
    return job_restarts(js.obj, parent(job), _number(job, JOB_INDEX) or 0)


def job_restarts(jobset: Object, replicated_job: str, index: int, counter: str = "jobRestarts") -> int:
    """How often one Job alone has been restarted."""
    entry = status_entry(jobset.get("status") or {}, replicated_job)
    counters = (entry or {}).get(counter) or ()
    return int(counters[index]) if index < len(counters) else 0


def status_entry(status: Mapping[str, Any], replicated_job: str) -> Object | None:
    for entry in status.get("replicatedJobsStatus") or ():
        if entry["name"] == replicated_job:
            return entry  # type: ignore[no-any-return]
    return None


def parent(job: Object) -> str:
    """The replicated job a Job belongs to."""
    return meta.labels(job).get(REPLICATED_JOB_NAME, "")


def is_suspended(job: Object) -> bool:
    return bool(job["spec"].get("suspend"))


def count(js: JobSet, jobs: SortedJobs) -> dict[str, Counts]:
    """Counts by replicated job, over Jobs of the current attempt."""
    return {rj.name: _count_one(rj, jobs) for rj in js.replicated}


def _count_one(rj: ReplicatedJob, jobs: SortedJobs) -> Counts:
    active = [job for job in jobs.active if parent(job) == rj.name]
    return Counts(
        ready=sum(map(_is_ready, active)),
        succeeded=sum(parent(job) == rj.name for job in jobs.succeeded),
        failed=sum(parent(job) == rj.name for job in jobs.failed),
        active=sum((job.get("status") or {}).get("active", 0) > 0 for job in active),
        suspended=sum(map(is_suspended, active)),
    )


def _is_ready(job: Object) -> bool:
    """All pods that should run at the same time are ready or done."""
    spec, status = job["spec"], job.get("status") or {}
    wanted = concurrent_pods(spec.get("parallelism"), spec.get("completions"))
    return bool((status.get("ready") or 0) + (status.get("succeeded") or 0) >= wanted)


def status_of(js: JobSet, counts: Mapping[str, Counts]) -> list[Object]:
    """`replicatedJobsStatus`, by name descending; restart counters of single Jobs are carried over."""
    result: list[Object] = []
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
        old = status_entry(js.obj.get("status") or {}, rj.name) or {}
        for counter in ("jobRestarts", "jobRestartsCountTowardsMax"):
            if counter in old:
                entry[counter] = old[counter]
        result.append(entry)
    return result
