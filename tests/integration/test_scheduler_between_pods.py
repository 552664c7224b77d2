"""Constraints between pods through the real API: host ports, affinity and anti-affinity, topology spread."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.objects.vocabulary import HOSTNAME
from echelon.api.scheme import NODES, Object
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time


def on_port(number: int, cpu: str = "1", **more: Any) -> list[Object]:
    """The containers of a pod that takes a host port."""
    port = {"containerPort": number, "hostPort": number, **more}
    return [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}, "ports": [port]}]


@in_virtual_time
async def test_pods_with_one_host_port_go_to_different_nodes(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_node("n2"), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2, containers=on_port(80))
    await world.settle()
    assert sorted(await world.nodes("p0", "p1")) == ["n1", "n2"]


@in_virtual_time
async def test_a_host_port_that_is_taken_everywhere_is_named(world: SchedulerPlane) -> None:
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
    world: SchedulerPlane, address: str, protocol: str, together: bool
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
async def test_a_lower_pod_on_the_port_is_preempted_though_there_is_room_beside_it(
    world: SchedulerPlane, nested: bool
) -> None:
    root = [make_composite("root", gang=1, priority=100)] if nested else []
    group = make_pod_group("g", gang=2, priority=100, parent="root" if nested else "")
    await world.create(make_node("n1", cpu=2), make_node("n2", cpu=2))
    await world.create(make_pod("low", node="n1", priority=10, containers=on_port(80, "250m")))
    await world.create(*root, group)
    await world.pods("g", "high", 2, priority=100, containers=on_port(80, "1500m"))
    await world.settle()
    assert await world.gone("low")
    assert sorted(await world.nodes("high0", "high1")) == ["n1", "n2"]


HOST = "kubernetes.io/hostname"


def selector(**labels: str) -> Object:
    return {"matchLabels": labels}


def near(term: Object) -> Object:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def far(term: Object) -> Object:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def to(key: str = HOST, **labels: str) -> Object:
    return {"topologyKey": key, "labelSelector": selector(**labels)}


ANY_APP: Object = {
    "topologyKey": HOST,
    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
}


def spread(key: str, skew: int, **more: Any) -> list[Object]:
    one = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **more}
    return [{"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, **one}]


async def anti_and_plain(world: SchedulerPlane) -> None:
    await world.create(make_pod_group("g", gang=2))
    await world.create(make_pod("anti", group="g", affinity=far(to(app="foo")), nodeSelector={HOST: "node-1"}))
    await world.create(make_pod("plain", group="g", labels={"app": "foo"}))
    await world.settle()


@pytest.mark.conformance("SCH-22")
@in_virtual_time
async def test_members_keep_away_from_members(world: SchedulerPlane) -> None:
    await world.create(make_node("node-1", cpu=2), make_node("node-2", cpu=2))
    await anti_and_plain(world)
    assert await world.nodes("anti", "plain") == ["node-1", "node-2"]


@pytest.mark.conformance("SCH-23")
@in_virtual_time
async def test_members_that_cannot_keep_apart_wait(world: SchedulerPlane) -> None:
    await world.create(make_node("node-1", cpu=2))
    await anti_and_plain(world)
    assert await world.unscheduled("anti", "plain")
    assert (await world.condition("g"))[:2] == ("False", "Unschedulable")


@pytest.mark.conformance("SCH-E13")
@in_virtual_time
async def test_a_follower_created_before_its_leader_is_placed_with_it(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=4), make_pod_group("g", gang=2))
    await world.create(make_pod("w", group="g", affinity=near(to(app="leader"))))
    await world.create(make_pod("l", group="g", labels={"app": "leader"}))
    await world.settle()
    assert await world.nodes("w", "l") == ["n", "n"]


@pytest.mark.conformance("SCH-E15")
@in_virtual_time
async def test_preemption_keeps_the_pod_that_the_affinity_asks_for(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=4))
    await world.create(make_pod("db", node="n", priority=10, labels={"app": "db"}))
    await world.create(make_pod("batch", node="n", cpu=3, priority=10))
    await world.create(make_pod_group("g", gang=2, priority=100))
    await world.pods("g", "p", 2, priority=100, affinity=near(to(app="db")))
    await world.settle()
    assert await world.gone("batch")
    assert await world.nodes("db", "p0", "p1") == ["n", "n", "n"]


@pytest.mark.parametrize("variant", [
    pytest.param("pod-level", marks=pytest.mark.conformance("SCH-143")),
    pytest.param("flat", marks=pytest.mark.conformance("SCH-144")),
    pytest.param("nested", marks=pytest.mark.conformance("SCH-173")),
])  # fmt: skip
@in_virtual_time
async def test_a_lower_pod_that_members_keep_away_from_is_preempted(world: SchedulerPlane, variant: str) -> None:
    root = [make_composite("root", gang=1, priority=100)] if variant == "nested" else []
    more: Object = {"resources": {"requests": {"cpu": "1500m"}}} if variant == "pod-level" else {"cpu": "1500m"}
    await world.create(make_node("n1", cpu=2), make_node("n2", cpu=2))
    await world.create(make_pod("low", node="n1", cpu="250m", priority=10, labels={"app": "low"}))
    await world.create(*root, make_pod_group("g", gang=2, priority=100, parent="root" if root else ""))
    await world.pods("g", "high", 2, priority=100, labels={"app": "high"}, affinity=far(ANY_APP), **more)
    await world.settle()
    assert await world.gone("low")
    assert sorted(await world.nodes("high0", "high1")) == ["n1", "n2"]


@pytest.mark.parametrize("second", [
    pytest.param(False, marks=pytest.mark.conformance("SCH-146")),
    pytest.param(True, marks=pytest.mark.conformance("SCH-147")),
])  # fmt: skip
@in_virtual_time
async def test_a_lower_pod_in_the_way_of_the_spread_is_preempted(world: SchedulerPlane, second: bool) -> None:
    """Ten domains are asked for and two are there, so that each takes two: gang pods are pinned two and one."""
    await world.create(make_node("node1", cpu=4), make_node("node2", cpu=4))
    await world.create(make_pod("low", node="node1", cpu="250m", priority=10, labels={"app": "low"}))
    if second:
        await world.create(make_pod("lower", node="node2", cpu="250m", priority=5, labels={"app": "low"}))
    await world.create(make_pod_group("g", gang=3, priority=100))
    even: Object = {"labels": {"app": "high"}, "topologySpreadConstraints": spread(HOST, 2, minDomains=10)}
    await world.pods("g", "a", 2, priority=100, nodeSelector={HOST: "node1"}, **even)
    await world.pods("g", "b", 1, priority=100, nodeSelector={HOST: "node2"}, **even)
    await world.settle()
    assert await world.gone("low")
    assert await world.nodes("a0", "a1", "b0") == ["node1", "node1", "node2"]
    if second:
        assert await world.nodes("lower") == ["node2"]


@in_virtual_time
async def test_pods_spread_evenly_over_zones(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"{zone}{n}", cpu=4, zone=zone) for zone in "abc" for n in range(2)))
    await world.create(make_pod_group("g", gang=7))
    await world.pods("g", "p", 7, labels={"app": "x"},
                     topologySpreadConstraints=spread("topology.kubernetes.io/zone", 1))  # fmt: skip
    await world.settle()
    zones = sorted(node[:1] for node in await world.nodes(*(f"p{n}" for n in range(7))))
    assert sorted(zones.count(zone) for zone in "abc") == [2, 2, 3]


@in_virtual_time
async def test_a_running_pod_keeps_newcomers_away_and_the_message_says_so(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=4), make_pod("first", node="n", affinity=far(to(app="foo"))))
    await world.create(make_pod("second", labels={"app": "foo"}), make_pod("third", labels={"app": "bar"}))
    await world.settle()
    assert await world.unscheduled("second")
    assert "it is too near to running pods with anti-affinity to app=foo" in await world.message("second")
    assert await world.scheduled("third")


@in_virtual_time
async def test_one_per_node_and_the_message_that_names_what_stands_there(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=4), make_node("n2", cpu=4), make_pod_group("g", gang=3))
    await world.pods("g", "p", 3, labels={"app": "x"}, affinity=far(to(app="x")))
    await world.settle()
    assert await world.unscheduled("p0", "p1", "p2")
    assert "room for 2" in await world.message("p0")
    await world.create(make_node("n3", cpu=4))
    await world.settle()
    assert sorted(await world.nodes("p0", "p1", "p2")) == ["n1", "n2", "n3"]


@in_virtual_time
async def test_a_pod_with_affinity_is_placed_when_a_matching_pod_arrives(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=4), make_node("n2", cpu=4))
    await world.create(make_pod("w", affinity=near(to(app="leader"))))
    await world.settle()
    assert await world.unscheduled("w")
    assert "they are not near to pods with app=leader" in await world.message("w")
    await world.create(make_pod("l", labels={"app": "leader"}))
    await world.settle(1)
    assert await world.scheduled("w")
    assert await world.nodes("w") == await world.nodes("l")


@pytest.mark.parametrize(("term", "together"), [
    ({"namespaces": ["default"]}, True),
    ({"namespaces": ["default", "kube-system"]}, False),
    ({"namespaceSelector": {}}, False),
    ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}, False),
    ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
])  # fmt: skip
@in_virtual_time
async def test_terms_mean_pods_of_the_namespaces_they_say(world: SchedulerPlane, term: Object, together: bool) -> None:
    await world.create(make_node("n", cpu=4))
    await world.create(make_pod("other", node="n", namespace="kube-system", labels={"app": "foo"}))
    await world.create(make_pod("p", affinity=far({**to(app="foo"), **term})))
    await world.settle()
    assert await world.scheduled("p") == together


@pytest.mark.parametrize(("field", "nodes"), [("matchLabelKeys", 2), ("mismatchLabelKeys", 3)])
@in_virtual_time
async def test_own_labels_narrow_a_term(world: SchedulerPlane, field: str, nodes: int) -> None:
    """Away from one's own kind: two nodes will do for two of each; away from all others: no node is shared."""
    await world.create(*(make_node(f"n{n}", cpu=4) for n in range(3)))
    term = {**to(app="x"), field: ["team"]}
    pods = [("a", 0), ("b", 0), ("a", 1), ("b", 1)] if field == "matchLabelKeys" else [("a", 0), ("b", 0), ("c", 0)]
    for team, number in pods:
        labels = {"app": "x", "team": team}
        await world.create(make_pod(f"{team}{number}", labels=labels, affinity=far(term)))
    await world.settle()
    found = await world.nodes(*(f"{team}{number}" for team, number in pods))
    assert all(found)
    by_team = {team: [node for node, (other, _) in zip(found, pods, strict=True) if other == team] for team, _ in pods}
    if field == "matchLabelKeys":
        assert all(len(set(at)) == nodes for at in by_team.values())
    else:
        assert len(set(found)) == nodes


@in_virtual_time
async def test_removing_a_node_lets_in_pods_that_a_spread_over_it_kept_out(world: SchedulerPlane) -> None:
    labels = {"app": "x"}
    spread: Object = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": labels}
    await world.create(make_node("n1", cpu=4), make_node("n2", cpu=0), make_pod("first", labels=labels))
    await world.settle()
    await world.create(make_pod("second", labels=labels, topologySpreadConstraints=[spread]))
    await world.settle()
    assert await world.unscheduled("second")
    await world.delete(NODES, "n2")
    await world.settle()
    assert await world.nodes("second") == ["n1"]
