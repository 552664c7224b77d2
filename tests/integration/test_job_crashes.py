"""A plane that dies after any of its writes comes back and ends where an undisturbed one does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from echelon.api.scheme import JOBS, POD_GROUPS, PODS, WORKLOADS, Object
from echelon.runtime import virtual_time
from tests.controller_plane import ControllerPlane
from tests.integration.test_garbage import everyone
from tests.integration.test_job_runs import ends, job

GANG = {"schedulingPolicy": {"gang": {}}}

SCENARIOS: dict[str, Object] = {
    "indexed gang that completes": job(
        completionMode="Indexed", parallelism=2, completions=3, scheduling=GANG, annotations=ends(0)
    ),
    "plain job that completes": job(parallelism=2, completions=3, annotations=ends(0)),
    "job that runs out of attempts": job(parallelism=2, completions=2, backoffLimit=2, annotations=ends(1)),
    "indexed job that runs out of attempts": job(
        completionMode="Indexed", parallelism=3, completions=3, backoffLimit=0, annotations=ends(1)
    ),
    "indexes that fail one by one": job(
        completionMode="Indexed", parallelism=2, completions=2, backoffLimitPerIndex=1, annotations=ends(1)
    ),
    "deadline": job(parallelism=2, completions=2, activeDeadlineSeconds=8, annotations=ends(0, 500)),
    "success policy": job(
        completionMode="Indexed",
        parallelism=1,
        completions=4,
        successPolicy={"rules": [{"succeededCount": 1}]},
        annotations=ends(0),
    ),
    "expires when finished": job(ttlSecondsAfterFinished=10, annotations=ends(0)),
}


async def to_the_end(plane: ControllerPlane) -> Any:
    """Run on until nothing more can happen; what a user sees then."""
    await plane.wait(600)
    found = await plane.find(JOBS, "train")
    if found is None:
        return [len(await plane.all(resource)) for resource in (PODS, WORKLOADS, POD_GROUPS)]
    status = found["status"]
    return {
        "conditions": [(one["type"], one["status"], one["reason"]) for one in status.get("conditions", ())],
        "counters": {key: status.get(key) for key in ("active", "succeeded", "failed", "terminating", "ready")},
        "indexes": (status.get("completedIndexes"), status.get("failedIndexes")),
        "uncounted": status["uncountedTerminatedPods"],
        "groups": [len(await plane.all(resource)) for resource in (WORKLOADS, POD_GROUPS)],
        "tracked pods": sum("finalizers" in pod["metadata"] for pod in await plane.pods()),
        "live pods": sum(pod["status"]["phase"] in ("Pending", "Running") for pod in await plane.pods()),
        "grouped": {bool(pod["spec"].get("schedulingGroup")) for pod in await plane.pods()} - {True},
    }


async def run(the_job: Object, dies_after: int | None) -> tuple[Any, bool]:
    """What is there in the end, and whether the plane did die on the way."""
    plane = ControllerPlane(everyone)
    verbs = await plane.start(dies_after)
    await plane.create(the_job)
    died = False
    if dies_after is not None:
        try:
            async with asyncio.timeout(600):
                await verbs.dead.wait()
            died = True
        except TimeoutError:
            pass
        await plane.kill()
        await plane.start()
    outcome = await to_the_end(plane)
    await plane.kill()
    return outcome, died


@pytest.mark.conformance("JOB-J2", "JOB-J23", "JOB-J38", "JOB-W11", "SCH-197")
@pytest.mark.parametrize("name", SCENARIOS)
def test_death_after_any_write_changes_nothing_in_the_end(name: str) -> None:
    expected, _ = virtual_time.run(run(SCENARIOS[name], None))
    writes = 0
    while True:
        outcome, died = virtual_time.run(run(SCENARIOS[name], writes))
        if not died:
            break
        assert outcome == expected, f"after {writes} writes"
        writes += 1
    assert writes > 15
