"""A gang that cannot be placed, was preempted or lost its group is told on the objects that its user made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from echelon.api.cluster.pools import parse
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import GANG_PENDING
from echelon.api.scheme import EVENTS, JOB_SETS, JOBS, NODES, POD_GROUPS, PRIORITY_CLASSES, TRAIN_JOBS, Object, Resource
from echelon.client.informer import Caches
from echelon.controllers.nodes.lost_pods import LostPodController
from echelon.controllers.runner import Controller
from echelon.testing.builders import make_node
from tests.controller_plane import ControllerPlane, for_training, in_virtual_time

#: Two nodes for one pod each.
TWO = parse("pools: [{name: n, counts: {node: 2}, capacity: {cpu: 1, memory: 1Gi}}]", "two")
GANG = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}


def pods(count: int, seconds: int = 60, priority: str = "", **spec: Any) -> Object:
    """A Job spec of pods that need a node each."""
    pod: Object = {
        "restartPolicy": "Never",
        "containers": [{"name": "node", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
    }
    if priority:
        pod["priorityClassName"] = priority
    return {
        "parallelism": count,
        "completions": count,
        "completionMode": "Indexed",
        "backoffLimit": 100,
        "template": {"metadata": {"annotations": {"echelon.dev/run-seconds": str(seconds)}}, "spec": pod},
        **spec,
    }


def job(name: str, count: int, seconds: int = 60, priority: str = "") -> Object:
    spec = pods(count, seconds, priority, scheduling=GANG)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def jobset(name: str, count: int, **spec: Any) -> Object:
    replicated = {"name": "workers", "replicas": 2, "template": {"spec": pods(count)}}
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [replicated], "scheduling": {"schedulingPolicy": {"gang": {}}}, **spec},
    }


async def condition(plane: ControllerPlane, resource: Resource, name: str) -> tuple[str, str, str]:
    found = meta.find_condition(await plane.get(resource, name), GANG_PENDING)
    return (found["status"], found["reason"], found["message"]) if found else ("", "", "")


async def events(plane: ControllerPlane, resource: Resource, name: str) -> list[str]:
    """Reasons of events about gangs, oldest first."""
    about = [
        one
        for one in await plane.all(EVENTS)
        if (one["involvedObject"]["kind"], one["involvedObject"]["name"]) == (resource.kind, name)
        and one["reason"].startswith("Gang")
    ]
    about.sort(key=lambda one: int(one["metadata"]["resourceVersion"]))
    return [one["reason"] for one in about]


async def add_nodes(plane: ControllerPlane, count: int) -> None:
    for number in range(count):
        await plane.create(make_node(f"more-{number}", cpu=1, memory="1Gi"))


def all_there_is(caches: Caches) -> Sequence[Controller]:
    return [*for_training(caches), LostPodController(caches)]


def on_two_nodes(scenario: Any) -> None:
    in_virtual_time(scenario, controllers=all_there_is, cluster=TWO, scheduler=True)


def test_a_job_whose_gang_does_not_fit_says_so_with_its_own_field_until_it_runs() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job("train", 3))
        await plane.wait(4)
        assert await condition(plane, JOBS, "train") == ("", "", "")  # it might just be starting
        await plane.wait(4)
        status, reason, message = await condition(plane, JOBS, "train")
        assert (status, reason) == ("True", "GangUnschedulable")
        assert "lower spec.scheduling.schedulingPolicy.gang.minCount in Job/train from 3 to 2" in message
        await add_nodes(plane, 1)
        await plane.finished("train")
        assert (await condition(plane, JOBS, "train"))[:2] == ("False", "GangScheduled")
        assert await events(plane, JOBS, "train") == ["GangUnschedulable", "GangScheduled"]

    on_two_nodes(scenario)


def test_a_gang_that_is_placed_at_once_leaves_no_condition() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job("train", 2))
        done = await plane.finished("train")
        assert GANG_PENDING not in {one["type"] for one in done["status"]["conditions"]}
        assert await events(plane, JOBS, "train") == []

    on_two_nodes(scenario)


def test_a_preempted_gang_says_so_until_it_runs_again() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
        )
        assert await plane.find(PRIORITY_CLASSES, "high")
        await plane.create(job("low", 2, seconds=600))
        await plane.wait(5)
        await plane.create(job("urgent", 2, seconds=30, priority="high"))
        await plane.wait(10)
        status, reason, message = await condition(plane, JOBS, "low")
        assert (status, reason) == ("True", "GangPreempted")
        assert "preempting to accommodate a higher priority" in message
        await plane.wait(60)
        assert (await condition(plane, JOBS, "low"))[:2] == ("False", "GangScheduled")
        assert await events(plane, JOBS, "low") == ["GangPreempted", "GangScheduled"]

    on_two_nodes(scenario)


def test_a_gang_that_lost_a_node_and_cannot_be_completed_says_so() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job("train", 2, seconds=600))
        await plane.wait(5)
        await plane.delete(NODES, "n-n1")
        await plane.wait(20)
        status, reason, message = await condition(plane, JOBS, "train")
        assert (status, reason) == ("True", "GangIncomplete")
        assert ": 1 pod waits: " in message
        await add_nodes(plane, 1)
        await plane.wait(60)
        assert (await condition(plane, JOBS, "train"))[:2] == ("False", "GangScheduled")

    on_two_nodes(scenario)


def test_a_jobset_tells_for_its_jobs_and_they_point_to_it() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(jobset("big", 2))
        await plane.wait(10)
        status, reason, message = await condition(plane, JOB_SETS, "big")
        assert (status, reason) == ("True", "GangUnschedulable")
        assert message.startswith(("PodGroup big-", "CompositePodGroup big-"))
        for name in ("big-workers-0", "big-workers-1"):
            status, reason, message = await condition(plane, JOBS, name)
            assert (status, reason) == ("True", "GangUnschedulable")
            assert "the condition GangPending of JobSet/big says why" in message
        await add_nodes(plane, 2)
        await plane.wait(30)
        for resource, name in ((JOB_SETS, "big"), (JOBS, "big-workers-0"), (JOBS, "big-workers-1")):
            assert (await condition(plane, resource, name))[:2] == ("False", "GangScheduled")
            assert await events(plane, resource, name) == ["GangUnschedulable", "GangScheduled"]

    on_two_nodes(scenario)


def test_a_later_stage_that_has_not_begun_is_no_trouble() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        stages = [{"name": name, "template": {"spec": pods(2, 30)}} for name in ("first", "second")]
        staged = jobset("staged", 1, replicatedJobs=stages)
        staged["spec"]["executionPolicy"] = {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}
        await plane.create(staged)
        await plane.wait(20)
        assert len(await plane.names(POD_GROUPS)) == 2
        assert await condition(plane, JOB_SETS, "staged") == ("", "", "")

    on_two_nodes(scenario)


RUNTIME: Object = {
    "apiVersion": TRAIN_JOBS.api_version,
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "gangs", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "podGroupPolicy": {"workload": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": pods(1)["template"]},
                        },
                    }
                ]
            }
        },
    },
}


def test_a_trainjob_gets_events_that_name_its_nodes_and_no_condition() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(RUNTIME)
        await plane.create(
            {
                "apiVersion": TRAIN_JOBS.api_version,
                "kind": "TrainJob",
                "metadata": {"name": "tune"},
                "spec": {"runtimeRef": {"name": "gangs"}, "trainer": {"numNodes": 3}},
            }
        )
        await plane.wait(15)
        assert (await condition(plane, JOB_SETS, "tune"))[:2] == ("True", "GangUnschedulable")
        assert (await condition(plane, JOBS, "tune-node-0"))[:2] == ("True", "GangUnschedulable")
        (told,) = [
            one
            for one in await plane.all(EVENTS)
            if one["involvedObject"]["kind"] == "TrainJob" and one["type"] == "Warning"
        ]
        assert told["reason"] == "GangUnschedulable"
        lower = "lower spec.trainer.numNodes in TrainJob/tune (only 2 pods fit in the cluster)"
        assert f"{lower} (immutable: delete and re-create it)" in told["message"]
        assert "minCount" not in told["message"]
        assert told["firstTimestamp"]
        await add_nodes(plane, 1)
        await plane.wait(30)
        trainjob = await plane.get(TRAIN_JOBS, "tune")
        assert (trainjob.get("status") or {}).get("conditions") in (None, [])
        assert await events(plane, TRAIN_JOBS, "tune") == ["GangUnschedulable", "GangScheduled"]

    on_two_nodes(scenario)


def test_messages_that_change_all_the_time_do_not_bring_a_write_each() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job("train", 3, seconds=600))
        await plane.wait(10)
        (group,) = await plane.names(POD_GROUPS)
        begin, seen = plane.clock.now(), set[str]()
        for number in range(300):
            told = meta.condition(
                "PodGroupInitiallyScheduled", "False", "Unschedulable", f"only {number} pods fit", begin
            )
            await plane.patch(POD_GROUPS, group, {"status": {"conditions": [told]}}, "status")
            await plane.wait(0.2)
            seen.add((await plane.get(JOBS, "train"))["metadata"]["resourceVersion"])
        assert 3 <= len(seen) <= 6  # a minute long, and at most one text in fifteen seconds
        await plane.wait(20)
        assert (await condition(plane, JOBS, "train"))[2].endswith("only 299 pods fit")

    in_virtual_time(scenario, controllers=for_training, cluster=TWO, bind=False)


def test_a_suspended_job_has_no_gang_to_place() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job("train", 3))
        await plane.wait(10)
        assert (await condition(plane, JOBS, "train"))[0] == "True"
        await plane.patch(JOBS, "train", {"spec": {"suspend": True}})
        await plane.wait(10)
        assert (await condition(plane, JOBS, "train"))[:2] == ("False", "JobSuspended")

    on_two_nodes(scenario)


def test_a_group_that_is_deleted_under_a_running_gang_is_told_on_job_and_jobset() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(jobset("small", 1))
        await plane.wait(5)
        for group in await plane.names(POD_GROUPS):
            await plane.delete(POD_GROUPS, group)
        await plane.wait(5)
        for resource, name in ((JOB_SETS, "small"), (JOBS, "small-workers-0")):
            assert (await condition(plane, resource, name))[:2] == ("True", "GangDeleted")
            assert await events(plane, resource, name) == ["GangDeleted"]

    on_two_nodes(scenario)


def test_a_jobset_repeats_what_its_jobs_say_about_lost_members() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(jobset("small", 1, failurePolicy={"maxRestarts": 0}))
        await plane.wait(5)
        await plane.delete(NODES, "n-n1")
        await plane.wait(30)
        status, reason, message = await condition(plane, JOB_SETS, "small")
        assert (status, reason) == ("True", "GangIncomplete")
        assert message.startswith("Job small-workers-")
        assert ": 1 pod waits: " in message

    on_two_nodes(scenario)


def test_a_job_below_a_group_that_is_missing_says_so_though_it_is_no_gang() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        made = job("part", 1)
        del made["spec"]["scheduling"]
        made["metadata"]["annotations"] = {"scheduling.k8s.io/parent-compositepodgroup": "nowhere"}
        await plane.create(made)
        await plane.wait(8)
        status, reason, message = await condition(plane, JOBS, "part")
        assert (status, reason) == ("True", "GangUnschedulable")
        assert message.endswith("to be created; fix: create CompositePodGroup nowhere")

    on_two_nodes(scenario)


def test_a_jobset_tells_of_its_tree_before_the_parts_of_it() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        made = jobset("islands", 1)
        del made["spec"]["scheduling"]
        made["spec"]["replicatedJobs"][0] |= {"name": "0", "replicas": 3}
        made["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "kubernetes.io/hostname"}
        await plane.create(made)
        await plane.wait(8)
        status, _, message = await condition(plane, JOB_SETS, "islands")
        assert status == "True"
        assert message.startswith("CompositePodGroup islands-")
        assert "needs 3 groups, but the cluster has room for 2" in message

    on_two_nodes(scenario)
