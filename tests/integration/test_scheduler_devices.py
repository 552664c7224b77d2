"""Pods with ResourceClaims: devices are counted, chosen and written before pods are bound, and given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object, Resource
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.device_builders import (
    claiming,
    make_claim_template,
    make_device,
    make_device_class,
    make_request,
    make_resource_claim,
    make_slice,
    make_taint_rule,
)
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time
from tests.integration.altered_api import AlteredApi
from tests.integration.beside_scheduler import claim_controller, consistent


async def claims(world: SchedulerPlane) -> list[Object]:
    return list((await world.verbs.list(RESOURCE_CLAIMS, "default")).items)


def devices_of(claim: Object) -> list[str]:
    results = claim["status"].get("allocation", {}).get("devices", {}).get("results", [])
    return [f"{one['pool']}/{one['device']}" for one in results]


async def all_devices(world: SchedulerPlane) -> list[str]:
    return [device for claim in await claims(world) for device in devices_of(claim)]


async def cluster(world: SchedulerPlane, nodes: int, devices: int) -> None:
    await world.create(make_device_class())
    for number in range(nodes):
        await world.create(make_node(f"n{number}", cpu=64), make_slice(f"n{number}", devices))


@in_virtual_time
async def test_a_gang_with_templates_gets_devices_and_then_nodes(world: SchedulerPlane) -> None:
    async with claim_controller(world):
        await cluster(world, 2, 8)
        await world.create(make_claim_template("four", make_request(count=4)), make_pod_group("g", gang=4))
        names = await world.pods("g", "p", 4, resourceClaims=claiming(template="four"))
        await world.settle()
        assert await world.scheduled(*names)
        chosen = await all_devices(world)
        assert len(chosen) == len(set(chosen)) == 16
        for claim in await claims(world):
            owner = meta.controller_of(claim)
            assert owner is not None
            (node,) = await world.nodes(owner["name"])
            assert {device.split("/")[0] for device in devices_of(claim)} == {node}
            assert [user["name"] for user in claim["status"]["reservedFor"]] == [owner["name"]]
        assert consistent(world)


@in_virtual_time
async def test_a_gang_that_lacks_one_device_gets_none(world: SchedulerPlane) -> None:
    async with claim_controller(world):
        await cluster(world, 2, 4)
        await world.create(make_claim_template("three", make_request(count=3)), make_pod_group("g", gang=3))
        names = await world.pods("g", "p", 3, resourceClaims=claiming(template="three"))
        await world.settle()
        assert await world.unscheduled(*names)
        assert not await all_devices(world)
        assert "devices of class gpu" in (await world.condition("g"))[2]
        await world.create(make_node("n2", cpu=64), make_slice("n2", 4))
        await world.settle()
        assert await world.scheduled(*names)
        assert consistent(world)


@in_virtual_time
async def test_devices_are_free_again_when_a_pod_has_ended(world: SchedulerPlane) -> None:
    async with claim_controller(world):
        await cluster(world, 1, 2)
        await world.create(make_claim_template("two", make_request(count=2)))
        await world.create(make_pod("a", resourceClaims=claiming(template="two")))
        await world.settle()
        await world.create(make_pod("b", resourceClaims=claiming(template="two")))
        await world.settle()
        assert await world.nodes("a", "b") == ["n0", ""]
        await world.patch(PODS, "a", {"status": {"phase": "Succeeded"}}, status=True)
        await world.settle(60)
        assert await world.nodes("b") == ["n0"]
        assert len(await claims(world)) == 1, "the claim of the pod that ended is gone"
        assert consistent(world)


@in_virtual_time
async def test_a_pod_of_higher_priority_takes_devices_by_preemption(world: SchedulerPlane) -> None:
    async with claim_controller(world):
        await cluster(world, 1, 2)
        await world.create(make_claim_template("two", make_request(count=2)))
        await world.create(make_pod("low", priority=0, resourceClaims=claiming(template="two")))
        await world.settle()
        await world.create(make_pod("high", priority=100, resourceClaims=claiming(template="two")))
        await world.settle(60)
        assert await world.gone("low")
        assert await world.nodes("high") == ["n0"]
        assert consistent(world)


@in_virtual_time
async def test_selectors_taints_and_overlapping_requests_are_kept(world: SchedulerPlane) -> None:
    """Two pods want any device, one a large one: the large one is left for it, the tainted one for nobody."""
    async with claim_controller(world):
        broken = [{"key": "broken", "effect": "NoSchedule"}]
        devices = [make_device("large", memory=80), make_device("a", memory=40), make_device("b", memory=40)]
        devices.append(make_device("c", broken, memory=80))
        await world.create(make_device_class(), make_node("n0", cpu=64), make_slice("n0", devices=devices))
        large = 'device.attributes["gpu.example.org"].memory >= 80'
        await world.create(
            make_claim_template("any"), make_claim_template("large", make_request("gpu", 1, "gpu", large))
        )
        await world.create(make_pod_group("g", gang=3))
        for name, template in (("x", "any"), ("y", "any"), ("z", "large")):
            await world.create(make_pod(name, group="g", resourceClaims=claiming(template=template)))
        await world.settle()
        assert await world.scheduled("x", "y", "z")
        found = {meta.controller_of(claim)["name"]: devices_of(claim) for claim in await claims(world)}  # type: ignore[index]
        assert found["z"] == ["n0/large"]
        assert sorted(found["x"] + found["y"]) == ["n0/a", "n0/b"]
        assert consistent(world)


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
@in_virtual_time
async def test_devices_that_a_rule_taints_are_given_only_to_requests_that_tolerate_it(
    world: SchedulerPlane, effect: str
) -> None:
    await cluster(world, 2, 1)
    await world.create(make_taint_rule("n0-is-broken", effect, pool="n0"), make_taint_rule("for-another", pool="n9"))
    unselective = make_taint_rule("for-nobody")
    del unselective["spec"]["deviceSelector"]
    await world.create(unselective)
    tolerant = make_request(tolerations=[{"key": "broken", "operator": "Exists", "effect": effect}])
    await world.create(*(make_resource_claim(name) for name in ("one", "two")), make_resource_claim("bold", tolerant))
    await world.create(make_pod_group("g", gang=2))
    for name in ("one", "two"):
        await world.create(make_pod(name, group="g", resourceClaims=claiming(name)))
    await world.settle()
    assert await world.unscheduled("one", "two"), "one of two devices is tainted"
    assert not await all_devices(world)
    await world.create(make_pod("bold", resourceClaims=claiming("bold"), nodeSelector={"kubernetes.io/hostname": "n0"}))
    await world.settle()
    assert await world.nodes("bold") == ["n0"]
    await world.create(make_node("n2", cpu=64), make_slice("n2", 1))
    await world.settle()
    assert sorted(await world.nodes("one", "two")) == ["n1", "n2"]
    assert consistent(world)


@in_virtual_time
async def test_a_rule_that_changes_or_goes_frees_its_devices(world: SchedulerPlane) -> None:
    await cluster(world, 1, 2)
    await world.create(make_taint_rule("broken"), make_resource_claim("c", make_request(count=2)))
    await world.create(make_pod("p", resourceClaims=claiming("c")))
    await world.settle()
    assert await world.unscheduled("p")
    await world.patch(DEVICE_TAINT_RULES, "broken", {"spec": {"deviceSelector": {"device": "gpu-1"}}})
    await world.settle()
    assert await world.unscheduled("p")
    assert consistent(world)
    await world.delete(DEVICE_TAINT_RULES, "broken")
    await world.settle()
    assert await world.nodes("p") == ["n0"]
    assert consistent(world)


@in_virtual_time
async def test_a_taint_on_a_device_in_use_takes_nothing_from_others(world: SchedulerPlane) -> None:
    await cluster(world, 1, 2)
    await world.create(make_resource_claim("first"), make_resource_claim("second"))
    await world.create(make_pod("a", resourceClaims=claiming("first")))
    await world.settle()
    assert await all_devices(world) == ["n0/gpu-0"]
    await world.create(make_taint_rule("gpu-0-is-broken", "NoExecute", device="gpu-0"))
    await world.settle()
    assert consistent(world)
    await world.create(make_pod("b", resourceClaims=claiming("second")))
    await world.settle()
    assert await world.nodes("a", "b") == ["n0", "n0"]
    assert sorted(await all_devices(world)) == ["n0/gpu-0", "n0/gpu-1"]
    assert consistent(world)


class WithoutDevices:
    """A server that does not serve resource.k8s.io until it is switched on."""

    def __init__(self, verbs: Any) -> None:
        self._verbs, self.serves = verbs, False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._verbs, name)

        def call(about: Any, *more: Any, **named: Any) -> Any:
            if isinstance(about, Resource) and about.group == RESOURCE_CLAIMS.group and not self.serves:
                raise ApiError(404, "NotFound", "the server could not find the requested resource")
            return found(about, *more, **named)

        return call


@in_virtual_time
async def test_a_server_without_devices_places_other_pods_and_says_what_claims_wait_for(world: SchedulerPlane) -> None:
    server: Any = WithoutDevices(world.verbs)
    await world.restart(server)
    await world.create(make_node("n0", cpu=64), make_pod_group("g", gang=2))
    names = await world.pods("g", "p", 2)
    await world.create(make_pod("named", resourceClaims=claiming("c")))
    await world.create(make_pod("made", resourceClaims=claiming(template="t")))
    await world.settle()
    assert await world.scheduled(*names)
    assert await world.unscheduled("named", "made")
    assert 'resourceclaim "c" not found' in await world.message("named")
    assert "ResourceClaim not created yet" in await world.message("made")
    await world.create(make_device_class(), make_slice("n0", 1), make_resource_claim("c"))
    server.serves = True
    await world.settle(120)
    assert await world.nodes("named") == ["n0"]
    assert await all_devices(world) == ["n0/gpu-0"]
    assert consistent(world)


class Refusing(AlteredApi):
    """An API that refuses the n-th write of a ResourceClaim's status."""

    def __init__(self, verbs: Any, refuse: int, error: Exception) -> None:
        super().__init__(verbs)
        self._left, self._error = refuse, error

    async def patch(self, resource: Any, name: str, patch: Any, namespace: str = "", subresource: Any = "") -> Object:
        if resource == RESOURCE_CLAIMS and subresource == "status":
            self._left -= 1
            if self._left == 0:
                raise self._error
        return await self._verbs.patch(resource, name, patch, namespace, subresource)


@pytest.mark.parametrize("error", [ApiError(500, "InternalError", "refused by the test"), KeyError("unexpected")])
@pytest.mark.parametrize("refused", [1, 2, 3])
@in_virtual_time
async def test_one_claim_that_cannot_be_written_leaves_nothing_of_its_gang(
    world: SchedulerPlane, refused: int, error: Exception
) -> None:
    async with claim_controller(world):
        await cluster(world, 3, 1)
        await world.create(make_claim_template("one"), make_pod_group("g", gang=3))
        bound: list[list[str]] = []
        await world.restart(Refusing(world.verbs, refused, error))
        names = await world.pods("g", "p", 3, resourceClaims=claiming(template="one"))
        for _ in range(40):
            bound.append(await world.nodes(*names))
            await world.settle(0.25)
        first = next(index for index, nodes in enumerate(bound) if any(nodes))
        assert all(bound[min(first + 8, 39)]), "bound together, a moment after the first"
        assert await world.scheduled(*names)
        assert len(set(await all_devices(world))) == 3
        assert consistent(world)


class Replacing(AlteredApi):
    """An API where someone deletes a claim before its first write and makes another of that name."""

    def __init__(self, verbs: Any, other: Object) -> None:
        super().__init__(verbs)
        self._other: Object | None = other

    async def patch(self, resource: Any, name: str, patch: Any, namespace: str = "", subresource: Any = "") -> Object:
        if resource == RESOURCE_CLAIMS and self._other is not None:
            other, self._other = self._other, None
            await self._verbs.delete(RESOURCE_CLAIMS, name, namespace)
            await self._verbs.create(RESOURCE_CLAIMS, other, namespace)
        return await self._verbs.patch(resource, name, patch, namespace, subresource)


@in_virtual_time
async def test_a_claim_that_was_replaced_does_not_get_the_devices_of_the_former(world: SchedulerPlane) -> None:
    await cluster(world, 1, 4)
    await world.restart(Replacing(world.verbs, make_resource_claim("c", make_request(count=3))))
    await world.create(make_resource_claim("c"), make_pod("p", resourceClaims=claiming("c")))
    await world.settle(60)
    assert await world.scheduled("p")
    assert len(await all_devices(world)) == 3
    assert consistent(world)


@in_virtual_time
async def test_devices_given_before_a_crash_are_used_or_given_back(world: SchedulerPlane) -> None:
    """The claim has devices on n0 for its pod; n0 is full by now, so the pod gets others."""
    await cluster(world, 2, 1)
    await world.create(make_resource_claim("c", make_request()), make_pod("p", resourceClaims=claiming("c")))
    await world.settle()
    assert await world.scheduled("p")
    (node,) = await world.nodes("p")
    await world.stop()
    await world.delete(PODS, "p", grace=0)
    pod = await world.submit(make_pod("q", cpu=2, resourceClaims=claiming("c")))
    user = {"resource": "pods", "name": "q", "uid": meta.uid(pod)}
    await world.patch(RESOURCE_CLAIMS, "c", {"status": {"reservedFor": [user]}}, status=True)
    await world.submit(make_pod("blocker", cpu=64, node=node))
    world.start()
    await world.settle(60)
    (other,) = await world.nodes("q")
    assert other not in ("", node)
    (claim,) = await claims(world)
    assert devices_of(claim) == [f"{other}/gpu-0"]
    assert consistent(world)


class LateRelease(AlteredApi):
    """An API that binds no pod, and to which the write that takes devices away comes when its sender is long gone."""

    def __init__(self, verbs: Any) -> None:
        super().__init__(verbs)
        self.late: list[tuple[Any, ...]] = []

    async def bind(self, *args: Any, **named: Any) -> Any:
        raise ApiError(500, "InternalError", "refused by the test")

    async def patch(self, resource: Any, name: str, patch: Any, namespace: str = "", subresource: Any = "") -> Object:
        if resource == RESOURCE_CLAIMS and patch.body.get("status", {}).get("allocation", "") is None:
            self.late.append((resource, name, patch, namespace, subresource))
            await asyncio.Event().wait()
        return await self._verbs.patch(resource, name, patch, namespace, subresource)


@in_virtual_time
async def test_a_former_leader_cannot_take_away_devices_that_its_successor_relies_on(world: SchedulerPlane) -> None:
    """The claim has the devices and the consumer that the successor wants, but no version that the former has read."""
    await cluster(world, 1, 1)
    former = LateRelease(world.verbs)
    await world.restart(former)
    await world.create(make_resource_claim("c"), make_pod("p", resourceClaims=claiming("c")))
    await world.settle()
    await world.stop()
    (late,) = former.late
    assert await all_devices(world) == ["n0/gpu-0"]
    world.start()
    await world.settle(30)
    assert await world.scheduled("p")
    with pytest.raises(ApiError, match="object has been modified"):
        await world.verbs.patch(*late)
    assert await all_devices(world) == ["n0/gpu-0"]
    assert consistent(world)


@in_virtual_time
async def test_what_is_missing_is_named(world: SchedulerPlane) -> None:
    await cluster(world, 1, 1)
    await world.create(make_pod("p", resourceClaims=claiming("absent")))
    await world.create(make_pod("t", resourceClaims=claiming(template="absent")))
    capacity = make_request(capacity={"requests": {"memory": "1Gi"}})
    await world.create(
        make_resource_claim("odd", capacity), make_resource_claim("no-class", make_request("gpu", 1, "none"))
    )
    await world.create(
        make_pod("u", resourceClaims=claiming("odd")), make_pod("v", resourceClaims=claiming("no-class"))
    )
    await world.settle()
    assert 'resourceclaim "absent" not found' in await world.message("p")
    assert "ResourceClaim not created yet" in await world.message("t")
    assert "spec.devices.requests[0].exactly.capacity is not supported" in await world.message("u")
    assert "device class none does not exist" in await world.message("v")
    await world.delete(RESOURCE_SLICES, "n0-gpus")
    assert consistent(world)


@in_virtual_time
async def test_a_claim_has_no_more_devices_than_the_api_takes(world: SchedulerPlane) -> None:
    """Neither is written again and again and refused each time, nor does a long list end the search."""
    await cluster(world, 1, 40)
    await world.create(make_node("n1", cpu=64), make_slice("n1", 32))
    every = make_request(allocationMode="All")
    del every["exactly"]["count"]
    await world.create(make_resource_claim("more", make_request(count=33)), make_resource_claim("every", every))
    await world.create(*(make_pod(name, resourceClaims=claiming(name)) for name in ("more", "every")))
    await world.settle()
    assert await world.nodes("more", "every") == ["", "n1"]
    assert "asks for 33 devices; a claim can have 32 at most" in await world.message("more")
    assert len(await all_devices(world)) == 32
    assert consistent(world)


@in_virtual_time
async def test_claims_that_amounts_do_not_describe_are_counted_beside_plain_ones(world: SchedulerPlane) -> None:
    await cluster(world, 2, 2)
    await world.create(make_resource_claim("one"), make_pod("one", resourceClaims=claiming("one")))
    await world.settle()
    every = make_request(allocationMode="All")
    del every["exactly"]["count"]
    await world.create(make_resource_claim("every", every), make_pod("every", resourceClaims=claiming("every")))
    await world.settle()
    assert len({*await world.nodes("one", "every")} - {""}) == 2
    assert consistent(world)
