"""The pod a Job makes: its template, plus the labels, names and references that make it this Job's."""

from __future__ import annotations

from typing import Any

from ...api.objects import meta
from ...api.objects.subtree import items
from ...api.objects.vocabulary import COMPLETION_INDEX, JOB_TRACKING
from ...api.scheme import JOBS, PODS, Object
from . import child_names, failure_policy
from .model import FAILURE_COUNT, IGNORED_FAILURE_COUNT, Job, JobPod

_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def build(job: Job, index: int | None, group: str, last_failed: JobPod | None = None) -> Object:
    """A pod for `index` (None unless Indexed) in the PodGroup `group` ("" for none).

    `last_failed` is the pod it replaces where failures are counted per index.
    """
    metadata: Object = {
        "generateName": child_names.pod_prefix(job.name, index),
        "namespace": job.namespace,
        "ownerReferences": [meta.owner_reference(job.obj, JOBS)],
    }
    wanted = job.spec.template.metadata
    labels, annotations = dict(wanted.labels), dict(wanted.annotations)
    finalizers = [*wanted.finalizers]
    if JOB_TRACKING not in finalizers:
        finalizers.append(JOB_TRACKING)
    spec: dict[str, Any] = dict(job.obj["spec"]["template"]["spec"])
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if index is not None:
        labels[COMPLETION_INDEX] = annotations[COMPLETION_INDEX] = str(index)
        _index_spec(spec, job.name, index)
        if job.backoff_limit_per_index is not None:
            annotations |= _failure_counts(job, last_failed)
    metadata |= {"labels": labels, "annotations": annotations, "finalizers": finalizers}
    for empty in [key for key in ("labels", "annotations") if not metadata[key]]:
        del metadata[empty]
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": metadata, "spec": spec}


def _index_spec(spec: dict[str, Any], job_name: str, index: int) -> None:
    spec["hostname"] = f"{job_name}-{index}"
    variable = {
        "name": _INDEX_VARIABLE,
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}},
    }
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            spec[kind] = [_with_variable(container, variable) for container in spec[kind]]


def _with_variable(container: Object, variable: Object) -> Object:
    env = items(container, "env")
    if any(one["name"] == _INDEX_VARIABLE for one in env):
        return container
    return {**container, "env": [*env, variable]}


def _failure_counts(job: Job, last: JobPod | None) -> dict[str, str]:
    """How often this index has failed so far, handed on from pod to pod."""
    failures = ignored = 0
    if last is not None:
        failures, ignored = last.annotated_count(FAILURE_COUNT), last.annotated_count(IGNORED_FAILURE_COUNT)
        if failure_policy.match(job, last).counts:
            failures += 1
        else:
            ignored += 1
    counts = {FAILURE_COUNT: str(failures)}
    if ignored:
        counts[IGNORED_FAILURE_COUNT] = str(ignored)
    return counts
