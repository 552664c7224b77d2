"""CronJobs through the real API: gangs in their templates, crashes, and Jobs made from them by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from echelon.api.objects import meta
from echelon.api.scheme import CRON_JOBS, JOBS, POD_GROUPS, WORKLOADS, Object
from echelon.client.informer import Caches
from echelon.controllers.cronjob import CronJobController
from echelon.controllers.runner import Controller
from tests.controller_plane import ControllerPlane, in_virtual_time
from tests.integration.test_garbage import everyone
from tests.integration.test_job_runs import ends, job


def with_schedules(caches: Caches) -> Sequence[Controller]:
    return [*everyone(caches), CronJobController(caches)]


GANG = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}


def cron_job(schedule: str = "*/10 * * * *", template: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report", "namespace": "default"},
        "spec": {
            "schedule": schedule,
            "jobTemplate": {"spec": (template or job(annotations=ends(0)))["spec"]},
            **spec,
        },
    }


def test_a_gang_in_the_template_gets_its_workload_and_group_each_time() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        gang = job(parallelism=3, completions=3, completionMode="Indexed", scheduling=GANG, annotations=ends(0, 60))
        await plane.create(cron_job(template=gang))
        await plane.wait(1210)
        made = await plane.names(JOBS)
        assert len(made) == 2
        workloads = {one["spec"]["controllerRef"]["name"]: one for one in await plane.all(WORKLOADS)}
        assert sorted(workloads) == made
        groups = await plane.all(POD_GROUPS)
        assert [group["spec"]["schedulingPolicy"] for group in groups] == [{"gang": {"minCount": 3}}] * 2
        assert [group["spec"]["disruptionMode"] for group in groups] == [{"all": {}}] * 2
        assert len([pod for pod in await plane.pods() if pod["spec"].get("schedulingGroup")]) == 6
        status = (await plane.get(CRON_JOBS, "report"))["status"]
        assert [one["name"] for one in status["active"]] == made[1:]
        assert {"lastScheduleTime", "lastSuccessfulTime"} <= set(status)
        assert await plane.reasons("report") == ["SuccessfulCreate", "SawCompletedJob", "SuccessfulCreate"]

    in_virtual_time(scenario, controllers=with_schedules)


def test_history_is_kept_short_and_deleting_the_cron_job_takes_its_jobs() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(cron_job("* * * * *"))
        await plane.wait(600)
        assert 3 <= len(await plane.names(JOBS)) <= 4
        await plane.delete(CRON_JOBS, "report")
        await plane.wait(10)
        assert await plane.names(JOBS) == []
        assert await plane.pods() == []

    in_virtual_time(scenario, controllers=with_schedules)


def test_a_plane_that_was_away_starts_one_job_for_the_time_that_passed() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(cron_job("*/10 * * * *"))
        await plane.wait(610)
        assert len(await plane.names(JOBS)) == 1
        await plane.kill()
        await plane.wait(3600)
        await plane.start()
        await plane.wait(5)
        assert len(await plane.names(JOBS)) == 2

    in_virtual_time(scenario, controllers=with_schedules)


def test_a_job_made_by_hand_runs_beside_those_of_the_schedule_and_is_not_unexpected() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        made = await plane.create(cron_job("@yearly", concurrencyPolicy="Forbid"))
        owner = {**meta.owner_reference(made, CRON_JOBS, controller=False), "controller": True}
        by_hand = job("manual", annotations=ends(0, 30))
        by_hand["metadata"] |= {
            "ownerReferences": [owner],
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
        }
        await plane.create(by_hand)
        await plane.finished("manual")
        await plane.wait(5)
        assert await plane.reasons("report") == []
        assert "lastSuccessfulTime" in (await plane.get(CRON_JOBS, "report"))["status"]

    in_virtual_time(scenario, controllers=with_schedules)


def test_a_suspended_one_starts_its_job_when_it_is_resumed() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(cron_job("* * * * *", suspend=True))
        await plane.wait(90)
        assert await plane.names(JOBS) == []
        await plane.patch(CRON_JOBS, "report", {"spec": {"suspend": False}})
        await plane.wait(1)
        assert len(await plane.names(JOBS)) == 1

    in_virtual_time(scenario, controllers=with_schedules)
