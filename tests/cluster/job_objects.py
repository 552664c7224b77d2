"""JobSets, TrainJobs, runtimes and Jobs as users write them."""

from __future__ import annotations

from typing import Any

from echelon.api.objects import meta
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.schema.decoding import copy_tree
from echelon.api.scheme import JOB_SETS, JOBS, TRAIN_JOBS, Object


def jobset(name: str, **spec: Any) -> Object:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "2"], "resources": {"requests": {"cpu": "1"}}}
    pods = {"spec": {"containers": [container]}}
    jobs = [
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2, "template": pods}}}
    ]
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": JOB_SETS.kind,
        "metadata": {"name": name},
        "spec": {"replicatedJobs": jobs, **spec},
    }


def train_job(name: str, runtime: str, **trainer: Any) -> Object:
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": TRAIN_JOBS.kind,
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": 2, **trainer}},
    }


def our_jobset(name: str, **spec: Any) -> Object:
    """The same with pods that we schedule."""
    made = jobset(name, **spec)
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod |= {"schedulerName": "echelon", "restartPolicy": "Never"}
    return made


def our_runtime(name: str) -> Object:
    """A built-in runtime with pods that we schedule."""
    runtime: Object = copy_tree(next(one for one in builtin_runtimes() if meta.name(one) == name))
    for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        job["template"]["spec"]["template"]["spec"]["schedulerName"] = "echelon"
    return runtime


def plain_job(name: str, pods: int, **annotations: str) -> Object:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never", "schedulerName": "echelon"}}
    metadata = {"annotations": annotations} | ({"generateName": name} if name.endswith("-") else {"name": name})
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec}
