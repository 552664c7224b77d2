"""Objects of somebody else under names that Job, JobSet and TrainJob need: told on the user's object, never adopted."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import CREATION_FAILED
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    CONFIG_MAPS,
    EVENTS,
    JOB_SETS,
    JOBS,
    POD_GROUPS,
    SECRETS,
    SERVICES,
    TRAIN_JOBS,
    VOLUME_CLAIMS,
    WORKLOADS,
    Object,
    Resource,
)
from echelon.decide.job import child_names
from echelon.runtime import virtual_time
from tests.controller_plane import ControllerPlane, for_training

MOUNT = {"name": "data", "mountPath": "/data"}
LONG = {"annotations": {"echelon.dev/run-seconds": "600"}}
POD: Object = {"restartPolicy": "Never", "containers": [{"name": "node", "image": "x", "volumeMounts": [MOUNT]}]}
JOB_SPEC: Object = {"parallelism": 1, "completions": 1, "template": {"metadata": LONG, "spec": POD}}
PLAIN = {**JOB_SPEC, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "node", "image": "x"}]}}}
GANG = {"schedulingPolicy": {"gang": {}}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CLAIMS = {"templates": [{"metadata": {"name": "data"}, "spec": CLAIM}]}
JOBSET: Object = {
    "apiVersion": JOB_SETS.api_version,
    "kind": "JobSet",
    "metadata": {"name": "train"},
    "spec": {
        "replicatedJobs": [{"name": "workers", "template": {"spec": JOB_SPEC}}],
        "scheduling": GANG,
        "volumeClaimPolicies": [CLAIMS],
    },
}
TRAINJOB: Object = {
    "apiVersion": TRAIN_JOBS.api_version,
    "kind": "TrainJob",
    "metadata": {"name": "train"},
    "spec": {"runtimeRef": {"name": "deepspeed-distributed"}, "trainer": {"numNodes": 2}},
}
JOB: Object = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {**PLAIN, "scheduling": GANG},
}
#: What somebody else makes under the name, by kind.
FOREIGN: dict[Resource, Object] = {
    SERVICES: {"spec": {"selector": {"app": "other"}, "ports": [{"port": 80}]}},
    VOLUME_CLAIMS: {"spec": CLAIM},
    JOBS: {"spec": {**PLAIN, "suspend": True}},
    JOB_SETS: {"spec": {**JOBSET["spec"], "suspend": True}},
    WORKLOADS: {"spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]}},
    POD_GROUPS: {"spec": {"schedulingPolicy": {"basic": {}}}},
    CONFIG_MAPS: {"data": {"a": "b"}},
    SECRETS: {"stringData": {"a": "b"}},
}


async def names_made(user_object: Object, resource: Resource) -> list[str]:
    """What the objects of a kind are called that an undisturbed plane makes."""
    plane = ControllerPlane(for_training)
    await plane.start()
    await plane.create(user_object)
    await plane.wait(20)
    mine = [obj for obj in await plane.all(resource) if meta.owner_references(obj)]
    await plane.kill()
    return sorted(map(meta.name, mine))


async def in_the_way(user_object: Object, resource: Resource, name: str) -> tuple[ControllerPlane, Object]:
    """A plane that has somebody else's object under the name before the user's object comes; and that object."""
    plane = ControllerPlane(for_training)
    await plane.start()
    owner = await plane.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "somebody"}})
    body: Object = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "ownerReferences": [meta.owner_reference(owner, CONFIG_MAPS)]},
        **FOREIGN[resource],
    }
    foreign = await plane.create(body)
    await plane.create(user_object)
    await plane.wait(30)
    return plane, foreign


async def warnings(plane: ControllerPlane, resource: Resource) -> list[str]:
    about = [one for one in await plane.all(EVENTS) if one["involvedObject"]["kind"] == resource.kind]
    return [one["message"] for one in about if one["involvedObject"]["name"] == "train" and one["type"] == "Warning"]


@pytest.mark.parametrize("resource", [SERVICES, JOBS, WORKLOADS, POD_GROUPS], ids=lambda one: one.kind)
def test_a_jobset_says_whose_object_is_in_the_way(resource: Resource) -> None:
    async def scenario() -> None:
        (name,) = await names_made(JOBSET, resource)
        plane, foreign = await in_the_way(JOBSET, resource, name)
        told = await warnings(plane, JOB_SETS)
        assert any(f"{resource.kind} {name} exists and belongs to ConfigMap somebody" in one for one in told), told
        condition = meta.find_condition(await plane.get(JOB_SETS, "train"), CREATION_FAILED)
        assert condition is not None
        assert condition["status"] == "True"
        assert condition["reason"] in ("JobCreationFailed", "GroupNameTaken", "ServiceNotOwned")
        assert f"{resource.kind} {name} exists" in condition["message"]
        await _is_untouched(plane, resource, foreign)
        await plane.delete(resource, name)
        await plane.wait(30)
        cleared = meta.find_condition(await plane.get(JOB_SETS, "train"), CREATION_FAILED)
        assert cleared is not None
        assert cleared["status"] == "False"
        await plane.kill()

    virtual_time.run(scenario())


def test_a_jobset_whose_volume_claim_is_another_ones_is_refused() -> None:
    async def scenario() -> None:
        (name,) = await names_made(JOBSET, VOLUME_CLAIMS)
        with pytest.raises(ApiError, match=f"PersistentVolumeClaim {name} exists"):
            await in_the_way(JOBSET, VOLUME_CLAIMS, name)

    virtual_time.run(scenario())


@pytest.mark.parametrize("resource", [WORKLOADS, POD_GROUPS], ids=lambda one: one.kind)
def test_a_job_says_that_its_name_is_taken_and_waits(resource: Resource) -> None:
    """Its names depend on its uid, so a hook that knows the uid has to be quick: the controller starts later."""

    async def scenario() -> None:
        plane = ControllerPlane(lambda _: ())
        await plane.start()
        await plane.create(JOB)
        await plane.kill()
        name = await _name_of(plane, resource)
        foreign = await plane.create(
            {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": name},
                **FOREIGN[resource],
            }
        )
        second = _restarted(plane)
        await second.start()
        await second.wait(30)
        told = await warnings(second, JOBS)
        assert any(f'"{name}" already exists' in one for one in told), told
        condition = meta.find_condition(await second.get(JOBS, "train"), CREATION_FAILED)
        assert condition is not None
        assert condition["status"] == "True"
        assert "already exists" in condition["message"]
        assert await second.pods() == []
        await _is_untouched(second, resource, foreign)
        await second.delete(resource, name)
        await second.wait(90)
        cleared = meta.find_condition(await second.get(JOBS, "train"), CREATION_FAILED)
        assert cleared is not None
        assert cleared["status"] == "False"
        await second.kill()

    virtual_time.run(scenario())


async def _name_of(plane: ControllerPlane, resource: Resource) -> str:
    """What the Job that is stored will call its object, learnt from a copy of its controller."""
    job = await plane.get(JOBS, "train")
    workload = child_names.workload("train", meta.uid(job))
    return workload if resource is WORKLOADS else child_names.pod_group(workload, child_names.template("train"))


def _restarted(plane: ControllerPlane) -> ControllerPlane:
    second = ControllerPlane(for_training)
    second.api = plane.api
    return second


TRAINJOB_PARTS = [CONFIG_MAPS, SECRETS, JOB_SETS, POD_GROUPS]


@pytest.mark.parametrize("resource", TRAINJOB_PARTS, ids=lambda one: one.kind)
def test_a_trainjob_says_that_its_name_is_taken(resource: Resource) -> None:
    async def scenario() -> None:
        runtime = await _gang_runtime()
        trainjob: Object = {**TRAINJOB, "spec": {**TRAINJOB["spec"], "runtimeRef": {"name": meta.name(runtime)}}}
        names = await _trainjob_names(runtime, trainjob, resource)
        assert names
        plane = ControllerPlane(for_training)
        await plane.start()
        await plane.create(runtime)
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": names[0]}}
        # Names of groups depend on the uid of the TrainJob, which the same seed makes again.
        created = await plane.create(trainjob) if resource is POD_GROUPS else None
        foreign = await plane.create({**body, **FOREIGN[resource]})
        if created is None:
            await plane.create(trainjob)
        await plane.wait(30)
        told = await warnings(plane, TRAIN_JOBS)
        assert any(names[0] in one and ("belong" in one or "exists" in one) for one in told), told
        status = (await plane.get(TRAIN_JOBS, "train")).get("status") or {}
        assert status.get("conditions") in (None, [])
        await _is_untouched(plane, resource, foreign)
        await plane.kill()

    virtual_time.run(scenario())


def test_a_trainjob_takes_another_name_for_its_workload() -> None:
    async def scenario() -> None:
        runtime = await _gang_runtime()
        plane = ControllerPlane(for_training)
        await plane.start()
        await plane.create(runtime)
        metadata = {"name": "train"}
        foreign = await plane.create(
            {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "metadata": metadata, **FOREIGN[WORKLOADS]}
        )
        await plane.create({**TRAINJOB, "spec": {**TRAINJOB["spec"], "runtimeRef": {"name": meta.name(runtime)}}})
        await plane.wait(20)
        assert len(await plane.names(WORKLOADS)) == 2
        await _is_untouched(plane, WORKLOADS, foreign)
        await plane.kill()

    virtual_time.run(scenario())


async def _gang_runtime() -> Object:
    """The packaged mpi runtime, as a gang."""
    plane = ControllerPlane(lambda _: ())
    await plane.start()
    found = await plane.get(CLUSTER_TRAINING_RUNTIMES, "deepspeed-distributed")
    await plane.kill()
    labels = found["metadata"].get("labels") or {}
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {"name": "gangs", "labels": labels},
        "spec": {**found["spec"], "podGroupPolicy": {"workload": {}}},
    }


async def _trainjob_names(runtime: Object, trainjob: Object, resource: Resource) -> list[str]:
    plane = ControllerPlane(for_training)
    await plane.start()
    await plane.create(runtime)
    made = await plane.create(trainjob)
    await plane.wait(20)
    mine = [meta.name(obj) for obj in await plane.all(resource) if meta.controlled_by(obj, meta.uid(made))]
    await plane.kill()
    return sorted(mine)


async def _is_untouched(plane: ControllerPlane, resource: Resource, foreign: Object) -> None:
    try:
        now = await plane.get(resource, meta.name(foreign))
    except ApiError as error:
        raise AssertionError(f"somebody else's {resource.kind} is gone") from error
    assert meta.uid(now) == meta.uid(foreign)
    assert meta.owner_references(now) == meta.owner_references(foreign)
    assert _body(now) == _body(foreign)


def _body(obj: Object) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}
