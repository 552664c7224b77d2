"""A control plane that runs Jobs without Workloads, and one that begins or ceases to while Jobs run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import CRON_JOBS, JOBS, POD_GROUPS, PODS, WORKLOADS, Object, Resource
from echelon.api.verbs import WriteOptions
from echelon.base.rng import Rng
from echelon.client.informer import Caches
from echelon.controllers.job import JobController
from echelon.controllers.runner import Controller
from echelon.runtime import virtual_time
from echelon.runtime.clocks import LoopClock
from echelon.server.objects.object_cache import header_of
from echelon.server.pipeline import Pipeline
from echelon.store.memory import open_memory
from tests.controller_plane import ControllerPlane
from tests.integration.test_job_runs import ends, job

GANG = {"schedulingPolicy": {"gang": {}}}
GANG_JOB = job(completionMode="Indexed", parallelism=2, completions=2, scheduling=GANG, annotations=ends(0, 1000))


class Switch:
    """Makes the Job controller with or without Workloads, as of the next start."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, caches: Caches) -> Sequence[Controller]:
        return [JobController(caches, workloads=self.on)]


def groups_of(pods: Sequence[Object]) -> list[bool]:
    return sorted("schedulingGroup" in pod["spec"] for pod in pods)


@pytest.mark.conformance("JOB-W26")
def test_a_stored_gang_runs_as_plain_pods_and_the_job_says_so() -> None:
    async def scenario() -> None:
        plane = ControllerPlane(Switch(on=False))
        await plane.start()
        await plane.create(GANG_JOB)
        await plane.wait(5)
        assert groups_of(await plane.pods("Running")) == [False, False]
        assert await plane.all(WORKLOADS) == await plane.all(POD_GROUPS) == []
        told = meta.find_condition(await plane.get(JOBS, "train"), "GroupingDegraded")
        assert told is not None
        assert (told["status"], told["reason"]) == ("True", "WorkloadsSwitchedOff")
        assert (await plane.reasons("train")).count("WorkloadsSwitchedOff") == 1
        await plane.kill()

    virtual_time.run(scenario())


def test_switched_off_and_on_again_a_running_job_finds_its_groups() -> None:
    async def scenario() -> None:
        switch = Switch(on=True)
        plane = ControllerPlane(switch)
        await plane.start()
        await plane.create(GANG_JOB)
        await plane.wait(5)
        objects = [await plane.names(resource) for resource in (WORKLOADS, POD_GROUPS)]
        assert list(map(len, objects)) == [1, 1]

        switch.on = False
        await plane.restart()
        await lose_a_pod(plane)
        assert groups_of(await plane.pods("Running")) == [
            False,
            True,
        ]  # the survivor keeps its group, the new pod has none
        assert [await plane.names(resource) for resource in (WORKLOADS, POD_GROUPS)] == objects

        switch.on = True
        await plane.restart()
        await lose_a_pod(plane, grouped=False)
        assert groups_of(await plane.pods("Running")) == [True, True]
        assert [await plane.names(resource) for resource in (WORKLOADS, POD_GROUPS)] == objects
        told = meta.find_condition(await plane.get(JOBS, "train"), "GroupingDegraded")
        assert told is not None
        assert told["status"] == "False"
        await plane.kill()

    virtual_time.run(scenario())


def test_a_job_that_began_without_groups_stays_without() -> None:
    async def scenario() -> None:
        switch = Switch(on=False)
        plane = ControllerPlane(switch)
        await plane.start()
        await plane.create(GANG_JOB)
        await plane.wait(5)
        switch.on = True
        await plane.restart()
        await lose_a_pod(plane, grouped=False)
        assert groups_of(await plane.pods("Running")) == [False, False]
        assert await plane.all(WORKLOADS) == []
        await plane.kill()

    virtual_time.run(scenario())


async def lose_a_pod(plane: ControllerPlane, grouped: bool = True) -> None:
    """A running pod fails; wait until another one runs in its place."""
    pod = next(one for one in await plane.pods("Running") if ("schedulingGroup" in one["spec"]) == grouped)
    await plane.patch(PODS, meta.name(pod), {"status": {"phase": "Failed"}}, "status")
    await plane.wait(30)


CRON_JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "nightly"},
    "spec": {"schedule": "@daily", "jobTemplate": {"spec": job(scheduling=GANG)["spec"]}},
}


@pytest.mark.conformance("JOB-W44")
@pytest.mark.parametrize(
    ("resource", "obj", "path"),
    [(JOBS, job(scheduling=GANG), ("spec",)), (CRON_JOBS, CRON_JOB, ("spec", "jobTemplate", "spec"))],
    ids=["Job", "CronJob"],
)
def test_scheduling_of_new_objects_is_dropped_with_a_warning_and_stays_where_it_is(
    resource: Resource, obj: Object, path: tuple[str, ...]
) -> None:
    async def scenario() -> None:
        clock = LoopClock()
        store = open_memory(header_of)
        before = Pipeline(store, clock, Rng(1))
        await before.bootstrap()
        old = await before.create(resource, {**obj, "metadata": {"name": "old"}}, "default")
        api = Pipeline(store, clock, Rng(2), job_workloads=False)
        warnings: list[str] = []
        options = WriteOptions(warn=warnings.append)
        new = await api.create(resource, {**obj, "metadata": {"name": "new"}}, "default", options)
        assert "scheduling" not in part(new, path)
        field = ".".join(path)
        assert warnings == [f"{field}.scheduling is dropped: this control plane runs Jobs without Workloads"]

        kept = await api.update(resource, {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}, "default")
        assert part(kept, path)["scheduling"] == part(old, path)["scheduling"]

        again = {**new, "spec": {**obj["spec"], **({} if resource is CRON_JOBS else kept_fields(new))}}
        updated = await api.update(resource, again, "default", options=options)
        assert "scheduling" not in part(updated, path)

    virtual_time.run(scenario())


def kept_fields(the_job: Object) -> Object:
    return {"selector": the_job["spec"]["selector"], "template": the_job["spec"]["template"]}


def part(obj: Object, path: tuple[str, ...]) -> Object:
    for field in path:
        obj = obj[field]
    return obj
