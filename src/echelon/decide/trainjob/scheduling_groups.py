"""The `podGroupPolicy.workload` plugin: a Workload for the TrainJob, a PodGroup per kind of part.

    trainer      all replicated jobs that train: a gang of as many pods as there are nodes
    initializer  dataset and model initializers: placed freely, they come and go before the gang
    <name>       any other replicated job: placed freely

The pods' template names its group and cannot change later, so group names are the same after every resume.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...api.objects import meta
from ...api.objects.subtree import items, mapping
from ...api.objects.vocabulary import JOBSET_NAME, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from ...api.scheme import POD_GROUPS, TRAIN_JOBS, WORKLOADS, Object
from ...api.views.group_views import WorkloadView
from .model import (
    DATASET_INITIALIZER,
    MODEL_INITIALIZER,
    TRAINER,
    CannotBuild,
    Observed,
    TrainJob,
    ancestor,
    pod_template,
)

INITIALIZER = "initializer"
_LONGEST_NAME = 63
#: The alphabet of Kubernetes' hash suffixes.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class PartGroup:
    template: str
    #: Policy, constraints and priority class: equal in the template and in the group.
    terms: Object
    replicated_jobs: tuple[str, ...]
    annotations: Mapping[str, str]


def compile_groups(tj: TrainJob, replicated_jobs: Sequence[Object], pods: Mapping[str, int]) -> list[PartGroup]:
    """`pods` is how many pods each replicated job runs at the same time."""
    parts: dict[str, list[Object]] = {}
    for rj in replicated_jobs:
        parts.setdefault(_part(rj), []).append(rj)
    return [_group(tj, template, members, pods) for template, members in parts.items()]


def _part(replicated_job: Object) -> str:
    role = ancestor(replicated_job)
    if role in (DATASET_INITIALIZER, MODEL_INITIALIZER):
        return INITIALIZER
    return TRAINER if role == TRAINER else str(replicated_job["name"])


def _group(tj: TrainJob, template: str, members: Sequence[Object], pods: Mapping[str, int]) -> PartGroup:
    names = [rj["name"] for rj in members]
    # Pods that wait for others of the same group cannot be part of what must start together.
    together = [rj for rj in members if not any(one["name"] in names for one in items(rj, "dependsOn"))]
    minimum = sum(pods[rj["name"]] for rj in together)
    gang = template == TRAINER and minimum > 0
    terms: Object = {"schedulingPolicy": {"gang": {"minCount": minimum}} if gang else {"basic": {}}}
    notes = _annotations(tj, template, members)
    if REQUIRED_TOPOLOGY in notes:
        terms["schedulingConstraints"] = {"topology": [{"key": notes[REQUIRED_TOPOLOGY]}]}
    classes = {str(pod_template(rj)["spec"].get("priorityClassName") or "") for rj in members}
    if len(classes) == 1 and classes != {""}:
        terms["priorityClassName"] = classes.pop()
    kept = {PREFERRED_TOPOLOGY: notes[PREFERRED_TOPOLOGY]} if PREFERRED_TOPOLOGY in notes else {}
    return PartGroup(template, terms, tuple(names), kept)


def _annotations(tj: TrainJob, template: str, members: Sequence[Object]) -> dict[str, str]:
    """Annotations that shape a group: the runtime's, and for the trainer the TrainJob's own before them."""
    found: dict[str, str] = {}
    for rj in members:
        found |= mapping(rj, "template", "metadata", "annotations")
    return {**found, **tj.view.annotations} if template == TRAINER else found


# -- objects ---------------------------------------------------------------------------------------------------


def find_workload(tj: TrainJob, observed: Observed) -> WorkloadView | None:
    """The Workload that this TrainJob controls, whatever its name."""
    mine = [
        one
        for one in observed.workloads
        if one.spec.controller_ref is not None and one.spec.controller_ref.kind == TRAIN_JOBS.kind
    ]
    if len(mine) > 1:
        names = ", ".join(one.name for one in mine)
        raise CannotBuild(f"several Workloads belong to this TrainJob: {names}; delete all but one")
    return mine[0] if mine else None


def workload_name(tj: TrainJob, observed: Observed) -> str:
    """Its name now or to be: the TrainJob's, unless someone else's Workload has that."""
    found = find_workload(tj, observed)
    if found is not None:
        return found.name
    taken = observed.find(WORKLOADS, tj.name)
    return tj.name if taken is None else f"{tj.name[:52].rstrip('-')}-{safe_hash(tj.uid)}"


def workload(tj: TrainJob, name: str, groups: Sequence[PartGroup]) -> Object:
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": name,
            "namespace": tj.namespace,
            "labels": {JOBSET_NAME: tj.name},
            "ownerReferences": [meta.owner_reference(tj.obj, TRAIN_JOBS)],
        },
        "spec": {
            "controllerRef": {"apiGroup": TRAIN_JOBS.group, "kind": TRAIN_JOBS.kind, "name": tj.name},
            "podGroupTemplates": [{"name": group.template, **group.terms} for group in groups],
        },
    }


def pod_group(tj: TrainJob, stored_workload: WorkloadView, group: PartGroup) -> Object:
    owners = [
        meta.owner_reference(tj.obj, TRAIN_JOBS),
        meta.owner_reference(stored_workload.obj, WORKLOADS, controller=False),
    ]
    name = group_name(tj, stored_workload.name, group.template)
    labels = {JOBSET_NAME: tj.name}  # the JobSet has the name of its TrainJob
    metadata: Object = {"name": name, "namespace": tj.namespace, "labels": labels, "ownerReferences": owners}
    if group.annotations:
        metadata["annotations"] = dict(group.annotations)
    reference = {"workloadName": stored_workload.name, "templateName": group.template}
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": metadata,
        "spec": {"workloadRef": reference, **group.terms},
    }


def group_name(tj: TrainJob, workload_: str, template: str) -> str:
    """`<workload>-<template>-<hash>`; the hash tells a TrainJob from an earlier one of the same name."""
    mark = safe_hash(tj.uid + template)
    room = _LONGEST_NAME - len(mark) - 2
    if len(workload_) + len(template) > room:
        # Both give way, the longer one first, so that either can still be told.
        cut_template = min(len(template), max(room // 2, room - len(workload_)))
        template = template[:cut_template].rstrip("-")
        workload_ = workload_[: room - len(template)].rstrip("-")
    return f"{workload_}-{template}-{mark}"


def safe_hash(text: str) -> str:
    """FNV-1a (32 bit) of a text, written as Kubernetes writes hashes into names."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(value))
