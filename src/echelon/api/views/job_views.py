"""Jobs and JobSets."""

from __future__ import annotations

from typing import Any

import msgspec

from ..scheme import JOB_SETS, JOBS
from .object_view import Conditioned, Metadata, ObjectView, ViewPart
from .pod_views import PodTemplate

# -- Job -----------------------------------------------------------------------------------------------------


class ExitCodes(ViewPart, frozen=True):
    operator: str = ""
    values: tuple[int, ...] = ()
    container_name: str | None = None


class PodConditionPattern(ViewPart, frozen=True):
    type: str = ""
    status: str = "True"


class PodFailureRule(ViewPart, frozen=True):
    action: str = ""
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[PodConditionPattern, ...] = ()


class PodFailurePolicy(ViewPart, frozen=True):
    rules: tuple[PodFailureRule, ...] = ()


class SuccessRule(ViewPart, frozen=True):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class JobSuccessPolicy(ViewPart, frozen=True):
    rules: tuple[SuccessRule, ...] = ()


class JobSpec(ViewPart, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    pod_replacement_policy: str = ""
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: JobSuccessPolicy = JobSuccessPolicy()
    managed_by: str = ""
    selector: dict[str, Any] | None = None
    #: As written; it is compiled into a PodGroup template.
    scheduling: dict[str, Any] = msgspec.field(default_factory=dict)
    template: PodTemplate = PodTemplate()

    @property
    def concurrent_pods(self) -> int:
        """How many pods run at the same time."""
        pods = 1 if self.parallelism is None else self.parallelism
        return pods if self.completions is None else min(pods, self.completions)


class UncountedPods(ViewPart, frozen=True):
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Conditioned, frozen=True):
    start_time: str = ""
    completion_time: str = ""
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str = ""
    uncounted_terminated_pods: UncountedPods = UncountedPods()


class JobView(ObjectView[JobSpec, JobStatus], resource=JOBS, spec=JobSpec, status=JobStatus):
    __slots__ = ()

    @property
    def finished(self) -> bool:
        return self.is_true("Complete") or self.is_true("Failed")


# -- JobSet --------------------------------------------------------------------------------------------------


class JobTemplate(ViewPart, frozen=True):
    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()


class Dependency(ViewPart, frozen=True):
    """An entry of dependsOn."""

    name: str = ""
    #: Ready or Complete.
    status: str = ""


class ReplicatedJobSpec(ViewPart, frozen=True):
    name: str = ""
    replicas: int = 1
    group_name: str = ""
    depends_on: tuple[Dependency, ...] = ()
    #: As written, to be copied into Jobs; `read(JobTemplate, …)` decodes it.
    template: dict[str, Any] = msgspec.field(default_factory=dict)


class Network(ViewPart, frozen=True):
    enable_dns_hostnames: bool = msgspec.field(default=False, name="enableDNSHostnames")
    subdomain: str = ""
    publish_not_ready_addresses: bool = True


class JobSetSuccessPolicy(ViewPart, frozen=True):
    operator: str = ""
    target_replicated_jobs: tuple[str, ...] = ()


class JobFailureRule(ViewPart, frozen=True):
    """A rule of a JobSet's failure policy."""

    name: str = ""
    action: str = ""
    on_job_failure_reasons: tuple[str, ...] = ()
    on_job_failure_message_patterns: tuple[str, ...] = ()
    target_replicated_jobs: tuple[str, ...] = ()


class JobSetFailurePolicy(ViewPart, frozen=True):
    max_restarts: int = 0
    restart_strategy: str = ""
    rules: tuple[JobFailureRule, ...] = ()


class StartupPolicy(ViewPart, frozen=True):
    startup_policy_order: str = ""


class ExecutionPolicy(ViewPart, frozen=True):
    execution_policy_order: str = ""


class Coordinator(ViewPart, frozen=True):
    replicated_job: str = ""
    job_index: int = 0
    pod_index: int = 0


class JobSetSpec(ViewPart, frozen=True):
    replicated_jobs: tuple[ReplicatedJobSpec, ...] = ()
    network: Network = Network()
    success_policy: JobSetSuccessPolicy = JobSetSuccessPolicy()
    failure_policy: JobSetFailurePolicy | None = None
    startup_policy: StartupPolicy = StartupPolicy()
    execution_policy: ExecutionPolicy = ExecutionPolicy()
    coordinator: Coordinator | None = None
    suspend: bool = False
    managed_by: str = ""
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    #: As written; claims are made from their templates.
    volume_claim_policies: tuple[dict[str, Any], ...] = ()
    #: As written; it is compiled into group templates.
    scheduling: dict[str, Any] | None = None


class ReplicatedJobStatus(ViewPart, frozen=True):
    name: str = ""
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0
    #: Indexes of the Jobs that have succeeded in this attempt, as Jobs write those of their pods.
    completed_indexes: str = ""
    job_restarts: tuple[int, ...] = ()
    job_restarts_count_towards_max: tuple[int, ...] = ()


class JobSetStatus(Conditioned, frozen=True):
    restarts: int = 0
    restarts_count_towards_max: int = 0
    execution_attempts: int | None = None
    replicated_jobs_status: tuple[ReplicatedJobStatus, ...] = ()


class JobSetView(ObjectView[JobSetSpec, JobSetStatus], resource=JOB_SETS, spec=JobSetSpec, status=JobSetStatus):
    __slots__ = ()

    @property
    def finished(self) -> bool:
        return self.is_true("Completed") or self.is_true("Failed")
