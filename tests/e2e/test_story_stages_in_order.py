"""Initializer → trainer → post-processor: no Job of a later stage exists before its turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, Object
from tests.e2e.harness import Echelon, echelon

STAGES = ("initializer", "trainer", "post-processor")


def pipeline(way: str, failing: str = "") -> Object:
    """A JobSet of three stages, ordered by `dependsOn` or by `executionPolicy`."""
    jobs = []
    for index, stage in enumerate(STAGES):
        job: Object = {
            "name": stage,
            "template": {
                "spec": {
                    "parallelism": 2,
                    "completions": 2,
                    "backoffLimit": 0,
                    "template": {
                        "metadata": {
                            "annotations": {
                                "echelon.dev/run-seconds": "3",
                                "echelon.dev/exit-code": "1" if stage == failing else "0",
                            }
                        },
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [{"name": "c", "image": "registry.example/c:1"}],
                        },
                    },
                }
            },
        }
        if way == "dependsOn" and index:
            job["dependsOn"] = [{"name": STAGES[index - 1], "status": "Complete"}]
        jobs.append(job)
    spec: Object = {"replicatedJobs": jobs}
    if way == "executionPolicy":
        spec["executionPolicy"] = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "pipe"},
        "spec": spec,
    }


async def watch_stages(e: Echelon, ending: str) -> list[str]:
    """Follow the JobSet to its end; fail if a stage exists before its predecessor is complete."""
    seen: list[str] = []

    async def ended() -> bool:
        jobs = {meta.name(job): job for job in await e.list(JOBS)}
        for index, stage in enumerate(STAGES):
            if f"pipe-{stage}-0" not in jobs:
                continue
            if stage not in seen:
                seen.append(stage)
            if index:
                before = jobs[f"pipe-{STAGES[index - 1]}-0"]
                assert meta.condition_is(before, "Complete"), f"{stage} exists before its turn"
        return meta.condition_is(await e.get(JOB_SETS, "pipe"), ending)

    await e.until(ended, f"the JobSet to be {ending}")
    return seen


@pytest.mark.parametrize("way", ["dependsOn", "executionPolicy"])
async def test_each_stage_waits_for_the_one_before(tmp_path: Path, way: str) -> None:
    async with echelon(tmp_path) as e:
        await e.create(pipeline(way))
        assert await watch_stages(e, "Completed") == list(STAGES)


@pytest.mark.parametrize("way", ["dependsOn", "executionPolicy"])
async def test_a_failed_stage_stops_the_rest(tmp_path: Path, way: str) -> None:
    async with echelon(tmp_path) as e:
        await e.create(pipeline(way, failing="trainer"))
        assert await watch_stages(e, "Failed") == ["initializer", "trainer"]

        async def no_later_stage() -> bool:
            return await e.find(JOBS, "pipe-post-processor-0") is None

        await e.stays(no_later_stage, "a stage after the failed one was started")
