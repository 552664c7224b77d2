"""What the TrainJob controller alone makes of TrainJobs: upstream's specs, with the test in the place of JobSets.

A runtime as upstream's builders make it, of two initializers and a node, none of which waits for another.
"""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    JOB_SETS,
    SECRETS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    Object,
    Resource,
)
from echelon.base.rng import Rng
from echelon.client.informer import Caches
from echelon.controllers.garbage import GarbageCollector
from echelon.controllers.runner import Controller
from echelon.controllers.trainjob import TrainJobController
from tests.controller_plane import ControllerPlane, in_virtual_time

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
REQUESTS = {"requests": {"cpu": "1", "memory": "4Gi"}}
INITIALIZERS = ("dataset-initializer", "model-initializer")


def alone(caches: Caches) -> list[Controller]:
    return [TrainJobController(caches, random_bytes=Rng(5).random_bytes), GarbageCollector(caches)]


def part(name: str, step: str, **container: Any) -> Object:
    words = {"image": "test:runtime", "command": ["runtime"], "args": ["runtime"], "resources": REQUESTS}
    mounts = [{"name": "initializer", "mountPath": "/workspace"}]
    volumes = [{"name": "initializer", "persistentVolumeClaim": {"claimName": "initializer"}}]
    named = {"name": "node" if step == "trainer" else step, **words, "volumeMounts": mounts, **container}
    pods = {"spec": {"containers": [named], "volumes": volumes}}
    return {"name": name, "template": {"metadata": {"labels": {STEP: step}}, "spec": {"template": pods}}}


def runtime(policy: Object | None = None, **spec: Any) -> Object:
    jobs = [*(part(name, name) for name in INITIALIZERS), part("node", "trainer")]
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": TRAINING_RUNTIMES.kind,
        "metadata": {"name": "alpha"},
        "spec": {
            "mlPolicy": {"numNodes": 100, **(policy or {})},
            "template": {"spec": {"replicatedJobs": jobs}},
            **spec,
        },
    }


def trainjob(**spec: Any) -> Object:
    trainer = {"image": "test:trainjob", "command": ["trainjob"], "args": ["trainjob"], "resourcesPerNode": REQUESTS}
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": "TrainJob",
        "metadata": {"name": "alpha"},
        "spec": {"runtimeRef": {"name": "alpha", "kind": TRAINING_RUNTIMES.kind}, "trainer": trainer, **spec},
    }


def patch(metadata: Object | None = None, pods: Object | None = None, marks: Object | None = None) -> list[Object]:
    """A runtime patch with metadata for the JobSet, and a spec with marks for the pods of `node`."""
    template: Object = {"metadata": metadata} if metadata else {}
    if pods:
        change = {"metadata": marks or {}, "spec": pods}
        template["spec"] = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": change}}}]}
    return [{"manager": "test.io/manager", "trainingRuntimeSpec": {"template": template}}]


def pods_of(jobset: Object, name: str) -> Object:
    (found,) = [one for one in jobset["spec"]["replicatedJobs"] if one["name"] == name]
    return found["template"]["spec"]["template"]  # type: ignore[no-any-return]


def node_of(jobset: Object) -> Object:
    return pods_of(jobset, "node")["spec"]["containers"][0]  # type: ignore[no-any-return]


async def pod_groups(plane: ControllerPlane, group: str, version: str) -> Resource:
    """The kind of another scheduler, defined now."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"}
    one = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    await plane.create(
        {
            "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
            "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
            "metadata": {"name": f"podgroups.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [one]},
        }
    )
    found = plane.api.kinds.by_path(group, version, "podgroups")
    assert found is not None
    return found


MARKED = {"labels": {"testingKey": "testingVal"}, "annotations": {"testingKey": "testingVal"}}
COSCHEDULED = {"podGroupPolicy": {"coscheduling": {"scheduleTimeoutSeconds": 100}}}
FETCHED = {
    "dataset": {"storageUri": "hf://trainjob-dataset"},
    "model": {"storageUri": "hf://trainjob-model"},
}


@pytest.mark.conformance("TJ-36", "TJ-38", "TJ-32")
def test_a_suspended_trainjob_with_coscheduling() -> None:
    async def story(plane: ControllerPlane) -> None:
        kind = await pod_groups(plane, "scheduling.x-k8s.io", "v1alpha1")
        await plane.create(runtime(**COSCHEDULED))
        made = await plane.create(trainjob(suspend=True, runtimePatches=patch(MARKED), initializer=FETCHED))
        await plane.wait(2)
        jobset = await plane.get(JOB_SETS, "alpha")
        assert jobset["spec"]["suspend"] is True
        assert (meta.labels(jobset), meta.annotations(jobset)) == (MARKED["labels"], MARKED["annotations"])
        assert meta.controlled_by(jobset, meta.uid(made))
        sizes = {
            one["name"]: (
                one["replicas"],
                one["template"]["spec"]["parallelism"],
                one["template"]["spec"]["completions"],
            )
            for one in jobset["spec"]["replicatedJobs"]
        }
        assert sizes == {"dataset-initializer": (1, 1, 1), "model-initializer": (1, 1, 1), "node": (1, 100, 100)}
        for name, place in zip(INITIALIZERS, ("dataset", "model"), strict=True):
            pods = pods_of(jobset, name)
            assert pods["metadata"]["labels"] == {"scheduling.x-k8s.io/pod-group": "alpha"}
            (container,) = pods["spec"]["containers"]
            assert container["env"] == [{"name": "STORAGE_URI", "value": f"hf://trainjob-{place}"}]
            assert (container["image"], container["command"], container["args"]) == (
                "test:runtime",
                ["runtime"],
                ["runtime"],
            )
        node = node_of(jobset)
        assert (node["image"], node["command"], node["args"]) == ("test:trainjob", ["trainjob"], ["trainjob"])
        group = await plane.get(kind, "alpha")
        wanted = {
            "minMember": 102,
            "minResources": {"cpu": "102", "memory": "408Gi"},
            "scheduleTimeoutSeconds": 100,
        }
        assert group["spec"] == wanted
        assert meta.controlled_by(group, meta.uid(made))
        moved = patch(MARKED, {"nodeSelector": {"updated": "selector"}})
        await plane.patch(TRAIN_JOBS, "alpha", {"spec": {"runtimePatches": moved}})
        await plane.wait(2)
        jobset = await plane.get(JOB_SETS, "alpha")
        assert pods_of(jobset, "node")["spec"]["nodeSelector"] == {"updated": "selector"}
        assert "nodeSelector" not in pods_of(jobset, "model-initializer")["spec"]
        assert (await plane.get(kind, "alpha"))["spec"] == wanted
        with pytest.raises(ApiError) as refused:
            await plane.patch(TRAIN_JOBS, "alpha", {"spec": {"trainer": {"image": "new-image"}}})
        assert refused.value.code == 422
        await plane.delete(TRAIN_JOBS, "alpha")

        async def gone() -> bool:
            return not await plane.all(kind)

        await plane.until(gone)

    in_virtual_time(story, controllers=alone)


def test_a_gang_of_another_scheduler_is_refused_until_its_kind_is_there() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(runtime(podGroupPolicy={"volcano": {}}))
        with pytest.raises(ApiError) as refused:
            await plane.create(trainjob())
        assert refused.value.code == 403
        assert "the server does not serve PodGroup in scheduling.volcano.sh/v1beta1" in refused.value.message
        kind = await pod_groups(plane, "scheduling.volcano.sh", "v1beta1")
        await plane.create(trainjob())
        await plane.wait(2)
        assert (await plane.get(kind, "alpha"))["spec"]["minMember"] == 102
        assert await plane.names(JOB_SETS) == ["alpha"]

    in_virtual_time(story, controllers=alone)


@pytest.mark.conformance("TJ-37")
def test_a_trainjob_of_another_controller_is_left_alone() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(runtime())
        await plane.create(trainjob(managedBy="kueue.x-k8s.io/multikueue", suspend=True))
        await plane.wait(15)
        assert await plane.all(JOB_SETS) == []
        assert "status" not in await plane.get(TRAIN_JOBS, "alpha")

    in_virtual_time(story, controllers=alone)


@pytest.mark.conformance("TJ-39")
def test_a_grace_period_reaches_the_nodes_alone() -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(runtime())
        await plane.create(trainjob(runtimePatches=patch(pods={"terminationGracePeriodSeconds": 300})))
        await plane.wait(2)
        jobset = await plane.get(JOB_SETS, "alpha")
        assert pods_of(jobset, "node")["spec"]["terminationGracePeriodSeconds"] == 300
        for name in INITIALIZERS:
            assert "terminationGracePeriodSeconds" not in pods_of(jobset, name)["spec"]

    in_virtual_time(story, controllers=alone)


TORCH_ENV = [
    {"name": "TRAIN_JOB", "value": "value"},
    {"name": "PET_NNODES", "value": "100"},
    {"name": "PET_NPROC_PER_NODE", "value": "1"},
    {"name": "PET_NODE_RANK", "valueFrom": RANK},
    {"name": "PET_MASTER_ADDR", "value": "alpha-node-0-0.alpha"},
    {"name": "PET_MASTER_PORT", "value": "29500"},
]


@pytest.mark.conformance("TJ-40", "TJ-44")
def test_torch_with_patches_has_its_variables_after_the_trainjobs() -> None:
    async def story(plane: ControllerPlane) -> None:
        made = runtime({"torch": {}})
        warm = {
            "name": "override-init-container",
            "image": "test:runtime",
            "env": [{"name": "INIT_ENV", "value": "original_init"}, {"name": "DATASET_PATH", "value": "runtime"}],
        }
        node = made["spec"]["template"]["spec"]["replicatedJobs"][2]
        node["template"]["spec"]["template"]["spec"]["initContainers"] = [warm]
        await plane.create(made)
        change = [{"name": "INIT_ENV", "value": "override_init"}, {"name": "NEW_VALUE", "value": "from_overrides"}]
        pods = {
            "serviceAccountName": "override-sa",
            "initContainers": [{"name": "override-init-container", "env": change}],
        }
        metadata = {"labels": {"custom-label": "custom-value"}, "annotations": {"custom-annotation": "value"}}
        job = trainjob(runtimePatches=patch(pods=pods, marks=metadata))
        job["spec"]["trainer"]["env"] = TORCH_ENV[:1]
        await plane.create(job)
        await plane.wait(2)
        jobset = await plane.get(JOB_SETS, "alpha")
        assert node_of(jobset)["env"] == TORCH_ENV
        assert node_of(jobset)["ports"] == [{"containerPort": 29500, "protocol": "TCP"}]
        found = pods_of(jobset, "node")
        assert (found["metadata"]["labels"], found["metadata"]["annotations"]) == (
            metadata["labels"],
            metadata["annotations"],
        )
        assert found["spec"]["serviceAccountName"] == "override-sa"
        (init,) = found["spec"]["initContainers"]
        assert init["env"] == [*change, {"name": "DATASET_PATH", "value": "runtime"}]
        assert jobset["spec"]["suspend"] is False

    in_virtual_time(story, controllers=alone)


@pytest.mark.conformance("TJ-46")
def test_mpi_makes_hostfile_and_keys() -> None:
    async def story(plane: ControllerPlane) -> None:
        made = runtime({"numNodes": 1, "mpi": {"numProcPerNode": 8}})
        launcher = part("launcher", "other", command=["mpirun"], args=["echo.sh"])
        launcher["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "node"
        launcher["dependsOn"] = [{"name": "node", "status": "Ready"}]
        made["spec"]["template"]["spec"]["replicatedJobs"].append(launcher)
        await plane.create(made)
        job = trainjob()
        job["spec"]["trainer"] |= {"numNodes": 2, "env": [{"name": "TRAIN_JOB", "value": "value"}]}
        await plane.create(job)
        await plane.wait(2)
        hosts = await plane.get(CONFIG_MAPS, "alpha-mpi-hostfile")
        assert hosts["data"] == {"hostfile": "alpha-node-0-0.alpha slots=8\nalpha-node-0-1.alpha slots=8\n"}
        keys = await plane.get(SECRETS, "alpha-mpi-ssh-auth")
        assert (keys["type"], keys["immutable"]) == ("kubernetes.io/ssh-auth", True)
        assert set(keys["data"]) == {"ssh-privatekey", "ssh-publickey"}
        jobset = await plane.get(JOB_SETS, "alpha")
        sizes = {one["name"]: one["template"]["spec"]["parallelism"] for one in jobset["spec"]["replicatedJobs"]}
        assert sizes == {"dataset-initializer": 1, "model-initializer": 1, "node": 2, "launcher": 1}
        assert node_of(jobset)["env"] == [{"name": "TRAIN_JOB", "value": "value"}]

    in_virtual_time(story, controllers=alone)


def counts(name: str, **numbers: int) -> Object:
    return {"name": name, "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0} | numbers


POLICIES = [{}, {"torch": {}}, {"mpi": {}}, {"jax": {}}, {"xgboost": {}}, {"flux": {}}]


@pytest.mark.conformance(
    "TJ-41", "TJ-42", "TJ-43", "TJ-47", "TJ-48", "TJ-55", "TJ-56", "TJ-58", "TJ-59", "TJ-61", "TJ-62"
)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: next(iter(policy), "plain"))
@pytest.mark.parametrize(
    ("theirs", "ours", "reason"), [("Completed", "Complete", "AllJobsCompleted"), ("Failed", "Failed", "FailedJobs")]
)
def test_suspended_resumed_and_ended_as_the_jobset_says(policy: Object, theirs: str, ours: str, reason: str) -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(runtime(policy))
        await plane.create(trainjob(suspend=True))
        await plane.wait(2)
        assert _conditions(await plane.get(TRAIN_JOBS, "alpha")) == [
            ("Suspended", "True", "Suspended", "TrainJob is suspended")
        ]
        await plane.patch(TRAIN_JOBS, "alpha", {"spec": {"suspend": False}})
        await plane.wait(2)
        resumed = ("Suspended", "False", "Resumed", "TrainJob is resumed")
        assert _conditions(await plane.get(TRAIN_JOBS, "alpha")) == [resumed]
        for numbers in ({"active": 1, "ready": 1}, {"succeeded": 1}):
            entries = [*(counts(name, succeeded=1) for name in INITIALIZERS), counts("node", **numbers)]
            await plane.patch(JOB_SETS, "alpha", {"status": {"replicatedJobsStatus": entries}}, "status")
            await plane.wait(2)
            assert (await plane.get(TRAIN_JOBS, "alpha"))["status"]["jobsStatus"] == entries
        condition = meta.condition(theirs, "True", reason, "as it says", plane.clock.now())
        await plane.patch(JOB_SETS, "alpha", {"status": {"conditions": [condition]}}, "status")
        await plane.wait(2)
        assert _conditions(await plane.get(TRAIN_JOBS, "alpha")) == [resumed, (ours, "True", reason, "as it says")]

    in_virtual_time(story, controllers=alone)


def _conditions(job: Object) -> list[tuple[str, str, str, str]]:
    found = (job.get("status") or {}).get("conditions") or ()
    return [(one["type"], one["status"], one["reason"], one["message"]) for one in found]


@pytest.mark.conformance("TJ-50", "TJ-51", "TJ-52", "TJ-53")
@pytest.mark.parametrize(
    ("spec", "resumed_after", "fails_within"),
    [
        ({"activeDeadlineSeconds": 1}, None, 3),
        ({"activeDeadlineSeconds": 3600}, None, None),
        ({"activeDeadlineSeconds": 1, "suspend": True}, None, None),
        ({"activeDeadlineSeconds": 2, "suspend": True}, 10, 4),
    ],
    ids=["exceeded", "not exceeded", "suspended", "resumed"],
)
def test_deadlines(spec: Object, resumed_after: int | None, fails_within: int | None) -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(runtime())
        await plane.create(trainjob(**spec))
        if resumed_after is not None:
            await plane.wait(resumed_after)
            assert _conditions(await plane.get(TRAIN_JOBS, "alpha"))[-1][0] == "Suspended"
            await plane.patch(TRAIN_JOBS, "alpha", {"spec": {"suspend": False}})
        await plane.wait(fails_within or 5)
        conditions = _conditions(await plane.get(TRAIN_JOBS, "alpha"))
        ended = ("Failed", "True", "DeadlineExceeded", "TrainJob exceeded its active deadline")
        assert (ended in conditions) is (fails_within is not None)
        assert bool(await plane.all(JOB_SETS)) is (fails_within is None)

    in_virtual_time(story, controllers=alone)


@pytest.mark.conformance("TJ-63", "TJ-64", "TJ-65", "TJ-66", "TJ-8")
@pytest.mark.parametrize("resource", [TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES], ids=lambda one: one.kind)
def test_a_runtime_is_taken_as_it_was(resource: Resource) -> None:
    async def story(plane: ControllerPlane) -> None:
        made = {**runtime(), "kind": resource.kind}
        made["spec"]["template"]["metadata"] = {"labels": {"marker": "v1"}}
        await plane.create(made)
        job = trainjob(suspend=True, runtimeRef={"name": "alpha", "kind": resource.kind})
        created = await plane.create(job)
        await plane.wait(2)
        snapshot = await plane.get(CONFIG_MAPS, "alpha-runtime-snapshot")
        (owner,) = snapshot["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
            "TrainJob",
            meta.uid(created),
            True,
            True,
        )
        assert f"kind: {resource.kind}" in snapshot["data"]["runtime"]
        assert "name: alpha" in snapshot["data"]["runtime"]
        await plane.patch(resource, "alpha", {"spec": {"template": {"metadata": {"labels": {"marker": "v2"}}}}})
        await plane.patch(TRAIN_JOBS, "alpha", {"spec": {"suspend": False}})
        await plane.wait(2)
        jobset = await plane.get(JOB_SETS, "alpha")
        assert (jobset["spec"]["suspend"], meta.labels(jobset)["marker"]) == (False, "v1")
        assert (await plane.get(CONFIG_MAPS, "alpha-runtime-snapshot"))["data"] == snapshot["data"]
        await plane.delete(CONFIG_MAPS, "alpha-runtime-snapshot")
        await plane.patch(TRAIN_JOBS, "alpha", {"metadata": {"annotations": {"migration-test": "trigger"}}})
        await plane.wait(2)
        assert "marker: v2" in (await plane.get(CONFIG_MAPS, "alpha-runtime-snapshot"))["data"]["runtime"]
        await plane.delete(resource, "alpha")
        assert "alpha" not in await plane.names(resource)

    in_virtual_time(story, controllers=alone)
