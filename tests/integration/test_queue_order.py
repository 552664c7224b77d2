"""Who is scheduled first among equal priorities: by the creation of what the user made, not of what is made from it."""

from __future__ import annotations

import pytest

from echelon.api.cluster.pools import parse
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import JOB_NAME, JOBSET_NAME, QUEUED_SINCE, RUN_SECONDS
from echelon.api.scheme import JOB_SETS, JOBS, POD_GROUPS, PODS, Object
from echelon.testing.builders import GPU
from tests.controller_plane import ControllerPlane, for_training, in_virtual_time

TWO_GPUS = parse(f"pools: [{{name: n, counts: {{node: 1}}, capacity: {{cpu: 100, {GPU}: 2}}}}]", "two")
GANG: Object = {"schedulingPolicy": {"gang": {}}}


def job(pods: int, seconds: int, gpus: int = 0, **spec: object) -> Object:
    resources = {"limits": {GPU: str(gpus)}} if gpus else {}
    return {
        "parallelism": pods,
        "completions": pods,
        "template": {
            "metadata": {"annotations": {RUN_SECONDS: str(seconds)}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": resources}]},
        },
        **spec,
    }


def replicated(name: str, spec: Object, after: str = "") -> Object:
    entry: Object = {"name": name, "replicas": 1, "template": {"spec": spec}}
    return entry | ({"dependsOn": [{"name": after, "status": "Complete"}]} if after else {})


def job_set(name: str, *entries: Object, gang: bool = False, **spec: object) -> Object:
    if gang:
        spec["scheduling"] = {
            "replicatedJobs": [{"targetReplicatedJobs": [entry["name"]], "job": GANG} for entry in entries]
        }
    body: Object = {"replicatedJobs": list(entries), **spec}
    return {"apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.kind, "metadata": {"name": name}, "spec": body}


async def running(plane: ControllerPlane) -> set[str]:
    """The JobSets and Jobs of which pods with GPUs run."""
    pods = [pod for pod in await plane.pods("Running") if pod["spec"]["containers"][0]["resources"].get("limits")]
    return {meta.labels(pod).get(JOBSET_NAME) or meta.labels(pod).get(JOB_NAME, "") for pod in pods}


@pytest.mark.conformance("JS-S14")
@pytest.mark.parametrize("gang", [True, False])
def test_a_later_stage_is_next_in_line_before_what_was_submitted_after_its_jobset(gang: bool) -> None:
    """Another JobSet uses the GPUs during the initialization; a third waits for them already when the stage begins."""

    async def scenario(plane: ControllerPlane) -> None:
        trainer = job(2, 50, gpus=1)
        await plane.create(
            job_set("staged", replicated("init", job(1, 30)), replicated("trainer", trainer, "init"), gang=gang)
        )
        await plane.wait(5)
        await plane.create(job_set("meanwhile", replicated("trainer", job(2, 60, gpus=1)), gang=gang))
        await plane.wait(5)
        await plane.create(job_set("later", replicated("trainer", trainer), gang=gang))
        await plane.wait(40)
        assert await running(plane) == {"meanwhile"}
        waiting = {meta.labels(pod)[JOBSET_NAME] for pod in await plane.pods("Pending")}
        assert waiting == {"staged", "later"}
        await plane.wait(30)
        assert await running(plane) == {"staged"}
        await plane.wait(60)
        assert await running(plane) == {"later"}

    in_virtual_time(scenario, controllers=for_training, cluster=TWO_GPUS, scheduler=True)


def test_a_jobset_that_restarts_keeps_its_place() -> None:
    """Its new pods are younger than those of `last`, which it came before."""

    async def scenario(plane: ControllerPlane) -> None:
        trainer = replicated("trainer", job(2, 1000, gpus=1, backoffLimit=0))
        await plane.create(job_set("first", trainer, failurePolicy={"maxRestarts": 3}))
        await plane.wait(5)
        await plane.create(job_set("second", replicated("trainer", job(2, 60, gpus=1)), gang=True))
        await plane.wait(5)
        await plane.create(job_set("last", replicated("trainer", job(2, 60, gpus=1))))
        await plane.wait(5)
        assert await running(plane) == {"first"}
        # Both GPUs are free for a moment before the Job is made anew: the gang takes them, if `last` does not.
        await plane.patch(JOB_SETS, "last", {"spec": {"suspend": True}})
        (pod, _) = await plane.pods("Running")
        await plane.patch(PODS, meta.name(pod), {"status": {"phase": "Failed"}}, "status")
        await plane.wait(1)
        await plane.patch(JOB_SETS, "last", {"spec": {"suspend": False}})
        await plane.wait(30)
        assert (await plane.get(JOB_SETS, "first"))["status"]["restarts"] == 1
        assert await running(plane) == {"second"}
        await plane.wait(40)
        assert await running(plane) == {"first"}

    in_virtual_time(scenario, controllers=for_training, cluster=TWO_GPUS, scheduler=True)


def test_jobs_and_groups_say_since_when_their_jobset_is_in_line() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        made = await plane.create(
            job_set(
                "staged", replicated("init", job(1, 30)), replicated("trainer", job(2, 5, gpus=1), "init"), gang=True
            )
        )
        await plane.wait(35)
        since = made["metadata"]["creationTimestamp"]
        jobs, groups = await plane.all(JOBS), await plane.all(POD_GROUPS)
        assert [meta.annotations(one)[QUEUED_SINCE] for one in (*jobs, *groups)] == [since] * 4
        trainer = await plane.get(JOBS, "staged-trainer-0")
        assert trainer["metadata"]["creationTimestamp"] > since
        pods = await plane.pods()
        assert len(pods) >= 2
        assert all(QUEUED_SINCE not in meta.annotations(pod) for pod in pods)

    in_virtual_time(scenario, controllers=for_training, cluster=TWO_GPUS, scheduler=True)


def test_nobody_moves_up_by_writing_the_annotation_himself() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        for name, notes in (("first", {}), ("honest", {}), ("pushy", {QUEUED_SINCE: "2001-01-01T00:00:00Z"})):
            metadata: Object = {"name": name, "annotations": notes}
            spec = job(1, 60, gpus=2)
            await plane.create({"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec})
            await plane.wait(5)
        assert await running(plane) == {"first"}
        await plane.wait(60)
        assert await running(plane) == {"honest"}

    in_virtual_time(scenario, controllers=for_training, cluster=TWO_GPUS, scheduler=True)
