"""Topology levels that nobody configured: the scheduler takes them from Topology objects or from labels of nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import BLOCK, HOSTNAME, RACK, ZONE
from echelon.api.scheme import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, NODES, POD_GROUPS, PODS, Object, Resource
from echelon.api.verbs import Verbs
from echelon.runtime.config import PlaneSettings
from echelon.runtime.plane import running
from echelon.runtime.virtual_time import run
from echelon.scheduler.loop import Settings
from echelon.server.pipeline import Pipeline
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time
from echelon.testing.virtual_plane import virtual_plane

GOOGLE = "cloud.google.com/gce-topology-"
KUEUE = "kueue.x-k8s.io"


async def define_topologies(verbs: Verbs, group: str = KUEUE, version: str = "v1beta1") -> Resource:
    """The kind that Kueue or KAI brings, as the server serves it."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": f"topologies.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "topologies", "kind": "Topology"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    await verbs.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    assert isinstance(verbs, Pipeline)
    served = verbs.kinds.by_path(group, version, "topologies")
    assert served is not None
    return served


def topology(name: str, *keys: str, api_version: str = f"{KUEUE}/v1beta1") -> Object:
    return {
        "apiVersion": api_version,
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": key} for key in keys]},
    }


def levels(world: SchedulerPlane) -> tuple[str, ...]:
    assert world.scheduler is not None
    return world.scheduler.view.levels


@pytest.mark.conformance("SCH-E19")
@in_virtual_time
async def test_a_rack_name_in_two_blocks_of_a_cloud_is_two_domains(world: SchedulerPlane) -> None:
    for block in ("b1", "b2"):
        await world.create(
            *(
                make_node(f"{block}-{n}", cpu=1, labels={GOOGLE + "block": block, GOOGLE + "subblock": "s1"})
                for n in range(2)
            )
        )
    await world.create(make_pod_group("g", gang=4, key=GOOGLE + "subblock"))
    await world.pods("g", "p", 4)
    await world.settle()
    assert levels(world) == (GOOGLE + "block", GOOGLE + "subblock", HOSTNAME)
    assert await world.unscheduled("p0", "p1", "p2", "p3")


@pytest.mark.conformance("SCH-E19")
async def test_an_embedded_plane_without_own_nodes_tells_racks_of_two_zones_apart(tmp_path: Path) -> None:
    async with running(PlaneSettings(data=tmp_path, nodes="none")) as plane:
        for zone in ("z1", "z2"):
            for number in range(2):
                await plane.verbs.create(NODES, make_node(f"{zone}-{number}", cpu=1, zone=zone, rack="r1"))
        await plane.verbs.create(POD_GROUPS, make_pod_group("g", gang=4, key=RACK), "default")
        for number in range(4):
            await plane.verbs.create(PODS, make_pod(f"p{number}", group="g"), "default")
        reason = ""
        for _ in range(1_000):
            pods = (await plane.verbs.list(PODS, "default")).items
            assert not any(pod["spec"].get("nodeName") for pod in pods)
            told = [meta.find_condition(pod, "PodScheduled") or {} for pod in pods]
            reason = str(told[0].get("message", ""))
            if all(one.get("reason") == "Unschedulable" for one in told) and "rack" in reason:
                break
            await asyncio.sleep(0.02)
    assert "z1/r1 has room for 2" in reason


@in_virtual_time
async def test_nodes_that_bring_a_level_change_what_fits(world: SchedulerPlane) -> None:
    """While no node says its zone, rack r1 is one domain; the label makes two of it."""
    await world.create(*(make_node(f"n{number}", cpu=1, rack="r1") for number in range(4)))
    await world.settle()
    assert levels(world) == (RACK, HOSTNAME)
    for number in range(4):
        await world.patch(NODES, f"n{number}", {"metadata": {"labels": {ZONE: f"z{number % 2}"}}})
    await world.create(make_pod_group("g", gang=4, key=RACK))
    await world.pods("g", "p", 4)
    await world.settle()
    assert levels(world) == (ZONE, RACK, HOSTNAME)
    assert await world.unscheduled("p0", "p1", "p2", "p3")
    assert world.scheduler is not None
    assert world.scheduler.inconsistencies() == []


@in_virtual_time
async def test_a_blocked_gang_is_woken_when_levels_change(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"n{n}", cpu=1, zone=f"z{n % 2}", rack="r1") for n in range(4)))
    await world.create(make_pod_group("g", gang=4, key=RACK))
    await world.pods("g", "p", 4)
    await world.settle()
    assert await world.unscheduled("p0", "p1", "p2", "p3")
    for number in range(4):
        await world.patch(NODES, f"n{number}", {"metadata": {"labels": {ZONE: None}}})
    await world.settle()
    assert levels(world) == (RACK, HOSTNAME)
    assert await world.scheduled("p0", "p1", "p2", "p3")


@in_virtual_time
async def test_a_topology_of_kueue_says_the_levels(world: SchedulerPlane) -> None:
    """It comes, is changed and goes while the scheduler runs; labels of nodes count when there is none."""
    topologies = await define_topologies(world.verbs)
    await world.create(*(make_node(f"n{n}", zone="z", labels={"hall": f"h{n // 2}", "row": "1"}) for n in range(4)))
    await world.settle()
    assert levels(world) == (ZONE, HOSTNAME)
    made = await world.verbs.create(topologies, topology("default", "hall", "row", HOSTNAME))
    await world.settle(60)
    assert levels(world) == ("hall", "row", HOSTNAME)
    await world.verbs.update(topologies, {**made, "spec": {"levels": [{"nodeLabel": "row"}]}})
    await world.settle(60)
    assert levels(world) == ("row", HOSTNAME)
    await world.verbs.delete(topologies, "default")
    await world.settle(60)
    assert levels(world) == (ZONE, HOSTNAME)


@in_virtual_time
async def test_a_topology_of_kai_counts_where_kueue_has_none(world: SchedulerPlane) -> None:
    kai = await define_topologies(world.verbs, "kai.scheduler", "v1alpha1")
    kueue = await define_topologies(world.verbs)
    await world.create(make_node("n", labels={"hall": "h", "row": "1"}))
    await world.verbs.create(kai, topology("network", "hall", api_version="kai.scheduler/v1alpha1"))
    await world.settle(60)
    assert levels(world) == ("hall", HOSTNAME)
    await world.verbs.create(kueue, topology("default", "row"))
    await world.settle(60)
    assert levels(world) == ("row", HOSTNAME)


def test_configured_levels_stand_whatever_nodes_and_topology_objects_say() -> None:
    async def scenario() -> None:
        async with virtual_plane(1, Settings(levels=("row", HOSTNAME))) as plane:
            topologies = await define_topologies(plane.verbs)
            await plane.verbs.create(topologies, topology("default", "hall"))
            await plane.verbs.create(NODES, make_node("n", zone="z", labels={"row": "1", "hall": "h"}))
            scheduler = plane.start("scheduler").scheduler
            assert scheduler is not None
            await asyncio.sleep(120)
            assert scheduler.view.levels == ("row", HOSTNAME)
            page = generate_latest(scheduler.metrics.registry).decode()
            assert 'echelon_scheduler_topology_level{key="row",source="configured"} 1.0' in page

    run(scenario())


@in_virtual_time
async def test_a_scheduler_that_starts_knows_the_topology_before_it_decides(world: SchedulerPlane) -> None:
    """With bare labels row 1 of both halls is one domain that holds the gang."""
    await world.stop()
    topologies = await define_topologies(world.verbs)
    await world.verbs.create(topologies, topology("default", "hall", "row"))
    await world.create(*(make_node(f"n{n}", cpu=1, labels={"hall": f"h{n // 2}", "row": "1"}) for n in range(4)))
    await world.create(make_pod_group("g", gang=4, key="row"))
    await world.pods("g", "p", 4)
    world.start()
    await world.settle()
    assert await world.unscheduled("p0", "p1", "p2", "p3")


@in_virtual_time
async def test_a_server_that_fails_leaves_the_known_levels(world: SchedulerPlane) -> None:
    topologies = await define_topologies(world.verbs)
    await world.verbs.create(topologies, topology("default", "hall"))
    await world.create(make_node("n", labels={"hall": "h"}))

    class Failing:
        fails = False

        def __getattr__(self, name: str) -> object:
            return getattr(world.verbs, name)

        async def list(self, resource: Resource, *rest: object, **named: object) -> object:
            if self.fails and resource.plural == topologies.plural:
                raise ApiError(503, "ServiceUnavailable", "not now")
            return await world.verbs.list(resource, *rest, **named)  # type: ignore[arg-type]

    through = Failing()
    await world.restart(through)
    await world.settle()
    through.fails = True
    await world.settle(120)
    assert levels(world) == ("hall", HOSTNAME)


@in_virtual_time
async def test_a_scheduler_that_may_not_read_topologies_says_so_once_and_reads_labels(
    world: SchedulerPlane, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing:
        def __getattr__(self, name: str) -> object:
            return getattr(world.verbs, name)

        async def list(self, resource: Resource, *rest: object, **named: object) -> object:
            if resource.plural == "topologies":
                raise ApiError(403, "Forbidden", f"{resource.qualified} is forbidden")
            return await world.verbs.list(resource, *rest, **named)  # type: ignore[arg-type]

    await world.create(make_node("n", rack="r"))
    await world.restart(Refusing())
    await world.settle(120)
    assert levels(world) == (RACK, HOSTNAME)
    assert [line.message for line in caplog.records if "topolog" in line.name and line.levelname == "WARNING"] == [
        f"topology levels are not taken from topologies.{group}: topologies.{group} is forbidden"
        for group in (KUEUE, "kai.scheduler")
    ]


@in_virtual_time
async def test_a_node_in_the_wrong_place_gets_an_event_and_is_counted(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"n{n}", zone=f"z{n // 4}", rack=f"r{n // 2}") for n in range(8)))
    await world.settle()
    assert (await world.verbs.list(EVENTS, "default")).items == []
    await world.patch(NODES, "n7", {"metadata": {"labels": {RACK: "r0"}}})
    await world.settle()
    text = f"{RACK}=r0 is in 2 domains of {ZONE} (z0: n0, n1; z1: n7)"
    assert await world.events("n7") == [("TopologyContradiction", text)]
    assert world.scheduler is not None
    page = generate_latest(world.scheduler.metrics.registry).decode()
    assert f'echelon_scheduler_topology_contradictions{{key="{RACK}"}} 1.0' in page
    assert f'echelon_scheduler_topology_level{{key="{RACK}",source="node labels"}} 2.0' in page
    assert BLOCK not in page


@in_virtual_time
async def test_nodes_like_others_that_lack_a_label_or_are_in_the_wrong_place_are_counted_and_told(
    world: SchedulerPlane,
) -> None:
    await world.create(*(make_node(f"n{n}", zone=f"z{n // 4}", rack=f"r{n // 2}") for n in range(8)))
    await world.create(make_node("bare"), make_node("odd", zone="z1", rack="r0"))
    await world.settle()
    await world.create(
        make_node("bare-2"), make_node("odd-2", zone="z1", rack="r0"), make_node("a", zone="z0", rack="r0")
    )
    await world.settle(20)
    assert world.scheduler is not None
    page = generate_latest(world.scheduler.metrics.registry).decode()
    assert f'echelon_scheduler_topology_unlabelled_nodes{{key="{RACK}"}} 2.0' in page
    text = f"{RACK}=r0 is in 2 domains of {ZONE} (z0: a, n0, n1; z1: odd, odd-2)"
    assert ("TopologyContradiction", text) in await world.events("odd")
    told = len(await world.events("odd"))
    await world.create(make_node("b", zone="z0", rack="r0"))
    await world.delete(NODES, "bare-2")
    await world.settle(20)
    page = generate_latest(world.scheduler.metrics.registry).decode()
    assert f'echelon_scheduler_topology_unlabelled_nodes{{key="{RACK}"}} 1.0' in page
    assert len(await world.events("odd")) == told, "the same nodes are in the wrong place as before"
