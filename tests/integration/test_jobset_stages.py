"""A sequence of stages with the real scheduler: restarts, suspensions, crashes, and its place in line."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from echelon.api.cluster.pools import parse
from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, Object
from echelon.runtime import virtual_time
from tests.controller_plane import ControllerPlane, for_training
from tests.integration.test_jobset_groups import RACKS, jobset, on_racks, replicated, until_running
from tests.integration.test_jobset_stage_quota import HOUR, after, condition, gpu_quota, pipeline

GANG = {"schedulingPolicy": {"gang": {}}}


def sequence(name: str = "js", **spec: Any) -> Object:
    return jobset(
        replicated("data", seconds=60),
        replicated("train", pods=4, gpus=8, seconds=60, dependsOn=after(data="Complete")),
        metadata={"name": name},
        **spec,
    )


@pytest.mark.conformance("JS-S14")
@pytest.mark.parametrize("gang", [True, False])
def test_without_quotas_the_next_stage_is_next_in_line_for_the_gpus(gang: bool) -> None:
    """All nodes are busy when the trainers come; a younger JobSet that waits already does not overtake them."""

    async def story(plane: ControllerPlane) -> None:
        grouped: Object = {"scheduling": GANG} if gang else {}
        await plane.create(sequence(**grouped))
        await until_running(plane, 1)
        await plane.create(jobset(replicated("w", pods=4, gpus=8, seconds=200), metadata={"name": "busy"}))
        await until_running(plane, 4, "busy")
        # It waits before the trainers exist.
        young = replicated("w", pods=4, gpus=8, seconds=60)
        await plane.create(jobset(young, metadata={"name": "young"}, **grouped))
        await plane.wait(100)
        assert (await condition(plane, "StageRunning"))[1] == ("WaitingForPlacement" if gang else "StageStarts")
        await until_running(plane, 4)
        waiting = await plane.pods("Pending")
        assert {meta.labels(pod)["jobset.sigs.k8s.io/jobset-name"] for pod in waiting} == {"young"}
        assert len(waiting) == 4
        await plane.until_condition(JOB_SETS, "young", "Completed")

    on_racks(story)


@pytest.mark.conformance("JS-K02")
def test_a_failure_runs_the_whole_sequence_again() -> None:
    async def story(plane: ControllerPlane) -> None:
        body = sequence(failurePolicy={"maxRestarts": 1})
        failing = body["spec"]["replicatedJobs"][1]["template"]["spec"]
        failing["backoffLimit"] = 0
        failing["template"]["metadata"]["annotations"]["echelon.dev/exit-code"] = "1"
        await plane.create(body)
        await until_running(plane, 1)
        first = meta.uid(await plane.get(JOBS, "js-data-0"))
        await until_running(plane, 4)

        async def again() -> bool:
            found = await plane.find(JOBS, "js-data-0")
            return found is not None and meta.uid(found) != first

        await plane.until(again)
        assert await plane.find(JOBS, "js-train-0") is None
        await plane.until_condition(JOB_SETS, "js", "Failed")
        assert (await plane.get(JOB_SETS, "js"))["status"]["restarts"] == 1

    on_racks(story)


@pytest.mark.conformance("JS-K04")
def test_a_suspension_while_a_stage_starts_is_taken_back_without_loss() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(jobset(replicated("w", pods=4, gpus=8, seconds=60), metadata={"name": "busy"}))
        await until_running(plane, 4, "busy")
        second = replicated("second", dependsOn=after(first="Ready"), seconds=60)
        await plane.create(jobset(replicated("first", gpus=8, seconds=300), second))
        await plane.wait(10)
        assert (await condition(plane, "StageRunning"))[1] == "StageStarts"
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": True}})
        await plane.wait(10)
        assert [job["spec"]["suspend"] for job in await plane.all(JOBS)] == [False, True]
        assert (await condition(plane, "StageRunning"))[1] == "StageSuspended"
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        await until_running(plane, 2)
        await plane.until_condition(JOB_SETS, "js", "Completed")

    on_racks(story)


async def _tale(writes: int | None) -> tuple[list[str], Object]:
    """Two pipelines share a quota that has room for one; with `writes`, killed after so many and started again."""
    plane = ControllerPlane(for_training, parse(RACKS, "racks"), scheduler=True)
    mortal = await plane.start(writes)
    await plane.create(gpu_quota(16))
    for name in ("one", "two"):
        await plane.create(pipeline(name, seconds=600))
    if writes is not None:
        await mortal.dead.wait()
        await plane.restart()
    for name in ("one", "two"):
        await plane.until_condition(JOB_SETS, name, "Completed", 24 * HOUR)
    await plane.wait(60)
    ended = {name: (await plane.get(JOB_SETS, name)) for name in ("one", "two")}
    await plane.kill()
    return sorted(ended), {
        name: {
            "annotations": one["metadata"]["annotations"],
            "stages": one["status"]["stages"],
            "quota": one["status"]["quota"],
            "restarts": one["status"]["restarts"],
            "conditions": sorted((each["type"], each["reason"]) for each in one["status"]["conditions"]),
        }
        for name, one in ended.items()
    }


@cache
def _undisturbed() -> tuple[list[str], Object]:
    return virtual_time.run(_tale(None))


@pytest.mark.conformance("JS-K03")
@pytest.mark.parametrize("writes", range(1, 80, 8))
def test_a_death_at_any_write_changes_nothing_in_the_end(writes: int) -> None:
    assert virtual_time.run(_tale(writes)) == _undisturbed()


def test_the_end_gives_everything_back() -> None:
    _, ended = _undisturbed()
    assert ended
    for one in ended.values():
        assert one["annotations"] == {"echelon.dev/quota-admission": "stage"}
        assert one["quota"]["reserved"] == one["quota"]["used"] == {}
        assert [stage["phase"] for stage in one["stages"]] == ["Complete"] * 3
