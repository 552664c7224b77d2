"""Exclusive islands and priorities with the real scheduler: who takes whose place, and what comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

import pytest

from echelon.api.cluster.pools import parse
from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, NODES, PODS, Object
from tests.controller_plane import ControllerPlane, for_training, in_virtual_time

ISLAND = "example.com/island"
CLASSES = {"low": 1, "high": 100_000, "negative": -1}


def islands(number: int) -> str:
    return f"""
levels: [{{name: island, key: {ISLAND}}}]
pools: [{{name: tpu, counts: {{island: {number}, node: 2}}, capacity: {{cpu: 8, google.com/tpu: 4}}}}]
"""


def jobset(name: str, priority: str, replicas: int, seconds: int, *, exclusive: bool = True, **extra: Any) -> Object:
    """A Job per island, a pod per node; a disrupted one restarts uncounted unless told otherwise."""
    uncounted = {
        "name": "disrupted",
        "action": "RestartJobSetAndIgnoreMaxRestarts",
        "onJobFailureReasons": ["PodFailurePolicy"],
    }
    words = {"echelon.dev/run-seconds": str(seconds), "echelon.dev/exit-code": str(extra.get("exit_code", 0))}
    container = {"name": "c", "image": "i", "resources": {"limits": {"google.com/tpu": str(extra.get("tpus", 4))}}}
    disrupted = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}
    pods = extra.get("pods", 2)
    job = {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [disrupted]},
        "template": {
            "metadata": {"annotations": words},
            "spec": {"restartPolicy": "Never", "priorityClassName": priority, "containers": [container]},
        },
    }
    policy = {"maxRestarts": extra.get("max_restarts", 0), "rules": [uncounted] if extra.get("rule", True) else []}
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": ISLAND} if exclusive else {},
        },
        "spec": {
            "failurePolicy": policy,
            "replicatedJobs": [{"name": "workers", "replicas": replicas, "template": {"spec": job}}],
            **extra.get("spec", {}),
        },
    }


class Islands:
    """Questions about a plane of islands."""

    def __init__(self, plane: ControllerPlane) -> None:
        self.plane = plane

    async def classes(self, **extra: Object) -> None:
        for name, value in CLASSES.items():
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            await self.plane.create({**kind, "value": value, **extra.get(name, {})})

    async def pods(self, name: str) -> list[Object]:
        found = await self.plane.all(PODS)
        return [pod for pod in found if meta.labels(pod).get("jobset.sigs.k8s.io/jobset-name") == name]

    async def running(self, name: str) -> list[Object]:
        return [p for p in await self.pods(name) if p["status"]["phase"] == "Running" and not meta.deleting(p)]

    async def start(self, jobset: Object, pods: int) -> None:
        await self.plane.create(jobset)
        await self.until_running(meta.name(jobset), pods)

    async def until_running(self, name: str, pods: int) -> None:
        async def all_run() -> bool:
            return len(await self.running(name)) == pods

        await self.plane.until(all_run)

    async def homes(self, name: str) -> dict[str, list[str]]:
        """The islands of each running Job."""
        nodes = {meta.name(node): meta.labels(node)[ISLAND] for node in await self.plane.all(NODES)}
        found: dict[str, set[str]] = {}
        for pod in await self.running(name):
            found.setdefault(meta.labels(pod)["batch.kubernetes.io/job-name"], set()).add(
                nodes[pod["spec"]["nodeName"]]
            )
        return {job: sorted(where) for job, where in sorted(found.items())}

    async def completed(self, *names: str) -> list[Object]:
        return [await self.plane.until_condition(JOB_SETS, name, "Completed") for name in names]


def restarts(jobset: Object) -> tuple[int, int]:
    return jobset["status"]["restarts"], jobset["status"].get("restartsCountTowardsMax", 0)


def on_islands(number: int, story: Callable[[Islands], Awaitable[None]]) -> None:
    in_virtual_time(
        lambda plane: story(Islands(plane)),
        controllers=for_training,
        cluster=parse(islands(number), "islands"),
        scheduler=True,
    )


@pytest.mark.conformance("JS-S01", "JS-S20", "JS-G14")
def test_high_takes_both_islands_and_low_comes_back() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(jobset("low", "low", 2, 60), 4)
        homes = await world.homes("low")
        assert sorted(where for (where,) in homes.values()) == ["tpu-i0", "tpu-i1"]
        assert {meta.labels(pod)["jobset.sigs.k8s.io/priority"] for pod in await world.running("low")} == {"1"}
        await world.start(jobset("high", "high", 2, 20), 4)
        assert sorted(where for (where,) in (await world.homes("high")).values()) == ["tpu-i0", "tpu-i1"]
        assert await world.running("low") == []
        high, low = await world.completed("high", "low")
        assert restarts(high) == (0, 0)
        assert restarts(low) == (1, 0)

    on_islands(2, story)


@pytest.mark.conformance("JS-S02")
def test_a_free_island_is_used_before_one_is_taken() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(jobset("low", "low", 2, 60), 4)
        await world.start(jobset("high", "high", 1, 20), 2)
        assert len(await world.running("low")) == 4
        _, low = await world.completed("high", "low")
        assert restarts(low) == (0, 0)

    on_islands(3, story)


@pytest.mark.conformance("JS-S03")
def test_equal_priority_waits() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(jobset("first", "low", 2, 60), 4)
        await world.plane.create(jobset("second", "low", 1, 5))
        await world.plane.wait(30)
        assert await world.running("second") == []
        for done in await world.completed("first", "second"):
            assert restarts(done) == (0, 0)

    on_islands(2, story)


@pytest.mark.conformance("JS-S05")
def test_of_two_that_race_to_one_island_the_higher_ends_alone_on_it() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.plane.create(jobset("low", "low", 1, 30))
        await world.start(jobset("high", "high", 1, 30), 2)
        assert await world.running("low") == []
        high, low = await world.completed("high", "low")
        assert restarts(high) == (0, 0)
        assert restarts(low)[1] == 0

    on_islands(1, story)


@pytest.mark.conformance("JS-S06")
def test_one_island_of_two_is_taken_and_low_restarts_as_a_whole() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(jobset("low", "low", 2, 60), 4)
        await world.start(jobset("high", "high", 1, 20), 2)
        await world.plane.wait(5)
        waiting = await world.pods("low")
        assert len(waiting) == 4
        assert {meta.labels(pod)["jobset.sigs.k8s.io/restart-attempt"] for pod in waiting} == {"1"}
        assert [pod["spec"].get("nodeName") for pod in waiting] == [None] * 4
        _, low = await world.completed("high", "low")
        assert restarts(low) == (1, 0)

    on_islands(2, story)


@pytest.mark.conformance("JS-S07")
def test_a_class_that_never_preempts_waits() -> None:
    async def story(world: Islands) -> None:
        await world.classes(high={"preemptionPolicy": "Never"})
        await world.start(jobset("low", "low", 2, 30), 4)
        await world.plane.create(jobset("high", "high", 1, 5))
        await world.plane.wait(10)
        assert await world.running("high") == []
        low, _ = await world.completed("low", "high")
        assert restarts(low) == (0, 0)

    on_islands(2, story)


@pytest.mark.conformance("JS-S08")
def test_a_restarted_high_takes_back_what_low_has_filled() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(jobset("high", "high", 2, 20, exit_code=1, max_restarts=1), 4)
        await world.plane.create(jobset("low", "low", 2, 100))
        await world.plane.until_condition(JOB_SETS, "high", "RestartingJobSet")
        await world.until_running("high", 4)
        failed = await world.plane.until_condition(JOB_SETS, "high", "Failed")
        assert restarts(failed) == (1, 1)
        (low,) = await world.completed("low")
        assert restarts(low)[1] == 0

    on_islands(2, story)


@pytest.mark.conformance("JS-S09")
def test_without_the_rule_a_preemption_uses_up_the_budget() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(jobset("low", "low", 1, 60, rule=False), 2)
        await world.plane.create(jobset("high", "high", 1, 10))
        failed = await world.plane.until_condition(JOB_SETS, "low", "Failed")
        condition = meta.find_condition(failed, "Failed")
        assert condition is not None
        assert condition["reason"] == "ReachedMaxRestarts"
        await world.completed("high")

    on_islands(1, story)


@pytest.mark.conformance("JS-S10")
def test_a_negative_priority_runs_and_is_labelled() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(jobset("least", "negative", 1, 10), 2)
        assert {meta.labels(pod)["jobset.sigs.k8s.io/priority"] for pod in await world.running("least")} == {"n1"}
        await world.completed("least")

    on_islands(1, story)


@pytest.mark.conformance("JS-S04")
def test_a_plain_jobset_of_equal_priority_cannot_enter_an_owned_island() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(jobset("owner", "low", 1, 30, pods=1), 1)
        await world.plane.create(jobset("guest", "low", 1, 5, pods=1, exclusive=False))
        await world.plane.wait(20)
        (guest,) = await world.pods("guest")
        assert "nodeName" not in guest["spec"]
        await world.completed("owner", "guest")

    on_islands(1, story)


def plain_job(name: str, priority: str, tpus: int = 1, seconds: int = 5) -> Object:
    container = {"name": "c", "image": "i", "resources": {"limits": {"google.com/tpu": str(tpus)}}}
    pod = {"restartPolicy": "Never", "priorityClassName": priority, "containers": [container]}
    words = {"annotations": {"echelon.dev/run-seconds": str(seconds)}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": words, "spec": pod}},
    }


def reason_of(pod: Object) -> str:
    condition = meta.find_condition(pod, "PodScheduled")
    return condition.get("message", "") if condition is not None else ""


async def pods_of_job(plane: ControllerPlane, job: str) -> list[Object]:
    return [pod for pod in await plane.all(PODS) if meta.labels(pod).get("batch.kubernetes.io/job-name") == job]


@pytest.mark.conformance("JS-S04")
def test_a_plain_job_of_equal_priority_is_kept_out_and_told_who_owns_the_island() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(jobset("owner", "low", 1, 60, pods=1), 1)
        await world.plane.create(plain_job("guest", "low"))
        await world.plane.wait(20)
        (guest,) = await pods_of_job(world.plane, "guest")
        assert "nodeName" not in guest["spec"]
        assert "in islands that JobSet/owner at its own priority has alone" in reason_of(guest)
        assert "or evict JobSet/owner (priority 1)" in reason_of(guest)
        await world.completed("owner")
        await world.plane.until_condition(JOBS, "guest", "Complete")

    on_islands(1, story)


def test_pods_of_other_priorities_and_pods_of_no_job_may_share_an_island() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(jobset("owner", "low", 1, 60, pods=1), 1)
        await world.plane.create(plain_job("higher", "high", seconds=50))
        await world.plane.create(plain_job("lower", "negative", seconds=50))
        bare = plain_job("x", "low", seconds=50)["spec"]["template"]
        await world.plane.create({"apiVersion": "v1", "kind": "Pod", **bare, "metadata": {"name": "bare"}})
        await world.plane.wait(20)
        found = {meta.name(pod).split("-")[0]: pod["spec"].get("nodeName") for pod in await world.plane.all(PODS)}
        assert set(found) == {"owner", "higher", "lower", "bare"}
        assert None not in found.values()

    on_islands(1, story)


@pytest.mark.conformance("JS-S04")
def test_an_island_with_pods_of_another_job_of_equal_priority_is_not_entered() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.plane.create(plain_job("first", "low", seconds=40))
        await world.plane.wait(5)
        await world.plane.create(jobset("owner", "low", 1, 20, pods=1, tpus=1))
        await world.plane.wait(15)
        (waiting,) = await world.pods("owner")
        assert "nodeName" not in waiting["spec"]
        assert "tpu-i0 is held by Pod/first-" in reason_of(waiting)
        await world.plane.create(jobset("above", "high", 1, 5, pods=1, tpus=1))
        await world.completed("above")
        await world.plane.until_condition(JOBS, "first", "Complete")
        await world.completed("owner")

    on_islands(1, story)


def test_a_jobset_that_lacks_an_island_is_told_who_is_there_and_which_of_its_fields_to_lower() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.plane.create(plain_job("guest", "low", seconds=400))
        await world.plane.wait(5)
        await world.plane.create(jobset("owner", "low", 2, 20, pods=1, tpus=1))
        await world.plane.wait(15)
        for pod in await world.pods("owner"):
            told = reason_of(pod)
            assert "needs 2 groups, but the cluster has room for 1; tpu-i0 is held by Pod/guest-" in told
            assert "lower spec.replicatedJobs[].replicas in JobSet/owner" in told
            assert "evict Pod/guest-" in told

    on_islands(2, story)


def test_jobs_of_one_jobset_with_and_without_the_annotation_keep_apart() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        made = jobset("js", "low", 1, 30, exclusive=False, pods=1, tpus=1)
        (workers,) = made["spec"]["replicatedJobs"]
        owner = {**workers, "name": "owner"}
        owner["template"] = {
            "metadata": {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": ISLAND}},
            "spec": workers["template"]["spec"],
        }
        made["spec"]["replicatedJobs"] = [owner, workers]
        await world.start(made, 2)
        homes = [where for (where,) in (await world.homes("js")).values()]
        assert sorted(homes) == ["tpu-i0", "tpu-i1"]

    on_islands(2, story)


async def scale(world: Islands, name: str, pods: int) -> None:
    stored = await world.plane.get(JOB_SETS, name)
    entries = deepcopy(stored["spec"]["replicatedJobs"])
    for entry in entries:
        entry["template"]["spec"] |= {"parallelism": pods, "completions": pods}
    await world.plane.patch(JOB_SETS, name, {"spec": {"replicatedJobs": entries}})


@pytest.mark.conformance("JS-K06")
def test_jobs_that_are_scaled_grow_and_shrink_in_the_islands_they_own() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        await world.start(jobset("js", "low", 2, 300, pods=1), 2)
        before = await world.homes("js")
        await world.plane.create(plain_job("guest", "low"))
        await scale(world, "js", 2)
        await world.until_running("js", 4)
        assert await world.homes("js") == before
        await scale(world, "js", 3)
        await world.plane.wait(20)
        assert len(await world.running("js")) == 4
        waiting = [pod for pod in await world.pods("js") if "nodeName" not in pod["spec"]]
        assert [bool(reason_of(pod)) for pod in waiting] == [True, True]
        await scale(world, "js", 1)
        await world.until_running("js", 2)
        assert await world.homes("js") == before
        (guest,) = await pods_of_job(world.plane, "guest")
        assert "nodeName" not in guest["spec"]

    on_islands(2, story)


@pytest.mark.conformance("JS-E05")
def test_a_jobset_that_waits_for_impossible_nodes_can_be_put_elsewhere() -> None:
    async def story(world: Islands) -> None:
        await world.classes()
        made = jobset("js", "low", 1, 5, exclusive=False)
        await world.plane.create({**made, "spec": {**made["spec"], "suspend": True}})
        stored = await world.plane.until_condition(JOB_SETS, "js", "Suspended")
        entries = stored["spec"]["replicatedJobs"]
        spec = entries[0]["template"]["spec"]["template"]["spec"]
        spec["nodeSelector"] = {"no": "where"}
        await world.plane.patch(JOB_SETS, "js", {"spec": {"suspend": False, "replicatedJobs": entries}})
        await world.plane.wait(10)
        assert (await world.plane.get(JOBS, "js-workers-0"))["status"]["active"] == 2
        assert await world.running("js") == []
        del spec["nodeSelector"]
        await world.plane.patch(JOB_SETS, "js", {"spec": {"suspend": True, "replicatedJobs": entries}})
        await world.plane.wait(10)
        await world.plane.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        await world.completed("js")

    on_islands(1, story)
