"""Simulated nodes through the real API: they register, run what is bound to them, and survive a restart."""

from __future__ import annotations

from pathlib import Path

import yaml

from echelon.api.cluster.pools import parse as parse_cluster
from echelon.api.objects import meta
from echelon.api.scheme import JOBS, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from echelon.base.instants import parse
from echelon.client.informer import Caches
from echelon.controllers.devices.resource_claims import ResourceClaimController
from echelon.controllers.garbage import GarbageCollector
from echelon.controllers.job import JobController
from echelon.controllers.runner import Controller
from echelon.testing.builders import bare_pod
from tests.controller_plane import ControllerPlane, in_virtual_time


def test_nodes_register_once_ready_and_with_their_capacity() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.wait(1)
        before = await plane.all(NODES)
        assert [meta.name(node) for node in before] == ["n-n0", "n-n1", "n-n2", "n-n3"]
        assert all(meta.condition_is(node, "Ready") for node in before)
        assert before[0]["status"]["allocatable"]["pods"] == "110"
        await plane.restart()
        await plane.wait(1)
        assert [meta.uid(node) for node in await plane.all(NODES)] == [meta.uid(node) for node in before]

    in_virtual_time(scenario)


def test_a_pod_ends_when_it_would_have_had_the_plane_not_been_away() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(bare_pod("short", seconds=10))
        await plane.create(bare_pod("long", seconds=100))
        await plane.wait(5)
        await plane.kill()
        await plane.wait(50)
        await plane.start()
        await plane.wait(2)
        short, long = await plane.get(PODS, "short"), await plane.get(PODS, "long")
        assert (short["status"]["phase"], long["status"]["phase"]) == ("Succeeded", "Running")
        (container,) = short["status"]["containerStatuses"]
        run = container["state"]["terminated"]
        assert parse(run["finishedAt"]) - parse(run["startedAt"]) == 10
        await plane.wait(50)
        assert (await plane.get(PODS, "long"))["status"]["phase"] == "Succeeded"

    in_virtual_time(scenario)


def test_a_deleted_pod_goes_after_about_a_second() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(bare_pod("p", seconds=1000))
        await plane.wait(5)
        await plane.delete(PODS, "p")
        await plane.wait(0.2)
        assert meta.deleting(await plane.get(PODS, "p"))
        await plane.wait(2)
        assert await plane.find(PODS, "p") is None

    in_virtual_time(scenario)


def test_a_node_added_by_hand_runs_pods_too() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(bare_pod("early", seconds=5, node="extra"))
        await plane.wait(10)
        assert (await plane.get(PODS, "early"))["status"]["phase"] == "Pending"
        await plane.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "extra"}})
        await plane.wait(10)
        assert (await plane.get(PODS, "early"))["status"]["phase"] == "Succeeded"

    in_virtual_time(scenario, bind=False)


def test_devices_of_the_cluster_file_are_offered_and_used() -> None:
    """From the file to the end of a gang: slices, claims from a template, devices, and their way back."""
    folder = Path(__file__).parents[2] / "examples" / "devices"
    cluster = parse_cluster((folder / "cluster.yaml").read_text(), "cluster.yaml")

    async def scenario(plane: ControllerPlane) -> None:
        for manifest in yaml.safe_load_all((folder / "job.yaml").read_text()):
            await plane.create({**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}})
        await plane.wait(3)
        offered = await plane.all(RESOURCE_SLICES)
        assert [len(one["spec"]["devices"]) for one in offered] == [4] * 4
        assert all(meta.controller_of(one) is not None for one in offered)
        claims = await plane.all(RESOURCE_CLAIMS)
        results = [one for claim in claims for one in claim["status"]["allocation"]["devices"]["results"]]
        assert len({(one["pool"], one["device"]) for one in results}) == 8
        await plane.wait(60)
        assert meta.condition_is(await plane.get(JOBS, "train"), "Complete")
        assert await plane.all(RESOURCE_CLAIMS) == []

    def controllers(caches: Caches) -> list[Controller]:
        return [JobController(caches), ResourceClaimController(caches), GarbageCollector(caches)]

    in_virtual_time(scenario, controllers=controllers, cluster=cluster, scheduler=True, bind=False)
