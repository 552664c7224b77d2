"""Nodes that fail, in virtual time through the real API: from the last heartbeat to the last eviction, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import EVENTS, JOBS, LEASES, NODES, PODS, Object
from echelon.base.instants import parse
from echelon.client.informer import Caches
from echelon.controllers.job import JobController
from echelon.controllers.nodes.lifecycle import NodeLifecycleController
from echelon.controllers.nodes.lost_pods import LostPodController
from echelon.controllers.nodes.taint_eviction import TaintEvictionController
from echelon.controllers.runner import Controller
from echelon.testing.builders import bare_pod
from tests.controller_plane import ControllerPlane, in_virtual_time

FAILURE = "echelon.dev/node-failure"


def with_nodes(caches: Caches) -> Sequence[Controller]:
    return [
        JobController(caches),
        LostPodController(caches),
        NodeLifecycleController(caches),
        TaintEvictionController(caches),
    ]


def virtually(scenario: Any, **options: Any) -> None:
    """Run a scenario once the nodes are there."""

    async def with_nodes_there(plane: ControllerPlane) -> None:
        await plane.wait(1)
        await scenario(plane)

    in_virtual_time(with_nodes_there, controllers=with_nodes, **options)


async def fail(plane: ControllerPlane, node: str, how: str | None) -> None:
    await plane.patch(NODES, node, {"metadata": {"annotations": {FAILURE: how}}})


def taints(node: Object) -> set[tuple[str, str]]:
    return {(taint["key"].partition("/")[2], taint["effect"]) for taint in node["spec"].get("taints") or ()}


def ready(obj: Object) -> str:
    found = meta.find_condition(obj, "Ready")
    assert found is not None
    return str(found["status"])


def running_on(node: str, name: str = "p", tolerations: list[Object] | None = None) -> Object:
    made = bare_pod(name, seconds=100_000, node=node)
    return {**made, "spec": {**made["spec"], "tolerations": tolerations or []}}


def test_simulated_nodes_look_like_real_ones() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(bare_pod("p", seconds=1000, node="n-n1"))
        await plane.wait(5)
        made = await plane.all(NODES)
        for node in made:
            labels = meta.labels(node)
            assert (labels["kubernetes.io/os"], labels["kubernetes.io/arch"]) == ("linux", "amd64")
            assert labels["kubernetes.io/hostname"] == meta.name(node)
            info = node["status"]["nodeInfo"]
            assert (info["operatingSystem"], info["architecture"]) == ("linux", "amd64")
            assert {one["type"]: one["status"] for one in node["status"]["conditions"]} == {
                "MemoryPressure": "False",
                "DiskPressure": "False",
                "PIDPressure": "False",
                "Ready": "True",
            }
        addresses = [node["status"]["addresses"][0] for node in made]
        assert {one["type"] for one in addresses} == {"InternalIP"}
        assert len({one["address"] for one in addresses}) == 4
        pod = await plane.get(PODS, "p")
        assert pod["status"]["hostIP"] == addresses[1]["address"]
        leases = await plane.all(LEASES, "kube-node-lease")
        assert [lease["spec"]["holderIdentity"] for lease in leases] == [meta.name(node) for node in made]
        assert [lease["metadata"]["ownerReferences"][0]["uid"] for lease in leases] == list(map(meta.uid, made))

    virtually(scenario)


@pytest.mark.conformance("API-124")
def test_a_lost_node_is_unknown_after_fifty_seconds_and_its_pods_go_when_they_no_longer_tolerate_it() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(running_on("n-n0"))
        await plane.create(running_on("n-n1", "elsewhere"))
        brief = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
        await plane.create(running_on("n-n0", "brief", [{**brief, "tolerationSeconds": 10}]))
        await plane.create(running_on("n-n0", "steadfast", [brief]))
        await plane.wait(5)
        await fail(plane, "n-n0", "lost")
        await plane.wait(45)
        assert ready(await plane.get(NODES, "n-n0")) == "True"
        await plane.wait(7)
        node = await plane.get(NODES, "n-n0")
        assert ready(node) == "Unknown"
        assert taints(node) == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
        assert {name: ready(await plane.get(PODS, name)) for name in ("p", "steadfast", "elsewhere")} == {
            "p": "False",
            "steadfast": "False",
            "elsewhere": "True",
        }
        assert not meta.deleting(await plane.get(PODS, "brief"))
        await plane.wait(10)
        assert meta.deleting(await plane.get(PODS, "brief"))
        await plane.wait(285)
        assert not meta.deleting(await plane.get(PODS, "p"))
        await plane.wait(10)
        gone = await plane.get(PODS, "p")
        assert meta.deleting(gone)
        reason = meta.find_condition(gone, "DisruptionTarget")
        assert reason is not None
        assert reason["reason"] == "DeletionByTaintManager"
        assert not meta.deleting(await plane.get(PODS, "steadfast"))
        assert "NodeNotReady" in await plane.reasons("n-n0")
        assert {"NodeNotReady", "TaintManagerEviction"} <= set(await plane.reasons("p"))
        await plane.wait(3600)
        # Nothing on the lost node ends it: it stays until the node is back.
        assert meta.deleting(await plane.get(PODS, "p"))

    virtually(scenario)


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(running_on("n-n0"))
        await plane.create(bare_pod("short", seconds=20, node="n-n0"))
        await plane.wait(5)
        await fail(plane, "n-n0", "lost")
        await plane.wait(200)
        short = await plane.get(PODS, "short")
        assert (ready(await plane.get(PODS, "p")), short["status"]["phase"]) == ("False", "Running")
        await fail(plane, "n-n0", None)
        await plane.wait(1)
        node = await plane.get(NODES, "n-n0")
        assert (ready(node), taints(node)) == ("True", set())
        assert ready(await plane.get(PODS, "p")) == "True"
        # What ran on it went on running meanwhile.
        run = (await plane.get(PODS, "short"))["status"]["containerStatuses"][0]["state"]["terminated"]
        assert parse(run["finishedAt"]) - parse(run["startedAt"]) == 20
        await plane.wait(3600)
        assert ready(await plane.get(NODES, "n-n0")) == "True"
        assert not meta.deleting(await plane.get(PODS, "p"))

    virtually(scenario)


def test_a_deleted_pod_stops_when_its_lost_node_is_back() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(running_on("n-n0"))
        await plane.wait(5)
        await fail(plane, "n-n0", "lost")
        await plane.wait(400)
        assert meta.deleting(await plane.get(PODS, "p"))
        await fail(plane, "n-n0", None)
        await plane.wait(2)
        assert await plane.find(PODS, "p") is None

    virtually(scenario)


def test_pods_of_a_lost_node_that_is_taken_out_of_service_are_gone_at_once() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(running_on("n-n0"))
        await plane.wait(5)
        await fail(plane, "n-n0", "lost")
        await plane.wait(60)
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        given = (await plane.get(NODES, "n-n0"))["spec"]["taints"]
        await plane.patch(NODES, "n-n0", {"spec": {"taints": [*given, taint]}})
        await plane.wait(1)
        assert await plane.names(PODS) == []

    virtually(scenario)


def test_a_node_that_says_that_it_is_not_ready_is_tainted_at_once_and_goes_on_running_its_pods() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(running_on("n-n0"))
        await plane.create(bare_pod("short", seconds=20, node="n-n0"))
        await plane.wait(5)
        await fail(plane, "n-n0", "not-ready")
        await plane.wait(30)
        node = await plane.get(NODES, "n-n0")
        assert ready(node) == "False"
        assert taints(node) == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}
        short = await plane.get(PODS, "short")
        assert (ready(await plane.get(PODS, "p")), short["status"]["phase"]) == ("True", "Succeeded")
        await plane.wait(300)
        assert await plane.find(PODS, "p") is None

    virtually(scenario)


def test_a_failure_that_is_not_known_is_told_on_the_node() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.wait(5)
        await fail(plane, "n-n0", "on-fire")
        await plane.wait(60)
        assert ready(await plane.get(NODES, "n-n0")) == "True"
        (event,) = [event for event in await plane.all(EVENTS) if event["reason"] == "SetAside"]
        assert "'on-fire' must be lost or not-ready" in event["message"]

    virtually(scenario)


def test_a_taint_set_by_hand_evicts_at_once_or_when_it_is_no_longer_tolerated() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        for name, seconds in (("now", None), ("later", 60)):
            toleration = {"key": "repair", "operator": "Exists", "tolerationSeconds": seconds, "effect": "NoExecute"}
            await plane.create(running_on("n-n0", name, [toleration] if seconds else []))
        await plane.wait(5)
        await plane.patch(NODES, "n-n0", {"spec": {"taints": [{"key": "repair", "effect": "NoExecute"}]}})
        await plane.wait(5)
        assert await plane.names(PODS) == ["later"]
        await plane.create(running_on("n-n0", "late-comer"))
        await plane.wait(5)
        assert await plane.names(PODS) == ["later"]
        await plane.wait(60)
        assert await plane.names(PODS) == []

    virtually(scenario)


def test_a_taint_that_goes_in_time_evicts_nothing() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        toleration = {"key": "repair", "operator": "Exists", "tolerationSeconds": 60, "effect": "NoExecute"}
        await plane.create(running_on("n-n0", "p", [toleration]))
        await plane.wait(5)
        for _ in range(3):
            await plane.patch(NODES, "n-n0", {"spec": {"taints": [{"key": "repair", "effect": "NoExecute"}]}})
            await plane.wait(40)
            await plane.patch(NODES, "n-n0", {"spec": {"taints": None}})
            await plane.wait(40)
        assert await plane.names(PODS) == ["p"]

    virtually(scenario)


def test_a_node_that_never_had_a_lease_is_left_alone() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        stale = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2020-01-01T00:00:00Z"}
        await plane.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "plain"}})
        await plane.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "stale"},
                "status": {"conditions": [stale]},
            }
        )
        before = [await plane.get(NODES, name) for name in ("plain", "stale")]
        await plane.wait(3600)
        assert [await plane.get(NODES, name) for name in ("plain", "stale")] == before

    virtually(scenario)


def test_a_node_of_anybody_is_lost_when_its_own_lease_expires() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"}})
        spec = {"holderIdentity": "mine", "leaseDurationSeconds": 40, "renewTime": "2020-01-01T00:00:00.000000Z"}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
        await plane.create({**lease, "metadata": {"name": "mine", "namespace": "kube-node-lease"}})
        await plane.wait(45)
        assert taints(await plane.get(NODES, "mine")) == set()
        await plane.wait(10)
        node = await plane.get(NODES, "mine")
        assert (ready(node), taints(node)) == ("Unknown", {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")})

    virtually(scenario)


def test_a_node_added_by_hand_can_be_made_to_fail_and_to_recover() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "extra"}})
        await plane.create(running_on("extra"))
        await plane.wait(5)
        await fail(plane, "extra", "lost")
        await plane.wait(60)
        assert (ready(await plane.get(NODES, "extra")), ready(await plane.get(PODS, "p"))) == ("Unknown", "False")
        await fail(plane, "extra", None)
        await plane.wait(7200)
        node = await plane.get(NODES, "extra")
        assert (ready(node), taints(node), ready(await plane.get(PODS, "p"))) == ("True", set(), "True")

    virtually(scenario)


def test_a_restart_keeps_lost_nodes_lost_and_the_others_well_and_evicts_in_time() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(running_on("n-n0"))
        await plane.wait(5)
        await fail(plane, "n-n0", "lost")
        await plane.wait(100)
        await plane.kill()
        await plane.wait(200)
        await plane.start()
        await plane.wait(20)
        assert [ready(node) for node in await plane.all(NODES)] == ["Unknown", "True", "True", "True"]
        assert not meta.deleting(await plane.get(PODS, "p"))
        await plane.wait(60)
        assert meta.deleting(await plane.get(PODS, "p"))
        await plane.kill()
        await plane.wait(100_000)
        await plane.start()
        await plane.wait(600)
        assert [ready(node) for node in await plane.all(NODES)] == ["Unknown", "True", "True", "True"]

    virtually(scenario)


def test_leases_of_well_nodes_are_written_seldom() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.wait(10)
        begin = int(plane.api.resource_version)
        await plane.wait(3600)
        assert [ready(node) for node in await plane.all(NODES)] == ["True"] * 4
        assert 4 * 6 <= int(plane.api.resource_version) - begin <= 4 * 12

    virtually(scenario)


def test_nothing_is_bound_to_a_node_that_is_not_ready() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.wait(5)
        for name in ("n-n0", "n-n1"):
            await fail(plane, name, "not-ready")
        for number in range(40):
            await plane.create(bare_pod(f"p{number}", seconds=10_000))
        await plane.wait(60)
        assert {pod["spec"]["nodeName"] for pod in await plane.all(PODS)} <= {"n-n2", "n-n3"}
        for name in ("n-n2", "n-n3"):
            await fail(plane, name, "not-ready")
        await plane.wait(1)
        await plane.create(bare_pod("waits", seconds=10))
        await plane.wait(10)
        assert "nodeName" not in (await plane.get(PODS, "waits"))["spec"]
        await fail(plane, "n-n3", None)
        await plane.wait(5)
        assert (await plane.get(PODS, "waits"))["spec"]["nodeName"] == "n-n3"

    virtually(scenario, scheduler=True)


@pytest.mark.conformance("API-125")
def test_a_job_goes_on_when_a_pod_of_it_is_killed() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        annotations = {"echelon.dev/run-seconds": "30", "echelon.dev/exit-code": "137"}
        container = {"name": "c", "image": "registry.example/c:1"}
        template = {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        spec = {"template": template, "backoffLimit": 1}
        await plane.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
        await plane.wait(35)
        first = (await plane.pods("Failed"))[0]
        (status,) = first["status"]["containerStatuses"]
        assert (status["state"]["terminated"]["exitCode"], status["state"]["terminated"]["reason"]) == (137, "Error")
        job = await plane.finished("j")
        assert job["status"]["failed"] == 2
        failed = meta.find_condition(job, "Failed")
        assert failed is not None
        assert failed["reason"] == "BackoffLimitExceeded"

    virtually(scenario)


def test_a_job_replaces_a_pod_that_was_evicted_from_a_lost_node() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        container = {"name": "c", "image": "registry.example/c:1", "command": ["sleep", "600"]}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
        await plane.create(job)
        await plane.wait(10)
        (pod,) = await plane.pods("Running")
        lost = pod["spec"]["nodeName"]
        await fail(plane, lost, "lost")
        await plane.wait(370)
        (replacement,) = [one for one in await plane.pods("Running") if not meta.deleting(one)]
        assert replacement["spec"]["nodeName"] != lost
        await plane.wait(700)
        # As on a real cluster a Job ends when its last pod is gone.
        assert not meta.condition_is(await plane.get(JOBS, "j"), "Complete")
        await fail(plane, lost, None)
        assert meta.condition_is(await plane.finished("j"), "Complete")

    virtually(scenario, scheduler=True)
