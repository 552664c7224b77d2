"""JobSets, TrainJobs and CronJobs on a plane that dies after any of its writes end as on an undisturbed one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    CONFIG_MAPS,
    CRON_JOBS,
    JOB_SETS,
    JOBS,
    POD_GROUPS,
    SECRETS,
    SERVICES,
    TRAIN_JOBS,
    VOLUME_CLAIMS,
    WORKLOADS,
    Object,
    Resource,
)
from echelon.client.informer import Caches
from echelon.controllers.cronjob import CronJobController
from echelon.controllers.runner import Controller
from echelon.runtime import virtual_time
from tests.controller_plane import ControllerPlane, for_training

#: After every how many writes a plane dies.
STRIDE = 1 if os.environ.get("ECHELON_LONG") else 5
#: Everything has ended by then; a CronJob has started four Jobs.
SECONDS = 250.0
MADE = (WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS, SERVICES, VOLUME_CLAIMS, CONFIG_MAPS, SECRETS)
#: What a user counts on; times and messages differ with the moment of a crash.
FACTS = ("restarts", "restartsCountTowardsMax", "terminalState", "replicatedJobsStatus", "jobsStatus")


def with_schedules(caches: Caches) -> Sequence[Controller]:
    return [*for_training(caches), CronJobController(caches)]


def job_spec(pods: int, code: int = 0) -> Object:
    annotations = {"echelon.dev/run-seconds": "3", "echelon.dev/exit-code": str(code)}
    mounts = [{"name": "data", "mountPath": "/data"}]
    pod = {"restartPolicy": "Never", "containers": [{"name": "node", "image": "x", "volumeMounts": mounts}]}
    return {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"metadata": {"annotations": annotations}, "spec": pod},
    }


def replicated(name: str, replicas: int = 1, pods: int = 1, code: int = 0) -> Object:
    return {"name": name, "replicas": replicas, "template": {"spec": job_spec(pods, code)}}


CLAIMS = {
    "templates": [
        {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    ]
}


def jobset(*entries: Object, **spec: Any) -> Object:
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": {"name": "it"},
        "spec": {"replicatedJobs": list(entries), "volumeClaimPolicies": [CLAIMS], **spec},
    }


def trainjob(code: int, **spec: Any) -> Object:
    annotations = {"echelon.dev/run-seconds": "3", "echelon.dev/exit-code": str(code)}
    patch: Object = {
        "manager": "example.com/test",
        "trainingRuntimeSpec": {
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "node",
                            "template": {"spec": {"template": {"metadata": {"annotations": annotations}}}},
                        }
                    ]
                }
            }
        },
    }
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": "TrainJob",
        "metadata": {"name": "it"},
        "spec": {
            "runtimeRef": {"name": "gangs"},
            "trainer": {"numNodes": 2},
            "runtimePatches": [patch],
            **spec,
        },
    }


def runtime(name: str = "node", **more: Any) -> Object:
    spec = job_spec(1)
    del spec["template"]["spec"]["containers"][0]["volumeMounts"]
    label = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    template = {"metadata": {"labels": label}, "spec": {"backoffLimit": 0, "template": spec["template"]}}
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "gangs", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "podGroupPolicy": {"workload": {}},
            "template": {"spec": {"replicatedJobs": [{"name": name, "template": template}], **more}},
        },
    }


GANG = {"schedulingPolicy": {"gang": {}}}
RESTARTS = {"failurePolicy": {"maxRestarts": 2}}
CONTAINER = {"name": "c", "image": "x"}
CRON_JOB: Object = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "it"},
    "spec": {
        "schedule": "* * * * *",
        "successfulJobsHistoryLimit": 2,
        "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}},
    },
}
SCENARIOS: dict[str, list[Object]] = {
    "JobSet that is a gang": [jobset(replicated("a", 2), scheduling=GANG)],
    "JobSet that restarts until it fails": [jobset(replicated("a"), replicated("b", code=1), **RESTARTS)],
    "gang that restarts until it fails": [jobset(replicated("a", 1, 2, code=1), scheduling=GANG, **RESTARTS)],
    "JobSet in stages": [
        jobset(
            replicated("a"),
            replicated("b"),
            executionPolicy={"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"},
        )
    ],
    "JobSet that expires": [jobset(replicated("a"), ttlSecondsAfterFinished=20)],
    "TrainJob that completes": [runtime(), trainjob(0)],
    "TrainJob that restarts until it fails": [runtime(failurePolicy={"maxRestarts": 1}), trainjob(1)],
    "TrainJob that misses its deadline": [
        runtime(),
        trainjob(0, activeDeadlineSeconds=2),
    ],
    "CronJob": [CRON_JOB],
}


async def facts(plane: ControllerPlane, resource: Resource) -> Any:
    """What a user sees when nothing more can happen."""
    found = await plane.find(resource, "it")
    children = {kind.kind: len(await plane.all(kind)) for kind in MADE}
    jobs = sorted((meta.name(one), _conditions(one)) for one in await plane.all(JOBS))
    live = sum(pod["status"]["phase"] in ("Pending", "Running") for pod in await plane.pods())
    tracked = sum("finalizers" in pod["metadata"] for pod in await plane.pods())
    seen: list[Any] = [children, jobs, live, tracked]
    if found is not None:
        status = found.get("status") or {}
        seen += [_conditions(found), {fact: status.get(fact) for fact in FACTS}, status.get("lastScheduleTime")]
    return seen


def _conditions(obj: Object) -> list[tuple[str, str, str]]:
    status = obj.get("status") or {}
    return sorted((one["type"], one["status"], one["reason"]) for one in status.get("conditions") or ())


async def run(objects: list[Object], dies_after: int | None) -> tuple[Any, bool]:
    """What is there in the end, and whether the plane did die on the way."""
    plane = ControllerPlane(with_schedules)
    end = plane.clock.now() + SECONDS
    verbs = await plane.start(dies_after)
    for obj in objects:
        resource = (await plane.create(obj))["kind"]
    died = False
    if dies_after is not None:
        try:
            async with asyncio.timeout(end - plane.clock.now() - 60):
                await verbs.dead.wait()
            died = True
        except TimeoutError:
            pass
        await plane.kill()
        await plane.start()
    await plane.wait(end - plane.clock.now())
    kinds = {one.kind: one for one in (JOB_SETS, TRAIN_JOBS, CRON_JOBS)}
    outcome = await facts(plane, kinds[resource])
    await plane.kill()
    return outcome, died


@pytest.mark.parametrize("name", SCENARIOS)
def test_death_after_any_write_changes_nothing_in_the_end(name: str) -> None:
    expected, _ = virtual_time.run(run(SCENARIOS[name], None))
    # Every scenario begins elsewhere, so that all together die after every number of writes.
    writes = list(SCENARIOS).index(name) % STRIDE
    while True:
        outcome, died = virtual_time.run(run(SCENARIOS[name], writes))
        if not died:
            break
        assert outcome == expected, f"after {writes} writes"
        writes += STRIDE
    assert writes > 20
