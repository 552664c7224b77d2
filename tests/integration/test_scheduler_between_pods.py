"""Constraints between pods through the real API: host ports, affinity and anti-affinity, topology spread."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import Object
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.world import World, in_virtual_time


def on_port(number: int, cpu: str = "1", **more: Any) -> list[Object]:
    """The containers of a pod that takes a host port."""
    port = {"containerPort": number, "hostPort": number, **more}
    return [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}, "ports": [port]}]


@in_virtual_time
async def test_pods_with_one_host_port_go_to_different_nodes(world: World) -> None:
    await world.create(make_node("n1"), make_node("n2"), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2, containers=on_port(80))
    await world.settle()
    assert sorted(await world.nodes("p0", "p1")) == ["n1", "n2"]


@in_virtual_time
async def test_a_host_port_that_is_taken_everywhere_is_named(world: World) -> None:
    await world.create(make_node("n1"), make_node("n2"), make_pod_group("g", gang=3))
    await world.pods("g", "p", 3, containers=on_port(80))
    await world.settle()
    assert await world.unscheduled("p0", "p1", "p2")
    assert "short of host port 80/TCP" in await world.message("p0")


@pytest.mark.parametrize(("address", "protocol", "together"), [
    ("10.0.0.2", "TCP", True), ("10.0.0.1", "TCP", False), ("", "TCP", False), ("", "UDP", True),
])  # fmt: skip
@in_virtual_time
async def test_addresses_and_protocols_of_a_port_are_told_apart(
    world: World, address: str, protocol: str, together: bool
) -> None:
    await world.create(make_node("n1"))
    await world.create(make_pod("first", containers=on_port(80, hostIP="10.0.0.1")))
    other = on_port(80, protocol=protocol, **({"hostIP": address} if address else {}))
    await world.create(make_pod("second", containers=other))
    await world.settle()
    assert await world.scheduled("first")
    assert await world.scheduled("second") == together


@pytest.mark.parametrize("nested", [
    pytest.param(False, marks=pytest.mark.conformance("SCH-145")),
    pytest.param(True, marks=pytest.mark.conformance("SCH-174")),
])  # fmt: skip
@in_virtual_time
async def test_a_lower_pod_on_the_port_is_preempted_though_there_is_room_beside_it(world: World, nested: bool) -> None:
    root = [make_composite("root", gang=1, priority=100)] if nested else []
    group = make_pod_group("g", gang=2, priority=100, parent="root" if nested else "")
    await world.create(make_node("n1", cpu=2), make_node("n2", cpu=2))
    await world.create(make_pod("low", node="n1", priority=10, containers=on_port(80, "250m")))
    await world.create(*root, group)
    await world.pods("g", "high", 2, priority=100, containers=on_port(80, "1500m"))
    await world.settle()
    assert await world.gone("low")
    assert sorted(await world.nodes("high0", "high1")) == ["n1", "n2"]
