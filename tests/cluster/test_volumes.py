"""Claims that a real cluster has bound: pods go where their volumes are, and one claim for one pod stays one."""

from __future__ import annotations

import asyncio

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import VOLUME_CLAIMS, Object
from echelon.testing.builders import make_node, make_pod, make_pod_group
from tests.integration.test_scheduler_late_volumes import LATE, local, wanting
from tests.integration.test_scheduler_volumes import make_claim, make_class, make_volume, using

from .real_plane import RealPlane

pytestmark = pytest.mark.cluster


async def bound(world: RealPlane, volume: Object, claim: Object) -> None:
    """Make both, and wait until the cluster has brought them together."""
    unbound = {**claim, "metadata": {"name": meta.name(claim), "namespace": "default"}}
    await world.create(volume, unbound)
    for _ in range(1800):
        found = await world.verbs.get(VOLUME_CLAIMS, meta.name(claim), "default")
        if found["status"].get("phase") == "Bound":
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"claim {meta.name(claim)} is never bound")


async def test_a_pod_goes_where_its_bound_volume_can_be_reached(world: RealPlane) -> None:
    await world.create(*(make_node(f"n{number}") for number in range(3)))
    await bound(world, make_volume("v", "n1"), make_claim("data", "v"))
    await world.create(make_pod("p", volumes=using("data")))
    await world.settle(2)
    assert await world.nodes("p") == ["n1"]


@pytest.mark.conformance("SCH-24", "SCH-25")
@pytest.mark.parametrize(("claims", "placed"), [(("a", "a"), False), (("a", "b"), True)])
async def test_a_gang_needs_a_claim_for_each_pod(world: RealPlane, claims: tuple[str, ...], placed: bool) -> None:
    await world.create(make_node("n1"), make_node("n2"), make_pod_group("g", gang=2))
    for claim in sorted(set(claims)):
        alone = "ReadWriteOncePod"
        await bound(world, make_volume(f"v-{claim}", mode=alone), make_claim(claim, f"v-{claim}", mode=alone))
    await world.create(*(make_pod(f"p{n}", group="g", volumes=using(claim)) for n, claim in enumerate(claims)))
    await world.settle(2)
    assert await (world.scheduled("p0", "p1") if placed else world.unscheduled("p0", "p1"))


async def test_a_gang_gets_free_volumes_when_it_has_nodes(world: RealPlane) -> None:
    """The scheduler names claims in volumes, the volume controller binds them, then the pods are bound."""
    await world.create(make_class("local", LATE), *(make_node(f"n{number}", cpu=8) for number in range(3)))
    await world.create(local("a", "n0"), local("b", "n2"), make_pod_group("g", gang=2), wanting("c0"), wanting("c1"))
    await world.create(*(make_pod(f"p{number}", group="g", volumes=using(f"c{number}")) for number in range(2)))
    for _ in range(300):
        if await world.scheduled("p0", "p1"):
            break
        await world.settle(1)
        await asyncio.sleep(0.1)
    assert sorted(await world.nodes("p0", "p1")) == ["n0", "n2"]
    claims = [await world.verbs.get(VOLUME_CLAIMS, f"c{number}", "default") for number in range(2)]
    assert sorted(claim["spec"]["volumeName"] for claim in claims) == ["a", "b"]
    assert all(claim["status"]["phase"] == "Bound" for claim in claims)
