"""ResourceClaims on a real cluster: kube-controller-manager makes and frees them, our scheduler gives them devices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import CLAIM_PROTECTION
from echelon.api.scheme import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, Object
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.device_builders import (
    DRIVER,
    claiming,
    make_claim_template,
    make_device_class,
    make_request,
    make_resource_claim,
    make_slice,
    make_taint_rule,
)
from tests.integration.test_scheduler_devices import all_devices, claims, cluster, devices_of

from .controlplane import GateSet
from .real_plane import RealPlane

pytestmark = pytest.mark.cluster


async def until(world: RealPlane, holds: Callable[[], Awaitable[bool]], what: str) -> None:
    for _ in range(300):
        if await holds():
            return
        await world.settle(1)
        await asyncio.sleep(0.1)
    messages = [meta.find_condition(pod, "PodScheduled") for pod in (await world.verbs.list(PODS, "default")).items]
    raise AssertionError(f"never: {what}; {messages}; {world.scheduler and world.scheduler.inconsistencies()}")


async def test_a_gang_gets_devices_that_the_server_accepts_and_gives_them_back(world: RealPlane) -> None:
    await cluster(world, 2, 8)
    await world.create(make_claim_template("four", make_request(count=4)), make_pod_group("g", gang=4))
    names = await world.pods("g", "p", 4, resourceClaims=claiming(template="four"))
    await until(world, lambda: world.scheduled(*names), "the gang is bound")
    made = await claims(world)
    chosen = [device for claim in made for device in devices_of(claim)]
    assert len(chosen) == len(set(chosen)) == 16
    for claim in made:
        owner = meta.controller_of(claim)
        assert owner is not None
        assert CLAIM_PROTECTION in meta.finalizers(claim)
        assert [user["uid"] for user in claim["status"]["reservedFor"]] == [owner["uid"]]
        (node,) = await world.nodes(owner["name"])
        assert {device.split("/")[0] for device in devices_of(claim)} == {node}
    late = await world.pods("", "late", 1, resourceClaims=claiming(template="four"))
    await until(world, lambda: world.unscheduled(*late), "there are no devices left")
    for name in names:
        await world.patch(PODS, name, {"status": {"phase": "Succeeded"}}, status=True)

    async def one_is_left() -> bool:
        return len(await claims(world)) == 1 and await world.scheduled(*late)

    await until(world, one_is_left, "claims of pods that ended are gone, their devices are given again")


async def test_a_gang_that_lacks_one_device_leaves_all_claims_as_they_are(world: RealPlane) -> None:
    await cluster(world, 2, 4)
    await world.create(make_claim_template("three", make_request(count=3)), make_pod_group("g", gang=3))
    names = await world.pods("g", "p", 3, resourceClaims=claiming(template="three"))

    async def all_made() -> bool:
        return len(await claims(world)) == 3 and await world.unscheduled(*names)

    await until(world, all_made, "the gang waits for devices")
    assert not await all_devices(world)
    assert "devices of class gpu" in (await world.condition("g"))[2]


async def test_devices_are_taken_by_preemption(world: RealPlane) -> None:
    await cluster(world, 1, 2)
    await world.create(make_claim_template("two", make_request(count=2)))
    await world.create(make_pod("low", priority=0, resourceClaims=claiming(template="two")))
    await until(world, lambda: world.scheduled("low"), "the first pod is bound")
    await world.create(make_pod("high", priority=100, resourceClaims=claiming(template="two")))
    await until(world, lambda: world.scheduled("high"), "the second takes its devices")
    assert await world.gone("low")
    assert len(await all_devices(world)) == 2
    assert all(claim["status"]["reservedFor"] for claim in (await world.verbs.list(RESOURCE_CLAIMS, "default")).items)


async def test_devices_that_a_rule_taints_are_not_given(world: RealPlane) -> None:
    await cluster(world, 2, 1)
    await world.create(make_taint_rule("n0-is-broken", pool="n0"), make_claim_template("one"))
    await world.create(make_pod_group("g", gang=2))
    names = await world.pods("g", "p", 2, resourceClaims=claiming(template="one"))

    async def waits() -> bool:
        return "devices of class gpu" in (await world.condition("g"))[2]

    await until(world, waits, "the gang waits for an untainted device")
    assert not await all_devices(world)
    await world.delete(DEVICE_TAINT_RULES, "n0-is-broken")
    await until(world, lambda: world.scheduled(*names), "the gang is bound without the rule")


async def test_allocations_with_configuration_and_devices_of_several_nodes_are_accepted(world: RealPlane) -> None:
    """One device of a zone and one of everywhere; what a class and a claim configure for the alternative chosen."""
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"kind": "Sharing"}}}
    await world.create(make_device_class(config=[opaque]))
    await world.create(*(make_node(f"n{number}", cpu=64, zone=f"z{number}") for number in range(2)))
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}
    places: list[Object] = [{"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}, {"allNodes": True}]
    for number, place in enumerate(places):
        pool = {"name": f"net-{number}", "generation": 1, "resourceSliceCount": 1}
        await world.create(make_slice(f"net-{number}", 1, nodeName=None, pool=pool, **place))
    ways = [{"name": name, "deviceClassName": "gpu", "count": count} for name, count in (("three", 3), ("one", 1))]
    either = {"name": "either", "firstAvailable": ways}
    configs = [{"requests": [f"either/{way['name']}"], **opaque} for way in ways]
    await world.create(make_resource_claim("c", either, make_request(), config=configs))
    await world.create(make_pod_group("g", gang=2))
    names = await world.pods("g", "p", 2, resourceClaims=claiming("c"))
    await until(world, lambda: world.scheduled(*names), "the gang is bound")
    assert set(await world.nodes(*names)) == {"n1"}
    (claim,) = await claims(world)
    allocation = claim["status"]["allocation"]
    assert allocation["nodeSelector"]["nodeSelectorTerms"] == [{"matchExpressions": [zone]}]
    assert sorted(one["request"] for one in allocation["devices"]["results"]) == ["either/one", "gpu"]
    told = [(one["source"], sorted(one["requests"])) for one in allocation["devices"]["config"]]
    assert told == [("FromClass", ["either/one", "gpu"]), ("FromClaim", ["either/one"])]


@pytest.mark.conformance("SCH-191")
async def test_a_claim_of_a_group_is_the_groups_and_is_given_other_devices_if_none_of_its_pods_runs(
    world: RealPlane,
) -> None:
    await cluster(world, 2, 1)
    group, shared = make_pod_group("g", gang=2), claiming(template="one", name="shared")
    group["spec"]["resourceClaims"] = shared
    await world.create(make_claim_template("one"), group)
    names = await world.pods("g", "p", 2, resourceClaims=shared)
    await until(world, lambda: world.scheduled(*names), "the gang is bound")
    (claim,) = await claims(world)
    assert [user["resource"] for user in claim["status"]["reservedFor"]] == ["podgroups"]
    (node,) = set(await world.nodes(*names))
    assert devices_of(claim) == [f"{node}/gpu-0"]
    await world.delete(PODS, *names, grace=0)
    await world.submit(make_pod("blocker", cpu=64, node=node))
    again = await world.pods("g", "q", 2, resourceClaims=shared)
    await until(world, lambda: world.scheduled(*again), "the gang is bound elsewhere")
    (other,) = set(await world.nodes(*again))
    (moved,) = await claims(world)
    assert meta.uid(moved) == meta.uid(claim)
    assert devices_of(moved) == [f"{other}/gpu-0"]
    assert moved["status"]["reservedFor"] == claim["status"]["reservedFor"]


@pytest.mark.parametrize("world", [GateSet.NONE], indirect=True, ids=str)
async def test_where_groups_are_ours_a_claim_of_the_group_is_reserved_for_its_pods_and_freed_with_them(
    world: RealPlane,
) -> None:
    """Neither kubelets nor kube-controller-manager know our groups: what is reserved for one is never freed."""
    await cluster(world, 2, 1)
    group = make_pod_group("g", gang=2)
    group["spec"]["resourceClaims"] = claiming("c")
    await world.create(make_resource_claim("c"), group)
    names = await world.pods("g", "p", 2, resourceClaims=claiming("c"))
    await until(world, lambda: world.scheduled(*names), "the gang is bound")
    (claim,) = await claims(world)
    uids = [meta.uid(await world.verbs.get(PODS, name, "default")) for name in names]
    assert sorted(user["uid"] for user in claim["status"]["reservedFor"]) == sorted(uids)
    await world.delete(PODS, *names, grace=0)

    async def is_free() -> bool:
        return not await all_devices(world)

    await until(world, is_free, "the devices are free")
