"""`echelon topology`: domains, what is free in them, and what is said about labels."""

from __future__ import annotations

import pytest

from echelon.api.cluster.topology_levels import LabelledNode, Levels, choose_levels
from echelon.api.objects.vocabulary import HOSTNAME, RACK, ZONE
from echelon.api.scheme import Object
from echelon.cli.showing import show_topology
from echelon.cli.showing.domains import DomainEntry, amounts_of, domains_of
from echelon.testing.builders import GPU, make_node, make_pod


def cluster(nodes: list[Object], pods: list[Object], *, common: bool = False, single: bool = False) -> DomainEntry:
    amounts = amounts_of(nodes, pods, common=common)
    return domains_of(amounts, levels_of(nodes), with_nodes=single)


def levels_of(nodes: list[Object]) -> Levels:
    return choose_levels([LabelledNode(node["metadata"]["name"], node["metadata"]["labels"]) for node in nodes])


def lines(entry: DomainEntry, depth: int = 0) -> list[str]:
    return ["  " * depth + show_topology._label(entry).plain] + [
        line for child in entry.children for line in lines(child, depth + 1)
    ]


NODES = [make_node(f"n{n}", gpu=8, cpu=16, zone=f"z{n // 4}", rack=f"r{n // 2}") for n in range(8)]


def test_domains_add_up_what_is_free() -> None:
    ended = make_pod("c", gpu=8, node="n0") | {"status": {"phase": "Succeeded"}}
    pods = [make_pod("a", gpu=4, node="n0"), make_pod("b", gpu=8, node="n5"), ended, make_pod("waits", gpu=8)]
    assert lines(cluster(NODES, pods)) == [
        "cluster  8 nodes  nvidia.com/gpu 52 of 64 free",
        "  zone=z0  4 nodes  nvidia.com/gpu 28 of 32 free",
        "    rack=r0  2 nodes  nvidia.com/gpu 12 of 16 free",
        "    rack=r1  2 nodes  nvidia.com/gpu 16 of 16 free",
        "  zone=z1  4 nodes  nvidia.com/gpu 24 of 32 free",
        "    rack=r2  2 nodes  nvidia.com/gpu 8 of 16 free",
        "    rack=r3  2 nodes  nvidia.com/gpu 16 of 16 free",
    ]


def test_nothing_is_free_on_nodes_that_take_no_pods() -> None:
    lost = make_node("lost", gpu=8)
    lost["status"]["conditions"][0]["status"] = "Unknown"
    shown = lines(cluster([make_node("a", gpu=8), make_node("b", gpu=8, unschedulable=True), lost], []))
    assert shown == [
        "cluster  3 nodes  2 unavailable  nvidia.com/gpu 8 of 24 free",
        "  a  nvidia.com/gpu 8 of 8 free",
        "  b  unavailable  nvidia.com/gpu 0 of 8 free",
        "  lost  unavailable  nvidia.com/gpu 0 of 8 free",
    ]


def test_a_node_with_more_pods_than_room_has_nothing_free() -> None:
    pods = [make_pod(name, gpu=8, node="n0") for name in ("a", "b")]
    assert cluster(NODES, pods).free == {GPU: 56}


def test_cpu_and_memory_come_on_demand_with_single_nodes() -> None:
    shown = lines(
        cluster(
            [make_node("n", cpu=4, memory="8Gi", rack="r")],
            [make_pod("p", cpu="500m", node="n")],
            common=True,
            single=True,
        )
    )
    amounts = "cpu 3500m of 4 free  memory 8Gi of 8Gi free"
    assert shown == [f"cluster  1 node  {amounts}", f"  rack=r  1 node  {amounts}", f"    n  {amounts}"]


def test_nodes_without_a_label_stand_last_and_keep_their_narrower_domains() -> None:
    nodes = [make_node("a", zone="z", rack="r1"), make_node("b", rack="r2"), make_node("c", zone="z")]
    assert [line.split("  c")[0] for line in lines(cluster(nodes, []))] == [
        "cluster  3 nodes",
        "  zone=z  2 nodes",
        "    rack=r1  1 node",
        "    no rack  1 node",
        "  no zone  1 node",
        "    rack=r2  1 node",
    ]


def test_json_has_levels_amounts_and_what_is_odd() -> None:
    nodes = [*NODES, make_node("odd", zone="z1", rack="r0", gpu=8), make_node("bare")]
    levels = levels_of(nodes)
    data = show_topology._as_data(cluster(nodes, []), levels)
    assert (data["levels"], data["source"]) == ([ZONE, RACK, HOSTNAME], "node labels")
    assert data["cluster"]["free"] == {GPU: "72"}
    first = data["cluster"]["children"][0]
    assert (first["key"], first["name"], first["nodes"], first["total"]) == (ZONE, "z0", 4, {GPU: "32"})
    (contradiction,) = data["contradictions"]
    assert (contradiction["key"], contradiction["wider"], contradiction["nodes"]) == (RACK, ZONE, ["odd"])
    assert data["unlabelled"] == {ZONE: ["bare"], RACK: ["bare"]}


def test_text_names_what_is_odd(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [*NODES, make_node("odd", zone="z1", rack="r0"), make_node("bare")]
    show_topology._draw(cluster(nodes, []), levels_of(nodes))
    text = capsys.readouterr().out
    assert text.startswith(f"levels: {ZONE} > {RACK} > {HOSTNAME}  (node labels)\ncluster  10 nodes")
    assert f"contradiction: {RACK}=r0 is in 2 domains of {ZONE} (z0: n0, n1; z1: odd)\n" in text
    assert f"note: 1 node lacks {RACK}: bare\n" in text
