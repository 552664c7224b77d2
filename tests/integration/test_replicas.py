"""ReplicaSets and ReplicationControllers over the real API, with simulated nodes, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import EVENTS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Object, Resource
from echelon.api.verbs import Patch, PatchType
from echelon.client.informer import Caches
from echelon.controllers.apps.replicas import ReplicaSetController, ReplicationControllerController
from echelon.controllers.garbage import GarbageCollector
from echelon.controllers.nodes.lost_pods import LostPodController
from echelon.controllers.runner import Controller
from tests.controller_plane import ControllerPlane, in_virtual_time

BOTH = pytest.mark.parametrize("resource", [REPLICA_SETS, REPLICATION_CONTROLLERS], ids=lambda one: one.kind)


def replicated_kinds(caches: Caches) -> Sequence[Controller]:
    return [ReplicaSetController(caches), ReplicationControllerController(caches), GarbageCollector(caches)]


def body(resource: Resource, name: str = "web", **spec: Any) -> Object:
    selector = {"app": "a"} if resource is REPLICATION_CONTROLLERS else {"matchLabels": {"app": "a"}}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, "template": template, **spec},
    }


def pod(name: str, **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }


@BOTH
def test_pods_run_are_replaced_and_scaled(resource: Resource) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(body(resource, replicas=3))
        await plane.wait(5)
        status = (await plane.get(resource, "web"))["status"]
        assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (3, 3, 3)
        assert (status["fullyLabeledReplicas"], status["observedGeneration"]) == (3, 1)
        before = {meta.uid(one) for one in await plane.pods()}
        await plane.delete(PODS, meta.name((await plane.pods())[0]))
        await plane.wait(40)
        after = {meta.uid(one) for one in await plane.pods("Running")}
        assert (len(after), len(after & before)) == (3, 2)
        scale = Patch(PatchType.MERGE, {"spec": {"replicas": 1}})
        await plane.api.patch(resource, "web", scale, "default", "scale")
        await plane.wait(40)
        assert len(await plane.pods()) == 1
        status = (await plane.get(resource, "web"))["status"]
        assert (status["replicas"], status["observedGeneration"]) == (1, 2)
        assert set(await plane.reasons("web")) == {"SuccessfulCreate", "SuccessfulDelete"}

    in_virtual_time(scenario, controllers=replicated_kinds)


@BOTH
def test_pods_are_adopted_and_released_by_their_labels(resource: Resource) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(pod("orphan", app="a"))
        await plane.create(body(resource, replicas=1))
        await plane.wait(3)
        assert [meta.name(one) for one in await plane.pods()] == ["orphan"]
        owner = meta.controller_of((await plane.pods())[0])
        assert owner is not None
        assert (owner["kind"], owner["name"]) == (resource.kind, "web")
        await plane.patch(PODS, "orphan", {"metadata": {"labels": {"app": "b"}}})
        await plane.wait(3)
        by_name = {meta.name(one): meta.controller_of(one) for one in await plane.pods()}
        assert len(by_name) == 2
        assert by_name["orphan"] is None

    in_virtual_time(scenario, controllers=replicated_kinds)


@BOTH
@pytest.mark.parametrize("propagation", ["Orphan", "Background", "Foreground"])
def test_deleting_the_owner(resource: Resource, propagation: Any) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(body(resource, replicas=2))
        await plane.wait(3)
        await plane.delete(resource, "web", propagation)
        await plane.wait(60)
        with pytest.raises(ApiError):
            await plane.get(resource, "web")
        left = await plane.pods()
        assert len(left) == (2 if propagation == "Orphan" else 0)
        assert all(meta.controller_of(one) is None for one in left)

    in_virtual_time(scenario, controllers=replicated_kinds)


@BOTH
def test_availability_waits_for_min_ready_seconds(resource: Resource) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(body(resource, replicas=2, minReadySeconds=30))
        await plane.wait(10)
        status = (await plane.get(resource, "web"))["status"]
        assert (status["readyReplicas"], status.get("availableReplicas")) == (2, None)
        await plane.wait(30)
        assert (await plane.get(resource, "web"))["status"]["availableReplicas"] == 2

    in_virtual_time(scenario, controllers=replicated_kinds)


@BOTH
def test_pods_that_are_refused_become_a_condition_until_they_are_not(resource: Resource) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        refused = body(resource, replicas=2)
        refused["spec"]["template"]["spec"]["priorityClassName"] = "later"
        await plane.create(refused)
        await plane.wait(5)
        (condition,) = (await plane.get(resource, "web"))["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "ReplicaFailure", "True", "FailedCreate",
        )  # fmt: skip
        assert "no PriorityClass with name later was found" in condition["message"]
        assert "FailedCreate" in await plane.reasons("web")
        await plane.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "later"}, "value": 7}
        )
        await plane.wait(60)
        status = (await plane.get(resource, "web"))["status"]
        assert (status["readyReplicas"], status.get("conditions")) == (2, None)

    in_virtual_time(scenario, controllers=replicated_kinds)


@BOTH
def test_pods_that_never_run_do_not_keep_the_plane_busy(resource: Resource) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        lost = body(resource, replicas=3)
        lost["spec"]["template"]["spec"]["nodeName"] = "ghost"
        await plane.create(lost)
        before = int(plane.api.resource_version)
        await plane.wait(300)
        created = [one for one in await plane.all(EVENTS) if one["reason"] == "SuccessfulCreate"]
        assert 3 < sum(one.get("count", 1) for one in created) < 1000
        assert int(plane.api.resource_version) - before < 10_000

    in_virtual_time(scenario, controllers=lambda caches: [*replicated_kinds(caches), LostPodController(caches)])


@BOTH
def test_a_pod_with_a_bad_annotation_waits_and_is_not_replaced(resource: Resource) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        bad = body(resource, replicas=2)
        bad["spec"]["template"]["metadata"]["annotations"] = {"echelon.dev/run-seconds": "soon"}
        await plane.create(bad)
        await plane.wait(60)
        pods = await plane.pods()
        assert [one["status"]["phase"] for one in pods] == ["Pending", "Pending"]
        waiting = pods[0]["status"]["containerStatuses"][0]["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert "echelon.dev/run-seconds" in waiting["message"]
        await plane.delete(resource, "web")
        await plane.wait(60)
        assert await plane.pods() == []

    in_virtual_time(scenario, controllers=replicated_kinds)


def test_a_crash_after_any_write_leaves_no_pod_too_many() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        for writes in range(1, 8):
            await plane.kill()
            verbs = await plane.start(writes)
            name = f"web{writes}"
            await plane.api.create(REPLICA_SETS, body(REPLICA_SETS, name, replicas=3), "default")
            await plane.wait(10)
            assert verbs.dead.is_set() or writes > 5
            await plane.restart()
            await plane.wait(20)
            owned = [one for one in await plane.pods() if (meta.controller_of(one) or {}).get("name") == name]
            assert len(owned) == 3
            await plane.delete(REPLICA_SETS, name)
            await plane.wait(60)

    in_virtual_time(scenario, controllers=replicated_kinds)
