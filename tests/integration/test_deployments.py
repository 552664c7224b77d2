"""Deployments over the real API, with simulated nodes, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from echelon.api.objects import meta
from echelon.api.scheme import DEPLOYMENTS, PODS, REPLICA_SETS, Object
from echelon.client.informer import Caches
from echelon.controllers.apps.deployment import DeploymentController
from echelon.controllers.apps.replicas import ReplicaSetController
from echelon.controllers.garbage import GarbageCollector
from echelon.controllers.runner import Controller
from tests.controller_plane import ControllerPlane, in_virtual_time

REVISION = "deployment.kubernetes.io/revision"


def deployments(caches: Caches) -> Sequence[Controller]:
    return [DeploymentController(caches), ReplicaSetController(caches), GarbageCollector(caches)]


def template(image: str = "one", **pod: Any) -> Object:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}], **pod}}


def deployment(image: str = "one", **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template(image), **spec},
    }


async def complete(plane: ControllerPlane, seconds: float = 300) -> Object:
    """The Deployment once its newest template is rolled out."""

    async def holds() -> bool:
        one = await plane.get(DEPLOYMENTS, "web")
        status, wanted = one["status"], one["spec"]["replicas"]
        counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
        seen = status.get("observedGeneration", 0) >= one["metadata"]["generation"]
        return seen and counts == [wanted] * 3 and reason_of(one, "Progressing") == "NewReplicaSetAvailable"

    await plane.until(holds, seconds)
    return await plane.get(DEPLOYMENTS, "web")


def reason_of(one: Object, type_: str) -> str:
    found = meta.find_condition(one, type_)
    return str(found["reason"]) if found else ""


async def change(plane: ControllerPlane, image: str, **spec: Any) -> None:
    await plane.patch(DEPLOYMENTS, "web", {"spec": {"template": template(image), **spec}})


async def sizes(plane: ControllerPlane) -> dict[str, int]:
    """Replicas by image."""
    found = await plane.all(REPLICA_SETS)
    return {one["spec"]["template"]["spec"]["containers"][0]["image"]: one["spec"]["replicas"] for one in found}


def test_a_deployment_makes_a_replica_set_with_pods() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(deployment(replicas=3))
        done = await complete(plane)
        (made,) = await plane.all(REPLICA_SETS)
        hashed = made["metadata"]["labels"]["pod-template-hash"]
        assert meta.name(made) == f"web-{hashed}"
        assert made["spec"]["selector"]["matchLabels"] == {"app": "a", "pod-template-hash": hashed}
        assert made["metadata"]["annotations"] == {
            REVISION: "1",
            "deployment.kubernetes.io/desired-replicas": "3",
            "deployment.kubernetes.io/max-replicas": "4",
        }
        assert {one["metadata"]["labels"]["pod-template-hash"] for one in await plane.pods()} == {hashed}
        assert done["metadata"]["annotations"] == {REVISION: "1"}
        assert done["metadata"]["generation"] == 1
        status = {field: value for field, value in done["status"].items() if field != "conditions"}
        assert status == {
            "observedGeneration": 1,
            "replicas": 3,
            "updatedReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "terminatingReplicas": 0,
        }
        assert {(one["type"], one["status"], one["reason"]) for one in done["status"]["conditions"]} == {
            ("Available", "True", "MinimumReplicasAvailable"),
            ("Progressing", "True", "NewReplicaSetAvailable"),
        }
        assert await plane.reasons("web") == ["ScalingReplicaSet"]

    in_virtual_time(scenario, controllers=deployments)


def test_a_rolling_update_stays_within_its_bounds() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
        await plane.create(deployment(replicas=8, strategy=rolling, minReadySeconds=3))
        await complete(plane)
        await change(plane, "two")
        most, least = 0, 99
        for _ in range(400):
            await plane.wait(0.2)
            pods = [one for one in await plane.pods() if not meta.deleting(one)]
            most = max(most, len(pods))
            least = min(least, sum(meta.condition_is(one, "Ready") for one in pods))
        done = await complete(plane)
        assert most <= 10
        assert least >= 7
        assert most > 8
        assert await sizes(plane) == {"one": 0, "two": 8}
        assert done["metadata"]["annotations"][REVISION] == "2"

    in_virtual_time(scenario, controllers=deployments)


def test_recreate_waits_for_the_old_pods() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(deployment(replicas=3, strategy={"type": "Recreate"}))
        await complete(plane)
        await change(plane, "two")
        for _ in range(200):
            await plane.wait(0.1)
            images = {one["spec"]["containers"][0]["image"] for one in await plane.pods()}
            assert len(images) <= 1
        await complete(plane)
        assert await sizes(plane) == {"one": 0, "two": 3}

    in_virtual_time(scenario, controllers=deployments)


def test_going_back_uses_the_old_replica_set_as_a_new_revision() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(deployment())
        await complete(plane)
        await change(plane, "two")
        await complete(plane)
        await change(plane, "one")
        done = await complete(plane)
        sets = {one["spec"]["template"]["spec"]["containers"][0]["image"]: one for one in await plane.all(REPLICA_SETS)}
        assert len(sets) == 2
        assert sets["one"]["metadata"]["annotations"][REVISION] == "3"
        assert sets["one"]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
        assert sets["two"]["metadata"]["annotations"][REVISION] == "2"
        assert done["metadata"]["annotations"][REVISION] == "3"

    in_virtual_time(scenario, controllers=deployments)


def test_a_change_before_the_last_one_is_rolled_out() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(deployment(replicas=6, minReadySeconds=5))
        await complete(plane)
        for image in ("two", "three", "four"):
            await change(plane, image)
            await plane.wait(4)
        await complete(plane)
        assert await sizes(plane) == {"one": 0, "two": 0, "three": 0, "four": 6}

    in_virtual_time(scenario, controllers=deployments)


def test_a_paused_deployment_scales_but_does_not_roll_out() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(deployment(replicas=2))
        await complete(plane)
        await change(plane, "two", paused=True, replicas=4)
        await plane.wait(10)
        assert await sizes(plane) == {"one": 4}
        paused = await plane.get(DEPLOYMENTS, "web")
        assert reason_of(paused, "Progressing") == "DeploymentPaused"
        assert paused["status"]["observedGeneration"] == paused["metadata"]["generation"]
        await plane.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})
        await complete(plane)
        assert await sizes(plane) == {"one": 0, "two": 4}

    in_virtual_time(scenario, controllers=deployments)


def test_a_rollout_that_does_not_progress_times_out_and_may_go_on() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(deployment(replicas=2, progressDeadlineSeconds=20))
        await complete(plane)
        await plane.patch(
            DEPLOYMENTS, "web", {"spec": {"template": template("two", schedulingGates=[{"name": "example.org/wait"}])}}
        )
        await plane.wait(15)
        assert reason_of(await plane.get(DEPLOYMENTS, "web"), "Progressing") == "ReplicaSetUpdated"
        await plane.wait(20)
        late = await plane.get(DEPLOYMENTS, "web")
        assert reason_of(late, "Progressing") == "ProgressDeadlineExceeded"
        assert meta.condition_is(late, "Progressing", "False")
        assert meta.condition_is(late, "Available")
        await change(plane, "three", template=template("three", schedulingGates=None))
        await complete(plane)

    in_virtual_time(scenario, controllers=deployments)


def test_old_revisions_beyond_the_limit_are_deleted() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(deployment(revisionHistoryLimit=1))
        for image in ("two", "three", "four"):
            await complete(plane)
            await change(plane, image)
        await complete(plane)
        await plane.wait(5)
        assert await sizes(plane) == {"three": 0, "four": 1}

    in_virtual_time(scenario, controllers=deployments)


def test_scaling_in_the_middle_of_a_rollout_keeps_the_proportions() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
        await plane.create(deployment(replicas=10, strategy=rolling))
        await complete(plane)
        stuck = template("two", schedulingGates=[{"name": "example.org/wait"}])
        await plane.patch(DEPLOYMENTS, "web", {"spec": {"template": stuck}})
        await plane.wait(10)
        assert await sizes(plane) == {"one": 8, "two": 5}
        await plane.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 30}})
        await plane.wait(10)
        assert await sizes(plane) == {"one": 20, "two": 13}

    in_virtual_time(scenario, controllers=deployments)


def test_an_orphaned_replica_set_is_adopted_and_one_that_no_longer_matches_is_released() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(deployment(replicas=2))
        await complete(plane)
        (before,) = await plane.all(REPLICA_SETS)
        await plane.delete(DEPLOYMENTS, "web", "Orphan")
        await plane.wait(10)
        (orphan,) = await plane.all(REPLICA_SETS)
        assert meta.controller_of(orphan) is None
        await plane.create(deployment(replicas=2))
        await complete(plane)
        (adopted,) = await plane.all(REPLICA_SETS)
        assert meta.uid(adopted) == meta.uid(before)
        assert meta.controller_of(adopted) is not None
        await plane.patch(REPLICA_SETS, meta.name(adopted), {"metadata": {"labels": {"app": "b"}}})
        await plane.wait(10)
        owners = {meta.uid(one): meta.controller_of(one) for one in await plane.all(REPLICA_SETS)}
        assert owners[meta.uid(before)] is None

    in_virtual_time(scenario, controllers=deployments)


def test_the_revision_follows_that_of_an_adopted_replica_set() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    "name": "old",
                    "namespace": "default",
                    "labels": {"app": "a"},
                    "annotations": {REVISION: "3546343826724305832"},
                },
                "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template("old")},
            }
        )
        await plane.wait(5)
        await plane.create(deployment())
        done = await complete(plane)
        assert done["metadata"]["annotations"][REVISION] == "3546343826724305833"
        assert await sizes(plane) == {"old": 0, "one": 1}

    in_virtual_time(scenario, controllers=deployments)


def test_a_name_that_is_taken_leads_to_another() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(deployment())
        await complete(plane)
        (made,) = await plane.all(REPLICA_SETS)
        await plane.delete(DEPLOYMENTS, "web", "Background")
        await plane.wait(10)
        other = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": meta.name(made), "namespace": "default"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"x": "y"}},
                "template": {**template("other"), "metadata": {"labels": {"x": "y"}}},
            },
        }
        await plane.create(other)
        await plane.create(deployment())
        done = await complete(plane)
        assert done["status"]["collisionCount"] == 1
        assert len(await plane.all(REPLICA_SETS)) == 2

    in_virtual_time(scenario, controllers=deployments)


def test_deleting_a_deployment_deletes_its_replica_sets_and_pods() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(deployment(replicas=2))
        await complete(plane)
        await plane.delete(DEPLOYMENTS, "web", "Foreground")
        await plane.wait(60)
        assert await plane.all(DEPLOYMENTS) == []
        assert await plane.all(REPLICA_SETS) == []
        assert await plane.all(PODS) == []

    in_virtual_time(scenario, controllers=deployments)


def test_a_crash_after_any_write_does_not_stop_a_rollout() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(deployment(replicas=2))
        await complete(plane)
        for writes in range(1, 14):
            await plane.kill()
            await plane.start(writes)
            await change(plane, f"image-{writes}", revisionHistoryLimit=0)
            await plane.wait(10)
            await plane.restart()
            await complete(plane)
            await plane.wait(45)
            assert await sizes(plane) == {f"image-{writes}": 2}
            assert len(await plane.pods()) == 2

    in_virtual_time(scenario, controllers=deployments)
