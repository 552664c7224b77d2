"""Free volumes as amounts of nodes: right after any change, and at the cost of what has changed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from echelon.api.views.storage_views import (
    ClaimView,
    CsiDriverView,
    StorageCapacityView,
    StorageClassView,
    VolumeView,
)
from echelon.engine import NodeTerm, Requirement
from echelon.scheduler.volumes.late_binding import LateBinding, VolumeChoice
from echelon.scheduler.volumes.reach_index import FreeVolumes, NodeLabels, Terms, either, reached
from echelon.scheduler.volumes.volume_facts import wish_of

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NODES = {f"n{n}": {HOST: f"n{n}", ZONE: f"z{n % 3}"} for n in range(9)}


def on(key: str, *values: str) -> NodeTerm:
    return NodeTerm((Requirement(key, "In", values),))


#: All ways in which a volume says from where it is reached.
REACHES: list[Terms | None] = [
    None,
    (),
    (NodeTerm(),),
    (on(HOST, "n1"),),
    (on(HOST, "n1"), on(HOST, "n2", "n7"), on(ZONE, "z0")),
    (NodeTerm((Requirement(ZONE, "In", ("z1",)), Requirement(HOST, "NotIn", ("n4",)))),),
    (NodeTerm((Requirement(ZONE, "NotIn", ("z1",)),)),),
    (NodeTerm(fields=(Requirement("metadata.name", "In", ("n3", "n8")),)),),
    (NodeTerm((Requirement(ZONE, "In", ("z1",)),), (Requirement("metadata.name", "In", ("n3", "n4")),)),),
]


def volume(name: str, size: str = "1Gi", **fields: Any) -> VolumeView:
    spec = {"storageClassName": "local", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    status = {"phase": fields.pop("phase", "Available")}
    return VolumeView({"metadata": {"name": name}, "spec": {**spec, **fields}, "status": status})


def claim(name: str, size: str = "1Gi", storage_class: str = "local") -> ClaimView:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return ClaimView({"metadata": metadata, "spec": {**spec, "storageClassName": storage_class}})


def binding() -> LateBinding:
    found = LateBinding()
    for name, labels in NODES.items():
        found.put_node(name, labels)
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "d.example.org")):
        found.put_class(name, StorageClassView({"metadata": {"name": name}, "provisioner": provisioner}))
    return found


def amounts(late: LateBinding) -> dict[str, dict[str, int]]:
    return {name: late.amounts(name, labels) for name, labels in NODES.items()}


@pytest.mark.parametrize("reach", REACHES)
def test_nodes_and_volumes_find_each_other_as_if_all_were_compared(reach: Terms | None) -> None:
    nodes, volumes = NodeLabels(), FreeVolumes()
    for name, labels in NODES.items():
        nodes.put(name, labels)
    volumes.put("v", 1, reach)
    wanted = [name for name, labels in NODES.items() if reached(reach, name, labels)]
    assert sorted(nodes.reaching(reach)) == wanted
    assert [name for name, labels in NODES.items() if volumes.reached_by(name, labels)] == wanted
    merged = either([reach])
    assert [name for name, labels in NODES.items() if reached(merged, name, labels)] == wanted
    nodes.put("n1", {HOST: "other"})
    nodes.remove("n2")
    assert not {"n1", "n2"} & {*nodes.reaching((on(HOST, "n1", "n2"),))}
    assert volumes.remove("v") == reach
    assert not any(volumes.reached_by(name, labels) for name, labels in NODES.items())


def test_terms_of_one_label_are_one_whatever_their_order() -> None:
    first, second, third = (on(HOST, "n1"),), (on(HOST, "n3", "n2"),), (on(ZONE, "z"),)
    assert (
        either([first, second, third]) == either([third, second, first]) == (on(HOST, "n1", "n2", "n3"), on(ZONE, "z"))
    )


def test_a_volume_concerns_the_nodes_that_reach_it_and_no_others() -> None:
    late = binding()
    late.want("default/c", claim("c"))
    late.stale.clear()
    late.put_volume(volume("v"), (on(HOST, "n4"),))
    assert list(late.stale) == ["n4"]
    late.stale.clear()
    late.put_volume(volume("small", "1Mi"), (on(HOST, "n5"),))
    late.put_volume(volume("other", storageClassName="else"), (on(HOST, "n6"),))
    assert not late.stale, "no claim could have them"
    late.take([VolumeChoice(claim("c"), "n4", volume("v"), (on(HOST, "n4"),))])
    assert list(late.stale) == ["n4"]
    late.stale.clear()
    late.want("default/d", claim("d"))
    assert not late.stale, "nodes count volumes for equal claims already"


def test_a_volume_that_says_the_same_as_before_is_known_in_its_newest_version() -> None:
    late = binding()
    late.put_volume(volume("v"), None)
    newer = volume("v")
    late.replace_volume(newer)
    found = late.choose([(claim("c"), "n1", NODES["n1"])])
    assert isinstance(found, dict)
    assert found["default/c"].volume is newer


def test_capacity_concerns_claims_only_where_it_makes_a_difference() -> None:
    late = binding()
    late.want("default/c", claim("c", "5Gi", "made"))

    def capacity(size: str) -> StorageCapacityView:
        topology = {"matchLabels": {HOST: "n1"}}
        return StorageCapacityView({"storageClassName": "made", "capacity": size, "nodeTopology": topology})

    assert late.put_capacity("k", capacity("4Gi")) == []
    assert late.put_capacity("k", capacity("9Gi")) == ["default/c"]
    assert late.put_capacity("k", capacity("7Gi")) == []
    assert late.put_capacity("k", None) == ["default/c"]


def test_equal_wishes_are_counted_by_one_resource_whatever_the_order_of_values() -> None:
    """Two sets that are equal may list their values in different orders: those of colliding hashes do."""
    values = [f"rack-{number}" for number in range(40)]

    def name(listed: list[str]) -> str:
        made = claim("c")
        made.obj["spec"]["selector"] = {"matchExpressions": [{"key": "rack", "operator": "In", "values": listed}]}
        return wish_of(ClaimView(made.obj)).name

    assert len({name(random.Random(seed).sample(values, 40)) for seed in range(20)}) == 1
    assert name(values) != name(values[1:]) != wish_of(claim("c")).name


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_and_goes_amounts_are_those_of_a_fresh_start(seed: int) -> None:
    rng = random.Random(seed)
    late, claims, volumes = binding(), dict[str, ClaimView](), dict[str, tuple[VolumeView, Terms | None]]()
    chosen: dict[str, VolumeChoice] = {}
    known = amounts(late)
    for _ in range(60):
        name, key = f"v{rng.randrange(8)}", f"default/c{rng.randrange(4)}"
        match rng.randrange(5):
            case 0 | 1:
                named = {"claimRef": {"namespace": "default", "name": "c1"}} if rng.random() < 0.2 else {}
                made = volume(name, rng.choice(("1Gi", "2Gi")), phase=rng.choice(("Available", "Failed")), **named)
                volumes[name] = made, rng.choice(REACHES)
                for one in late.put_volume(*volumes[name]):
                    late.want(one, claims.get(one))
            case 2:
                volumes.pop(name, None)
                for one in late.remove_volume(name):
                    late.want(one, claims.get(one))
            case 3:
                claims.pop(key, None)
                if rng.random() < 0.7:
                    claims[key] = claim(key.partition("/")[2], rng.choice(("1Gi", "2Gi")))
                late.want(key, claims.get(key))
            case 4 if key in chosen:
                del chosen[key]
                late.give_up(key)
            case 4 if name in volumes and name not in {one.volume.name for one in chosen.values() if one.volume}:
                asked = claim(key.partition("/")[2])
                chosen[key] = VolumeChoice(asked, "n1", *volumes[name])
                late.take([chosen[key]])
        stale, late.stale = late.stale, {}
        for node in stale:
            known[node] = late.amounts(node, NODES[node])
        fresh = binding()
        for one in volumes.values():
            fresh.put_volume(*one)
        for other, asking in claims.items():
            fresh.want(other, asking)
        fresh.take(chosen.values())
        assert known == amounts(late) == amounts(fresh)


def chosen(late: LateBinding, wanted: ClaimView) -> str | None:
    """The volume that a claim would get on n1; "" if one is made for it, None if there is none."""
    found = late.choose([(wanted, "n1", NODES["n1"])])
    if isinstance(found, str):
        return None
    volume = found[wanted.key].volume
    return "" if volume is None else volume.name


def test_a_claim_gets_a_volume_of_its_attributes_class() -> None:
    late = binding()
    late.put_volume(volume("plain"), None)
    late.put_volume(volume("fast", "2Gi", volumeAttributesClassName="fast"), None)
    wanted = {name: ClaimView({**claim(name).obj}) for name in ("plain", "fast", "other")}
    for name in ("fast", "other"):
        spec = {**wanted[name].obj["spec"], "volumeAttributesClassName": name}
        wanted[name] = ClaimView({**wanted[name].obj, "spec": spec})
    assert {name: chosen(late, one) for name, one in wanted.items()} == {
        "plain": "plain",
        "fast": "fast",
        "other": None,
    }
    for name, one in wanted.items():
        late.want(f"default/{name}", one)
    counted = [dict(late.asked(one).requests) for one in wanted.values()]
    assert len({name for one in counted for name in one}) == 3, "they are counted apart"


@pytest.mark.parametrize(
    "odd", [{"capacity": {"storage": "1Mi"}}, {"volumeMode": "Block"}, {"volumeAttributesClassName": "fast"}]
)
@pytest.mark.parametrize("storage_class", ["local", "made"])
def test_a_volume_that_was_set_aside_and_is_unfit_is_not_taken(odd: dict[str, Any], storage_class: str) -> None:
    late, wanted = binding(), claim("c", storage_class=storage_class)
    reference = {"namespace": "default", "name": "c"}
    late.put_volume(volume("own", storageClassName=storage_class, claimRef=reference, **odd), None)
    assert chosen(late, wanted) == (None if storage_class == "local" else "")
    late.put_volume(volume("own", storageClassName=storage_class, claimRef=reference), None)
    assert chosen(late, wanted) == "own"


@pytest.mark.parametrize(
    ("topology", "allowed", "nodes"),
    [
        ({"matchLabels": {HOST: "n1"}}, [("z1",)], ["n1"]),
        ({"matchLabels": {HOST: "n1"}}, [("z0",)], []),
        ({}, [("z1",)], ["n1", "n4", "n7"]),
        (None, [("z1",)], []),
        (None, [], []),
        ({"matchLabels": {HOST: "n1"}}, [()], []),
        ({"matchLabels": {HOST: "n1"}}, [(), ("z1",)], ["n1"]),
    ],
)
def test_a_volume_is_made_where_the_class_allows_it_and_capacity_is_left(
    topology: dict[str, Any] | None, allowed: list[tuple[str, ...]], nodes: list[str]
) -> None:
    """Capacity without a topology is reached by no node, and a term that allows nothing allows no node."""
    late = binding()
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": list(values)}] if values else []} for values in allowed]
    made = {"metadata": {"name": "made"}, "provisioner": "d.example.org", "allowedTopologies": terms}
    late.put_class("made", StorageClassView(made))
    late.put_driver("d.example.org", CsiDriverView({"spec": {"storageCapacity": True}}))
    told = {"storageClassName": "made", "capacity": "9Gi"} | ({} if topology is None else {"nodeTopology": topology})
    late.put_capacity("k", StorageCapacityView(told))
    reach = late.asked(claim("c", storage_class="made")).reach
    assert [name for name, labels in NODES.items() if reached(reach, name, labels)] == nodes
