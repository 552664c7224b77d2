"""Groups of TrainJobs with the real scheduler: trees, gangs of gangs, and trials that are admitted together."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from echelon.api.cluster.pools import parse
from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    CONFIG_MAPS,
    EVENTS,
    JOB_SETS,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    TRAIN_JOBS,
    WORKLOADS,
    Object,
    Resource,
)
from echelon.runtime import virtual_time
from tests.controller_plane import ControllerPlane, for_training, in_virtual_time

RACK = "topology.kubernetes.io/rack"
#: What a TrainJob makes, besides its pods.
MADE = (CONFIG_MAPS, WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS, JOB_SETS, JOBS)
PARENT = "scheduling.k8s.io/parent-compositepodgroup"


def racks(number: int, nodes: int) -> Any:
    return parse(
        f"levels: [{{name: rack, key: {RACK}}}]\n"
        f"pools: [{{name: n, counts: {{rack: {number}, node: {nodes}}}, capacity: {{cpu: 1, memory: 8Gi}}}}]",
        "racks",
    )


def runtime(*jobs: Object, **spec: Any) -> Object:
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "mine"},
        "spec": {"template": {"spec": {"replicatedJobs": list(jobs)}}, **spec},
    }


def part(name: str, step: str = "trainer", seconds: int = 60, **more: Any) -> Object:
    """A replicated job whose pods fill a node each."""
    container = {"name": "node" if step == "trainer" else step, "image": "i", "resources": {"limits": {"cpu": "1"}}}
    pods = {"metadata": {"annotations": {"echelon.dev/run-seconds": str(seconds)}}, "spec": {"containers": [container]}}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": pods}}, **more}


def trainjob(name: str, nodes: int, **annotations: str) -> Object:
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": "TrainJob",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"runtimeRef": {"name": "mine"}, "trainer": {"numNodes": nodes}},
    }


def trial(name: str) -> Object:
    return trainjob(name, 2, **{PARENT: "trials"})


def search(trials: int) -> list[Object]:
    """The group of all trials, with its Workload."""
    leaf = {"name": "trial", "schedulingPolicy": {"gang": {"minCount": 2}}}
    policy = {"gang": {"minGroupCount": trials}}
    composite = {"name": "trials", "schedulingPolicy": policy, "podGroupTemplates": [leaf]}
    return [
        {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {"name": "search"},
            "spec": {"compositePodGroupTemplates": [composite]},
        },
        {
            "apiVersion": COMPOSITE_POD_GROUPS.api_version,
            "kind": "CompositePodGroup",
            "metadata": {"name": "trials"},
            "spec": {
                "workloadRef": {"workloadName": "search", "templateName": "trials"},
                "schedulingPolicy": policy,
            },
        },
    ]


async def bound(plane: ControllerPlane) -> list[Object]:
    return [pod for pod in await plane.all(PODS) if pod["spec"].get("nodeName")]


async def trouble(plane: ControllerPlane, trainjob: str) -> set[str]:
    """Reasons of the warnings about a TrainJob."""
    about = [event for event in await plane.all(EVENTS) if event["involvedObject"]["kind"] == "TrainJob"]
    return {event["reason"] for event in about if event["involvedObject"]["name"] == trainjob}


def test_four_trials_are_admitted_together_or_not_at_all() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(runtime(part("node")))
        for obj in search(4):
            await plane.create(obj)
        for index in range(3):
            await plane.create(trial(f"trial-{index}"))
        await plane.wait(30)
        assert len(await plane.all(PODS)) == 6
        assert await bound(plane) == []
        await plane.create(trial("trial-3"))

        async def all_bound() -> bool:
            return len(await bound(plane)) == 8

        await plane.until(all_bound, 30)
        assert {group["spec"]["parentCompositePodGroupName"] for group in await plane.all(POD_GROUPS)} == {"trials"}
        for index in range(4):
            await plane.until_condition(TRAIN_JOBS, f"trial-{index}", "Complete")

    in_virtual_time(story, controllers=for_training, cluster=racks(2, 4), scheduler=True)


def test_trials_that_do_not_all_fit_hold_nothing() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(runtime(part("node")))
        for obj in search(4):
            await plane.create(obj)
        for index in range(4):
            await plane.create(trial(f"trial-{index}"))
        await plane.wait(60)
        assert len(await plane.all(PODS)) == 8
        assert await bound(plane) == []
        for index in range(4):
            assert "GangUnschedulable" in await trouble(plane, f"trial-{index}")

    in_virtual_time(story, controllers=for_training, cluster=racks(1, 7), scheduler=True)


def test_every_job_of_a_trainer_has_a_rack_of_its_own_and_all_start_together() -> None:
    async def story(plane: ControllerPlane) -> None:
        entry = {
            "targetReplicatedJobs": ["node"],
            "schedulingPolicy": {"gang": {}},
            "job": {"schedulingConstraints": {"topology": [{"key": RACK}]}, "disruptionMode": {"all": {}}},
        }
        await plane.create(runtime(part("node", replicas=2), scheduling={"replicatedJobs": [entry]}))
        await plane.create(trainjob("train", 6))

        async def all_bound() -> bool:
            return len(await bound(plane)) == 6

        await plane.until(all_bound, 30)
        rack_of = {meta.name(node): meta.labels(node)[RACK] for node in await plane.all(NODES)}
        racks_of: dict[str, set[str]] = {}
        for pod in await bound(plane):
            job = meta.labels(pod)["batch.kubernetes.io/job-name"]
            racks_of.setdefault(job, set()).add(rack_of[pod["spec"]["nodeName"]])
        assert set(racks_of) == {"train-node-0", "train-node-1"}
        assert [len(found) for found in racks_of.values()] == [1, 1]
        await plane.until_condition(TRAIN_JOBS, "train", "Complete")

    in_virtual_time(story, controllers=for_training, cluster=racks(2, 4), scheduler=True)


def test_a_trainer_of_several_jobs_waits_until_all_fit() -> None:
    async def story(plane: ControllerPlane) -> None:
        entry = {"targetReplicatedJobs": ["node"], "schedulingPolicy": {"gang": {}}, "job": {}}
        await plane.create(runtime(part("node", replicas=2), scheduling={"replicatedJobs": [entry]}))
        await plane.create(trainjob("train", 6))
        await plane.wait(60)
        assert len(await plane.all(PODS)) == 6
        assert await bound(plane) == []
        assert "GangUnschedulable" in await trouble(plane, "train")

    in_virtual_time(story, controllers=for_training, cluster=racks(1, 5), scheduler=True)


@pytest.mark.parametrize(("nodes", "running"), [(3, 4), (4, 1)])
def test_all_stages_of_a_trainjob_stay_in_the_domain_of_its_composite_group(nodes: int, running: int) -> None:
    """Four nodes do not fit into the rack beside the server that they wait for, three do."""

    async def story(plane: ControllerPlane) -> None:
        scheduling = {
            "schedulingConstraints": {"topology": [{"key": RACK}]},
            "replicatedJobs": [
                {"targetReplicatedJobs": ["server"], "schedulingPolicy": {"basic": {}}},
                {"targetReplicatedJobs": ["node"]},
            ],
        }
        ready = [{"name": "server", "status": "Ready"}]
        made = runtime(part("server", "server", 600), part("node", seconds=600, dependsOn=ready), scheduling=scheduling)
        await plane.create(made)
        await plane.create(trainjob("train", nodes))
        await plane.wait(60)
        assert len(await plane.all(PODS)) == nodes + 1
        rack_of = {meta.name(node): meta.labels(node)[RACK] for node in await plane.all(NODES)}
        assert len(await bound(plane)) == running
        assert len({rack_of[pod["spec"]["nodeName"]] for pod in await bound(plane)}) == 1
        (composite,) = await plane.names(COMPOSITE_POD_GROUPS)
        assert composite.startswith("train-root-")

    in_virtual_time(story, controllers=for_training, cluster=racks(2, 4), scheduler=True)


@pytest.mark.parametrize("template", [False, True])
def test_the_runtime_of_the_seed_gives_a_gang_with_a_template_and_without(template: bool) -> None:
    async def story(plane: ControllerPlane) -> None:
        seed = runtime(part("node")) if template else runtime()
        seed["spec"]["podGroupPolicy"] = {"workload": {}}
        if not template:
            del seed["spec"]["template"]
        await plane.create(seed)
        await plane.create(trainjob("train", 8))
        await plane.until_condition(TRAIN_JOBS, "train", "Complete")
        (workload,) = await plane.all(WORKLOADS)
        (leaf,) = workload["spec"]["podGroupTemplates"]
        assert (leaf["name"], leaf["schedulingPolicy"]) == ("trainer", {"gang": {"minCount": 8}})
        assert len(await bound(plane)) == 8

    in_virtual_time(story, controllers=for_training, cluster=racks(2, 4), scheduler=True)


@pytest.mark.conformance("TJ-94")
def test_a_server_without_workloads_is_told_and_asked_again_and_no_jobset_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(plane: ControllerPlane) -> None:
        real = plane.api.create
        served = False

        async def create(resource: Resource, *args: Any, **options: Any) -> Object:
            if resource == WORKLOADS and not served:
                raise ApiError(404, "NotFound", "the server could not find the requested resource")
            return await real(resource, *args, **options)

        monkeypatch.setattr(plane.api, "create", create)
        seed = runtime(part("node"), podGroupPolicy={"workload": {}})
        await plane.create(seed)
        await plane.create(trainjob("train", 2))
        await plane.wait(30)
        assert await plane.names(JOB_SETS) == []
        assert "TrainJobResourcesCreationFailed" in await trouble(plane, "train")
        served = True
        await plane.until_condition(TRAIN_JOBS, "train", "Complete")

    in_virtual_time(story, controllers=for_training, cluster=racks(1, 2), scheduler=True)


async def _tale(writes: int | None) -> tuple[list[str], list[tuple[str, str]]]:
    """Names of everything made for a TrainJob with a tree, and its conditions; killed after so many writes."""
    plane = ControllerPlane(for_training, racks(2, 4), scheduler=True)
    mortal = await plane.start(writes)
    entry = {"targetReplicatedJobs": ["node"], "schedulingPolicy": {"gang": {}}, "job": {}}
    scheduling = {"disruptionMode": {"all": {}}, "replicatedJobs": [entry]}
    await plane.create(runtime(part("node", replicas=2), scheduling=scheduling))
    await plane.create(trainjob("train", 4))
    if writes is not None:
        await mortal.dead.wait()
        await plane.restart()
    done = await plane.until_condition(TRAIN_JOBS, "train", "Complete")
    await plane.wait(5)
    made = [f"{kind.kind} {name}" for kind in MADE for name in await plane.names(kind)]
    await plane.kill()
    return made, [(one["type"], one["reason"]) for one in done["status"]["conditions"]]


@cache
def _undisturbed() -> tuple[list[str], list[tuple[str, str]]]:
    return virtual_time.run(_tale(None))


@pytest.mark.parametrize("writes", range(1, 40, 3))
def test_a_death_at_any_write_leaves_one_tree_in_the_end(writes: int) -> None:
    made, conditions = virtual_time.run(_tale(writes))
    expected, ended = _undisturbed()
    # Names of groups carry a hash of the TrainJob's uid.
    assert [_unhashed(name) for name in made] == [_unhashed(name) for name in expected]
    assert conditions == ended


def _unhashed(name: str) -> str:
    return re.sub(r"-[b-df-hj-np-tv-z2-9]{8,10}(?=-|$)", "", name)
