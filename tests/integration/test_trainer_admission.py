"""What the API answers to TrainJobs and their runtimes: upstream's table of webhooks, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES, Object, Resource
from echelon.api.verbs import WriteOptions
from tests.controller_plane import ControllerPlane, in_virtual_time

OK, FORBIDDEN, INVALID = 201, 403, 422
NAMESPACED, CLUSTER = TRAINING_RUNTIMES.kind, CLUSTER_TRAINING_RUNTIMES.kind
MIB = 1_048_576


def part(name: str, step: str, container: str) -> Object:
    """A replicated job as upstream's builders make it: without an image, with a claim for what is fetched."""
    volumes = [{"name": "initializer", "persistentVolumeClaim": {"claimName": "initializer"}}]
    mounts = [{"name": "initializer", "mountPath": "/workspace"}]
    pods = {"spec": {"containers": [{"name": container, "volumeMounts": mounts}], "volumes": volumes}}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": pods}}}


def runtime(kind: str, **spec: Any) -> Object:
    jobs = [part(name, name, name) for name in ("dataset-initializer", "model-initializer")]
    jobs.append(part("node", "trainer", "node"))
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": kind,
        "metadata": {"name": "testing"},
        "spec": {"template": {"spec": {"replicatedJobs": jobs}}, **spec},
    }


def trainjob(kind: str = NAMESPACED, *, name: str = "test", runtime_name: str = "testing", **spec: Any) -> Object:
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": runtime_name, "kind": kind}, **spec},
    }


def patch(manager: str, pods: Object | None = None) -> Object:
    if pods is None:
        return {"manager": manager}
    job = {"name": "node", "template": {"spec": {"template": {"spec": pods}}}}
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}


def fetching(what: str, uri: str) -> Object:
    return {what: {"storageUri": uri}}


async def code(attempt: Any) -> int:
    try:
        await attempt
    except ApiError as error:
        return error.code
    return OK


async def answered(plane: ControllerPlane, obj: Object) -> int:
    kinds = {one.kind: one for one in (TRAIN_JOBS, TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)}
    resource = kinds[obj["kind"]]
    # A thread for large objects would have no virtual time.
    options = WriteOptions(large=False)
    return await code(plane.api.create(resource, obj, "default" if resource.namespaced else "", options))


def on_both_runtimes(story: Callable[[ControllerPlane], Any]) -> None:
    async def main(plane: ControllerPlane) -> None:
        for kind in (NAMESPACED, CLUSTER):
            await plane.create(runtime(kind))
        await story(plane)

    in_virtual_time(main, controllers=lambda _: [])


@pytest.mark.conformance("TJ-9", "TJ-10", "TJ-12", "TJ-13", "TJ-14", "TJ-21", "TJ-22", "TJ-23")
@pytest.mark.conformance("TJ-24", "TJ-25", "TJ-26")
@pytest.mark.parametrize(
    ("expected", "obj"),
    [
        (OK, trainjob()),
        (FORBIDDEN, trainjob(runtime_name="invalid")),
        (INVALID, trainjob(trainer={"numNodes": -1})),
        (OK, trainjob(trainer={"numNodes": 0})),
        (INVALID, trainjob(trainer={"numProcPerNode": -5})),
        (INVALID, trainjob(trainer={"numProcPerNode": 0})),
        (OK, trainjob(trainer={"numNodes": 1, "numProcPerNode": 1})),
        (OK, trainjob(CLUSTER)),
        (OK, trainjob(CLUSTER, initializer=fetching("dataset", "hf://trainjob-model"))),
        (INVALID, trainjob(CLUSTER, initializer=fetching("dataset", "invalid-uri"))),
        (OK, trainjob(CLUSTER, initializer=fetching("dataset", ""))),
        (INVALID, trainjob(CLUSTER, initializer=fetching("dataset", "s3://"))),
        (OK, trainjob(CLUSTER, initializer=fetching("dataset", "s3://bucket/path"))),
        (INVALID, trainjob(CLUSTER, initializer=fetching("model", "invalid-uri"))),
        (OK, trainjob(CLUSTER, initializer=fetching("model", "gs://bucket/model"))),
        (OK, trainjob(CLUSTER, trainer={"command": ["a" * MIB]})),
        (INVALID, trainjob(CLUSTER, trainer={"command": ["a" * (MIB + 1)]})),
        (OK, trainjob(CLUSTER, trainer={"args": ["a" * MIB]})),
        (INVALID, trainjob(CLUSTER, trainer={"args": ["a" * (MIB + 1)]})),
        (OK, trainjob(CLUSTER, name="valid-name-1")),
        (OK, trainjob(CLUSTER, name="a" * 63)),
        (INVALID, trainjob(CLUSTER, name="Invalid")),
        (INVALID, trainjob(CLUSTER, name="1invalid")),
        (INVALID, trainjob(CLUSTER, name="invalid-")),
        (INVALID, trainjob(CLUSTER, name="a" * 64)),
        (OK, trainjob(managedBy="trainer.kubeflow.org/trainjob-controller")),
        (OK, trainjob(managedBy="kueue.x-k8s.io/multikueue")),
        (INVALID, trainjob(managedBy="invalid")),
        (
            OK,
            trainjob(
                runtimePatches=[
                    patch("acme.io/manager-one", {"serviceAccountName": "custom-sa"}),
                    patch("acme.io/manager-two", {"serviceAccountName": "custom-sa-two"}),
                ]
            ),
        ),
        (OK, trainjob(runtimePatches=[patch("kueue.k8s.io/manager")])),
        (FORBIDDEN, trainjob(runtimePatches=[patch("kueue.k8s.io/")])),
        (OK, trainjob(runtimePatches=[patch("acme.io/manager", {"terminationGracePeriodSeconds": 300})])),
        (INVALID, trainjob(runtimePatches=[patch("acme.io/manager", {"terminationGracePeriodSeconds": -1})])),
        (OK, trainjob(runtimePatches=[patch("acme.io/manager", {"terminationGracePeriodSeconds": 0})])),
    ],
    ids=lambda value: str(value if isinstance(value, int) else value["spec"])[:100],
)
def test_creating_a_trainjob(expected: int, obj: Object) -> None:
    async def story(plane: ControllerPlane) -> None:
        assert await answered(plane, obj) == expected

    on_both_runtimes(story)


TORCH, FLUX = {"torch": {}}, {"flux": {}}


def _no_container(changed: Object, index: int) -> None:
    jobs = changed["spec"]["template"]["spec"]["replicatedJobs"]
    jobs[index]["template"]["spec"]["template"]["spec"]["containers"] = []


def _with_installer(changed: Object) -> None:
    pods = changed["spec"]["template"]["spec"]["replicatedJobs"][2]["template"]["spec"]["template"]["spec"]
    pods["initContainers"] = [{"name": "flux-installer", "image": "ubuntu:22.04"}]


@pytest.mark.conformance("TJ-14", "TJ-16", "TJ-18", "TJ-19", "TJ-20")
@pytest.mark.parametrize(
    ("expected", "change", "obj"),
    [
        (FORBIDDEN, lambda r: _no_container(r, 1), trainjob(initializer=fetching("model", "hf://trainjob-model"))),
        (FORBIDDEN, lambda r: _no_container(r, 0), trainjob(initializer=fetching("dataset", "hf://trainjob-model"))),
        (OK, lambda r: r["spec"].update(mlPolicy=TORCH), trainjob(trainer={"numProcPerNode": 4})),
        (
            FORBIDDEN,
            lambda r: r["spec"].update(mlPolicy=TORCH),
            trainjob(trainer={"env": [{"name": "PET_NODE_RANK", "value": "1"}]}),
        ),
        (INVALID, lambda r: r["spec"].update(mlPolicy=FLUX), trainjob(trainer={"numProcPerNode": 0})),
        (FORBIDDEN, lambda r: (r["spec"].update(mlPolicy=FLUX), _with_installer(r)), trainjob()),
    ],
    ids=["model", "dataset", "torch", "reserved", "flux processes", "flux installer"],
)
def test_creating_a_trainjob_on_a_runtime_that_was_updated(
    expected: int, change: Callable[[Object], Any], obj: Object
) -> None:
    """The update itself is accepted: upstream checks steps of a namespaced runtime only when it is created."""

    async def story(plane: ControllerPlane) -> None:
        changed = deepcopy(await plane.get(TRAINING_RUNTIMES, "testing"))
        change(changed)
        await plane.api.update(TRAINING_RUNTIMES, changed, "default")
        assert await answered(plane, obj) == expected

    on_both_runtimes(story)


@pytest.mark.conformance("TJ-27")
@pytest.mark.parametrize(
    ("sent", "field", "value"),
    [
        ({"managedBy": "kueue.x-k8s.io/multikueue", "runtimeRef": {"name": "testing"}}, "suspend", False),
        (
            {"suspend": True, "runtimeRef": {"name": "testing", "kind": NAMESPACED}},
            "managedBy",
            "trainer.kubeflow.org/trainjob-controller",
        ),
        (
            {"runtimeRef": {"name": "testing", "kind": NAMESPACED}},
            "runtimeRef",
            {"name": "testing", "kind": NAMESPACED, "apiGroup": "trainer.kubeflow.org"},
        ),
        (
            {"runtimeRef": {"name": "testing", "apiGroup": "trainer.kubeflow.org"}},
            "runtimeRef",
            {"name": "testing", "kind": CLUSTER, "apiGroup": "trainer.kubeflow.org"},
        ),
    ],
)
def test_defaults_of_a_created_trainjob(sent: Object, field: str, value: Any) -> None:
    async def story(plane: ControllerPlane) -> None:
        made = await plane.create({**trainjob(), "spec": sent})
        assert made["spec"][field] == value

    on_both_runtimes(story)


@pytest.mark.conformance("TJ-28")
def test_every_new_patch_has_a_time() -> None:
    async def story(plane: ControllerPlane) -> None:
        two = [patch("acme.io/manager-one"), patch("acme.io/manager-two")]
        made = await plane.create(trainjob(runtimePatches=two))
        assert [bool(one["time"]) for one in made["spec"]["runtimePatches"]] == [True, True]

    on_both_runtimes(story)


GRACE = "terminationGracePeriodSeconds"


def _set_pods(spec: Object, pods: Object) -> None:
    job = spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    job["template"]["spec"]["template"]["spec"] = pods


@pytest.mark.conformance("TJ-29", "TJ-30", "TJ-31")
@pytest.mark.parametrize(
    ("expected", "spec", "change"),
    [
        (INVALID, {}, lambda spec: spec.update(managedBy="kueue.x-k8s.io/multikueue")),
        (INVALID, {}, lambda spec: spec["runtimeRef"].update(name="forbidden-update")),
        (
            INVALID,
            {"initializer": fetching("model", "s3://test/path")},
            lambda spec: spec["initializer"]["model"].update(storageUri="s3://forbidden-update"),
        ),
        (INVALID, {"trainer": {"image": "test-image"}}, lambda spec: spec["trainer"].update(image="forbidden-update")),
        (
            OK,
            {"suspend": True, "runtimePatches": [patch("test.io/manager", {"nodeSelector": {"test": "test"}})]},
            lambda spec: _set_pods(spec, {"nodeSelector": {"allow": "update"}}),
        ),
        (
            INVALID,
            {"runtimePatches": [patch("acme.io/manager", {GRACE: 300})]},
            lambda spec: _set_pods(spec, {GRACE: 600}),
        ),
    ],
    ids=["managedBy", "runtimeRef", "initializer", "trainer", "runtimePatches", "grace period"],
)
def test_updating_a_trainjob(expected: int, spec: Object, change: Callable[[Object], Any]) -> None:
    async def story(plane: ControllerPlane) -> None:
        made = deepcopy(await plane.create(trainjob(**spec)))
        change(made["spec"])
        assert await code(plane.api.update(TRAIN_JOBS, made, "default")) == expected

    on_both_runtimes(story)


@pytest.mark.conformance("TJ-1", "TJ-2", "TJ-3", "TJ-4")
@pytest.mark.parametrize("resource", [TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES], ids=lambda one: one.kind)
@pytest.mark.parametrize(
    ("expected", "policy"),
    [
        (OK, {}),
        (INVALID, {"torch": {}, "mpi": {}}),
        (INVALID, {"torch": {}, "jax": {}}),
        (INVALID, {"torch": {}, "flux": {}}),
        (INVALID, {"mpi": {}, "flux": {}}),
        (INVALID, {"jax": {}, "flux": {}}),
        (INVALID, {"jax": {}, "mpi": {}}),
        (INVALID, {"torch": {}, "mpi": {}, "jax": {}, "flux": {}}),
        (INVALID, {"mpi": {"mpiImplementation": "invalid"}}),
        (INVALID, {"mpi": {"numProcPerNode": 0}}),
    ],
    ids=str,
)
def test_creating_a_runtime(resource: Resource, expected: int, policy: Object) -> None:
    async def story(plane: ControllerPlane) -> None:
        assert await answered(plane, runtime(resource.kind, **({"mlPolicy": policy} if policy else {}))) == expected

    in_virtual_time(story, controllers=lambda _: [])


@pytest.mark.conformance("TJ-5")
@pytest.mark.parametrize("left_out", ["mpiImplementation", "sshAuthMountPath", "runLauncherAsNode", "numProcPerNode"])
def test_defaults_of_a_created_mpi_runtime(left_out: str) -> None:
    whole = {
        "numProcPerNode": 1,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": "/root/.ssh",
        "runLauncherAsNode": False,
    }

    async def story(plane: ControllerPlane) -> None:
        sent = {field: value for field, value in whole.items() if field != left_out}
        made = await plane.create(runtime(NAMESPACED, mlPolicy={"mpi": sent}))
        assert made["spec"]["mlPolicy"]["mpi"] == whole

    in_virtual_time(story, controllers=lambda _: [])


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        (
            trainjob(CLUSTER, podTemplateOverrides=[{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {}}}]),
            "spec.podTemplateOverrides is of an older release",
        ),
        (trainjob(CLUSTER, labels={"a": "b"}), "spec.labels is of an older release"),
        (runtime(CLUSTER, mlPolicy={"tensorflow": {}}), 'unknown field "spec.mlPolicy.tensorflow"'),
        (runtime(CLUSTER, podGroupPolicy={"kai": {}}), 'unknown field "spec.podGroupPolicy.kai"'),
        (
            runtime(CLUSTER, podGroupPolicy={"volcano": {}}),
            "not serve PodGroup in scheduling.volcano.sh",
        ),
    ],
    ids=["overrides", "labels", "framework", "policy", "volcano"],
)
def test_what_is_old_or_unknown_draws_a_warning(obj: Object, told: str) -> None:
    async def story(plane: ControllerPlane) -> None:
        await plane.create(runtime(CLUSTER))
        heard: list[str] = []
        resource = TRAIN_JOBS if obj["kind"] == "TrainJob" else CLUSTER_TRAINING_RUNTIMES
        options = WriteOptions(field_validation="Warn", warn=heard.append)
        named = {**obj, "metadata": {"name": "other"}}
        await plane.api.create(resource, named, "default" if resource.namespaced else "", options)
        assert any(told in one for one in heard), heard

    in_virtual_time(story, controllers=lambda _: [])


def test_applying_an_older_form_again_changes_nothing() -> None:
    async def story(plane: ControllerPlane) -> None:
        override = {"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"a": "b"}}}
        made = await plane.create(trainjob(podTemplateOverrides=[override]))
        (stored,) = made["spec"]["runtimePatches"]
        assert stored["manager"] == "trainer.kubeflow.org/legacy-overrides"
        await plane.wait(60)
        again = await plane.patch(TRAIN_JOBS, "test", {"spec": {"podTemplateOverrides": [override]}})
        assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    on_both_runtimes(story)


@pytest.mark.conformance("TJ-96")
def test_amounts_may_come_as_floats() -> None:
    async def story(plane: ControllerPlane) -> None:
        amounts = {"limits": {"nvidia.com/gpu": 4.0, "cpu": 2.0}, "requests": {"nvidia.com/gpu": 4.0}}
        made = await plane.create(trainjob(trainer={"numNodes": 1, "resourcesPerNode": amounts}))
        asked = made["spec"]["trainer"]["resourcesPerNode"]
        assert repr(asked) == repr({"limits": {"nvidia.com/gpu": 4, "cpu": 2}, "requests": {"nvidia.com/gpu": 4}})

    on_both_runtimes(story)
