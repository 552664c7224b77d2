"""SIGKILL at any moment: nothing acknowledged is lost, and the end is that of an undisturbed run."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    CONFIG_MAPS,
    JOB_SETS,
    JOBS,
    POD_GROUPS,
    PODS,
    SERVICES,
    TRAIN_JOBS,
    WORKLOADS,
    Object,
    Resource,
    by_kind,
)
from echelon.api.verbs import DeleteOptions, Verbs
from echelon.base.rng import Rng
from echelon.client.kubeconfig import connect, load
from tests.e2e.process import UpProcess

T = TypeVar("T")

ROUNDS = 50 if os.environ.get("ECHELON_LONG") else 3
KILLS_PER_ROUND = 2
SPEED = 30
EXAMPLES = Path(__file__).parents[2] / "examples"
NAMESPACE = "default"
#: What the client raises while the plane is down.
UNREACHABLE = (503, 504)
TOP = ((JOB_SETS, "low", "Completed"), (JOB_SETS, "high", "Completed"), (TRAIN_JOBS, "tune", "Complete"))


async def patiently(act: Callable[[], Awaitable[T]]) -> T:
    """Try again while the plane is down; a create that was acknowledged before the answer got lost is fine."""
    for _ in range(600):
        try:
            return await act()
        except ApiError as error:
            if error.code not in UNREACHABLE:
                raise
            await asyncio.sleep(0.05)
    raise AssertionError("the plane did not come back")


async def create(verbs: Verbs, obj: Object) -> None:
    resource = by_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None
    try:
        await patiently(lambda: verbs.create(resource, obj, NAMESPACE if resource.namespaced else ""))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


async def submit(verbs: Verbs, file: str) -> None:
    text = (EXAMPLES / "demo" / file).read_text()
    # Low must still run when high arrives, however long a busy machine takes to start the plane again.
    for document in yaml.safe_load_all(text.replace('run-seconds: "30"', 'run-seconds: "180"')):
        await create(verbs, document)


async def items(verbs: Verbs, resource: Resource) -> list[Object]:
    return (await patiently(lambda: verbs.list(resource, NAMESPACE))).items


async def until(check: Callable[[], Awaitable[Any]], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        if await check():
            return
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        await asyncio.sleep(0.05)


def running(jobset: str, count: int, verbs: Verbs) -> Callable[[], Awaitable[bool]]:
    """Whether so many pods of the JobSet hold a node or have ended well."""

    async def check() -> bool:
        pods = [
            pod
            for pod in await items(verbs, PODS)
            if meta.labels(pod).get("jobset.sigs.k8s.io/jobset-name") == jobset
            and pod["spec"].get("nodeName")
            and not meta.deleting(pod)
        ]
        return len(pods) >= count

    return check


async def scenario(verbs: Verbs) -> None:
    """The demo: low runs, high arrives, then the TrainJob; all end."""
    await submit(verbs, "1-low.yaml")
    await until(running("low", 8, verbs), "low to run")
    await submit(verbs, "2-high.yaml")
    await until(running("high", 12, verbs), "high to run")
    await submit(verbs, "3-trainjob.yaml")

    async def all_ended() -> bool:
        ends = []
        for resource, name, condition in TOP:
            found = [obj for obj in await items(verbs, resource) if meta.name(obj) == name]
            ends.append(bool(found) and meta.condition_is(found[0], condition))
        return all(ends)

    await until(all_ended, "all three to complete", seconds=90)


async def summary(verbs: Verbs) -> dict[str, Any]:
    """Terminal conditions and counters of the top-level objects, without times and names of the run."""
    result: dict[str, Any] = {}
    for resource, name, _ in TOP:
        (obj,) = [obj for obj in await items(verbs, resource) if meta.name(obj) == name]
        status = obj["status"]
        result[name] = {
            "conditions": sorted(
                (c["type"], c["status"], c["reason"])
                for c in status["conditions"]
                if c["type"] != "GangPending"  # whether a gang waited long enough to be told is a matter of time
            ),
            "counted restarts": status.get("restartsCountTowardsMax", 0),
            "restarts": status.get("restarts", 0),
            "jobs": sorted(
                (one["name"], one["succeeded"], one["failed"], one["active"])
                for one in status.get("replicatedJobsStatus") or status.get("jobsStatus") or ()
            ),
        }
    return result


async def no_partial_gang(verbs: Verbs) -> bool:
    pods = await items(verbs, PODS)
    for group in await items(verbs, POD_GROUPS):
        minimum = (group["spec"]["schedulingPolicy"].get("gang") or {}).get("minCount", 1)
        bound = [
            pod
            for pod in pods
            if (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") == meta.name(group)
            and pod["spec"].get("nodeName")
            and not meta.deleting(pod)
        ]
        if 0 < len(bound) < minimum:
            return False
    return True


async def clean_up(verbs: Verbs) -> None:
    """Delete what was submitted; everything else has to follow."""
    for resource, name, _ in TOP:
        await verbs.delete(resource, name, NAMESPACE, DeleteOptions(propagation="Background"))

    async def nothing_left() -> bool:
        kinds = (PODS, JOBS, JOB_SETS, TRAIN_JOBS, POD_GROUPS, COMPOSITE_POD_GROUPS, WORKLOADS)
        left = [obj for kind in kinds for obj in await items(verbs, kind)]
        left += [obj for kind in (SERVICES, CONFIG_MAPS) for obj in await items(verbs, kind) if _ours(obj)]
        return not left

    await until(nothing_left, "everything to be collected")


def _ours(obj: Object) -> bool:
    return bool(obj["metadata"].get("ownerReferences"))


async def keep_writing(verbs: Verbs, acknowledged: dict[str, str]) -> None:
    """A client that writes all the time and remembers what it was told is stored."""
    number = 0
    while True:
        name = f"ack-{number}"
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": str(number)}}
        try:
            stored = await verbs.create(CONFIG_MAPS, obj, NAMESPACE)
            acknowledged[name] = stored["metadata"]["resourceVersion"]
        except ApiError as error:
            if error.code not in UNREACHABLE and error.reason != "AlreadyExists":
                raise
            await asyncio.sleep(0.05)
        number += 1
        await asyncio.sleep(0.01)


async def check_acknowledged(verbs: Verbs, acknowledged: dict[str, str]) -> None:
    expected = dict(acknowledged)
    stored = {meta.name(obj): obj["metadata"]["resourceVersion"] for obj in await items(verbs, CONFIG_MAPS)}
    for name, version in expected.items():
        assert stored.get(name) == version, f"{name} was acknowledged at {version} and is now {stored.get(name)}"


async def disturbed_run(data: Path, kills: list[float]) -> dict[str, Any]:
    """The scenario while the plane is killed after each of these real delays; its summary."""
    up = UpProcess(data, "--cluster", str(EXAMPLES / "clusters" / "demo.yaml"), "--speed", str(SPEED))
    await asyncio.to_thread(up.start)
    verbs = connect(load(up.kubeconfig))
    acknowledged: dict[str, str] = {}
    writer = asyncio.create_task(keep_writing(verbs, acknowledged))
    story = asyncio.create_task(scenario(verbs))
    try:
        for delay in kills:
            await asyncio.wait({story, writer}, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(up.kill)
            await asyncio.to_thread(up.start)
            await check_acknowledged(verbs, acknowledged)
        await story
        writer.cancel()
        await until(lambda: no_partial_gang(verbs), "no partial gang")
        result = await summary(verbs)
        await clean_up(verbs)
        return result
    finally:
        for task in (writer, story):
            task.cancel()
        await asyncio.gather(writer, story, return_exceptions=True)
        await verbs.close()
        await asyncio.to_thread(up.stop)


@pytest.mark.timeout(ROUNDS * 60)
async def test_killed_at_random_moments_the_end_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    undisturbed = await disturbed_run(tmp_path / "undisturbed", [])
    assert undisturbed["low"]["counted restarts"] == 0
    for number in range(ROUNDS):
        rng = Rng(number)
        kills = [0.2 + rng.below(1500) / 1000 for _ in range(KILLS_PER_ROUND)]
        disturbed = await disturbed_run(tmp_path / f"round-{number}", kills)
        assert disturbed == undisturbed, f"round {number}, killed after {kills}"
