"""Claims that are bound when their pod has a node: free volumes, volumes that are made, limits of nodes."""

from __future__ import annotations

from typing import Any

from echelon.agents.simulated_volumes import PROVISIONER
from echelon.api.objects import meta
from echelon.api.scheme import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    NODES,
    PODS,
    VOLUME_CLAIMS,
    VOLUMES,
    Object,
    Resource,
)
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time
from tests.integration.altered_api import AlteredApi
from tests.integration.beside_scheduler import consistent, volume_controller

from .test_scheduler_volumes import make_claim, make_class, make_volume, using

LATE = "WaitForFirstConsumer"
SELECTED = "volume.kubernetes.io/selected-node"


def local(name: str, node: str, size: str = "1Gi") -> Object:
    volume = make_volume(name, node)
    volume["spec"] |= {"storageClassName": "local", "capacity": {"storage": size}}
    return volume


def wanting(name: str, size: str = "1Gi", storage_class: str = "local") -> Object:
    claim = make_claim(name, storage_class=storage_class)
    claim["spec"]["resources"] = {"requests": {"storage": size}}
    return claim


def provisioned(name: str = "made", **more: Any) -> Object:
    return {**make_class(name, LATE), "provisioner": PROVISIONER, **more}


async def volume_of(world: SchedulerPlane, claim: str) -> str:
    found = await world.verbs.get(VOLUME_CLAIMS, claim, "default")
    return str(found["spec"].get("volumeName") or "")


@in_virtual_time
async def test_a_gang_gets_one_free_volume_for_each_pod(world: SchedulerPlane) -> None:
    async with volume_controller(world):
        await world.create(make_class("local", LATE), *(make_node(f"n{n}", cpu=8) for n in range(3)))
        await world.create(local("a", "n0"), local("b", "n2"), make_pod_group("g", gang=2))
        await world.create(wanting("c0"), wanting("c1"))
        await world.create(*(make_pod(f"p{n}", group="g", volumes=using(f"c{n}")) for n in range(2)))
        await world.settle()
        assert sorted(await world.nodes("p0", "p1")) == ["n0", "n2"]
        assert sorted([await volume_of(world, "c0"), await volume_of(world, "c1")]) == ["a", "b"]
        assert consistent(world)


@in_virtual_time
async def test_a_gang_that_lacks_a_volume_binds_none(world: SchedulerPlane) -> None:
    async with volume_controller(world):
        await world.create(make_class("local", LATE), *(make_node(f"n{n}", cpu=8) for n in range(3)))
        await world.create(local("a", "n0"), local("small", "n1", "1Mi"), make_pod_group("g", gang=2))
        await world.create(wanting("c0"), wanting("c1"))
        await world.create(*(make_pod(f"p{n}", group="g", volumes=using(f"c{n}")) for n in range(2)))
        await world.settle()
        assert await world.unscheduled("p0", "p1")
        assert "free volumes of class local of 1Gi (ReadWriteOnce)" in await world.message("p0")
        assert (await world.verbs.get(VOLUMES, "a"))["spec"].get("claimRef") is None
        assert consistent(world)
        await world.create(local("b", "n1"))
        await world.settle()
        assert sorted(await world.nodes("p0", "p1")) == ["n0", "n1"]


@in_virtual_time
async def test_the_smallest_volume_that_is_large_enough_is_taken(world: SchedulerPlane) -> None:
    async with volume_controller(world):
        await world.create(make_class("local", LATE), make_node("n0", cpu=8))
        await world.create(local("large", "n0", "9Gi"), local("right", "n0", "2Gi"), local("small", "n0", "1Gi"))
        await world.create(make_pod_group("g", gang=2), wanting("c0", "2Gi"), wanting("c1", "3Gi"))
        await world.create(*(make_pod(f"p{n}", group="g", volumes=using(f"c{n}")) for n in range(2)))
        await world.settle()
        assert [await volume_of(world, "c0"), await volume_of(world, "c1")] == ["right", "large"]
        assert consistent(world)


@in_virtual_time
async def test_a_volume_is_made_for_the_node_of_the_pod(world: SchedulerPlane) -> None:
    async with volume_controller(world):
        allowed = [{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["n1"]}]}]
        await world.create(provisioned(allowedTopologies=allowed), *(make_node(f"n{n}", cpu=8) for n in range(3)))
        await world.create(wanting("c", storage_class="made"), make_pod("p", volumes=using("c")))
        await world.settle()
        assert await world.nodes("p") == ["n1"]
        claim = await world.verbs.get(VOLUME_CLAIMS, "c", "default")
        assert meta.annotations(claim)[SELECTED] == "n1"
        assert claim["status"]["phase"] == "Bound"
        assert consistent(world)


@in_virtual_time
async def test_volumes_that_are_never_made_leave_nothing_behind(world: SchedulerPlane) -> None:
    """Nobody makes volumes: after ten minutes the gang is back where it was."""
    await world.create(provisioned(), make_node("n0", cpu=8), make_pod_group("g", gang=2))
    await world.create(wanting("c0", storage_class="made"), wanting("c1", storage_class="made"))
    await world.create(*(make_pod(f"p{n}", group="g", volumes=using(f"c{n}")) for n in range(2)))
    await world.settle(60)
    claim = await world.verbs.get(VOLUME_CLAIMS, "c0", "default")
    assert meta.annotations(claim)[SELECTED] == "n0"
    assert await world.nodes("p0", "p1") == ["", ""]
    assert consistent(world)
    await world.patch(VOLUME_CLAIMS, "c1", {"metadata": {"annotations": {SELECTED: None}}})
    selected: list[bool] = []
    for _ in range(30):
        await world.settle(0.1)
        selected.append(SELECTED in meta.annotations(await world.verbs.get(VOLUME_CLAIMS, "c0", "default")))
    assert not all(selected), "the other one is not to be made either, until the gang is tried again"
    await world.settle(1200)
    assert await world.nodes("p0", "p1") == ["", ""]


class FailsOnce(AlteredApi):
    """An API whose first write of a volume or claim fails as nobody expects."""

    failed = False

    async def patch(self, resource: Resource, name: str, *args: Any) -> Object:
        if resource in (VOLUMES, VOLUME_CLAIMS) and not self.failed:
            self.failed = True
            raise KeyError(name)
        return await self._verbs.patch(resource, name, *args)


@in_virtual_time
async def test_an_error_that_nobody_expects_does_not_leave_a_gang_between_places(world: SchedulerPlane) -> None:
    await world.restart(FailsOnce(world.verbs))
    async with volume_controller(world):
        await world.create(make_class("local", LATE), *(make_node(f"n{n}", cpu=8) for n in range(2)))
        await world.create(local("a", "n0"), local("b", "n1"), make_pod_group("g", gang=2))
        await world.create(wanting("c0"), wanting("c1"))
        await world.create(*(make_pod(f"p{n}", group="g", volumes=using(f"c{n}")) for n in range(2)))
        await world.settle(60)
        assert sorted(await world.nodes("p0", "p1")) == ["n0", "n1"]
        assert consistent(world)


@in_virtual_time
async def test_capacity_that_is_left_decides_where_a_volume_is_made(world: SchedulerPlane) -> None:
    async with volume_controller(world):
        await world.create(provisioned(), *(make_node(f"n{n}", cpu=8) for n in range(2)))
        driver = {"apiVersion": CSI_DRIVERS.api_version, "kind": CSI_DRIVERS.kind, "metadata": {"name": PROVISIONER}}
        driver["metadata"] = {"name": "simulated"}
        await world.verbs.create(CSI_DRIVERS, {**driver, "spec": {"storageCapacity": True}})
        await world.create({**provisioned("csi"), "provisioner": "simulated"})
        for number, size in enumerate(("1Gi", "5Gi")):
            body = {
                "apiVersion": CSI_STORAGE_CAPACITIES.api_version,
                "kind": CSI_STORAGE_CAPACITIES.kind,
                "metadata": {"name": f"left-{number}", "namespace": "default"},
                "storageClassName": "csi",
                "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": f"n{number}"}},
                "capacity": size,
            }
            await world.create(body)
        await world.create(wanting("c", "2Gi", "csi"), make_pod("p", volumes=using("c")))
        await world.settle()
        claim = await world.verbs.get(VOLUME_CLAIMS, "c", "default")
        assert meta.annotations(claim)[SELECTED] == "n1"


@in_virtual_time
async def test_a_node_attaches_no_more_volumes_than_its_limit(world: SchedulerPlane) -> None:
    await world.create(make_node("n0", cpu=8), make_node("n1", cpu=8))
    for node, count in (("n0", 1), ("n1", 2)):
        drivers = [{"name": "d.example.org", "nodeID": node, "allocatable": {"count": count}}]
        body = {"apiVersion": CSI_NODES.api_version, "kind": CSI_NODES.kind, "metadata": {"name": node}}
        await world.create({**body, "spec": {"drivers": drivers}})
    for number in range(4):
        volume = make_volume(f"v{number}")
        del volume["spec"]["hostPath"]
        volume["spec"]["csi"] = {"driver": "d.example.org", "volumeHandle": f"v{number}"}
        await world.create(volume, make_claim(f"c{number}", f"v{number}"))
        await world.create(make_pod(f"p{number}", volumes=using(f"c{number}")))
    await world.settle()
    nodes = await world.nodes(*(f"p{number}" for number in range(4)))
    assert sorted(nodes) == ["", "n0", "n1", "n1"]
    assert "attachable volumes of d.example.org" in await world.message(f"p{nodes.index('')}")
    assert consistent(world)
    # The limits end with the last object that says them.
    for node in ("n0", "n1"):
        await world.verbs.delete(CSI_NODES, node)
    await world.settle()
    assert all(await world.nodes(*(f"p{number}" for number in range(4))))
    assert consistent(world)


@in_virtual_time
async def test_a_volume_that_pods_on_a_node_share_counts_once(world: SchedulerPlane) -> None:
    await world.create(make_node("n0", cpu=8))
    drivers = [{"name": "d.example.org", "nodeID": "n0", "allocatable": {"count": 2}}]
    body = {"apiVersion": CSI_NODES.api_version, "kind": CSI_NODES.kind, "metadata": {"name": "n0"}}
    await world.create({**body, "spec": {"drivers": drivers}})
    for name in ("data", "own", "more"):
        volume = make_volume(name)
        del volume["spec"]["hostPath"]
        volume["spec"]["csi"] = {"driver": "d.example.org", "volumeHandle": name}
        await world.create(volume, make_claim(f"c-{name}", name))
    for number in range(4):
        await world.create(make_pod(f"p{number}", volumes=using("c-data")))
        await world.settle()
        assert consistent(world)
    assert await world.nodes("p0", "p1", "p2", "p3") == ["n0"] * 4
    await world.create(make_pod("own", volumes=using("c-own")))
    await world.settle()
    assert await world.nodes("own") == ["n0"], "four pods have one volume: another one can be attached"
    await world.create(make_pod("more", volumes=using("c-more")))
    await world.settle()
    assert await world.nodes("more") == [""], "and no third one"
    for number in range(3):
        await world.delete(PODS, f"p{number}", grace=0)
        await world.settle()
        assert consistent(world)
        assert await world.nodes("more") == [""], "the volume is attached as long as one pod uses it"
    await world.delete(PODS, "p3", grace=0)
    await world.settle()
    assert await world.nodes("more") == ["n0"]
    assert consistent(world)


@in_virtual_time
async def test_a_pod_that_shares_a_claim_waits_with_the_first_until_the_claim_is_bound(world: SchedulerPlane) -> None:
    await world.create(provisioned(), *(make_node(f"n{n}", cpu=8) for n in range(2)))
    await world.create(wanting("c", storage_class="made"), make_pod("p0", volumes=using("c")))
    await world.settle(5)
    await world.create(make_pod("p1", volumes=using("c")))
    await world.settle(5)
    claim = await world.verbs.get(VOLUME_CLAIMS, "c", "default")
    (node,) = {meta.annotations(claim)[SELECTED]}
    assert await world.nodes("p0", "p1") == ["", ""], "no volume was made yet, and perhaps none ever is on this node"
    assert consistent(world)
    async with volume_controller(world):
        await world.settle(5)
        assert await world.nodes("p0", "p1") == [node, node]
        assert consistent(world)


@in_virtual_time
async def test_pods_that_share_a_claim_that_cannot_be_bound_go_on_together(world: SchedulerPlane) -> None:
    await world.create(provisioned(), *(make_node(f"n{n}", cpu=8) for n in range(2)))
    await world.create(wanting("c", storage_class="made"), make_pod("p0", volumes=using("c")))
    await world.settle(5)
    await world.create(make_pod("p1", volumes=using("c")))
    await world.settle(5)
    await world.patch(VOLUME_CLAIMS, "c", {"metadata": {"annotations": {SELECTED: None}}})
    await world.settle(5)
    assert await world.nodes("p0", "p1") == ["", ""]
    assert consistent(world)
    async with volume_controller(world):
        await world.settle(120)
        claim = await world.verbs.get(VOLUME_CLAIMS, "c", "default")
        node = meta.annotations(claim)[SELECTED]
        assert await world.nodes("p0", "p1") == [node, node]
        assert consistent(world)


@in_virtual_time
async def test_a_volume_that_is_lost_while_it_is_bound_is_not_waited_for(world: SchedulerPlane) -> None:
    """Nobody binds claims; the volume is deleted, or given to another claim, after it was set aside."""
    await world.create(make_class("local", LATE), *(make_node(f"n{n}", cpu=8) for n in range(3)))
    await world.create(local("a", "n0"), wanting("c"), make_pod("p", volumes=using("c")))
    await world.settle(5)
    assert (await world.verbs.get(VOLUMES, "a"))["spec"]["claimRef"]["name"] == "c"
    await world.patch(VOLUMES, "a", {"spec": {"claimRef": None}})
    await world.patch(VOLUMES, "a", {"spec": {"claimRef": {"namespace": "default", "name": "d", "uid": "other"}}})
    await world.create(local("b", "n1"))
    await world.settle(30)
    assert (await world.verbs.get(VOLUMES, "b"))["spec"]["claimRef"]["name"] == "c"
    await world.verbs.delete(VOLUMES, "b")
    await world.create(local("d", "n2"))
    async with volume_controller(world):
        await world.settle(60)
        assert await world.nodes("p") == ["n2"]
        assert consistent(world)


@in_virtual_time
async def test_a_pod_is_not_bound_to_a_node_that_went_while_its_volume_was_bound(world: SchedulerPlane) -> None:
    await world.create(make_class("local", LATE), make_node("n0", cpu=8), make_node("n1", cpu=8))
    await world.create(local("a", "n0"), wanting("c"), make_pod("p", volumes=using("c")))
    await world.settle(5)
    await world.verbs.delete(NODES, "n0")
    await world.settle(5)
    assert (await world.verbs.get(VOLUMES, "a"))["spec"].get("claimRef") is None
    await world.create(local("b", "n1"))
    async with volume_controller(world):
        await world.settle(60)
        assert await world.nodes("p") == ["n1"]
        assert consistent(world)


@in_virtual_time
async def test_volumes_of_pods_that_went_are_given_back_unless_others_of_the_gang_remain(world: SchedulerPlane) -> None:
    await world.create(provisioned(), make_class("local", LATE), make_node("n0", cpu=8), make_pod_group("g", gang=2))
    await world.create(local("a", "n0"), wanting("c0"), wanting("c1", storage_class="made"))
    await world.create(*(make_pod(f"p{n}", group="g", volumes=using(f"c{n}")) for n in range(2)))
    await world.settle(5)
    await world.delete(PODS, "p0", grace=0)
    await world.settle(5)
    assert SELECTED in meta.annotations(await world.verbs.get(VOLUME_CLAIMS, "c1", "default"))
    await world.delete(PODS, "p1", grace=0)
    await world.settle(5)
    assert SELECTED not in meta.annotations(await world.verbs.get(VOLUME_CLAIMS, "c1", "default"))
    assert (await world.verbs.get(VOLUMES, "a"))["spec"].get("claimRef") is None
    assert consistent(world)
