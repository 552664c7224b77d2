"""DaemonSets over the real API, with simulated nodes and the scheduler, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from echelon.api.objects import meta
from echelon.api.scheme import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS, Object
from echelon.api.verbs import Patch, PatchType
from echelon.client.informer import Caches
from echelon.controllers.apps.daemons import DaemonSetController
from echelon.controllers.garbage import GarbageCollector
from echelon.controllers.runner import Controller
from tests.controller_plane import ControllerPlane, in_virtual_time

NAMES = ["n-n0", "n-n1", "n-n2", "n-n3"]


def daemon_sets(caches: Caches) -> Sequence[Controller]:
    return [DaemonSetController(caches), GarbageCollector(caches)]


def template(image: str = "one", **spec: Any) -> Object:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}], **spec}}


def daemon_set(*, made: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": made or template(), **spec},
    }


async def places(plane: ControllerPlane, image: str | None = None) -> list[str]:
    """The nodes of the pods that stay."""
    return sorted(
        pod["spec"].get("nodeName", "")
        for pod in await plane.pods("Running")
        if not meta.deleting(pod) and image in (None, pod["spec"]["containers"][0]["image"])
    )


def test_every_node_gets_a_pod_and_every_pod_comes_back() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(daemon_set())
        await plane.wait(10)
        assert await places(plane) == NAMES
        status = (await plane.get(DAEMON_SETS, "agent"))["status"]
        assert status == {
            "currentNumberScheduled": 4,
            "desiredNumberScheduled": 4,
            "numberMisscheduled": 0,
            "numberReady": 4,
            "numberAvailable": 4,
            "updatedNumberScheduled": 4,
            "observedGeneration": 1,
        }
        first, second, *_ = await plane.pods()
        await plane.delete(PODS, meta.name(first))
        failed = {"status": {"phase": "Failed"}}
        await plane.api.patch(PODS, meta.name(second), Patch(PatchType.MERGE, failed), "default", "status")
        await plane.wait(60)
        assert await places(plane) == NAMES
        assert len(await plane.pods()) == 4
        (revision,) = await plane.all(CONTROLLER_REVISIONS)
        hashes = {pod["metadata"]["labels"]["controller-revision-hash"] for pod in await plane.pods()}
        assert hashes == {revision["metadata"]["labels"]["controller-revision-hash"]}
        await plane.delete(DAEMON_SETS, "agent", "Foreground")
        await plane.wait(60)
        assert await plane.pods() == []

    in_virtual_time(scenario, controllers=daemon_sets, scheduler=True)


def test_pods_follow_the_labels_and_taints_of_nodes() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(daemon_set(made=template(nodeSelector={"colour": "blue"})))
        await plane.wait(5)
        assert await places(plane) == []
        for node in NAMES[:3]:
            await plane.patch(NODES, node, {"metadata": {"labels": {"colour": "blue"}}})
        await plane.wait(10)
        assert await places(plane) == NAMES[:3]
        await plane.patch(NODES, NAMES[0], {"metadata": {"labels": {"colour": "green"}}})
        gone = [{"key": "k", "effect": "NoExecute"}]
        await plane.patch(NODES, NAMES[1], {"spec": {"taints": gone}})
        closed = [{"key": "k", "effect": "NoSchedule"}]
        await plane.patch(NODES, NAMES[2], {"spec": {"taints": closed}})
        await plane.wait(60)
        assert await places(plane) == [NAMES[2]]
        status = (await plane.get(DAEMON_SETS, "agent"))["status"]
        assert (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (0, 1)
        await plane.patch(
            NODES, NAMES[3], {"metadata": {"labels": {"colour": "blue"}}, "spec": {"unschedulable": True}}
        )
        await plane.wait(10)
        assert await places(plane) == NAMES[2:]

    in_virtual_time(scenario, controllers=daemon_sets, scheduler=True)


def test_a_rolling_update_takes_one_node_at_a_time_and_can_go_back() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(daemon_set())
        await plane.wait(10)
        await plane.patch(DAEMON_SETS, "agent", {"spec": {"template": template("two")}})
        least = 4
        for _ in range(200):
            await plane.wait(0.5)
            least = min(least, len(await places(plane)))
        assert least == 3
        assert await places(plane, "two") == NAMES
        await plane.patch(DAEMON_SETS, "agent", {"spec": {"template": template("one")}})
        await plane.wait(100)
        assert await places(plane, "one") == NAMES
        assert sorted(one["revision"] for one in await plane.all(CONTROLLER_REVISIONS)) == [2, 3]
        annotations = (await plane.get(DAEMON_SETS, "agent"))["metadata"]["annotations"]
        assert annotations == {"deprecated.daemonset.template.generation": "3"}

    in_virtual_time(scenario, controllers=daemon_sets, scheduler=True)


def test_on_delete_and_surge() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(daemon_set(updateStrategy={"type": "OnDelete"}, minReadySeconds=5))
        await plane.wait(10)
        await plane.patch(DAEMON_SETS, "agent", {"spec": {"template": template("two")}})
        await plane.wait(20)
        assert await places(plane, "one") == NAMES
        surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await plane.patch(DAEMON_SETS, "agent", {"spec": {"updateStrategy": surge}})
        counts = set()
        for _ in range(200):
            await plane.wait(0.5)
            counts.add(len(await places(plane)))
        assert min(counts) == 4
        assert max(counts) == 5
        assert await places(plane, "two") == NAMES

    in_virtual_time(scenario, controllers=daemon_sets, scheduler=True)
