"""Levels as nodes carry them, in the order in which they nest."""

from __future__ import annotations

import pytest

from echelon.api.cluster.topology_levels import (
    CONFIGURED,
    NODE_LABELS,
    LabelledNode,
    Reversal,
    TopologyObject,
    choose_levels,
    read_levels,
)
from echelon.api.objects.vocabulary import BLOCK, HOSTNAME, RACK, REGION, ZONE

LAYER = "topology.k8s.aws/network-node-layer-"
NVIDIA = "network.topology.nvidia.com/"


def node(name: str, **labels: str) -> LabelledNode:
    keys = {"zone": ZONE, "rack": RACK, "one": LAYER + "1", "two": LAYER + "2", "leaf": NVIDIA + "leaf", "block": BLOCK}
    keys |= {"spine": NVIDIA + "spine"}
    return LabelledNode(name, {keys[key]: value for key, value in labels.items()})


def test_without_labels_the_host_is_the_only_level() -> None:
    assert choose_levels([node("a"), node("b")]).keys == (HOSTNAME,)
    assert choose_levels([]).keys == (HOSTNAME,)


def test_levels_of_one_family_come_from_wide_to_narrow() -> None:
    nodes = [node("a", spine="s1", leaf="l1"), node("b", spine="s1", leaf="l2"), node("c", spine="s2", leaf="l3")]
    assert choose_levels(nodes).keys == (NVIDIA + "spine", NVIDIA + "leaf", HOSTNAME)


def test_families_are_merged_as_their_domains_nest() -> None:
    nodes = [node(f"n{i}", zone="z", one="x" if i < 4 else "y", rack=f"r{i // 2}") for i in range(8)]
    assert choose_levels(nodes).keys == (ZONE, LAYER + "1", RACK, HOSTNAME)


def test_levels_with_equally_many_domains_keep_the_order_of_their_family() -> None:
    assert choose_levels([node("a", one="x", two="p")]).keys == (LAYER + "1", LAYER + "2", HOSTNAME)


def test_a_domain_in_two_wider_ones_is_named_with_its_nodes() -> None:
    nodes = [node("a", zone="z1", rack="r1"), node("b", zone="z1", rack="r1"), node("c", zone="z2", rack="r1")]
    nodes += [node("d", zone="z2", rack="r2"), node("e", zone="z2", rack="r3")]
    (found,) = choose_levels(nodes).contradictions
    assert str(found) == f"{RACK}=r1 is in 2 domains of {ZONE} (z1: a, b; z2: c)"


def test_a_rack_that_nests_is_no_contradiction() -> None:
    nodes = [node("a", zone="z1", rack="r1"), node("b", zone="z2", rack="r2"), node("c", zone="z2", rack="r3")]
    assert choose_levels(nodes).contradictions == ()


def test_nodes_without_a_label_that_others_have_are_named() -> None:
    found = choose_levels([node("a", rack="r1"), node("c"), node("b")])
    assert found.unlabelled == ((RACK, ("b", "c")),)


def test_a_rack_name_that_every_zone_uses_does_not_make_racks_wider_than_zones() -> None:
    """SCH-E19: as bare values there are fewer racks than zones."""
    found = choose_levels([node("a", zone="z1", rack="r1"), node("b", zone="z2", rack="r1")])
    assert found.keys == (ZONE, RACK, HOSTNAME)
    assert found.contradictions == ()
    assert [str(one) for one in found.reused] == [
        f"1 of 1 values of {RACK} are in several domains of {ZONE}; each is a domain of its own"
    ]


def test_a_family_on_a_few_nodes_is_compared_on_these_nodes_alone() -> None:
    """There are more zones than leaves, but all leaves are in one zone."""
    nodes = [node(f"cpu-{i}", zone=f"z{i}") for i in range(5)]
    nodes += [node(f"gpu-{i}", zone="z0", leaf=f"l{i % 2}") for i in range(4)]
    found = choose_levels(nodes)
    assert found.keys == (ZONE, NVIDIA + "leaf", HOSTNAME)
    assert found.contradictions == ()


def test_a_node_without_the_wider_label_of_its_rack_is_named() -> None:
    (found,) = choose_levels([node("a", zone="z1", rack="r1"), node("b", rack="r1")]).contradictions
    assert str(found) == f"{RACK}=r1 is in 2 domains of {ZONE} (none: b; z1: a)"


def test_a_configured_order_holds_and_its_reversal_is_reported() -> None:
    nodes = [node(f"n{i}", block=f"b{i // 4}", one=f"x{i // 2}") for i in range(8)]
    assert choose_levels(nodes, (BLOCK, LAYER + "1", HOSTNAME)).contradictions == ()
    found = choose_levels(nodes, (LAYER + "1", BLOCK, HOSTNAME))
    assert found.keys == (LAYER + "1", BLOCK, HOSTNAME)
    assert found.source == CONFIGURED
    assert found.contradictions == (Reversal(BLOCK, LAYER + "1", f"{BLOCK}=b0 has {LAYER}1=x0, x1", ("n0", "n2")),)
    assert str(found.contradictions[0]) == (
        f"{LAYER}1 is listed as wider than {BLOCK}, but nodes have it inside ({BLOCK}=b0 has {LAYER}1=x0, x1)"
    )


def test_topology_objects_come_before_labels_and_are_merged() -> None:
    nodes = [node(f"n{i}", zone="z", block=f"b{i // 4}", rack=f"r{i // 2}", leaf=f"l{i // 2}") for i in range(8)]
    objects = [
        TopologyObject("Topology/a", (BLOCK, RACK, HOSTNAME)),
        TopologyObject("Topology/b", (BLOCK, NVIDIA + "leaf")),
    ]
    found = choose_levels(nodes, None, objects)
    assert found.keys == (BLOCK, RACK, NVIDIA + "leaf", HOSTNAME)
    assert found.source == "Topology/a, Topology/b"
    assert choose_levels(nodes).source == NODE_LABELS


def test_topology_objects_that_contradict_each_other_follow_the_first() -> None:
    objects = [TopologyObject("Topology/a", (BLOCK, RACK)), TopologyObject("Topology/b", (RACK, BLOCK))]
    assert choose_levels([], None, objects).keys == (BLOCK, RACK, HOSTNAME)


def test_the_order_does_not_depend_on_the_order_of_nodes() -> None:
    nodes = [node(f"n{i}", zone=f"z{i // 4}", one=f"x{i // 4}", rack=f"r{i % 3}") for i in range(8)]
    assert choose_levels(nodes).keys == choose_levels(nodes[::-1]).keys == (ZONE, LAYER + "1", RACK, HOSTNAME)


def test_configured_levels_are_completed_by_the_host() -> None:
    assert read_levels(f"{REGION}, {RACK}") == (REGION, RACK, HOSTNAME)
    assert read_levels(f"{RACK},{HOSTNAME}") == (RACK, HOSTNAME)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "level 1: must not be empty"),
        (f"{ZONE},,{RACK}", "level 2: must not be empty"),
        (f"{ZONE},{ZONE}", f"{ZONE}: is listed twice"),
        (f"{HOSTNAME},{RACK}", f"{HOSTNAME}: is the narrowest level, list it last or leave it out"),
        ("not a key", "not a key: name part must consist of"),
    ],
)
def test_levels_that_cannot_be_are_refused(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match="^" + wrong.replace(".", r"\.")):
        read_levels(text)
