"""Groups of JobSets and TrainJobs with the real scheduler: all or nothing, in one domain, one stage after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from echelon.api.cluster.pools import parse
from echelon.api.objects import meta
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    COMPOSITE_POD_GROUPS,
    JOB_SETS,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    SERVICES,
    TRAIN_JOBS,
    WORKLOADS,
    Object,
)
from tests.controller_plane import ControllerPlane, for_training, in_virtual_time

RACK, BLOCK = "topology.kubernetes.io/rack", "topology.kubernetes.io/block"
RACKS = """
pools: [{name: gpu, counts: {block: 1, rack: 2, node: 2}, capacity: {cpu: 8, nvidia.com/gpu: 8}}]
"""


def replicated(name: str, replicas: int = 1, pods: int = 1, gpus: int = 0, seconds: int = 5, **extra: Any) -> Object:
    container: Object = {"name": "c", "image": "i"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    spec = {
        "parallelism": pods,
        "completions": pods,
        "template": {
            "metadata": {"annotations": {"echelon.dev/run-seconds": str(seconds)}},
            "spec": {"restartPolicy": "Never", "containers": [container], **extra.pop("pod", {})},
        },
    }
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **extra}


def jobset(*entries: Object, metadata: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": metadata or {"name": "js"},
        "spec": {"replicatedJobs": list(entries), **spec},
    }


def constraint(key: str) -> Object:
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


async def running(plane: ControllerPlane, name: str = "js") -> list[Object]:
    label = "jobset.sigs.k8s.io/jobset-name"
    return [pod for pod in await plane.pods("Running") if meta.labels(pod).get(label) == name]


async def until_running(plane: ControllerPlane, pods: int, name: str = "js") -> None:
    async def all_run() -> bool:
        return len(await running(plane, name)) == pods

    await plane.until(all_run)


async def domains(plane: ControllerPlane, key: str, name: str = "js") -> dict[str, list[str]]:
    """Where the pods of each Job run, by a topology key."""
    nodes = {meta.name(node): meta.labels(node)[key] for node in await plane.all(NODES)}
    found: dict[str, set[str]] = {}
    for pod in await running(plane, name):
        found.setdefault(meta.labels(pod)["batch.kubernetes.io/job-name"], set()).add(nodes[pod["spec"]["nodeName"]])
    return {job: sorted(where) for job, where in sorted(found.items())}


def on_racks(story: Callable[[ControllerPlane], Awaitable[None]]) -> None:
    in_virtual_time(story, controllers=for_training, cluster=parse(RACKS, "racks"), scheduler=True)


def test_a_gang_of_gangs_fills_a_block_rack_by_rack() -> None:
    async def story(plane: ControllerPlane) -> None:
        scheduling = {
            "schedulingPolicy": {"gang": {}},
            **constraint(BLOCK),
            "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": constraint(RACK)}],
        }
        await plane.create(jobset(replicated("workers", 2, 2, gpus=8), scheduling=scheduling))
        await until_running(plane, 4)
        homes = await domains(plane, RACK)
        assert [len(where) for where in homes.values()] == [1, 1]
        assert len({where for (where,) in homes.values()}) == 2
        for kind, type_ in ((COMPOSITE_POD_GROUPS, "CompositePodGroup"), (POD_GROUPS, "PodGroup")):
            for group in await plane.all(kind):
                assert meta.condition_is(group, f"{type_}InitiallyScheduled")
        await plane.until_condition(JOB_SETS, "js", "Completed")

    on_racks(story)


def test_a_gang_of_gangs_that_does_not_fit_holds_nothing() -> None:
    async def story(plane: ControllerPlane) -> None:
        scheduling = {
            "schedulingPolicy": {"gang": {}},
            "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": constraint(RACK)}],
        }
        await plane.create(jobset(replicated("workers", 3, 2, gpus=8, seconds=600), scheduling=scheduling))
        await plane.wait(60)
        assert [pod["spec"].get("nodeName") for pod in await plane.all(PODS)] == [None] * 6

    on_racks(story)


@pytest.mark.conformance("JS-E15")
def test_a_plain_jobset_needs_no_groups() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(jobset(replicated("workers", 2, 2)))
        await plane.until_condition(JOB_SETS, "js", "Completed")
        assert await plane.all(WORKLOADS) == []

    on_racks(story)


@pytest.mark.conformance("JS-E16", "JS-E17")
def test_hand_made_groups_are_used_as_they_are() -> None:
    async def story(plane: ControllerPlane) -> None:
        terms = {"schedulingPolicy": {"gang": {"minCount": 4}}, **constraint(RACK)}
        beta = {"apiVersion": "scheduling.k8s.io/v1beta1"}
        templates = {"podGroupTemplates": [{"name": "t", **terms}]}
        await plane.create({**beta, "kind": "Workload", "metadata": {"name": "mine"}, "spec": templates})
        reference = {"workloadRef": {"workloadName": "mine", "templateName": "t"}}
        await plane.create({**beta, "kind": "PodGroup", "metadata": {"name": "mine"}, "spec": {**reference, **terms}})
        own = {"schedulingGroup": {"podGroupName": "mine"}}
        await plane.create(jobset(replicated("workers", 2, 2, gpus=4, pod=own)))
        await until_running(plane, 4)
        assert len({where for homes in (await domains(plane, RACK)).values() for where in homes}) == 1
        await plane.until_condition(JOB_SETS, "js", "Completed")
        assert await plane.names(WORKLOADS) == await plane.names(POD_GROUPS) == ["mine"]

    on_racks(story)


@pytest.mark.conformance("JS-E09")
def test_trainers_wait_until_their_launcher_is_ready() -> None:
    async def story(plane: ControllerPlane) -> None:
        ready = {"dependsOn": [{"name": "launcher", "status": "Ready"}]}
        await plane.create(jobset(replicated("launcher", seconds=20), replicated("trainer", 5, seconds=5, **ready)))
        await until_running(plane, 6)
        assert len(await plane.names(JOBS)) == 6
        await plane.until_condition(JOB_SETS, "js", "Completed")

    on_racks(story)


@pytest.mark.conformance("JS-E06")
def test_gates_added_with_the_resume_hold_the_pods() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(jobset(replicated("workers", 1, 2), suspend=True))
        entries = (await plane.until_condition(JOB_SETS, "js", "Suspended"))["spec"]["replicatedJobs"]
        entries[0]["template"]["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "acme.io/gate"}]
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": False, "replicatedJobs": entries}})
        await plane.wait(10)
        pods = await plane.pods("Pending")
        assert [pod["spec"]["schedulingGates"] for pod in pods] == [[{"name": "acme.io/gate"}]] * 2
        for pod in pods:
            await plane.patch(PODS, meta.name(pod), {"spec": {"schedulingGates": []}})
        await plane.until_condition(JOB_SETS, "js", "Completed")

    on_racks(story)


@pytest.mark.conformance("JS-S11")
def test_suspending_a_running_gang_moves_no_counter() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(jobset(replicated("workers", 2, 2, gpus=8, seconds=30), scheduling={}))
        await until_running(plane, 4)
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": True}})
        await plane.wait(20)
        assert await plane.all(PODS) == await plane.all(POD_GROUPS) == await plane.all(WORKLOADS) == []
        await plane.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        done = await plane.until_condition(JOB_SETS, "js", "Completed")
        assert done["status"]["restarts"] == 0

    on_racks(story)


@pytest.mark.conformance("JS-I46")
def test_a_generated_name_names_the_service_too() -> None:
    async def story(plane: ControllerPlane) -> None:
        made = await plane.create(jobset(replicated("a"), metadata={"generateName": "run-"}))
        await plane.until_condition(JOB_SETS, meta.name(made), "Completed")
        assert await plane.names(SERVICES) == [meta.name(made)]

    on_racks(story)


@pytest.mark.conformance("JS-E03")
def test_a_finalizer_outlives_the_ttl() -> None:
    async def story(plane: ControllerPlane) -> None:
        metadata = {"name": "js", "finalizers": ["acme.io/wait"]}
        await plane.create(jobset(replicated("a"), metadata=metadata, ttlSecondsAfterFinished=5))
        await plane.until_condition(JOB_SETS, "js", "Completed")
        await plane.wait(20)
        assert meta.deleting(await plane.get(JOB_SETS, "js"))
        await plane.patch(JOB_SETS, "js", {"metadata": {"finalizers": None}})

        async def gone() -> bool:
            return await plane.all(JOB_SETS) == []

        await plane.until(gone)

    on_racks(story)


def trainjob(runtime: str, nodes: int, gpus: int) -> Object:
    resources = {"limits": {"nvidia.com/gpu": gpus}}
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": "TrainJob",
        "metadata": {"name": "train", "annotations": {"echelon.dev/required-topology": RACK}},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": nodes, "resourcesPerNode": resources}},
    }


@pytest.mark.conformance("JS-S19", "TJ-84")
def test_no_gpu_is_held_while_initializers_run_and_the_gang_lands_in_one_rack() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(trainjob("torchtune-llama3.2-1b-gang", 2, 8))
        await until_running(plane, 2, "train")
        for pod in await plane.all(PODS):
            assert "resources" not in pod["spec"]["containers"][0] or not pod["spec"]["containers"][0]["resources"]
        guest = jobset(replicated("guest", 4, 1, gpus=8, seconds=2), metadata={"name": "guest"})
        await plane.create(guest)
        await until_running(plane, 4, "guest")

        async def trains() -> bool:
            return len(await domains(plane, RACK, "train")) == 1 and len(await running(plane, "train")) == 2

        await plane.until(trains)
        assert [len(where) for where in (await domains(plane, RACK, "train")).values()] == [1]
        await plane.until_condition(TRAIN_JOBS, "train", "Complete")

    on_racks(story)


@pytest.mark.conformance("TJ-86")
def test_a_gang_waits_for_the_nodes_it_needs() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(trainjob("torch-distributed-gang", 3, 8))
        await plane.wait(30)
        assert await running(plane, "train") == []
        assert len(await plane.all(PODS)) == 3
        model = next(node for node in await plane.all(NODES) if meta.name(node).endswith("r0-n0"))
        labels = {**meta.labels(model), "kubernetes.io/hostname": "extra"}
        await plane.create({**model, "metadata": {"name": "extra", "labels": labels}})
        await until_running(plane, 3, "train")
        await plane.until_condition(TRAIN_JOBS, "train", "Complete")

    on_racks(story)


@pytest.mark.conformance("TJ-8")
def test_a_runtime_in_use_can_be_deleted_and_the_training_goes_on() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(trainjob("torch-distributed-gang", 2, 8))
        await until_running(plane, 2, "train")
        await plane.delete(CLUSTER_TRAINING_RUNTIMES, "torch-distributed-gang")
        assert "torch-distributed-gang" not in await plane.names(CLUSTER_TRAINING_RUNTIMES)
        await plane.until_condition(TRAIN_JOBS, "train", "Complete")

    on_racks(story)


def test_labels_lead_from_a_jobset_and_its_jobs_to_their_groups() -> None:
    async def story(plane: ControllerPlane) -> None:
        scheduling = {
            "schedulingPolicy": {"gang": {}},
            "replicatedJobs": [{"targetReplicatedJobs": ["workers"], "job": constraint(RACK)}],
        }
        await plane.create(jobset(replicated("workers", 2, 2, gpus=8), scheduling=scheduling))
        await until_running(plane, 4)
        for resource in (WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS):
            found = await plane.all(resource)
            assert found
            assert all(meta.labels(obj)["jobset.sigs.k8s.io/jobset-name"] == "js" for obj in found)
        for pod in await running(plane):
            job, group = (
                meta.labels(pod)["batch.kubernetes.io/job-name"],
                pod["spec"]["schedulingGroup"]["podGroupName"],
            )
            groups = await plane.all(POD_GROUPS)
            labelled = [one for one in groups if meta.labels(one).get("batch.kubernetes.io/job-name") == job]
            assert [meta.name(one) for one in labelled] == [group]

    on_racks(story)
