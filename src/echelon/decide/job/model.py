"""A Job and its pods as its decisions read them, and what the caches hold about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...api.objects import completion_indexes
from ...api.objects.completion_indexes import IndexSet
from ...api.objects.vocabulary import COMPLETION_INDEX, JOB_TRACKING, MANAGERS
from ...api.scheme import Object
from ...api.views.group_views import PodGroupView, WorkloadView
from ...api.views.job_views import JobSpec, JobStatus, JobView, PodFailureRule, SuccessRule
from ...api.views.pod_views import PodView
from ...base.decimals import read_count
from ...base.instants import parse as instant
from ..gang_trouble import NO_GANGS, Gangs

CONTROLLER_NAME = MANAGERS["Job"]
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class Observed:
    """What the caches hold about one Job."""

    job: JobView
    #: Pods controlled by this Job.
    owned: Sequence[PodView]
    #: Pods without a controller that might match its selector.
    orphans: Sequence[PodView]
    #: Workloads that name this Job, or the controller it delegates to.
    workloads: Sequence[WorkloadView]
    #: PodGroups controlled by this Job.
    groups: Sequence[PodGroupView]
    #: The namespace takes no new objects.
    namespace_closed: bool = False
    #: Workloads and PodGroups are made for Jobs, and pods join them.
    grouping: bool = True
    #: The groups that its pods are in.
    gangs: Gangs = NO_GANGS


@dataclass(frozen=True)
class Job:
    view: JobView
    name: str
    namespace: str
    uid: str
    spec: JobSpec
    status: JobStatus
    deleting: bool
    parallelism: int
    completions: int | None
    backoff_limit: int
    #: Failures an index may have before it fails for good; None when failures are counted for the whole Job.
    backoff_limit_per_index: int | None
    #: A pod is replaced only once it has failed, not while it terminates.
    replace_failed_only: bool
    failure_rules: Sequence[PodFailureRule]
    success_rules: Sequence[SuccessRule]

    @property
    def obj(self) -> Object:
        return self.view.obj

    @property
    def suspended(self) -> bool:
        return self.spec.suspend

    @property
    def indexed(self) -> bool:
        return self.spec.completion_mode == "Indexed"

    @property
    def restarts_in_place(self) -> bool:
        return self.spec.template.spec.restart_policy == "OnFailure"

    @property
    def start_time(self) -> float | None:
        return instant(self.status.start_time) if self.status.start_time else None

    @cached_property
    def recorded_succeeded(self) -> frozenset[str]:
        """Uids recorded as succeeded in the stored status and not yet in its counters."""
        return frozenset(self.status.uncounted_terminated_pods.succeeded)

    @cached_property
    def recorded_failed(self) -> frozenset[str]:
        return frozenset(self.status.uncounted_terminated_pods.failed)

    @cached_property
    def completed_indexes(self) -> IndexSet:
        """Indexes that the stored status says have succeeded and that are still asked for."""
        return completion_indexes.members(self.status.completed_indexes, self.completions or 0)


def read(view: JobView) -> Job:
    spec, policy = view.spec, view.spec.pod_failure_policy
    replacement = spec.pod_replacement_policy or ("Failed" if policy else "TerminatingOrFailed")
    limit = spec.backoff_limit
    if limit is None:
        limit = 6 if spec.backoff_limit_per_index is None else _NO_LIMIT
    return Job(
        view=view,
        name=view.name,
        namespace=view.namespace,
        uid=view.uid,
        spec=spec,
        status=view.status,
        deleting=view.deleting,
        parallelism=1 if spec.parallelism is None else spec.parallelism,
        completions=spec.completions,
        backoff_limit=limit,
        backoff_limit_per_index=spec.backoff_limit_per_index,
        replace_failed_only=replacement == "Failed",
        failure_rules=policy.rules if policy else (),
        success_rules=spec.success_policy.rules,
    )


def managed_elsewhere(job: JobView) -> bool:
    return job.spec.managed_by not in ("", CONTROLLER_NAME)


def tracked(pod: PodView) -> bool:
    """Whether the pod still carries the finalizer that keeps it until it has been counted."""
    return JOB_TRACKING in pod.metadata.finalizers


@dataclass(frozen=True, slots=True)
class JobPod:
    """A pod of the Job, with what every step of a decision asks of it."""

    view: PodView
    name: str
    uid: str
    phase: str
    deleting: bool
    #: Whether it still carries the finalizer that keeps it until it has been counted.
    tracked: bool
    #: The completion index; None when absent or unreadable.
    index: int | None

    @property
    def active(self) -> bool:
        return not self.deleting and self.phase not in ("Succeeded", "Failed")

    @property
    def terminating(self) -> bool:
        return self.deleting and self.phase not in ("Succeeded", "Failed")

    @property
    def ready(self) -> bool:
        return self.view.is_true("Ready")

    def failed(self, job: Job) -> bool:
        """Failed, or on its way out in a Job that does not wait to see how that ends."""
        return self.phase == "Failed" or (self.deleting and self.phase != "Succeeded" and not job.replace_failed_only)

    def annotated_count(self, key: str) -> int:
        return read_count(self.view.annotations.get(key, "")) or 0


def read_pod(view: PodView) -> JobPod:
    return JobPod(
        view=view,
        name=view.name,
        uid=view.uid,
        phase=view.phase,
        deleting=view.deleting,
        tracked=tracked(view),
        index=read_count(view.annotations.get(COMPLETION_INDEX, "")),
    )
