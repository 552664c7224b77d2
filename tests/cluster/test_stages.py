"""Stages of JobSets that wait for quota, with the quota of a real server and its Job controller."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, RESOURCE_QUOTAS, Object
from echelon.api.verbs import Verbs

from .conftest import Side
from .waiting import until
from .working_plane import at_work_on

CPU = "requests.cpu"


@pytest.fixture
async def at_work(side: Side) -> AsyncIterator[Verbs]:
    async with at_work_on(side) as verbs:
        yield verbs


def entry(name: str, cpu: str, seconds: int, pods: int = 1, after: str = "") -> Object:
    container: Object = {"name": "c", "image": "busybox", "command": ["sleep", str(seconds)]}
    container["resources"] = {"requests": {"cpu": cpu}}
    spec = {"parallelism": pods, "completions": pods, "template": {"spec": {"containers": [container]}}}
    depends = {"dependsOn": [{"name": after, "status": "Complete"}]} if after else {}
    return {"name": name, "template": {"spec": spec}, **depends}


def jobset(name: str, *entries: Object) -> Object:
    notes = {"echelon.dev/quota-admission": "stage"}
    metadata = {"name": name, "annotations": notes}
    spec = {"replicatedJobs": list(entries)}
    return {"apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.kind, "metadata": metadata, "spec": spec}


async def test_a_stage_waits_for_the_quota_of_its_namespace(at_work: Verbs, namespace: str) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cpus"}, "spec": {"hard": {CPU: "4"}}}
    await at_work.create(RESOURCE_QUOTAS, quota, namespace)
    await at_work.create(JOB_SETS, jobset("first", entry("work", "2", 40)), namespace)

    async def first_runs() -> bool:
        found = await at_work.get(JOB_SETS, "first", namespace)
        return bool(found.get("status", {}).get("quota", {}).get("used"))

    await until(first_runs)
    stages = [entry("data", "1", 4), entry("train", "2", 4, pods=2, after="data")]
    await at_work.create(JOB_SETS, jobset("second", *stages), namespace)

    async def told() -> str:
        found = meta.find_condition(await at_work.get(JOB_SETS, "second", namespace), "QuotaReserved")
        waits = found is not None and found["status"] == "False" and found["message"].startswith("train: needs")
        return str(found["message"]) if waits and found is not None else ""

    await until(told)
    assert await told() == f"train: needs 4 of {CPU}; quota cpus has 2 of 4 left"
    assert (await at_work.get(JOBS, "second-train-0", namespace))["spec"]["suspend"] is True

    async def complete() -> bool:
        return meta.condition_is(await at_work.get(JOB_SETS, "second", namespace), "Completed")

    await until(complete)
    ended = await at_work.get(JOB_SETS, "second", namespace)
    assert [stage["phase"] for stage in ended["status"]["stages"]] == ["Complete", "Complete"]
    assert ended["status"]["quota"]["peak"] == {"cpu": "4", "pods": "2"}
