"""Jobs and pods as the server would hold them, with only what a test says out of the ordinary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from echelon.api.scheme import Object
from echelon.api.views.group_views import PodGroupView, WorkloadView
from echelon.api.views.job_views import JobView
from echelon.api.views.pod_views import PodView
from echelon.base.instants import to_time
from echelon.decide.job.model import Observed

NOW = 1_800_000_000.0
UID = "7487e23b-cae7-4152-80ae-65f4c2887071"
INDEX = "batch.kubernetes.io/job-completion-index"
TRACKING = "batch.kubernetes.io/job-tracking"
LABELS = {"batch.kubernetes.io/controller-uid": UID, "batch.kubernetes.io/job-name": "train"}


def job(status: Object | None = None, metadata: Object | None = None, **spec: Any) -> Object:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ns", "uid": UID, **(metadata or {})},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
            "template": template,
            **spec,
        },
        "status": status or {},
    }


def indexed(count: int, status: Object | None = None, **spec: Any) -> Object:
    return job(status, **{"completionMode": "Indexed", "completions": count, "parallelism": count, **spec})


def running(**status: Any) -> Object:
    """The status of a Job that has begun."""
    return {
        "startTime": to_time(NOW - 100),
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
        **status,
    }


def job_pod(
    name: str,
    phase: str = "Running",
    index: int | None = None,
    *,
    tracked: bool = True,
    deleting: bool = False,
    exit_code: int | None = None,
    finished: float | None = None,
    conditions: Sequence[Object] = (),
    annotations: Object | None = None,
) -> Object:
    metadata: Object = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "labels": dict(LABELS),
        "annotations": {**({INDEX: str(index)} if index is not None else {}), **(annotations or {})},
        "creationTimestamp": to_time(NOW - 90),
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": UID, "controller": True}],
    }
    if tracked:
        metadata["finalizers"] = [TRACKING]
    if deleting:
        metadata |= {"deletionTimestamp": to_time(NOW), "deletionGracePeriodSeconds": 30}
    status: Object = {"phase": phase, "conditions": list(conditions)}
    if exit_code is None and phase in ("Failed", "Succeeded"):
        exit_code = int(phase == "Failed")
    if exit_code is not None:
        ended = {"exitCode": exit_code, "finishedAt": to_time(NOW - 1000 if finished is None else finished)}
        status["containerStatuses"] = [{"name": "c", "restartCount": 0, "state": {"terminated": ended}}]
    return {"metadata": metadata, "spec": {"nodeName": "n0"}, "status": status}


def ready() -> Object:
    return {"type": "Ready", "status": "True", "lastTransitionTime": to_time(NOW - 50)}


def observed(the_job: Object, *pods: Object, **more: Any) -> Observed:
    """What the caches hold: the Job with pods that it controls, and `more` trees beside them."""
    seen: Object = {"owned": pods, "orphans": (), "workloads": (), "groups": (), **more}
    return Observed(
        JobView(the_job),
        owned=[PodView(one) for one in seen.pop("owned")],
        orphans=[PodView(one) for one in seen.pop("orphans")],
        workloads=[WorkloadView(one) for one in seen.pop("workloads")],
        groups=[PodGroupView(one) for one in seen.pop("groups")],
        **seen,
    )
