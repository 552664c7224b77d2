"""Claims that several pods share, claims of PodGroups, devices that several nodes reach."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import NODES, POD_GROUPS, PODS, RESOURCE_CLAIMS, Object
from echelon.base.clock import Clock
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.device_builders import (
    claiming,
    make_claim_template,
    make_device,
    make_device_class,
    make_request,
    make_resource_claim,
    make_slice,
)
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

from .altered_api import AlteredApi
from .beside_scheduler import claim_controller, consistent
from .test_scheduler_devices import all_devices, claims, cluster, devices_of


def everywhere(count: int, **spec: object) -> Object:
    """Devices that nodes reach over the network."""
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    place = spec or {"allNodes": True}
    return make_slice("net", count, nodeName=None, pool=pool, **place)


async def consumers(world: SchedulerPlane, claim: str) -> list[str]:
    found = await world.verbs.get(RESOURCE_CLAIMS, claim, "default")
    return [user["uid"] for user in found["status"].get("reservedFor", [])]


@pytest.mark.conformance("SCH-189")
@pytest.mark.parametrize(("pods", "gang"), [(2, 2), (20, 20), (5, 2), (2, None), (20, None)])
@pytest.mark.parametrize("local", [True, False])
@in_virtual_time
async def test_pods_of_a_group_share_one_claim(world: SchedulerPlane, pods: int, gang: int | None, local: bool) -> None:
    await world.create(make_device_class(), *(make_node(f"n{number}", cpu=64) for number in range(2)))
    await world.create(make_slice("n1", 1) if local else everywhere(1), make_resource_claim("c"))
    await world.create(make_pod_group("g", gang=gang))
    names = await world.pods("g", "p", pods, resourceClaims=claiming("c"))
    await world.settle(30)
    assert await world.scheduled(*names)
    if local:
        assert set(await world.nodes(*names)) == {"n1"}
    uids = [meta.uid(await world.verbs.get(PODS, name, "default")) for name in names]
    assert sorted(await consumers(world, "c")) == sorted(uids)
    assert len(await all_devices(world)) == 1
    assert consistent(world)


@pytest.mark.conformance("SCH-190")
@in_virtual_time
async def test_a_shared_claim_on_one_node_blocks_a_gang_whose_pods_are_pinned_apart(world: SchedulerPlane) -> None:
    await world.create(make_device_class(), make_node("n0", cpu=64), make_node("n1", cpu=64), make_slice("n0", 1))
    await world.create(make_resource_claim("c"), make_pod_group("g", gang=2))
    for number in range(2):
        pinned = {"kubernetes.io/hostname": f"n{number}"}
        await world.create(make_pod(f"p{number}", group="g", nodeSelector=pinned, resourceClaims=claiming("c")))
    await world.settle()
    assert await world.unscheduled("p0", "p1")
    assert "needs 2 pods" in await world.message("p0")
    assert "has room for 1" in await world.message("p1")
    assert not await all_devices(world)
    assert consistent(world)


@in_virtual_time
async def test_claims_of_pods_have_devices_that_several_nodes_reach(world: SchedulerPlane) -> None:
    """Two devices can be used on n1 alone, so two of three pods go there."""
    async with claim_controller(world):
        await world.create(make_device_class(), *(make_node(f"n{number}", cpu=64) for number in range(3)))
        on = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
        selector = {"nodeSelectorTerms": [{"matchExpressions": [on]}]}
        await world.create(everywhere(2, nodeSelector=selector), make_claim_template("one"))
        await world.create(*(make_pod(f"p{number}", resourceClaims=claiming(template="one")) for number in range(3)))
        await world.settle(30)
        assert sorted(await world.nodes("p0", "p1", "p2")) == ["", "n1", "n1"]
        assert len(set(await all_devices(world))) == 2
        assert consistent(world)


@pytest.mark.conformance("SCH-191")
@in_virtual_time
async def test_a_claim_of_a_group_is_reserved_for_the_group_as_long_as_it_exists(world: SchedulerPlane) -> None:
    async with claim_controller(world):
        await cluster(world, 1, 2)
        shared = claiming(template="one", name="shared")
        group = make_pod_group("g")
        group["spec"]["resourceClaims"] = shared
        await world.create(make_claim_template("one"), group)
        stored = await world.verbs.get(POD_GROUPS, "g", "default")
        assert stored["spec"]["resourceClaims"] == shared
        names = await world.pods("g", "p", 2, resourceClaims=shared)
        await world.settle(30)
        assert await world.scheduled(*names)
        (claim,) = await claims(world)
        only = [meta.uid(stored)]
        assert await consumers(world, meta.name(claim)) == only
        more = await world.pods("g", "q", 1, resourceClaims=shared)
        await world.settle(30)
        assert await world.scheduled(*more)
        assert await consumers(world, meta.name(claim)) == only
        await world.delete(PODS, *names, *more, grace=0)
        await world.settle(30)
        assert await consumers(world, meta.name(claim)) == only, "all pods are gone"
        own = claiming(template="one", name="own")
        await world.create(make_pod("alone", resourceClaims=own))
        await world.settle(30)
        mine = [one for one in await claims(world) if meta.name(one) != meta.name(claim)]
        pod = await world.verbs.get(PODS, "alone", "default")
        assert [user["uid"] for one in mine for user in one["status"]["reservedFor"]] == [meta.uid(pod)]
        assert consistent(world)
        await world.remove(POD_GROUPS, "g")
        await world.settle(30)
        left = [meta.name(one) for one in await claims(world)]
        assert left == [meta.name(one) for one in mine], "the claim of the group went with it"


@pytest.mark.conformance("SCH-193")
@in_virtual_time
async def test_devices_that_skip_node_operations_need_nodes_that_can(world: SchedulerPlane) -> None:
    await world.create(make_device_class(), make_node("n0", cpu=64), make_node("n1", cpu=64))
    able = {"status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
    await world.patch(NODES, "n0", able, status=True)
    await world.create(everywhere(1, allNodes=True, skipNodeOperations=["*"]), make_resource_claim("c"))
    group = make_pod_group("g")
    group["spec"]["resourceClaims"] = claiming("c")
    await world.create(group)
    names = await world.pods("g", "p", 2, resourceClaims=claiming("c"))
    await world.settle(30)
    assert await world.nodes(*names) == ["n0", "n0"]
    pinned = {"kubernetes.io/hostname": "n1"}
    await world.create(make_pod("last", group="g", nodeSelector=pinned, resourceClaims=claiming("c")))
    await world.settle(30)
    assert await world.unscheduled("last")
    (claim,) = await claims(world)
    assert claim["status"]["allocation"]["devices"]["results"][0]["skipNodeOperations"] == ["*"]
    assert consistent(world)


@in_virtual_time
async def test_devices_of_a_claim_agree_in_an_attribute(world: SchedulerPlane) -> None:
    """Two sockets with three devices each, one in use: pairs of one socket are found, a second pair not of two."""
    async with claim_controller(world):
        devices = [make_device(f"d{number}", socket=number % 2) for number in range(6)]
        await world.create(make_device_class(), make_node("n0", cpu=64), make_slice("n0", devices=devices))
        alike = [{"matchAttribute": "gpu.example.org/socket"}]
        await world.create(make_claim_template("pair", make_request(count=2), constraints=alike))
        await world.create(make_pod_group("g", gang=2))
        names = await world.pods("g", "p", 2, resourceClaims=claiming(template="pair"))
        await world.create(make_pod("third", resourceClaims=claiming(template="pair")))
        await world.settle(30)
        assert await world.scheduled(*names)
        for claim in await claims(world):
            sockets = {int(device[-1]) % 2 for device in devices_of(claim)}
            assert len(sockets) <= 1
        assert await world.unscheduled("third"), "one device is left on each socket"
        assert consistent(world)


@in_virtual_time
async def test_all_devices_of_a_node_and_first_available(world: SchedulerPlane) -> None:
    async with claim_controller(world):
        large = 'device.attributes["gpu.example.org"].size == "large"'
        await world.create(make_device_class(), make_device_class("large", large))
        await world.create(make_node("n0", cpu=64), make_slice("n0", devices=[make_device(f"d{n}") for n in range(3)]))
        await world.create(
            make_claim_template(
                "every", {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
            )
        )
        ways = [
            {"name": "big", "deviceClassName": "large", "count": 1},
            {"name": "two", "deviceClassName": "gpu", "count": 2},
        ]
        await world.create(make_claim_template("either", {"name": "x", "firstAvailable": ways}))
        await world.create(make_pod("p", resourceClaims=claiming(template="either")))
        await world.settle(30)
        assert await world.scheduled("p")
        (claim,) = await claims(world)
        assert [one["request"] for one in claim["status"]["allocation"]["devices"]["results"]] == ["x/two", "x/two"]
        await world.create(make_pod("q", resourceClaims=claiming(template="every")))
        await world.settle(30)
        assert await world.unscheduled("q"), "some are in use"
        await world.delete(PODS, "p", grace=0)
        await world.settle(30)
        assert await world.scheduled("q")
        assert len(await all_devices(world)) == 3
        assert consistent(world)


@pytest.mark.parametrize("of_group", [True, False])
@in_virtual_time
async def test_devices_that_pods_share_are_given_back_if_none_of_them_fits_there(
    world: SchedulerPlane, of_group: bool
) -> None:
    """The claim has devices on a node that is full by now, as after a crash between claim and binding."""
    await cluster(world, 2, 1)
    group = make_pod_group("g", gang=2)
    if of_group:
        group["spec"]["resourceClaims"] = claiming("c")
    await world.create(make_resource_claim("c"), group)
    names = await world.pods("g", "p", 2, resourceClaims=claiming("c"))
    await world.settle(30)
    node, _ = await world.nodes(*names)
    await world.stop()
    await world.delete(PODS, *names, grace=0)
    again = await world.pods("g", "q", 2, resourceClaims=claiming("c"))
    if not of_group:
        uids = {name: meta.uid(await world.verbs.get(PODS, name, "default")) for name in again}
        users = [{"resource": "pods", "name": name, "uid": uid} for name, uid in uids.items()]
        await world.patch(RESOURCE_CLAIMS, "c", {"status": {"reservedFor": users}}, status=True)
    await world.submit(make_pod("blocker", cpu=64, node=node))
    world.start()
    await world.settle(60)
    assert await world.scheduled(*again)
    (other,) = set(await world.nodes(*again))
    assert other != node
    (claim,) = await claims(world)
    assert devices_of(claim) == [f"{other}/gpu-0"]
    assert consistent(world)


@in_virtual_time
async def test_devices_of_pods_that_run_are_not_given_back_for_others_of_their_group(world: SchedulerPlane) -> None:
    await cluster(world, 2, 1)
    group = make_pod_group("g")
    group["spec"]["resourceClaims"] = claiming("c")
    await world.create(make_resource_claim("c"), group)
    names = await world.pods("g", "p", 1, resourceClaims=claiming("c"))
    await world.settle(30)
    (before,) = await claims(world)
    await world.create(make_pod("large", cpu=64, group="g", resourceClaims=claiming("c")))
    await world.settle(60)
    assert await world.scheduled(*names)
    assert await world.unscheduled("large")
    (claim,) = await claims(world)
    assert claim["status"] == before["status"]


class NeverAllocating(AlteredApi):
    """An API that gives one claim no devices."""

    def __init__(self, verbs: Any, claim: str) -> None:
        super().__init__(verbs)
        self._claim = claim

    async def patch(self, resource: Any, name: str, patch: Any, namespace: str = "", subresource: Any = "") -> Object:
        if resource == RESOURCE_CLAIMS and name == self._claim and subresource == "status":
            raise ApiError(500, "InternalError", "refused by the test")
        return await self._verbs.patch(resource, name, patch, namespace, subresource)


@in_virtual_time
async def test_pods_of_a_group_keep_their_devices_when_another_one_does_not_get_its_own(world: SchedulerPlane) -> None:
    """The other one comes after a restart, when the claim of the group is written though it has all that is wanted."""
    await cluster(world, 1, 2)
    group = make_pod_group("g")
    group["spec"]["resourceClaims"] = claiming("c")
    await world.create(make_resource_claim("c"), make_resource_claim("own"), group)
    names = await world.pods("g", "p", 1, resourceClaims=claiming("c"))
    await world.settle(30)
    before = (await world.verbs.get(RESOURCE_CLAIMS, "c", "default"))["status"]
    await world.restart(NeverAllocating(world.verbs, "own"))
    both = [*claiming("c"), *claiming("own", name="own")]
    await world.create(make_pod("other", group="g", resourceClaims=both))
    await world.settle(30)
    assert await world.scheduled(*names)
    assert await world.nodes("other") == [""]
    assert (await world.verbs.get(RESOURCE_CLAIMS, "c", "default"))["status"] == before


@pytest.mark.parametrize("gang", [260, None])
@in_virtual_time
async def test_a_claim_has_no_more_consumers_than_the_api_takes(world: SchedulerPlane, gang: int | None) -> None:
    """The claim is not written again and again and refused each time; those that are too many wait."""
    async with claim_controller(world):
        await world.create(make_device_class(), make_node("n0", cpu=1000, pods=1000), everywhere(1))
        await world.create(make_resource_claim("c"), make_pod_group("g", gang=gang))
        names = await world.pods("g", "p", 260, cpu=0.1, resourceClaims=claiming("c"))
        await world.settle(30)
        bound = [name for name, node in zip(names, await world.nodes(*names), strict=True) if node]
        waiting = [name for name in names if name not in bound]
        assert len(bound) == (0 if gang else 256)
        assert len(await consumers(world, "c")) == len(bound)
        assert "resourceclaim in use" in await world.message(waiting[-1])
        if bound:
            await world.delete(PODS, *bound[:4], grace=0)
            await world.settle(30)
            assert await world.scheduled(*waiting)
        assert consistent(world)


class Dying(AlteredApi):
    """An API that answers the first writes of claims and bindings; later ones get lost with the scheduler."""

    def __init__(self, verbs: Any, answered: int) -> None:
        super().__init__(verbs)
        self._left = answered

    async def patch(self, resource: Any, name: str, patch: Any, namespace: str = "", subresource: Any = "") -> Object:
        if resource == RESOURCE_CLAIMS:
            await self._live()
        return await self._verbs.patch(resource, name, patch, namespace, subresource)

    async def bind(self, *args: Any, **named: Any) -> Any:
        await self._live()
        return await self._verbs.bind(*args, **named)

    async def _live(self) -> None:
        self._left -= 1
        if self._left < 0:
            await asyncio.Event().wait()


@pytest.mark.parametrize("answered", range(10))
@pytest.mark.parametrize("full", [True, False])
@in_virtual_time
async def test_a_crash_after_any_write_leaves_a_gang_whole_and_no_device_behind(
    world: SchedulerPlane, answered: int, full: bool
) -> None:
    """Three pods share a claim and have one each; in some runs the node is `full` when the next scheduler comes."""
    async with claim_controller(world):
        await cluster(world, 2, 4)
        await world.create(make_claim_template("one"), make_resource_claim("shared"), make_pod_group("g", gang=3))
        await world.restart(Dying(world.verbs, answered))
        both = [*claiming(template="one", name="own"), *claiming("shared", name="shared")]
        names = await world.pods("g", "p", 3, resourceClaims=both)
        await world.settle(10)
        await world.stop()
        before = await world.nodes(*names)
        held = {device.split("/")[0] for device in await all_devices(world)}
        if full and held and not any(before):
            await world.submit(make_pod("blocker", cpu=64, node=next(iter(held))))
        world.start()
        await world.settle(120)
        assert await world.scheduled(*names)
        (node,) = set(await world.nodes(*names))
        found = await all_devices(world)
        assert len(found) == len(set(found)) == 4
        assert {device.split("/")[0] for device in found} == {node}
        assert len(await consumers(world, "shared")) == 3
        await world.delete(PODS, *names, grace=0)
        await world.settle(60)
        assert not await all_devices(world)
        assert consistent(world)


class SlowToRead(AlteredApi):
    """An API that takes its time to read claims, which comes before devices are taken from them."""

    def __init__(self, verbs: Any, clock: Clock) -> None:
        super().__init__(verbs)
        self._clock = clock

    async def get(self, resource: Any, name: str, namespace: str = "") -> Object:
        if resource == RESOURCE_CLAIMS:
            await self._clock.sleep(3)
        return await self._verbs.get(resource, name, namespace)


@pytest.mark.parametrize("pods", [1, 2])
@in_virtual_time
async def test_devices_are_taken_from_a_claim_once_however_often_its_pods_are_looked_at(
    world: SchedulerPlane, pods: int
) -> None:
    """Else what is asked for a second time is taken when pods run with other devices."""
    await cluster(world, 2, 1)
    group = make_pod_group("g", gang=pods)
    if pods > 1:
        group["spec"]["resourceClaims"] = claiming("c")
    await world.create(make_resource_claim("c"), group)
    names = await world.pods("g", "p", pods, resourceClaims=claiming("c"))
    await world.settle(30)
    (node,) = set(await world.nodes(*names))
    await world.stop()
    await world.delete(PODS, *names, grace=0)
    again = await world.pods("g", "q", pods, resourceClaims=claiming("c"))
    if pods == 1:
        uid = meta.uid(await world.verbs.get(PODS, "q0", "default"))
        user = {"resource": "pods", "name": "q0", "uid": uid}
        await world.patch(RESOURCE_CLAIMS, "c", {"status": {"reservedFor": [user]}}, status=True)
    await world.submit(make_pod("blocker", cpu=64, node=node))
    world.start(SlowToRead(world.verbs, world.clock))
    for number in range(12):
        await world.settle(1)
        await world.create(make_node(f"small-{number}", cpu=1, pods=1))
    await world.settle(60)
    assert await world.scheduled(*again)
    (other,) = set(await world.nodes(*again))
    (claim,) = await claims(world)
    assert devices_of(claim) == [f"{other}/gpu-0"]
    assert consistent(world)
