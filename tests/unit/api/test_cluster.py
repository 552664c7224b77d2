"""Cluster files: what they describe, and how their mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.api.cluster.pools import BadCluster, default_cluster, nodes, parse
from echelon.api.objects import meta

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "clusters").glob("*.yaml"))

FILE = """\
levels:
  - {name: block, key: topology.kubernetes.io/block}
  - {name: rack, key: topology.kubernetes.io/rack}
pools:
  - name: gpu
    counts:
      rack: 2
      block: 2
      node: 3
    capacity: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}
    labels: {tier: fast}
    taints:
      - {key: example.com/gpu, effect: NoSchedule}
"""


def test_nodes_are_named_and_labelled_by_where_they_are() -> None:
    made = nodes(parse(FILE, "cluster.yaml"))
    assert len(made) == parse(FILE, "cluster.yaml").size == 12
    node = made[8]
    assert meta.name(node) == "gpu-b1-r0-n2"
    assert meta.labels(node) == {
        "topology.kubernetes.io/block": "gpu-b1",
        "topology.kubernetes.io/rack": "gpu-b1-r0",
        "kubernetes.io/hostname": "gpu-b1-r0-n2",
        "tier": "fast",
    }
    assert node["spec"]["taints"] == [{"key": "example.com/gpu", "effect": "NoSchedule"}]
    assert node["status"]["allocatable"] == {"pods": "110", "cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"}


def test_the_packaged_cluster_has_two_blocks_of_three_racks_of_four_nodes() -> None:
    made = nodes(default_cluster())
    assert len(made) == 24
    assert len({meta.labels(node)["topology.kubernetes.io/rack"] for node in made}) == 6
    assert all(node["status"]["capacity"]["nvidia.com/gpu"] == "8" for node in made)


def test_levels_that_begin_alike_get_longer_names() -> None:
    text = "pools: [{name: p, counts: {region: 1, rack: 1, node: 1}, capacity: {cpu: 1}}]"
    assert meta.name(nodes(parse(text, "x"))[0]) == "p-re0-ra0-n0"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_read_well_and_their_nodes_have_distinct_names(path: Path) -> None:
    cluster = parse(path.read_text(), path.name)
    assert len({meta.name(node) for node in nodes(cluster)}) == cluster.size > 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rack: 2", "racks: 2", "cluster.yaml:7: pools[0].counts: unknown key 'racks', did you mean 'rack'?"),
        ("pools:", "polls:", "cluster.yaml:4: unknown key 'polls', did you mean 'pools'?"),
        ("node: 3", "node: 0", "cluster.yaml:9: pools[0].counts.node: '0' must be an integer greater than 0"),
        ("      node: 3\n", "", "cluster.yaml:7: pools[0].counts: missing key 'node'"),
        ("      block: 2\n", "      rack: 2\n", "cluster.yaml:8: pools[0].counts: duplicate key 'rack'"),
        ("- name: gpu", "- name: GPU", "cluster.yaml:5: pools[0].name: a lowercase RFC 1123 label must consist of"),
        ("NoSchedule", "Never", "cluster.yaml:13: pools[0].taints[0].effect: must be one of NoSchedule,"),
        ("1Ti", "1Tb", "cluster.yaml:10: pools[0].capacity.memory: '1Tb' is not a quantity"),
        ("{tier: fast}", "[]", "cluster.yaml:11: pools[0].labels: must be a mapping of keys to values"),
        (
            "key: topology.kubernetes.io/rack",
            "key: kubernetes.io/hostname",
            "cluster.yaml:3: levels[1]: must not be declared",
        ),
        ("levels:", "levels: [", "cluster.yaml:2: not YAML:"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_key(old: str, new: str, message: str) -> None:
    with pytest.raises(BadCluster) as caught:
        parse(FILE.replace(old, new, 1), "cluster.yaml")
    assert str(caught.value).startswith(message)


def test_an_empty_file_says_what_it_needs() -> None:
    with pytest.raises(BadCluster, match="empty file"):
        parse("# nothing\n", "cluster.yaml")
