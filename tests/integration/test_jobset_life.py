"""JobSets from creation to end through the API pipeline, the Job controller and simulated nodes."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import meta
from echelon.api.scheme import EVENTS, JOB_SETS, JOBS, PODS, SERVICES, Object
from tests.integration.plane import Plane, run


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
    async def story(plane: Plane) -> None:
        await plane.apply(jobset(replicated("driver"), replicated("workers", 2, 3)))
        done = await plane.until_condition(JOB_SETS, "js", "Completed")
        assert done["status"]["terminalState"] == "Completed"
        assert await plane.names(JOBS) == ["js-driver-0", "js-workers-0", "js-workers-1"]
        assert await plane.names(SERVICES) == ["js"]
        pods = await plane.all(PODS)
        assert len(pods) == 7
        assert {pod["spec"]["subdomain"] for pod in pods} == {"js"}
        assert await plane.reasons("JobSet", "js") == ["AllJobsCompleted"]

    run(story)


@pytest.mark.conformance("JS-E07", "JS-I55")
@pytest.mark.parametrize("way", ["dependsOn", "executionPolicy"])
def test_a_later_stage_has_no_pod_before_its_turn(way: str) -> None:
    async def story(plane: Plane) -> None:
        waits = {"dependsOn": [{"name": "first", "status": "Complete"}]} if way == "dependsOn" else {}
        order = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
        policy = {} if way == "dependsOn" else {"executionPolicy": order}
        await plane.apply(jobset(replicated("first", 2), replicated("second", 1, 2, **waits), **policy))
        await plane.sleep(2)
        assert await plane.names(JOBS) == ["js-first-0", "js-first-1"]
        assert len(await plane.all(PODS)) == 2
        await plane.until_condition(JOB_SETS, "js", "Completed")
        assert len(await plane.all(PODS)) == 4

    run(story)


@pytest.mark.conformance("JS-I10", "JS-I45", "JS-K01")
def test_a_failed_stage_stops_the_rest() -> None:
    async def story(plane: Plane) -> None:
        waits = {"dependsOn": [{"name": "first", "status": "Complete"}]}
        await plane.apply(jobset(replicated("first", exit_code=1), replicated("second", **waits)))
        failed = await plane.until_condition(JOB_SETS, "js", "Failed")
        assert failed["status"]["conditions"][-1]["reason"] == "FailedJobs"
        await plane.sleep(30)
        assert await plane.names(JOBS) == ["js-first-0"]

    run(story)


@pytest.mark.conformance("JS-I36", "JS-I38", "JS-I49")
def test_suspended_and_resumed() -> None:
    async def story(plane: Plane) -> None:
        await plane.apply(jobset(replicated("workers", 2, 2), suspend=True))
        await plane.until_condition(JOB_SETS, "js", "Suspended")
        assert len(await plane.names(JOBS)) == 2
        assert await plane.all(PODS) == []
        await plane.set_spec(JOB_SETS, "js", suspend=False)
        await plane.sleep(2)
        assert len(await plane.all(PODS)) == 4
        await plane.set_spec(JOB_SETS, "js", suspend=True)

        async def quiet() -> bool:
            return not await plane.all(PODS)

        await plane.until(quiet, "all pods to be gone")
        await plane.set_spec(JOB_SETS, "js", suspend=False)
        done = await plane.until_condition(JOB_SETS, "js", "Completed")
        assert done["status"]["restarts"] == 0

    run(story)


@pytest.mark.conformance("JS-I62")
def test_a_finished_jobset_goes_after_its_ttl() -> None:
    async def story(plane: Plane) -> None:
        await plane.apply(jobset(replicated("workers"), ttlSecondsAfterFinished=20))
        await plane.until_condition(JOB_SETS, "js", "Completed")
        await plane.sleep(10)
        assert not meta.deleting(await plane.get(JOB_SETS, "js"))

        async def gone() -> bool:
            found = await plane.all(JOB_SETS)
            return not found or meta.deleting(found[0])

        await plane.until(gone, "the JobSet to be deleted", 20)

    run(story)


@pytest.mark.conformance("JS-I63")
def test_a_job_that_the_server_refuses_is_told_in_an_event() -> None:
    async def story(plane: Plane) -> None:
        bad = replicated("workers")
        bad["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = ""
        await plane.apply(jobset(bad))
        await plane.sleep(30)
        assert await plane.reasons("JobSet", "js") == ["JobCreationFailed"]
        (event,) = [e for e in await plane.all(EVENTS) if e["reason"] == "JobCreationFailed"]
        assert "spec.template.spec.containers[0].image" in event["message"]
        assert event["count"] > 1

    run(story)
