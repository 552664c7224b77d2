"""A Job and its pods as the decisions read them: few fields, decoded once per sync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...api.objects import completion_indexes, meta
from ...api.objects.vocabulary import COMPLETION_INDEX, JOB_TRACKING
from ...api.scheme import Object
from ...base.instants import parse as instant

MANAGED_BY_US = "kubernetes.io/job-controller"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"

_TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Observed:
    """What the caches hold about one Job."""

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


@dataclass(frozen=True)
class Job:
    obj: Object
    name: str
    uid: str
    parallelism: int
    completions: int | None
    mode: str
    suspended: bool
    deleting: bool
    backoff_limit: int
    #: Failures an index may have before it fails for good; None when failures are counted for the whole Job.
    backoff_limit_per_index: int | None
    deadline: float | None
    #: A pod is replaced only once it has failed, not while it terminates.
    replace_failed_only: bool
    restarts_in_place: bool
    failure_rules: Sequence[Mapping[str, Any]]
    success_rules: Sequence[Mapping[str, Any]]
    status: Mapping[str, Any]

    @property
    def indexed(self) -> bool:
        return self.mode == "Indexed"

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.obj["spec"]  # type: ignore[no-any-return]

    @property
    def template(self) -> Mapping[str, Any]:
        return self.obj["spec"]["template"]  # type: ignore[no-any-return]

    @property
    def start_time(self) -> float | None:
        text = self.status.get("startTime")
        return instant(text) if text else None

    @property
    def finished(self) -> bool:
        return meta.condition_is(self.obj, "Complete") or meta.condition_is(self.obj, "Failed")

    @cached_property
    def recorded_succeeded(self) -> frozenset[str]:
        """Uids recorded as succeeded in the stored status and not yet in its counters."""
        return frozenset((self.status.get("uncountedTerminatedPods") or {}).get("succeeded") or ())

    @cached_property
    def recorded_failed(self) -> frozenset[str]:
        return frozenset((self.status.get("uncountedTerminatedPods") or {}).get("failed") or ())

    @cached_property
    def completed_indexes(self) -> frozenset[int]:
        """Indexes that the stored status says have succeeded and that are still asked for."""
        return completion_indexes.members(self.status.get("completedIndexes", ""), self.completions or 0)


def read(obj: Object) -> Job:
    spec = obj["spec"]
    policy = spec.get("podFailurePolicy") or {}
    replacement = spec.get("podReplacementPolicy") or ("Failed" if policy else "TerminatingOrFailed")
    deadline = spec.get("activeDeadlineSeconds")
    per_index = spec.get("backoffLimitPerIndex")
    return Job(
        obj=obj,
        name=meta.name(obj),
        uid=meta.uid(obj),
        parallelism=spec.get("parallelism", 1),
        completions=spec.get("completions"),
        mode=spec.get("completionMode", "NonIndexed"),
        suspended=bool(spec.get("suspend")),
        deleting=meta.deleting(obj),
        backoff_limit=spec.get("backoffLimit", 6 if per_index is None else 2**31 - 1),
        backoff_limit_per_index=per_index,
        deadline=None if deadline is None else float(deadline),
        replace_failed_only=replacement == "Failed",
        restarts_in_place=spec["template"]["spec"].get("restartPolicy") == "OnFailure",
        failure_rules=policy.get("rules") or (),
        success_rules=(spec.get("successPolicy") or {}).get("rules") or (),
        status=obj.get("status") or {},
    )


def managed_elsewhere(job: Object) -> bool:
    manager: str = job["spec"].get("managedBy", MANAGED_BY_US)
    return manager != MANAGED_BY_US


@dataclass(frozen=True, slots=True)
class JobPod:
    obj: Object
    name: str
    uid: str
    phase: str
    deleting: bool
    #: Whether it still carries the finalizer that keeps it until it has been counted.
    tracked: bool
    #: The completion index; None when absent or unreadable.
    index: int | None

    @property
    def terminal(self) -> bool:
        return self.phase in _TERMINAL

    @property
    def active(self) -> bool:
        return not self.terminal and not self.deleting

    @property
    def terminating(self) -> bool:
        return self.deleting and not self.terminal

    @property
    def ready(self) -> bool:
        return meta.condition_is(self.obj, "Ready")

    def failed(self, job: Job) -> bool:
        """Failed, or on its way out in a Job that does not wait to see how that ends."""
        return self.phase == "Failed" or (self.deleting and self.phase != "Succeeded" and not job.replace_failed_only)

    def annotated_count(self, key: str) -> int:
        text = meta.annotations(self.obj).get(key, "0")
        return int(text) if text.isdecimal() else 0


def read_pod(obj: Object) -> JobPod:
    index = meta.annotations(obj).get(COMPLETION_INDEX, "")
    return JobPod(
        obj=obj,
        name=meta.name(obj),
        uid=meta.uid(obj),
        phase=(obj.get("status") or {}).get("phase", "Pending"),
        deleting=meta.deleting(obj),
        tracked=JOB_TRACKING in (obj["metadata"].get("finalizers") or ()),
        index=int(index) if index.isdecimal() else None,
    )
