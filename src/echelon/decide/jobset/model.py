"""A JobSet as its decisions read it, decoded once per decision.

`spec.executionPolicy` disappears here: InOrder is a dependency of every replicated job on all earlier ones to be
Complete, so nothing behind this file knows a third way of ordering.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...api.objects import meta
from ...api.objects.vocabulary import JOBSET_EXCLUSIVE_TOPOLOGY
from ...api.scheme import Object, Resource

NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
CONTROLLER_NAME = "jobset.sigs.k8s.io/jobset-controller"


@dataclass(frozen=True)
class Dependency:
    on: str
    status: Literal["Ready", "Complete"]


@dataclass(frozen=True)
class ReplicatedJob:
    """One entry of `spec.replicatedJobs`."""

    name: str
    replicas: int
    group: str
    #: The Job template, shared with the cached JobSet: copy before changing.
    template: Object
    depends_on: tuple[Dependency, ...]
    #: Indexes of the first Job among all Jobs of the JobSet, and among those of its group.
    first_global: int
    first_in_group: int
    #: The node label whose domains each Job takes for itself, and whether nodes are labelled for that beforehand.
    exclusive_key: str
    by_node_selector: bool

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.template.get("spec", {}).get("template", {}).get("spec") or {}
        return spec

    @property
    def pods_per_job(self) -> int:
        """How many pods of one Job run at the same time."""
        spec = self.template.get("spec") or {}
        return concurrent_pods(spec.get("parallelism"), spec.get("completions"))

    @property
    def pods(self) -> int:
        return self.replicas * self.pods_per_job

    @property
    def priority_class(self) -> str:
        return str(self.pod_spec.get("priorityClassName") or "")

    @property
    def annotations(self) -> Mapping[str, str]:
        return (self.template.get("metadata") or {}).get("annotations") or {}


@dataclass(frozen=True)
class JobSet:
    obj: Object
    name: str
    namespace: str
    uid: str
    spec: Mapping[str, Any]
    replicated: tuple[ReplicatedJob, ...]
    suspended: bool
    #: startupPolicy InOrder: each replicated job waits until the one before has started.
    starts_in_order: bool
    #: Completed global restarts; children labelled with fewer belong to an earlier attempt.
    restarts: int

    @property
    def subdomain(self) -> str:
        return str((self.spec.get("network") or {}).get("subdomain") or self.name)

    @property
    def has_hostnames(self) -> bool:
        return bool((self.spec.get("network") or {}).get("enableDNSHostnames"))

    @property
    def jobs_in_total(self) -> int:
        return sum(rj.replicas for rj in self.replicated)

    @property
    def sequenced(self) -> bool:
        """Whether some pods exist only after others did something."""
        return self.starts_in_order or any(rj.depends_on for rj in self.replicated)

    def jobs_in_group(self, group: str) -> int:
        return sum(rj.replicas for rj in self.replicated if rj.group == group)


@dataclass(frozen=True)
class Observed:
    """What the caches hold about one JobSet."""

    jobset: Object
    #: Jobs controlled by it.
    jobs: Sequence[Object]
    #: Workloads, composite groups and pod groups controlled by it.
    groups: Sequence[tuple[Resource, Object]]
    #: Anything in its namespace, whoever owns it.
    find: Callable[[Resource, str], Object | None]


def concurrent_pods(parallelism: int | None, completions: int | None) -> int:
    pods = 1 if parallelism is None else parallelism
    return pods if completions is None else min(pods, completions)


def read(obj: Object) -> JobSet:
    spec: Mapping[str, Any] = obj.get("spec") or {}
    status: Mapping[str, Any] = obj.get("status") or {}
    startup = (spec.get("startupPolicy") or {}).get("startupPolicyOrder")
    return JobSet(
        obj=obj,
        name=meta.name(obj),
        namespace=meta.namespace(obj),
        uid=meta.uid(obj),
        spec=spec,
        replicated=_replicated_jobs(obj, spec),
        suspended=bool(spec.get("suspend")),
        starts_in_order=startup == "InOrder",
        restarts=int(status.get("restarts") or 0),
    )


def _replicated_jobs(obj: Object, spec: Mapping[str, Any]) -> tuple[ReplicatedJob, ...]:
    chained = (spec.get("executionPolicy") or {}).get("executionPolicyOrder") == "InOrder"
    result: list[ReplicatedJob] = []
    for entry in spec.get("replicatedJobs") or ():
        group = str(entry.get("groupName") or "default")
        exclusive_key, by_node_selector = _exclusive(obj, entry)
        result.append(
            ReplicatedJob(
                name=entry["name"],
                replicas=int(entry.get("replicas", 1)),
                group=group,
                template=entry.get("template") or {},
                depends_on=_dependencies(entry, result, chained),
                first_global=sum(rj.replicas for rj in result),
                first_in_group=sum(rj.replicas for rj in result if rj.group == group),
                exclusive_key=exclusive_key,
                by_node_selector=by_node_selector,
            )
        )
    return tuple(result)


def _dependencies(entry: Object, earlier: Sequence[ReplicatedJob], chained: bool) -> tuple[Dependency, ...]:
    if chained:
        # All earlier ones, not only the last: an entry with no replicas is Complete at once and must not open the way.
        return tuple(Dependency(rj.name, "Complete") for rj in earlier)
    return tuple(Dependency(one["name"], one["status"]) for one in entry.get("dependsOn") or ())


def _exclusive(obj: Object, entry: Object) -> tuple[str, bool]:
    """The exclusive topology key and strategy; a replicated job's own annotation goes before the JobSet's."""
    own = ((entry.get("template") or {}).get("metadata") or {}).get("annotations") or {}
    for words in (own, meta.annotations(obj)):
        if JOBSET_EXCLUSIVE_TOPOLOGY in words:
            return words[JOBSET_EXCLUSIVE_TOPOLOGY], NODE_SELECTOR_STRATEGY in words
    return "", False
