"""StatefulSets over the real API, with simulated nodes, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import CONTROLLER_REVISIONS, PODS, STATEFUL_SETS, VOLUME_CLAIMS, Object
from echelon.api.verbs import Patch, PatchType
from echelon.client.informer import Caches
from echelon.controllers.apps.stateful import StatefulSetController
from echelon.controllers.garbage import GarbageCollector
from echelon.controllers.runner import Controller
from tests.controller_plane import ControllerPlane, in_virtual_time

REVISION = "controller-revision-hash"


def stateful_sets(caches: Caches) -> Sequence[Controller]:
    return [StatefulSetController(caches), GarbageCollector(caches)]


def template(image: str = "one") -> Object:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def stateful_set(**spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "serviceName": "db",
            "replicas": 3,
            "template": template(),
            **spec,
        },
    }


async def names(plane: ControllerPlane) -> list[str]:
    return sorted(meta.name(pod) for pod in await plane.pods())


async def images(plane: ControllerPlane) -> list[str]:
    """Images of the pods, by ordinal."""
    pods = sorted(await plane.pods(), key=meta.name)
    return [pod["spec"]["containers"][0]["image"] for pod in pods if not meta.deleting(pod)]


async def scale(plane: ControllerPlane, replicas: int) -> None:
    body = Patch(PatchType.MERGE, {"spec": {"replicas": replicas}})
    await plane.api.patch(STATEFUL_SETS, "db", body, "default", "scale")


def test_pods_are_made_and_deleted_in_order() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(stateful_set(minReadySeconds=5))
        seen: list[list[str]] = []
        for _ in range(60):
            await plane.wait(0.5)
            now = await names(plane)
            if not seen or seen[-1] != now:
                seen.append(now)
        assert [one for one in seen if one] == [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]]
        pod = await plane.get(PODS, "db-1")
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
        assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"
        assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
        (revision,) = await plane.all(CONTROLLER_REVISIONS)
        assert pod["metadata"]["labels"][REVISION] == meta.name(revision)
        stored = json.dumps(revision["data"])
        assert stored == json.dumps(revision["data"], sort_keys=True)
        assert stored.startswith('{"spec": {"template": {"$patch": "replace", "metadata"')
        assert (await plane.get(STATEFUL_SETS, "db"))["status"] == {
            "observedGeneration": 1,
            "replicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "currentReplicas": 3,
            "updatedReplicas": 3,
            "currentRevision": meta.name(revision),
            "updateRevision": meta.name(revision),
            "collisionCount": 0,
        }
        await scale(plane, 1)
        seen = []
        for _ in range(100):
            await plane.wait(0.5)
            now = await names(plane)
            if not seen or seen[-1] != now:
                seen.append(now)
        assert seen[-2:] == [["db-0", "db-1"], ["db-0"]]
        assert set(await plane.reasons("db")) == {"SuccessfulCreate", "SuccessfulDelete"}

    in_virtual_time(scenario, controllers=stateful_sets)


def test_parallel_pods_are_made_together_from_the_first_ordinal_on() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        first = 2**31 - 1
        await plane.create(stateful_set(podManagementPolicy="Parallel", minReadySeconds=60, ordinals={"start": first}))
        await plane.wait(3)
        assert await names(plane) == ["db-2147483647", "db-2147483648", "db-2147483649"]
        assert (await plane.get(STATEFUL_SETS, "db"))["status"]["replicas"] == 3
        await scale(plane, 0)
        await plane.wait(40)
        assert await names(plane) == []

    in_virtual_time(scenario, controllers=stateful_sets)


def test_a_rolling_update_goes_from_the_last_pod_to_the_partition() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(stateful_set())
        await plane.wait(20)
        partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await plane.patch(STATEFUL_SETS, "db", {"spec": {"template": template("two"), "updateStrategy": partition}})
        await plane.wait(60)
        assert await images(plane) == ["one", "one", "two"]
        status = (await plane.get(STATEFUL_SETS, "db"))["status"]
        assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)
        assert status["currentRevision"] != status["updateRevision"]
        # A pod below the partition comes back as it was.
        await plane.delete(PODS, "db-0")
        await plane.wait(40)
        assert await images(plane) == ["one", "one", "two"]
        await plane.patch(STATEFUL_SETS, "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
        least = 3
        for _ in range(200):
            await plane.wait(0.5)
            ready = [pod for pod in await plane.pods("Running") if not meta.deleting(pod)]
            least = min(least, len(ready))
        assert least == 2
        assert await images(plane) == ["two", "two", "two"]
        status = (await plane.get(STATEFUL_SETS, "db"))["status"]
        assert status["currentRevision"] == status["updateRevision"]
        assert [one["revision"] for one in await plane.all(CONTROLLER_REVISIONS)] in ([1, 2], [2, 1])
        # Back to the first template: its revision is used again.
        await plane.patch(STATEFUL_SETS, "db", {"spec": {"template": template("one")}})
        await plane.wait(120)
        assert await images(plane) == ["one", "one", "one"]
        assert sorted(one["revision"] for one in await plane.all(CONTROLLER_REVISIONS)) == [2, 3]

    in_virtual_time(scenario, controllers=stateful_sets)


def test_on_delete_updates_a_pod_when_it_is_deleted() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(stateful_set(updateStrategy={"type": "OnDelete"}, revisionHistoryLimit=0))
        await plane.wait(20)
        await plane.patch(STATEFUL_SETS, "db", {"spec": {"template": template("two")}})
        await plane.wait(20)
        assert await images(plane) == ["one", "one", "one"]
        await plane.delete(PODS, "db-1")
        await plane.wait(40)
        assert await images(plane) == ["one", "two", "one"]
        assert len(await plane.all(CONTROLLER_REVISIONS)) == 2

    in_virtual_time(scenario, controllers=stateful_sets)


def test_a_failed_pod_is_made_again_under_its_name() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(stateful_set(replicas=2))
        await plane.wait(20)
        before = await plane.get(PODS, "db-0")
        failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await plane.api.patch(PODS, "db-0", Patch(PatchType.MERGE, failed), "default", "status")
        await plane.wait(60)
        after = await plane.get(PODS, "db-0")
        assert meta.uid(after) != meta.uid(before)
        assert after["status"]["phase"] == "Running"

    in_virtual_time(scenario, controllers=stateful_sets)


def test_claims_are_made_from_templates_and_stay() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await plane.create(stateful_set(volumeClaimTemplates=[claim], podManagementPolicy="Parallel", replicas=2))
        await plane.wait(5)
        assert sorted(meta.name(one) for one in await plane.all(VOLUME_CLAIMS)) == ["data-db-0", "data-db-1"]
        pod = await plane.get(PODS, "db-1")
        assert pod["spec"]["volumes"][0] == {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}
        await plane.delete(STATEFUL_SETS, "db", "Background")
        await plane.wait(60)
        assert await plane.all(PODS) == []
        assert await plane.all(CONTROLLER_REVISIONS) == []
        assert len(await plane.all(VOLUME_CLAIMS)) == 2

    in_virtual_time(scenario, controllers=stateful_sets)


def test_pods_are_adopted_by_name_and_label_and_released() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(stateful_set(replicas=1))
        await plane.wait(10)
        before = await plane.get(PODS, "db-0")
        await plane.delete(STATEFUL_SETS, "db", "Orphan")
        await plane.wait(10)
        assert meta.controller_of(await plane.get(PODS, "db-0")) is None
        await plane.create(stateful_set(replicas=1))
        await plane.wait(10)
        adopted = await plane.get(PODS, "db-0")
        assert meta.uid(adopted) == meta.uid(before)
        assert meta.controller_of(adopted) is not None
        await plane.patch(PODS, "db-0", {"metadata": {"labels": {"app": "b"}}})
        await plane.wait(10)
        assert meta.controller_of(await plane.get(PODS, "db-0")) is None

    in_virtual_time(scenario, controllers=stateful_sets)


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_crash_after_any_write_leaves_no_pod_out(policy: str) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        for writes in range(1, 8):
            await plane.kill()
            await plane.start(writes)
            await plane.api.create(STATEFUL_SETS, stateful_set(podManagementPolicy=policy), "default")
            await plane.wait(10)
            await plane.restart()
            await plane.wait(20)
            assert await names(plane) == ["db-0", "db-1", "db-2"]
            await plane.delete(STATEFUL_SETS, "db")
            await plane.wait(60)

    in_virtual_time(scenario, controllers=stateful_sets)
