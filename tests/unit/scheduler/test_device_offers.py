"""Devices for claims that pods share or that several nodes reach, and for requests that want all devices."""

from __future__ import annotations

import random
from typing import Any

import pytest

from echelon.api.scheme import Object
from echelon.api.views.device_views import (
    DeviceClassView,
    DeviceTaintRuleView,
    ResourceClaimView,
    ResourceSliceView,
)
from echelon.api.views.placement_views import NodeSelector
from echelon.api.views.pod_views import PodView
from echelon.scheduler.devices.allotments import Allotment
from echelon.scheduler.devices.claim_state import Claims
from echelon.testing.builders import make_pod
from echelon.testing.device_builders import (
    DRIVER,
    claiming,
    make_device,
    make_device_class,
    make_request,
    make_resource_claim,
    make_slice,
    make_taint_rule,
)

ALL = make_request(allocationMode="All")
del ALL["exactly"]["count"]


def reach(key: str, *values: str) -> Object:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    return {"nodeSelectorTerms": terms}


class World:
    """Claims over some nodes; nodes reach what a selector on the label `zone` says."""

    def __init__(self, **zones: str) -> None:
        self.claims = Claims(lambda _: None)
        self.claims.on_class(None, DeviceClassView(make_device_class()))
        self.zones = zones

    def put(self, name: str, count: int = 2, old: Object | None = None, **spec: Any) -> Object:
        made = make_slice(name, count, **spec)
        self.claims.on_slice(ResourceSliceView(old) if old else None, ResourceSliceView(made))
        return made

    def use(self, name: str, *requests: Object, pods: int = 1, **devices: Any) -> list[str]:
        self.claims.on_claim(None, ResourceClaimView(make_resource_claim(name, *requests, **devices)))
        uids = []
        for number in range(pods):
            made: Object = make_pod(f"{name}-{number}")
            made["metadata"]["uid"] = f"{name}-{number}"
            made["spec"]["resourceClaims"] = claiming(name)
            self.claims.enter(PodView(made))
            uids.append(f"{name}-{number}")
        return uids

    def give(self, name: str, node: str) -> bool:
        """A new claim gets a device of a node, if there is one."""
        self.claims.forget_offer()
        found = self.claims.plan({self.use(name)[0]: node})
        if isinstance(found, str):
            return False
        self.claims.give(use.allotment for use in found if use.allotment is not None)
        return True

    def offers(self, *pods: str) -> list[dict[str, Allotment]]:
        return list(self.claims.offers(pods, self.reaches))

    def reaches(self, selector: NodeSelector, node: str) -> bool:
        (term,) = selector.node_selector_terms
        return all(self.zones.get(node) in one.values for one in term.match_expressions)

    def fits(self, pod: str, node: str) -> bool:
        """Whether a pod can have its devices on a node; its claim is not open."""
        assert not self.claims.open_claims(pod)
        self.claims.forget_offer()
        return not isinstance(self.claims.plan({pod: node}), str)


def devices_of(allotment: Allotment) -> set[str]:
    return {f"{one.pool}/{one.name}" for one in allotment.devices}


def nodes_of(allotment: Allotment) -> list[str]:
    selector = allotment.node_selector
    assert selector is not None
    return [value for one in selector["nodeSelectorTerms"][0]["matchFields"] for value in one["values"]]


# -- all devices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        {"taints": [{"key": "broken", "effect": "NoSchedule"}]},
        {"consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1"}}}]},
        {"allowMultipleAllocations": True},
        {"bindingConditions": ["Attached"]},
    ],
)
def test_all_devices_are_not_had_where_one_of_them_cannot_be_had(odd: Object) -> None:
    world = World()
    world.put("n0")
    world.put("n1", devices=[make_device("gpu-0"), {**make_device("gpu-1"), **odd}])
    (pod,) = world.use("c", ALL)
    assert [world.fits(pod, node) for node in ("n0", "n1")] == [True, False]
    rooms = [max(world.claims.amounts(node).items())[1] for node in ("n0", "n1")]
    assert rooms == [1, 0]


def test_all_devices_are_had_where_their_taints_are_tolerated_or_concern_others() -> None:
    world = World()
    taints = [{"key": "broken", "effect": "NoSchedule"}]
    world.put("n0", devices=[make_device("gpu-0"), make_device("gpu-1", taints, model="x")])
    tolerating = make_request(allocationMode="All", tolerations=[{"key": "broken", "operator": "Exists"}])
    others = make_request("gpu", 1, "gpu", f'!has(device.attributes["{DRIVER}"].model)', allocationMode="All")
    (one,), (other,) = world.use("tolerates", tolerating), world.use("others", others)
    assert world.fits(one, "n0")
    assert world.fits(other, "n0")


def test_a_rule_that_taints_a_device_counts_for_all_devices() -> None:
    world = World()
    world.put("n0")
    (pod,) = world.use("c", ALL)
    rule = DeviceTaintRuleView(make_taint_rule("r", device="gpu-1"))
    world.claims.on_taint_rule(None, rule)
    assert not world.fits(pod, "n0")
    world.claims.on_taint_rule(rule, None)
    assert world.fits(pod, "n0")


@pytest.mark.parametrize("twice", [True, False])
def test_all_devices_are_not_had_while_a_pool_of_the_node_is_incomplete(twice: bool) -> None:
    """Incomplete because a slice is missing, or because a name is there twice."""
    world = World()
    for node in ("n0", "n1"):
        world.put(node)
    pool = {"name": "second", "generation": 1, "resourceSliceCount": 1 if twice else 2}
    devices = [make_device("a"), make_device("a" if twice else "b")]
    broken = world.put("n1", pool=pool, devices=devices, driver="other.example.org")
    (pod,), (counted,) = world.use("c", ALL), world.use("d", make_request(count=2))
    assert [world.fits(pod, node) for node in ("n0", "n1")] == [True, False]
    assert world.fits(counted, "n1")
    pool = {**pool, "generation": 2, "resourceSliceCount": 1}
    world.put("n1", old=broken, pool=pool, devices=[make_device("a")], driver="other.example.org")
    assert world.fits(pod, "n1")


def test_all_devices_that_several_nodes_reach_are_all_that_one_node_reaches() -> None:
    world = World(n0="a", n1="b")
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    world.put("net", 2, nodeName=None, nodeSelector=reach("zone", "a"), pool=pool)
    for node in ("n0", "n1"):
        world.put(node, 1)
    (pod,) = world.use("c", ALL)
    found = {nodes_of(offer["default/c"])[0]: devices_of(offer["default/c"]) for offer in world.offers(pod)}
    assert found == {"n0": {"n0/gpu-0", "net/gpu-0", "net/gpu-1"}, "n1": {"n1/gpu-0"}}


# -- devices of several nodes, and of claims that pods share -------------------------------------------------------


def test_nodes_without_free_devices_do_not_hide_those_that_have_some() -> None:
    world = World()
    for number in range(60):
        world.put(f"n{number:02}", 1)
    for number in range(50):
        assert world.give(f"taken-{number}", f"n{number:02}")
    pods = world.use("shared", pods=2)
    assert [nodes_of(offer["default/shared"]) for offer in world.offers(*pods)] == [[f"n{n}"] for n in range(50, 60)]


def test_devices_that_several_nodes_reach_are_used_where_they_are_reached() -> None:
    """Also if a node with devices of its own is looked at, which are in use."""
    world = World(n0="a")
    world.put("n0", 1)
    world.give("taken", "n0")
    world.put("zonal", 1, nodeName=None, nodeSelector=reach("zone", "a"))
    (pod,) = world.use("c")
    for offer in world.offers(pod):
        assert offer["default/c"].node_selector == reach("zone", "a")


def test_a_claim_has_devices_of_one_zone_and_of_everywhere() -> None:
    world = World()
    world.put("zonal", 1, nodeName=None, nodeSelector=reach("zone", "a"))
    world.put("global", 1, nodeName=None, allNodes=True)
    world.put("global-2", 1, nodeName=None, allNodes=True)
    (two,), (one,) = world.use("two", make_request(count=3)), world.use("one")
    assert [offer["default/two"].node_selector for offer in world.offers(two)][:1] == [reach("zone", "a")]
    assert None in [offer["default/one"].node_selector for offer in world.offers(one)]


def test_claims_of_a_gang_have_devices_of_different_zones() -> None:
    world = World()
    for zone in "ab":
        world.put(f"zone-{zone}", 1, nodeName=None, nodeSelector=reach("zone", zone))
    pods = [pod for name in ("one", "two") for pod in world.use(name)]
    offer, _ = world.offers(*pods)
    assert [offer[f"default/{name}"].node_selector for name in ("one", "two")] == [reach("zone", one) for one in "ab"]


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_offers_are_those_of_a_fresh_start(seed: int) -> None:
    draw, world, fresh = random.Random(seed), World(), World()
    slices: dict[str, Object] = {}
    shared = world.use("shared", make_request(count=2), pods=2)
    given: list[str] = []
    for step in range(60):
        node = f"n{draw.randrange(12)}"
        choice = draw.random()
        if choice < 0.4:
            slices[node] = world.put(node, draw.randint(0, 4), old=slices.get(node))
        elif choice < 0.8 and node in slices:
            given += [f"default/c{step}"] if world.give(f"c{step}", node) else []
        elif given:
            world.claims.take_back([given.pop(draw.randrange(len(given)))])
        if draw.random() < 0.3:
            world.offers(*shared)
    for node in sorted(slices):
        fresh.put(node, old=None, **{k: v for k, v in slices[node]["spec"].items() if k == "devices"})
    for allotment in world.claims.in_flight:
        fresh.use(allotment.claim.name)
        fresh.claims.give([allotment])
    again = fresh.use("shared", make_request(count=2), pods=2)
    ours, theirs = world.offers(*shared), fresh.offers(*again)
    assert [nodes_of(one["default/shared"]) for one in ours] == [nodes_of(one["default/shared"]) for one in theirs]
    assert [devices_of(one["default/shared"]) for one in ours] == [devices_of(one["default/shared"]) for one in theirs]


def test_a_device_of_its_own_selector_with_several_terms_is_not_given_away() -> None:
    """An allocation can say one term alone: nodes of the others would be wrong for it."""
    world = World(n1="a", n2="b")
    terms = [reach("zone", one)["nodeSelectorTerms"][0] for one in "ab"]
    devices = [
        {**make_device(f"d{count}"), "nodeSelector": {"nodeSelectorTerms": terms[:count]}} for count in range(1, 3)
    ]
    world.put("s", devices=devices, nodeName=None, perDeviceNodeSelection=True)
    offered = {one.devices[0].name for offer in world.offers(*world.use("c")) for one in offer.values()}
    assert offered == {"d1"}
