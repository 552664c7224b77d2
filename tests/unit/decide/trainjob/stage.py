"""TrainJobs and runtimes for tests, and a stage on which one TrainJob lives.  Its JobSet changes as the test says."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from echelon.api.objects import meta
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.scheme import COMPOSITE_POD_GROUPS, JOB_SETS, POD_GROUPS, TRAIN_JOBS, WORKLOADS, Object, Resource
from echelon.api.views.group_views import CompositePodGroupView, GroupView, PodGroupView, WorkloadView
from echelon.api.views.trainjob_views import TrainJobView
from echelon.base.instants import to_time
from echelon.decide.plan import Plan
from echelon.decide.trainjob.model import Observed
from echelon.decide.trainjob.reconcile import reconcile
from tests.unit.decide.plain_api import START, PlainApi

RUNTIMES = {meta.name(runtime): runtime for runtime in builtin_runtimes()}
TORCH, LLM = "torch-distributed", "torchtune-llama3.2-1b"


def trainjob(runtime: str = TORCH, *, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """A TrainJob as it is stored, after defaulting."""
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": runtime}
    metadata = {
        "name": "train",
        "namespace": "default",
        "uid": "t",
        "creationTimestamp": to_time(START),
        "annotations": annotations or {},
    }
    body = {"runtimeRef": reference, "suspend": False, "managedBy": "trainer.kubeflow.org/trainjob-controller", **spec}
    return {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob", "metadata": metadata, "spec": body}


def runtime(name: str, **spec: Any) -> Object:
    """A copy of a built-in runtime with parts of its spec replaced."""
    copy = deepcopy(RUNTIMES[name])
    copy["spec"] |= spec
    return copy


class Stage(PlainApi):
    #: Whether the server is one of ours.
    takes_reports = True

    def __init__(
        self, trainjob: Object, runtime: Object | None = None, *, beside: Sequence[tuple[Resource, Object]] = ()
    ) -> None:
        super().__init__()
        self.gang_kinds: dict[str, Resource] = {}
        self.name = meta.name(trainjob)
        self.runtime = runtime or RUNTIMES.get(trainjob["spec"]["runtimeRef"]["name"])
        self.add(TRAIN_JOBS, trainjob)
        for resource, obj in beside:
            self.add(resource, obj)
        self.settle()

    @property
    def trainjob(self) -> Object:
        return self.get(TRAIN_JOBS, self.name)

    @property
    def jobset(self) -> Object:
        return self.get(JOB_SETS, self.name)

    def plan(self) -> Plan:
        workloads = [WorkloadView(obj) for obj in self.owned(WORKLOADS, self.trainjob)]
        groups: list[GroupView] = [PodGroupView(obj) for obj in self.owned(POD_GROUPS, self.trainjob)]
        groups += [CompositePodGroupView(obj) for obj in self.owned(COMPOSITE_POD_GROUPS, self.trainjob)]
        view = TrainJobView(self.trainjob)
        entropy, kinds = bytes(80), self.gang_kinds
        seen = Observed(view, self.runtime, workloads, groups, self.find, entropy, kinds, self.takes_reports)
        return reconcile(seen, self.now)

    def edit_trainjob(self, **spec: Any) -> None:
        self.edit(TRAIN_JOBS, self.name, **spec)
        self.settle()

    def replicated(self, name: str) -> Object:
        (found,) = [rj for rj in self.jobset["spec"]["replicatedJobs"] if rj["name"] == name]
        return found  # type: ignore[no-any-return]

    def pod(self, name: str) -> Object:
        """The pod spec of a replicated job."""
        return self.replicated(name)["template"]["spec"]["template"]["spec"]  # type: ignore[no-any-return]

    def container(self, name: str) -> Object:
        return self.pod(name)["containers"][0]  # type: ignore[no-any-return]

    def env(self, name: str) -> dict[str, Any]:
        """Variables of the first container, by name."""
        return {one["name"]: one.get("value", one.get("valueFrom")) for one in self.container(name).get("env") or ()}

    def set_jobset(self, **status: Any) -> None:
        self.objects[JOB_SETS, self.name] = {**self.jobset, "status": {**(self.jobset.get("status") or {}), **status}}
        self.settle()

    def end_jobset(self, type_: str, reason: str, message: str) -> None:
        condition = meta.condition(type_, "True", reason, message, self.now)
        self.set_jobset(conditions=[condition])

    def conditions(self) -> list[tuple[str, str, str]]:
        found = (self.trainjob.get("status") or {}).get("conditions") or ()
        return [(one["type"], one["status"], one["reason"]) for one in found]


def counts(name: str, **numbers: int) -> Object:
    return {"name": name, "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0} | numbers
