"""From runtime and TrainJob to the JobSet: the build pipeline.

runtime template → runtimePatches → resources → counts → ML policy → trainer and initializers → groups → JobSet
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...api.objects import meta
from ...api.objects.builtin_runtimes import template_of
from ...api.objects.subtree import items, mapping
from ...api.objects.vocabulary import GROUP_PER_JOB, STAGE_OPTIONS
from ...api.scheme import JOB_SETS, TRAIN_JOBS, Object
from ...api.verbs import Patch, PatchType
from ..plan import ApplyPatch
from . import overrides, runtime_patches
from .frameworks import policies
from .frameworks.parts import KeySecret, Parts
from .model import (
    DATASET_INITIALIZER,
    LAUNCHER,
    MODEL_INITIALIZER,
    NODE,
    TRAINER,
    CannotBuild,
    TrainJob,
    ancestor,
    pod_template,
)

#: What of a pod template may change while a JobSet is suspended.
_CHANGEABLE_SPEC = ("nodeSelector", "tolerations", "schedulingGates")


@dataclass(frozen=True)
class Built:
    """A JobSet without its groups."""

    jobset: Object
    #: How many pods each replicated job runs at the same time.
    pods: Mapping[str, int]
    #: What its pods mount: ConfigMaps that follow what is wanted, and Secrets that are made once.
    objects: Sequence[Object]
    keys: Sequence[KeySecret]

    @property
    def replicated_jobs(self) -> list[Object]:
        return items(self.jobset, "spec", "replicatedJobs")


def build(tj: TrainJob, runtime: Object) -> Built:
    policy = mapping(runtime, "spec", "mlPolicy")
    template = runtime_patches.apply(tj, template_of(runtime))
    jobset_spec: Object = template.setdefault("spec", {})
    replicated_jobs = items(jobset_spec, "replicatedJobs")
    nodes = [rj for rj in replicated_jobs if overrides.trains(rj, policy)]
    for rj in nodes:
        overrides.apply_resources(tj, rj)
        overrides.apply_image(tj, rj)
        overrides.apply_env(tj, rj)
    pods = {rj["name"]: _pods(tj, policy, rj) for rj in replicated_jobs}
    parts = Parts(tj, policy, replicated_jobs, pods, _subdomain(tj, jobset_spec))
    policies.apply(parts)
    for rj in nodes:
        overrides.apply_env(tj, rj)
    for rj in replicated_jobs:
        overrides.apply_initializer(tj, rj)
        overrides.apply_trainer(tj, rj, policies.makes(parts))
    total = {rj["name"]: _set_counts(rj, pods[rj["name"]]) for rj in replicated_jobs}
    jobset_spec["suspend"] = tj.suspended
    return Built(_object(tj, template), total, parts.objects, parts.keys)


def join(built: Built, replicated_jobs: tuple[str, ...], group: str, *, per_job: bool = False) -> None:
    """Put the pods of these replicated jobs into a group, or the pods of each Job into one whose name begins so."""
    for rj in built.replicated_jobs:
        if rj["name"] not in replicated_jobs:
            continue
        if per_job:
            rj["template"].setdefault("metadata", {}).setdefault("annotations", {})[GROUP_PER_JOB] = group
        else:
            pod_template(rj)["spec"]["schedulingGroup"] = {"podGroupName": group}


def _pods(tj: TrainJob, policy: Mapping[str, Any], replicated_job: Object) -> int:
    """How many pods a replicated job runs at the same time."""
    name, trains = replicated_job["name"], ancestor(replicated_job) == TRAINER
    nodes = tj.trainer.num_nodes
    if nodes is None and policy:
        nodes = max(1, int(policy.get("numNodes") or 1))
    if "mpi" in policy and name == LAUNCHER:
        return 1
    if nodes is not None and "mpi" in policy and name == NODE:
        return max(0, nodes - 1) if mapping(policy, "mpi").get("runLauncherAsNode") else nodes
    if nodes is not None and trains:
        return nodes
    return max(1, int(mapping(replicated_job, "template", "spec").get("parallelism") or 1))


def _set_counts(replicated_job: Object, pods: int) -> int:
    """As many pods at once as in all; answers with the pods in total.  Nodes are spread evenly over trainer Jobs."""
    role = ancestor(replicated_job)
    if role in (DATASET_INITIALIZER, MODEL_INITIALIZER):
        replicated_job["replicas"] = 1
    jobs = int(replicated_job.setdefault("replicas", 1))
    if role == TRAINER and jobs > 1:
        if pods % jobs:
            raise CannotBuild(f"numNodes {pods} cannot be spread evenly over {jobs} Jobs {replicated_job['name']}")
        pods //= jobs
    job_spec = replicated_job.setdefault("template", {}).setdefault("spec", {})
    job_spec["parallelism"] = job_spec["completions"] = pods
    return pods * jobs


def _subdomain(tj: TrainJob, jobset_spec: Object) -> str:
    return str(mapping(jobset_spec, "network").get("subdomain") or tj.name)


def _object(tj: TrainJob, template: Object) -> Object:
    metadata: Object = {
        "name": tj.name,
        "namespace": tj.namespace,
        "ownerReferences": [meta.owner_reference(tj.obj, TRAIN_JOBS)],
    }
    for part in ("labels", "annotations"):
        if mapping(template, "metadata", part):
            metadata[part] = template["metadata"][part]
    options = {name: tj.view.annotations[name] for name in STAGE_OPTIONS if name in tj.view.annotations}
    if options:
        metadata["annotations"] = {**metadata.get("annotations", {}), **options}
    return {"apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.kind, "metadata": metadata, "spec": template["spec"]}


def update(current: Object, wanted: Object) -> ApplyPatch | None:
    """What to change in a JobSet while it or its TrainJob is suspended; everything else in it is frozen."""
    body: Object = {"metadata": {"resourceVersion": current["metadata"]["resourceVersion"]}, "spec": {}}
    for part in ("labels", "annotations"):
        ours, stored = mapping(wanted, "metadata", part), mapping(current, "metadata", part)
        if any(stored.get(key) != value for key, value in ours.items()):
            body["metadata"][part] = ours
    if bool(current["spec"].get("suspend")) != wanted["spec"]["suspend"]:
        body["spec"]["suspend"] = wanted["spec"]["suspend"]
    by_name = {rj["name"]: rj for rj in items(wanted, "spec", "replicatedJobs")}
    old = items(current, "spec", "replicatedJobs")
    new = [_refreshed(rj, by_name[rj["name"]]) if rj["name"] in by_name else rj for rj in old]
    if new != old:
        body["spec"]["replicatedJobs"] = new
    if not body["spec"] and len(body["metadata"]) == 1:
        return None
    return ApplyPatch(JOB_SETS, meta.namespace(current), meta.name(current), Patch(PatchType.MERGE, body))


def _refreshed(current: Object, wanted: Object) -> Object:
    """A replicated job with labels, annotations and placement of its pods taken from `wanted`."""
    job, pods = current["template"], current["template"]["spec"]["template"]
    new = pod_template(wanted)
    spec = {key: value for key, value in pods["spec"].items() if key not in _CHANGEABLE_SPEC}
    spec |= {key: new["spec"][key] for key in _CHANGEABLE_SPEC if new["spec"].get(key)}
    metadata = dict(mapping(pods, "metadata"))
    for part in ("labels", "annotations"):
        metadata.pop(part, None)
        if mapping(new, "metadata", part):
            metadata[part] = new["metadata"][part]
    template = {**pods, "spec": spec, **({"metadata": metadata} if metadata or "metadata" in pods else {})}
    return {**current, "template": {**job, "spec": {**job["spec"], "template": template}}}
