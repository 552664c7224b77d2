"""One child Job of a JobSet: its template with our names, labels, annotations, order of restarts and group."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from ...api.admission.pods.exclusive_placement import add_affinity, priority_label
from ...api.objects import meta
from ...api.objects.subtree import items, mapping
from ...api.objects.vocabulary import (
    GROUP_PER_JOB,
    GROUP_TEMPLATE_NAME,
    JOBSET_EXCLUSIVE_TOPOLOGY,
    JOBSET_JOB_KEY,
    JOBSET_NAME,
    JOBSET_NODE_SELECTOR,
    JOBSET_PREFIX,
    JOBSET_PRIORITY,
    QUEUED_SINCE,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
)
from ...api.scheme import JOB_SETS, JOBS, Object
from ...api.verbs import Patch, PatchType
from ...api.views.job_views import JobView
from ..plan import ApplyPatch, Note
from . import child_names
from .children import JOB_INDEX, JOB_RESTART_ATTEMPT, job_restarts
from .failure_policy import uses_job_restarts
from .model import JobSet, ReplicatedJob
from .scheduling_groups import Membership
from .upkeep import volume_claims

EXECUTION_ATTEMPT = JOBSET_PREFIX + "execution-attempt"
_NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
_NO_SCHEDULE = "alpha.jobset.sigs.k8s.io/no-schedule"


def build(js: JobSet, rj: ReplicatedJob, index: int, membership: Membership | None) -> Object:
    name = child_names.job_name(js.name, rj.name, index)
    keys = _keys(js, rj, index, name)
    annotations = keys | _placement_annotations(rj) | attempt_annotation(js)
    template = rj.template.metadata
    metadata: Object = {
        "name": name,
        "namespace": js.namespace,
        "labels": {**template.labels, **keys},
        "annotations": {**template.annotations, **annotations, QUEUED_SINCE: js.view.queued_since},
        "ownerReferences": [meta.owner_reference(js.obj, JOB_SETS)],
    }
    if membership is not None:
        metadata["annotations"][GROUP_TEMPLATE_NAME] = membership.template
    spec: Object = deepcopy(mapping(rj.tree, "spec"))
    # A finished child that its own TTL removes would look as if it had never run.
    spec.pop("ttlSecondsAfterFinished", None)
    spec["suspend"] = js.suspended
    spec["template"] = _pod_template(js, rj, name, mapping(spec, "template"), keys, annotations, membership)
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec}


def attempt_annotation(js: JobSet) -> dict[str, str]:
    """Which run of the JobSet a Job and its pods belong to."""
    return {} if js.execution_attempt is None else {EXECUTION_ATTEMPT: str(js.execution_attempt)}


def change(
    job: JobView, spec: Object, refused: Note | None = None, annotations: Mapping[str, str] | None = None
) -> ApplyPatch:
    """A change of the spec of a Job that exists."""
    metadata = {"uid": job.uid, **({"annotations": dict(annotations)} if annotations else {})}
    body = {"metadata": metadata, "spec": spec}
    return ApplyPatch(JOBS, job.namespace, job.name, Patch(PatchType.MERGE, body), gone_is_fine=True, refused=refused)


def _keys(js: JobSet, rj: ReplicatedJob, index: int, name: str) -> dict[str, str]:
    """What is written as label and as annotation, on the Job and on its pods."""
    keys = {
        JOBSET_NAME: js.name,
        JOBSET_PREFIX + "jobset-uid": js.uid,
        REPLICATED_JOB_NAME: rj.name,
        JOBSET_PREFIX + "replicatedjob-replicas": str(rj.replicas),
        JOBSET_PREFIX + "global-replicas": str(js.jobs_in_total),
        JOB_INDEX: str(index),
        JOBSET_PREFIX + "job-global-index": str(rj.first_global + index),
        JOBSET_JOB_KEY: child_names.job_key(js.namespace, name),
        RESTART_ATTEMPT: str(js.restarts),
        JOBSET_PREFIX + "group-name": rj.group,
        JOBSET_PREFIX + "group-replicas": str(js.jobs_by_group[rj.group]),
        JOBSET_PREFIX + "job-group-index": str(rj.first_in_group + index),
    }
    if uses_job_restarts(js):
        keys[JOB_RESTART_ATTEMPT] = str(job_restarts(js, rj.name, index))
    coordinator = js.spec.coordinator
    if coordinator is not None:
        job = child_names.job_name(js.name, coordinator.replicated_job, coordinator.job_index)
        keys[JOBSET_PREFIX + "coordinator"] = f"{job}-{coordinator.pod_index}.{js.subdomain}"
    return keys


def _placement_annotations(rj: ReplicatedJob) -> dict[str, str]:
    if not rj.exclusive_key:
        return {}
    strategy = {JOBSET_NODE_SELECTOR: "true"} if rj.by_node_selector else {}
    return {JOBSET_EXCLUSIVE_TOPOLOGY: rj.exclusive_key, **strategy}


def _pod_template(
    js: JobSet,
    rj: ReplicatedJob,
    job: str,
    template: Object,
    labels: dict[str, str],
    annotations: dict[str, str],
    membership: Membership | None,
) -> Object:
    metadata, tree = rj.template.spec.template.metadata, mapping(template, "metadata")
    spec: Object = mapping(template, "spec")
    if js.has_hostnames:
        spec["subdomain"] = js.subdomain
    if rj.exclusive_key and rj.by_node_selector:
        node_selector, toleration = reserved_nodes(js.namespace, job)
        spec["nodeSelector"] = {**mapping(spec, "nodeSelector"), **node_selector}
        spec["tolerations"] = [*items(spec, "tolerations"), toleration]
    labels = labels | _kept_apart(js, rj, labels[JOBSET_JOB_KEY], spec)
    claimed = volume_claims.volumes(js, spec)
    if claimed:
        spec["volumes"] = [*items(spec, "volumes"), *claimed]
    group = membership.group if membership is not None else _named_group(rj, labels[JOB_INDEX])
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {
        "metadata": {
            **tree,
            "labels": {**metadata.labels, **labels},
            "annotations": {**metadata.annotations, **annotations},
        },
        "spec": spec,
    }


def priority_is_unknown(js: JobSet, rj: ReplicatedJob) -> bool:
    """Whether a Job must wait for its PriorityClass: its pods say by label among whom they keep apart."""
    return _is_completed_here(js, rj) and bool(rj.exclusive_key) and _priority(js, rj) is None


def _is_completed_here(js: JobSet, rj: ReplicatedJob) -> bool:
    """Whether pods are placed by another scheduler, and no server completes them for it."""
    return not rj.ours and not rj.by_node_selector and js.placement.priority_of is not None


def _priority(js: JobSet, rj: ReplicatedJob) -> int | None:
    priority_of = js.placement.priority_of
    return priority_of(rj.pod_spec.priority_class_name) if priority_of is not None else None


def _kept_apart(js: JobSet, rj: ReplicatedJob, job_key: str, spec: Object) -> dict[str, str]:
    """Affinity for all pods of a Job that has its domain alone; returns the label by which such Jobs know others."""
    priority = _priority(js, rj) if _is_completed_here(js, rj) else None
    if priority is None:
        return {}
    own = priority_label(priority)
    if rj.exclusive_key:
        spec["affinity"] = deepcopy(mapping(spec, "affinity"))
        add_affinity(spec, rj.exclusive_key, job_key, own)
    return {JOBSET_PRIORITY: own}


def _named_group(rj: ReplicatedJob, index: str) -> str:
    """The group of one Job where someone above the JobSet has made a group for each; "" if nobody did."""
    prefix = rj.template.metadata.annotations.get(GROUP_PER_JOB, "")
    return f"{prefix}-{index}" if prefix else ""


def reserved_nodes(namespace: str, job: str) -> tuple[dict[str, str], Object]:
    """Node selector and toleration of a Job whose nodes were labelled and tainted for it beforehand."""
    return (
        {_NAMESPACED_JOB: f"{namespace}_{job}"},
        {"key": _NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"},
    )
