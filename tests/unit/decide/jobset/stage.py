"""JobSets for tests, and a stage on which one lives: decisions come true until nothing is left to decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, PODS, Object, Resource
from echelon.api.views.group_views import CompositePodGroupView, PodGroupView, WorkloadView
from echelon.api.views.job_views import JobSetView, JobView
from echelon.api.views.pod_views import PodView
from echelon.base.instants import to_time
from echelon.decide.jobset.model import JobSet, Observed, PodPlacement, read
from echelon.decide.jobset.reconcile import reconcile
from echelon.decide.plan import Plan
from tests.unit.decide.plain_api import PlainApi

A, B, C = "replicated-job-a", "replicated-job-b", "replicated-job-c"


def replicated(name: str, replicas: int = 1, parallelism: int = 1, **extra: Any) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}], **extra.pop("pod", {})}
    spec = {
        "completionMode": "Indexed",
        "parallelism": parallelism,
        "completions": parallelism,
        "template": {"metadata": {}, "spec": pod},
    }
    template = {"metadata": {"annotations": extra.pop("annotations", {})}, "spec": spec}
    return {"name": name, "replicas": replicas, "groupName": "default", "template": template, **extra}


def jobset(*entries: Object, name: str = "test-js", annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """A JobSet as it is stored, after defaulting; two replicated jobs with one and three Jobs unless told."""
    body = {
        "replicatedJobs": list(entries) or [replicated(A), replicated(B, 3)],
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        **spec,
    }
    metadata = {"name": name, "namespace": "default", "uid": "u", "annotations": annotations or {}}
    return {"apiVersion": JOB_SETS.api_version, "kind": "JobSet", "metadata": metadata, "spec": body}


def model(jobset: Object) -> JobSet:
    """A JobSet as its decisions read it."""
    return read(JobSetView(jobset))


class Stage(PlainApi):
    """One JobSet and what it has made.  Jobs change only as the test says."""

    def __init__(
        self,
        jobset: Object,
        *,
        beside: Sequence[tuple[Resource, Object]] = (),
        placement: PodPlacement = PodPlacement(),
    ) -> None:
        super().__init__()
        self.placement = placement
        self.name = meta.name(jobset)
        self.add(JOB_SETS, jobset)
        for resource, obj in beside:
            self.add(resource, obj)
        self.settle()

    @property
    def jobset(self) -> Object:
        return self.get(JOB_SETS, self.name)

    @property
    def status(self) -> Object:
        status: Object = self.jobset.get("status") or {}
        return status

    def observed(self) -> Observed:
        views = (WorkloadView, CompositePodGroupView, PodGroupView)
        groups = [view(obj) for view in views for obj in self.owned(view.resource, self.jobset)]
        jobs = [JobView(obj) for obj in self.owned(JOBS, self.jobset)]
        pods = [PodView(obj) for obj in self.all(PODS)]
        return Observed(JobSetView(self.jobset), jobs, groups, self.find, pods=pods, placement=self.placement)

    def plan(self) -> Plan:
        return reconcile(self.observed(), self.now)

    def edit_jobset(self, **spec: Any) -> None:
        self.edit(JOB_SETS, self.name, **spec)
        self.settle()

    def set_job(self, job: str, *, ready: int = 0, active: int = 0, settle: bool = True) -> None:
        self._set_status(job, {"ready": ready, "active": active, "succeeded": 0})
        if settle:
            self.settle()

    def ready(self, *jobs: str) -> None:
        """All pods of these Jobs run."""
        for job in jobs:
            pods = self.get(JOBS, job)["spec"]["parallelism"]
            self.set_job(job, ready=pods, active=pods, settle=False)
        self.settle()

    def complete(self, *jobs: str) -> None:
        for job in jobs:
            self._end(job, "Complete", "CompletionsReached", "")
        self.settle()

    def fail(self, job: str, reason: str = "PodFailurePolicy", message: str = "", *, settle: bool = True) -> None:
        self._end(job, "Failed", reason, message)
        if settle:
            self.settle()

    def job_names(self) -> list[str]:
        return self.names(JOBS)

    def counts(self, replicated_job: str) -> dict[str, int]:
        """The counters of a replicated job that are not zero."""
        (entry,) = [e for e in self.status["replicatedJobsStatus"] if e["name"] == replicated_job]
        return {key: value for key, value in entry.items() if key not in ("name", "completedIndexes") and value}

    def condition(self, type_: str) -> tuple[str, str] | None:
        found = meta.find_condition(self.jobset, type_)
        return (found["status"], found["reason"]) if found else None

    def is_active(self) -> bool:
        return not any(meta.condition_is(self.jobset, kind) for kind in ("Completed", "Failed", "Suspended"))

    def restarts(self) -> tuple[int, int]:
        """All restarts, and those that counted."""
        return self.status["restarts"], self.status.get("restartsCountTowardsMax", 0)

    def attempts(self) -> dict[str, int]:
        """How many Jobs there are by attempt label."""
        labels = [meta.labels(job)["jobset.sigs.k8s.io/restart-attempt"] for job in self.all(JOBS)]
        return {attempt: labels.count(attempt) for attempt in sorted(set(labels))}

    def _end(self, job: str, type_: str, reason: str, message: str) -> None:
        condition = {
            "type": type_,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": to_time(self.now),
        }
        self._set_status(job, {"conditions": [condition]})

    def _set_status(self, job: str, status: Object) -> None:
        self.objects[JOBS, job] = {**self.get(JOBS, job), "status": status}
