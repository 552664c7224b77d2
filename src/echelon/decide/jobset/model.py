"""A JobSet as its decisions read it, decoded once per decision.

`spec.executionPolicy` disappears here: InOrder is a dependency of every replicated job on all earlier ones to be
Complete, so nothing behind this file knows a third way of ordering.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...api.objects.vocabulary import (
    DEFAULT_SCHEDULER,
    JOBSET_EXCLUSIVE_TOPOLOGY,
    JOBSET_NODE_SELECTOR,
    MANAGERS,
    OUR_SCHEDULERS,
)
from ...api.scheme import Object, Resource
from ...api.views.group_views import CompositePodGroupView, PodGroupView, WorkloadView
from ...api.views.job_views import (
    Dependency,
    JobSetSpec,
    JobSetView,
    JobTemplate,
    JobView,
    ReplicatedJobStatus,
)
from ...api.views.object_view import read as decode
from ...api.views.pod_views import PodSpec, PodView
from ..gang_trouble import NO_GANGS, Gangs

CONTROLLER_NAME = MANAGERS["JobSet"]

GroupObjectView = WorkloadView | CompositePodGroupView | PodGroupView


@dataclass(frozen=True)
class PodPlacement:
    """Who places pods: which scheduler names are ours, and what becomes of pods that others place."""

    our_schedulers: Collection[str] = OUR_SCHEDULERS
    #: The priority of a class by name, "" for the default; None if the server completes pods that others place.
    priority_of: Callable[[str], int | None] | None = None


@dataclass(frozen=True)
class Observed:
    """What the caches hold about one JobSet."""

    jobset: JobSetView
    #: Jobs controlled by it.
    jobs: Sequence[JobView]
    #: Workloads, CompositePodGroups and PodGroups controlled by it.
    groups: Sequence[GroupObjectView]
    #: Any object in its namespace, whatever its owner.
    find: Callable[[Resource, str], Object | None]
    #: The groups that its pods are in, whoever made them.
    gangs: Gangs = NO_GANGS
    #: Pods of its Jobs, if it restarts them in place.
    pods: Sequence[PodView] = ()
    placement: PodPlacement = PodPlacement()


@dataclass(frozen=True)
class ReplicatedJob:
    """One entry of spec.replicatedJobs."""

    name: str
    replicas: int
    group: str
    #: The Job template decoded, and as it is written: copy the tree before changing it.
    template: JobTemplate
    tree: Object
    depends_on: tuple[Dependency, ...]
    #: Indexes of the first Job among all Jobs of the JobSet, and among those of its group.
    first_global: int
    first_in_group: int
    #: The node label whose domains each Job takes for itself, and whether nodes are labelled for that beforehand.
    exclusive_key: str
    by_node_selector: bool
    #: Whether our scheduler places its pods.
    ours: bool

    @property
    def pod_spec(self) -> PodSpec:
        return self.template.spec.template.spec

    @property
    def pods_per_job(self) -> int:
        """How many pods of one Job run at the same time."""
        return self.template.spec.concurrent_pods

    @property
    def pods(self) -> int:
        return self.replicas * self.pods_per_job


@dataclass(frozen=True)
class JobSet:
    view: JobSetView
    name: str
    namespace: str
    uid: str
    spec: JobSetSpec
    replicated: tuple[ReplicatedJob, ...]
    #: startupPolicy InOrder: each replicated job waits until the one before has started.
    starts_in_order: bool
    #: Completed global restarts; children labelled with fewer belong to an earlier attempt.
    restarts: int
    placement: PodPlacement

    @property
    def obj(self) -> Object:
        return self.view.obj

    @property
    def suspended(self) -> bool:
        return self.spec.suspend

    @property
    def execution_attempt(self) -> int | None:
        """Which run this is, counted from 0; None before the first."""
        known = self.view.status.execution_attempts
        return self.restarts if known is None and not self.suspended else known

    @property
    def subdomain(self) -> str:
        return self.spec.network.subdomain or self.name

    @property
    def has_hostnames(self) -> bool:
        return self.spec.network.enable_dns_hostnames

    @cached_property
    def jobs_in_total(self) -> int:
        return sum(rj.replicas for rj in self.replicated)

    @property
    def runs_in_order(self) -> bool:
        """executionPolicy InOrder: each replicated job waits until all before are complete."""
        return self.spec.execution_policy.execution_policy_order == "InOrder"

    @property
    def sequenced(self) -> bool:
        """Whether some pods are created only after others have reached a state."""
        return self.starts_in_order or any(rj.depends_on for rj in self.replicated)

    @cached_property
    def by_name(self) -> Mapping[str, ReplicatedJob]:
        return {rj.name: rj for rj in reversed(self.replicated)}

    @cached_property
    def status_by_name(self) -> Mapping[str, ReplicatedJobStatus]:
        """The counters of each replicated job that has some."""
        return {entry.name: entry for entry in reversed(self.view.status.replicated_jobs_status)}

    @cached_property
    def jobs_by_group(self) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for rj in self.replicated:
            found[rj.group] += rj.replicas
        return found


def managed_elsewhere(jobset: JobSetView) -> bool:
    return jobset.spec.managed_by not in ("", CONTROLLER_NAME)


def read(view: JobSetView, placement: PodPlacement = PodPlacement()) -> JobSet:
    return JobSet(
        view=view,
        name=view.name,
        namespace=view.namespace,
        uid=view.uid,
        spec=view.spec,
        replicated=_replicated_jobs(view, placement),
        starts_in_order=view.spec.startup_policy.startup_policy_order == "InOrder",
        restarts=view.status.restarts,
        placement=placement,
    )


def _replicated_jobs(jobset: JobSetView, placement: PodPlacement) -> tuple[ReplicatedJob, ...]:
    chained = jobset.spec.execution_policy.execution_policy_order == "InOrder"
    result: list[ReplicatedJob] = []
    earlier: list[Dependency] = []
    in_total, in_group = 0, Counter[str]()
    for entry in jobset.spec.replicated_jobs:
        group = entry.group_name or "default"
        template = decode(JobTemplate, entry.template)
        exclusive_key, by_node_selector = _exclusive(jobset, template)
        result.append(
            ReplicatedJob(
                name=entry.name,
                replicas=entry.replicas,
                group=group,
                template=template,
                tree=entry.template,
                # All earlier ones: an entry with no replicas is Complete at once and must not open the way.
                depends_on=tuple(earlier) if chained else entry.depends_on,
                first_global=in_total,
                first_in_group=in_group[group],
                exclusive_key=exclusive_key,
                by_node_selector=by_node_selector,
                ours=(template.spec.template.spec.scheduler_name or DEFAULT_SCHEDULER) in placement.our_schedulers,
            )
        )
        in_total += entry.replicas
        in_group[group] += entry.replicas
        if chained:
            earlier.append(Dependency(entry.name, "Complete"))
    return tuple(result)


def _exclusive(jobset: JobSetView, template: JobTemplate) -> tuple[str, bool]:
    """The exclusive topology key and strategy; a replicated job's own annotation goes before the JobSet's."""
    for notes in (template.metadata.annotations, jobset.annotations):
        if JOBSET_EXCLUSIVE_TOPOLOGY in notes:
            return notes[JOBSET_EXCLUSIVE_TOPOLOGY], JOBSET_NODE_SELECTOR in notes
    return "", False
