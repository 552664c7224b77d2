"""The `podGroupPolicy` coscheduling and volcano: a PodGroup of another scheduler's own kind, named as the TrainJob.

    coscheduling   PodGroup scheduling.x-k8s.io/v1alpha1, pods carry the label scheduling.x-k8s.io/pod-group
    volcano        PodGroup scheduling.volcano.sh/v1beta1, pods carry the annotation scheduling.k8s.io/group-name

These kinds come with their schedulers.  Pods that wait for others to end or to be ready cannot start together with
them: where replicated jobs depend on each other, the group is the trainer's pods alone, without those that wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...api.objects import meta, pod_amounts
from ...api.objects.foreign_gangs import (
    COSCHEDULING,
    COSCHEDULING_LABEL,
    VOLCANO,
    VOLCANO_ANNOTATION,
    VOLCANO_QUEUE,
    ForeignGang,
)
from ...api.objects.subtree import items, mapping
from ...api.scheme import TRAIN_JOBS, Object, Resource
from ...api.verbs import Patch, PatchType
from ...base import quantity
from ..plan import ApplyPatch
from .model import LAUNCHER, NODE, TRAINER, CannotBuild, Observed, TrainJob, ancestor, pod_template

_TIMEOUT_SECONDS = 60


def wanted(runtime: Object) -> ForeignGang | None:
    policy = mapping(runtime, "spec", "podGroupPolicy")
    return next((gang for gang in (COSCHEDULING, VOLCANO) if gang.policy in policy), None)


def served(gang: ForeignGang, observed: Observed) -> Resource:
    """The kind of its groups; the JobSet waits until the server has it."""
    kind = observed.gang_kinds.get(gang.group)
    if kind is None:
        raise CannotBuild(f"podGroupPolicy.{gang.policy}: {gang.missing}")
    return kind


def members(replicated_jobs: Sequence[Object], policy: Mapping[str, Any]) -> list[Object]:
    """Replicated jobs whose pods belong to the group."""
    if not any(items(rj, "dependsOn") for rj in replicated_jobs):
        return list(replicated_jobs)
    names = (LAUNCHER, NODE) if "mpi" in policy else ()
    return [rj for rj in replicated_jobs if ancestor(rj) == TRAINER or rj["name"] in names]


def join(gang: ForeignGang, tj: TrainJob, group: Sequence[Object]) -> None:
    """Mark the pods of the group's replicated jobs."""
    part, key = ("labels", COSCHEDULING_LABEL) if gang is COSCHEDULING else ("annotations", VOLCANO_ANNOTATION)
    for rj in group:
        metadata = pod_template(rj).setdefault("metadata", {})
        metadata[part] = {**mapping(metadata, part), key: tj.name}


def pod_group(
    gang: ForeignGang,
    kind: Resource,
    tj: TrainJob,
    runtime: Object,
    jobset: Object,
    group: Sequence[Object],
    pods: Mapping[str, int],
) -> Object:
    names = [rj["name"] for rj in group]
    together = [rj for rj in group if not any(one["name"] in names for one in items(rj, "dependsOn"))]
    spec: Object = {
        "minMember": sum(pods[rj["name"]] for rj in together),
        "minResources": _amounts(together, pods),
    }
    policy = mapping(runtime, "spec", "podGroupPolicy", gang.policy)
    spec |= _coscheduling(policy) if gang is COSCHEDULING else _volcano(policy, jobset)
    owners = [meta.owner_reference(tj.obj, TRAIN_JOBS)]
    metadata = {"name": tj.name, "namespace": tj.namespace, "ownerReferences": owners}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def update(kind: Resource, current: Object, new: Object) -> ApplyPatch | None:
    """What to change in a group while its TrainJob is suspended."""
    if mapping(current, "spec") == {**mapping(current, "spec"), **new["spec"]}:
        return None
    body = {"metadata": {"resourceVersion": current["metadata"]["resourceVersion"]}, "spec": new["spec"]}
    return ApplyPatch(kind, meta.namespace(current), meta.name(current), Patch(PatchType.MERGE, body))


def _coscheduling(policy: Mapping[str, Any]) -> Object:
    return {"scheduleTimeoutSeconds": int(policy.get("scheduleTimeoutSeconds") or _TIMEOUT_SECONDS)}


def _volcano(policy: Mapping[str, Any], jobset: Object) -> Object:
    found: Object = {}
    queue = meta.annotations(jobset).get(VOLCANO_QUEUE)
    if queue:
        found["queue"] = queue
    for rj in items(jobset, "spec", "replicatedJobs"):
        if priority := pod_template(rj)["spec"].get("priorityClassName"):
            found["priorityClassName"] = priority
    if topology := mapping(policy, "networkTopology"):
        found["networkTopology"] = dict(topology)
    return found


def _amounts(replicated_jobs: Sequence[Object], pods: Mapping[str, int]) -> dict[str, str]:
    sums: dict[str, str] = {}
    for rj in replicated_jobs:
        for name, amount in _requests(pod_template(rj)["spec"]).items():
            all_pods = quantity.times(amount, pods[rj["name"]])
            sums[name] = quantity.plus(sums[name], all_pods) if name in sums else all_pods
    return sums


def _requests(spec: Object) -> dict[str, str]:
    """Requests of one pod as the server would complete them: what is only limited is requested as well."""
    completed = dict(spec)
    for field in ("containers", "initContainers"):
        completed[field] = [{**one, "resources": _completed(mapping(one, "resources"))} for one in items(spec, field)]
    return pod_amounts.total(completed, "requests")


def _completed(resources: Mapping[str, Any]) -> Object:
    return {"requests": {**mapping(resources, "limits"), **mapping(resources, "requests")}}
