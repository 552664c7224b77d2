"""JobSets from creation to end through the API pipeline, the Job controller and simulated nodes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    EVENTS,
    JOB_SETS,
    JOBS,
    POD_GROUPS,
    PODS,
    SERVICES,
    WORKLOADS,
    Object,
)
from echelon.api.verbs import Propagation
from echelon.runtime import virtual_time
from tests.controller_plane import ControllerPlane, for_training, in_virtual_time


def replicated(name: str, replicas: int = 1, parallelism: int = 1, exit_code: int = 0, **extra: Any) -> Object:
    words = {"echelon.dev/run-seconds": "3", "echelon.dev/exit-code": str(exit_code)}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    spec = {
        "parallelism": parallelism,
        "completions": parallelism,
        "backoffLimit": 0,
        "template": {"metadata": {"annotations": words}, "spec": pod},
    }
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **extra}


def jobset(*entries: Object, **spec: Any) -> Object:
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": {"name": "js"},
        "spec": {"replicatedJobs": list(entries), **spec},
    }


@pytest.mark.conformance("JS-I02", "JS-I03", "JS-I11")
def test_a_jobset_runs_to_its_end() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(jobset(replicated("driver"), replicated("workers", 2, 3)))
        done = await plane.until_condition(JOB_SETS, "js", "Completed")
        assert done["status"]["terminalState"] == "Completed"
        assert await plane.names(JOBS) == ["js-driver-0", "js-workers-0", "js-workers-1"]
        assert await plane.names(SERVICES) == ["js"]
        pods = await plane.all(PODS)
        assert len(pods) == 7
        assert {pod["spec"]["subdomain"] for pod in pods} == {"js"}
        assert await plane.reasons("js") == ["AllJobsCompleted"]

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-E07", "JS-I55")
@pytest.mark.parametrize("way", ["dependsOn", "executionPolicy"])
def test_a_later_stage_has_no_pod_before_its_turn(way: str) -> None:
    async def story(plane: ControllerPlane) -> None:
        waits = {"dependsOn": [{"name": "first", "status": "Complete"}]} if way == "dependsOn" else {}
        order = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
        policy = {} if way == "dependsOn" else {"executionPolicy": order}
        await plane.create(jobset(replicated("first", 2), replicated("second", 1, 2, **waits), **policy))
        await plane.wait(2)
        assert await plane.names(JOBS) == ["js-first-0", "js-first-1"]
        assert len(await plane.all(PODS)) == 2
        await plane.until_condition(JOB_SETS, "js", "Completed")
        assert len(await plane.all(PODS)) == 4

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-I10", "JS-I45", "JS-K01")
def test_a_failed_stage_stops_the_rest() -> None:
    async def story(plane: ControllerPlane) -> None:
        waits = {"dependsOn": [{"name": "first", "status": "Complete"}]}
        await plane.create(jobset(replicated("first", exit_code=1), replicated("second", **waits)))
        failed = await plane.until_condition(JOB_SETS, "js", "Failed")
        assert failed["status"]["conditions"][-1]["reason"] == "FailedJobs"
        await plane.wait(30)
        assert await plane.names(JOBS) == ["js-first-0"]

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-I36", "JS-I38", "JS-I49")
def test_suspended_and_resumed() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(jobset(replicated("workers", 2, 2), suspend=True))
        await plane.until_condition(JOB_SETS, "js", "Suspended")
        assert len(await plane.names(JOBS)) == 2
        assert await plane.all(PODS) == []
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        await plane.wait(2)
        assert len(await plane.all(PODS)) == 4
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": True}})

        async def quiet() -> bool:
            return not await plane.all(PODS)

        await plane.until(quiet)
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        done = await plane.until_condition(JOB_SETS, "js", "Completed")
        assert done["status"]["restarts"] == 0

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-I62")
def test_a_finished_jobset_goes_after_its_ttl() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(jobset(replicated("workers"), ttlSecondsAfterFinished=20))
        await plane.until_condition(JOB_SETS, "js", "Completed")
        await plane.wait(10)
        assert not meta.deleting(await plane.get(JOB_SETS, "js"))

        async def gone() -> bool:
            found = await plane.all(JOB_SETS)
            return not found or meta.deleting(found[0])

        await plane.until(gone, 20)

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-I63")
def test_a_job_that_the_server_refuses_is_told_in_an_event() -> None:
    async def story(plane: ControllerPlane) -> None:
        bad = replicated("workers")
        bad["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = ""
        await plane.create(jobset(bad))
        await plane.wait(30)
        assert await plane.reasons("js") == ["JobCreationFailed"]
        (event,) = [e for e in await plane.all(EVENTS) if e["reason"] == "JobCreationFailed"]
        assert "spec.template.spec.containers[0].image" in event["message"]
        assert event["count"] > 1

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-E08")
def test_a_job_waits_until_the_startup_probe_of_another_succeeds() -> None:
    async def story(plane: ControllerPlane) -> None:
        coordinator = replicated("coordinator")
        template = coordinator["template"]["spec"]["template"]
        template["metadata"]["annotations"]["echelon.dev/run-seconds"] = "10"
        probe = {"exec": {"command": ["echo", "started"]}, "initialDelaySeconds": 5}
        template["spec"]["containers"][0]["startupProbe"] = probe
        waits = {"dependsOn": [{"name": "coordinator", "status": "Ready"}]}
        await plane.create(jobset(coordinator, replicated("trainer", **waits)))
        await plane.wait(4)
        assert await plane.names(JOBS) == ["js-coordinator-0"]
        await plane.wait(4)
        assert await plane.names(JOBS) == ["js-coordinator-0", "js-trainer-0"]
        assert not meta.condition_is(await plane.get(JOBS, "js-coordinator-0"), "Complete")
        await plane.until_condition(JOB_SETS, "js", "Completed")

    in_virtual_time(story, controllers=for_training)


@pytest.mark.conformance("JS-I14")
def test_restarts_until_the_budget_is_used_up() -> None:
    async def story(plane: ControllerPlane) -> None:
        failing = replicated("leader", exit_code=1)
        await plane.create(jobset(failing, replicated("workers", 2), failurePolicy={"maxRestarts": 2}))
        failed = await plane.until_condition(JOB_SETS, "js", "Failed")
        assert failed["status"]["restarts"] == failed["status"]["restartsCountTowardsMax"] == 2
        assert failed["status"]["conditions"][-1]["reason"] == "ReachedMaxRestarts"
        leader = await plane.get(JOBS, "js-leader-0")
        assert meta.labels(leader)["jobset.sigs.k8s.io/restart-attempt"] == "2"

    in_virtual_time(story, controllers=for_training)


async def _tale(writes: int | None) -> tuple[list[str], Object]:
    """A JobSet that restarts once on the way; with `writes`, killed after so many of them and started again."""
    plane = ControllerPlane(for_training)
    mortal = await plane.start(writes)
    scheduling = {"schedulingPolicy": {"gang": {}}, "replicatedJobs": [{"targetReplicatedJobs": ["a"], "job": {}}]}
    entry = replicated("a", 2, 2, exit_code=1)
    await plane.create(jobset(entry, failurePolicy={"maxRestarts": 1}, scheduling=scheduling))
    if writes is not None:
        await mortal.dead.wait()
        await plane.restart()
    failed = await plane.until_condition(JOB_SETS, "js", "Failed")
    await plane.wait(10)
    kinds = (WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS, JOBS, SERVICES)
    names = [f"{kind.kind} {name}" for kind in kinds for name in await plane.names(kind)]
    await plane.kill()
    return names, failed["status"]


@cache
def _undisturbed() -> tuple[list[str], Object]:
    return virtual_time.run(_tale(None))


@pytest.mark.parametrize("writes", range(1, 70, 5))
def test_a_death_at_any_write_changes_nothing_in_the_end(writes: int) -> None:
    names, status = virtual_time.run(_tale(writes))
    undisturbed, expected = _undisturbed()
    assert (status["restarts"], status["restartsCountTowardsMax"]) == (1, 1)
    assert status["terminalState"] == expected["terminalState"] == "Failed"
    assert [name for name in names if not name.startswith("Job ")] == [
        name for name in undisturbed if not name.startswith("Job ")
    ]


@pytest.mark.conformance("JS-E04")
@pytest.mark.parametrize("propagation", ["Foreground", "Background"])
def test_deleting_a_jobset_leaves_nothing(propagation: Propagation) -> None:
    async def story(plane: ControllerPlane) -> None:
        scheduling = {"schedulingPolicy": {"gang": {}}, "replicatedJobs": [{"targetReplicatedJobs": ["a"], "job": {}}]}
        await plane.create(jobset(replicated("a", 2, 2), scheduling=scheduling))
        await plane.wait(2)
        assert len(await plane.all(POD_GROUPS)) == 2
        await plane.delete(JOB_SETS, "js", propagation)
        kinds = (JOB_SETS, JOBS, PODS, SERVICES, WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS)

        async def nothing_left() -> bool:
            return not any([await plane.all(kind) for kind in kinds])

        await plane.until(nothing_left)

    in_virtual_time(story, controllers=for_training)
