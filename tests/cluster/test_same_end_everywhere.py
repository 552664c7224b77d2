"""The same manifests end in the same state in process, over our HTTPS and on a real kube-apiserver."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import EXIT_CODE, RACK, RUN_SECONDS
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    JOB_SETS,
    JOBS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    TRAIN_JOBS,
    WORKLOADS,
    Object,
)
from echelon.api.verbs import Verbs
from tests.https_server import running

from .conftest import Side
from .waiting import until
from .working_plane import at_work_on

KINDS = (TRAIN_JOBS, JOB_SETS, JOBS, WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS, PODS)
#: Pods of a Job end in a random suffix, names of groups in a hash of what owns them.
_SUFFIX = re.compile(r"-[a-z0-9]{5,10}$")
_NAMESPACE = "same-end"


def _replicated(name: str, seconds: int, parallelism: int, exit_code: int = 0, **more: Any) -> Object:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    script = {RUN_SECONDS: str(seconds), EXIT_CODE: str(exit_code)}
    pods = {"metadata": {"annotations": script}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"parallelism": parallelism, "completions": parallelism, "backoffLimit": 0, "template": pods}
    return {"name": name, "template": {"spec": job}, **more}


def _jobset(name: str, jobs: list[Object], **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"replicatedJobs": jobs, **spec}}


def manifests() -> list[tuple[Any, Object, str]]:
    """Objects of every sort, each with the condition that ends it."""
    rack = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    gang = {"schedulingPolicy": {"gang": {}}, **rack}
    nested = {
        "schedulingPolicy": {"gang": {}},
        "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": rack}],
    }
    stages = [
        _replicated("prepare", 1, 1),
        _replicated("train", 2, 2, replicas=2, dependsOn=[{"name": "prepare", "status": "Complete"}]),
    ]
    trainer = {"numNodes": 2, "image": "busybox", "command": ["sleep", "2"]}
    trainer["resourcesPerNode"] = {"requests": {"cpu": "50m"}}
    return [
        (JOB_SETS, _jobset("gang", [_replicated("workers", 2, 2, replicas=2)], scheduling=gang), "Completed"),
        (
            JOB_SETS,
            _jobset("nested", [_replicated("workers", 2, 2, replicas=2)], scheduling=nested),
            "Completed",
        ),
        (JOB_SETS, _jobset("stages", stages), "Completed"),
        (JOB_SETS, _jobset("fails", [_replicated("w", 1, 1, exit_code=3)]), "Failed"),
        (
            JOB_SETS,
            _jobset("again", [_replicated("w", 1, 1, exit_code=3)], failurePolicy={"maxRestarts": 2}),
            "Failed",
        ),
        (TRAIN_JOBS, {"metadata": {"name": "model"}, "spec": _train("torch-distributed-gang", trainer)}, "Complete"),
    ]


def _train(runtime: str, trainer: Object) -> Object:
    return {"runtimeRef": {"name": runtime}, "trainer": trainer}


async def final_state(verbs: Verbs) -> dict[str, list[Any]]:
    """What is left when all have ended, without what chance and time decide."""
    await verbs.create(NAMESPACES, {"metadata": {"name": _NAMESPACE}})
    for resource, manifest, _ in manifests():
        await verbs.create(resource, manifest, _NAMESPACE)
    for resource, manifest, condition in manifests():
        await until(_has(verbs, resource, meta.name(manifest), condition))
    # Counts and groups follow the last condition within moments: the end is what no longer changes.
    seen, now = None, await _told_of_all(verbs)
    while now != seen:
        await asyncio.sleep(2)
        seen, now = now, await _told_of_all(verbs)
    return now


async def _told_of_all(verbs: Verbs) -> dict[str, list[Any]]:
    return {
        resource.kind: sorted((_told(one) for one in (await verbs.list(resource, _NAMESPACE)).items), key=repr)
        for resource in KINDS
    }


def _has(verbs: Verbs, resource: Any, name: str, condition: str) -> Callable[[], Any]:
    async def look() -> bool:
        return meta.condition_is(await verbs.get(resource, name, _NAMESPACE), condition)

    return look


def _told(found: Object) -> Object:
    status = found.get("status", {})
    return {
        "name": _SUFFIX.sub("", meta.name(found)),
        "owners": [(owner["kind"], owner["name"]) for owner in meta.owner_references(found)],
        "conditions": sorted(
            (one["type"], one["status"], one.get("reason", ""))
            for one in status.get("conditions", [])
            if one["type"] != "GangPending"  # how long a gang waited is a matter of time
        ),
        "counts": {
            key: value
            for key, value in status.items()
            if isinstance(value, (int, str)) and not key.endswith(("Time", "IP"))
        },
    }


@asynccontextmanager
async def in_process(directory: Path) -> AsyncIterator[Side]:
    async with running(directory) as (_, pipeline):
        yield Side("embedded", pipeline, directory)


@pytest.mark.conformance("API-128")
async def test_the_same_end_whatever_carries_the_requests(side: Side, tmp_path: Path) -> None:
    async with in_process(tmp_path / "here") as here, at_work_on(here) as verbs:
        expected = await final_state(verbs)
    async with at_work_on(side) as verbs:
        found = await final_state(verbs)
    for kind, ends in expected.items():
        differing = [one for one in (*ends, *found[kind]) if ends.count(one) != found[kind].count(one)]
        assert not differing, kind
    assert all(expected.values()), "every kind was there"
