"""Preferred terms between pods through the real API: members of a gang among themselves, and those that run."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import Object
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

HOST = "kubernetes.io/hostname"
RACK = "topology.kubernetes.io/rack"


def prefers(kind: str, key: str, app: str = "web", weight: int = 1) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    wish = {"weight": weight, "podAffinityTerm": term}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}}


def evenly(key: str) -> Object:
    one = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    return {"topologySpreadConstraints": [{**one, "labelSelector": {"matchLabels": {"app": "web"}}}]}


async def racks(world: SchedulerPlane) -> None:
    """Two racks of two nodes; without preferences pods go to the first."""
    for rack in ("r1", "r2"):
        for number in (1, 2):
            await world.create(make_node(f"{rack}-{number}", cpu=4, rack=rack))


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        (prefers("podAntiAffinity", HOST), ["r1-1", "r1-2", "r2-1", "r2-2"]),
        (prefers("podAffinity", HOST), ["r1-1"] * 4),
        (evenly(HOST), ["r1-1", "r1-2", "r2-1", "r2-2"]),
        ({}, ["r1-1"] * 4),
    ],
)
@in_virtual_time
async def test_a_gang_follows_the_preferences_among_its_members(
    world: SchedulerPlane, spec: dict[str, Any], nodes: list[str]
) -> None:
    await racks(world)
    await world.create(make_pod_group("g", gang=4))
    await world.pods("g", "p", 4, labels={"app": "web"}, **spec)
    await world.settle()
    assert sorted(await world.nodes("p0", "p1", "p2", "p3")) == nodes


@in_virtual_time
async def test_preferences_keep_no_gang_out(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=4), make_pod_group("g", gang=4))
    await world.pods("g", "p", 4, labels={"app": "web"}, **prefers("podAntiAffinity", HOST, weight=100))
    await world.settle()
    assert await world.nodes("p0", "p1", "p2", "p3") == ["n1"] * 4


@pytest.mark.parametrize(("kind", "where", "rack"), [("podAffinity", "r2-1", "r2"), ("podAntiAffinity", "r1-1", "r2")])
@in_virtual_time
async def test_running_pods_prefer_or_avoid_the_new_pod(
    world: SchedulerPlane, kind: str, where: str, rack: str
) -> None:
    await racks(world)
    await world.create(make_pod("db", node=where, **prefers(kind, RACK)), make_pod("other", node="r1-2"))
    await world.create(make_pod("web", labels={"app": "web"}))
    await world.settle()
    (node,) = await world.nodes("web")
    assert node.startswith(rack)


@in_virtual_time
async def test_required_affinity_also_counts_as_a_preference(world: SchedulerPlane) -> None:
    """What kube-scheduler calls hardPodAffinityWeight."""
    await racks(world)
    term = {"topologyKey": RACK, "labelSelector": {"matchLabels": {"app": "web"}}}
    needs = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    for node in ("r1-1", "r2-1"):
        await world.create(make_pod(f"on-{node}", node=node, labels={"app": "web"}))
    await world.create(make_pod("follower", node="r2-2", **needs), make_pod("other", node="r1-2"))
    await world.create(make_pod("newcomer", labels={"app": "web"}))
    await world.settle()
    (node,) = await world.nodes("newcomer")
    assert node.startswith("r2")
