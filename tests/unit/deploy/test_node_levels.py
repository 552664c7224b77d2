"""Levels as nodes carry them, in the order in which they nest."""

from __future__ import annotations

from echelon.api.objects.vocabulary import HOSTNAME, RACK, ZONE
from echelon.deploy.node_levels import LabelledNode, find_levels

LAYER = "topology.k8s.aws/network-node-layer-"
NVIDIA = "network.topology.nvidia.com/"


def node(name: str, **labels: str) -> LabelledNode:
    keys = {"zone": ZONE, "rack": RACK, "one": LAYER + "1", "two": LAYER + "2", "leaf": NVIDIA + "leaf"}
    keys |= {"spine": NVIDIA + "spine"}
    return LabelledNode(name, {keys[key]: value for key, value in labels.items()})


def test_without_labels_the_host_is_the_only_level() -> None:
    assert find_levels([node("a"), node("b")]).keys == (HOSTNAME,)
    assert find_levels([]).keys == (HOSTNAME,)


def test_levels_of_one_family_come_from_wide_to_narrow() -> None:
    nodes = [node("a", spine="s1", leaf="l1"), node("b", spine="s1", leaf="l2"), node("c", spine="s2", leaf="l3")]
    assert find_levels(nodes).keys == (NVIDIA + "spine", NVIDIA + "leaf", HOSTNAME)


def test_families_are_ordered_by_how_many_domains_they_have() -> None:
    nodes = [node(f"n{i}", zone="z", one="x" if i < 4 else "y", rack=f"r{i // 2}") for i in range(8)]
    assert find_levels(nodes).keys == (ZONE, LAYER + "1", RACK, HOSTNAME)


def test_levels_with_equally_many_domains_keep_the_order_of_their_family() -> None:
    assert find_levels([node("a", one="x", two="p")]).keys == (LAYER + "1", LAYER + "2", HOSTNAME)


def test_a_domain_in_two_wider_ones_is_named_with_its_nodes() -> None:
    nodes = [node("a", zone="z1", rack="r1"), node("b", zone="z1", rack="r1"), node("c", zone="z2", rack="r1")]
    nodes += [node("d", zone="z2", rack="r2"), node("e", zone="z2", rack="r3")]
    (found,) = find_levels(nodes).contradictions
    assert str(found) == f"{RACK}=r1 is in 2 domains of {ZONE} (z1: a, b; z2: c)"


def test_a_rack_that_nests_is_no_contradiction() -> None:
    nodes = [node("a", zone="z1", rack="r1"), node("b", zone="z2", rack="r2"), node("c", zone="z2", rack="r3")]
    assert find_levels(nodes).contradictions == ()


def test_nodes_without_a_label_that_others_have_are_named() -> None:
    found = find_levels([node("a", rack="r1"), node("c"), node("b")])
    assert found.unlabelled == ((RACK, ("b", "c")),)
