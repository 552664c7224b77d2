"""Cluster files: what they describe, and how their mistakes are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from echelon.api.cluster.device_slices import device_classes, slices
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
        (
            "node: 3",
            "node: [3, 3, 1]",
            "cluster.yaml:9: pools[0].counts.node: has 3 counts, must have one for each of 4 r",
        ),
        (
            "block: 2",
            "block: [2, 2]",
            "cluster.yaml:8: pools[0].counts.block: has 2 counts, must have one for each of 1 p",
        ),
        ("rack: 2", "rack: [2, 0]", "cluster.yaml:7: pools[0].counts.rack[1]: '0' must be an integer greater than 0"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_key(old: str, new: str, message: str) -> None:
    with pytest.raises(BadCluster) as caught:
        parse(FILE.replace(old, new, 1), "cluster.yaml")
    assert str(caught.value).startswith(message)


def test_an_empty_file_says_what_it_needs() -> None:
    with pytest.raises(BadCluster, match="empty file"):
        parse("# nothing\n", "cluster.yaml")


def test_racks_may_have_different_numbers_of_nodes() -> None:
    text = FILE.replace("rack: 2", "rack: [2, 1]").replace("node: 3", "node: [3, 1, 2]")
    cluster = parse(text, "cluster.yaml")
    made = [meta.name(node) for node in nodes(cluster)]
    assert made == [
        "gpu-b0-r0-n0", "gpu-b0-r0-n1", "gpu-b0-r0-n2", "gpu-b0-r1-n0", "gpu-b1-r0-n0", "gpu-b1-r0-n1",
    ]  # fmt: skip
    assert cluster.size == 6


SINGLE = """\
nodes:
  - name: login.example
    at: {block: gpu-b0, rack: gpu-b0-r0}
    capacity: {cpu: 8}
    labels: {tier: slow}
    taints: [{key: example.com/login, effect: NoSchedule}]
  - {name: spare, capacity: {cpu: 1}}
"""


def test_single_nodes_stand_beside_pools_or_alone() -> None:
    cluster = parse(FILE + SINGLE, "cluster.yaml")
    *_, login, spare = nodes(cluster)
    assert cluster.size == len(nodes(cluster)) == 14
    assert meta.labels(login) == {
        "kubernetes.io/hostname": "login.example",
        "topology.kubernetes.io/block": "gpu-b0",
        "topology.kubernetes.io/rack": "gpu-b0-r0",
        "tier": "slow",
    }
    assert login["spec"]["taints"] == [{"key": "example.com/login", "effect": "NoSchedule"}]
    assert spare["status"]["allocatable"] == {"pods": "110", "cpu": "1"}
    assert parse(SINGLE, "cluster.yaml").size == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rack: gpu-b0-r0", "rak: x", "cluster.yaml:16: nodes[0].at: unknown key 'rak', did you mean 'rack'?"),
        ("spare", "gpu-b0-r0-n0", "cluster.yaml:20: nodes[1].name: duplicate node name 'gpu-b0-r0-n0'"),
        ("name: spare, ", "", "cluster.yaml:20: nodes[1]: missing key 'name'"),
    ],
)
def test_a_mistake_in_a_single_node_is_told_with_its_line_and_key(old: str, new: str, message: str) -> None:
    with pytest.raises(BadCluster) as caught:
        parse(FILE + SINGLE.replace(old, new, 1), "cluster.yaml")
    assert str(caught.value).startswith(message)


#: Shortened from what kubectl prints.
NODES = """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    annotations: {node.alpha.kubernetes.io/ttl: "0"}
    creationTimestamp: "2026-01-01T00:00:00Z"
    labels: {kubernetes.io/hostname: a, topology.kubernetes.io/zone: z1, topology.kubernetes.io/rack: r7}
    name: a.example
    resourceVersion: "12"
    uid: 11111111-2222-3333-4444-555555555555
  spec:
    podCIDR: 10.0.0.0/24
    providerID: cloud://a
    taints:
    - {effect: NoSchedule, key: nvidia.com/gpu, value: present}
    - {effect: NoExecute, key: node.kubernetes.io/unreachable, timeAdded: "2026-01-01T00:00:00Z"}
  status:
    allocatable: {cpu: 95500m, memory: 1000Gi, nvidia.com/gpu: "8", pods: "250"}
    capacity: {cpu: "96", memory: 1Ti, nvidia.com/gpu: "8", pods: "250"}
    conditions: [{type: Ready, status: Unknown}]
- apiVersion: v1
  kind: Node
  metadata: {name: b}
  spec: {unschedulable: true, taints: [{effect: NoSchedule, key: node.kubernetes.io/unschedulable}]}
  status: {capacity: {cpu: "4"}}
kind: List
metadata: {resourceVersion: ""}
"""


def test_nodes_as_kubectl_prints_them_are_simulated() -> None:
    cluster = parse(NODES, "nodes.yaml")
    a, b = nodes(cluster)
    assert [level.name for level in cluster.levels] == ["zone", "rack"]
    assert a["metadata"] == {
        "name": "a.example",
        "labels": {
            "kubernetes.io/hostname": "a",
            "topology.kubernetes.io/zone": "z1",
            "topology.kubernetes.io/rack": "r7",
        },
    }
    assert a["spec"] == {"taints": [{"effect": "NoSchedule", "key": "nvidia.com/gpu", "value": "present"}]}
    assert a["status"]["allocatable"]["cpu"] == "95500m"
    assert a["status"]["capacity"]["cpu"] == "96"
    assert "conditions" not in a["status"]
    assert b["spec"]["unschedulable"] is True
    assert b["status"]["allocatable"] == {"cpu": "4"}
    assert nodes(parse(json.dumps(yaml.safe_load(NODES), indent=4), "nodes.json")) == [a, b]
    documents = "---\n".join(yaml.safe_dump(node) for node in yaml.safe_load(NODES)["items"])
    assert nodes(parse(documents, "nodes.yaml")) == [a, b]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: Node\n  metadata: {name: b}", "kind: Pod", "nodes.yaml:22: expected Node objects, found Pod"),
        ("name: b}", "name: a.example}", "nodes.yaml:22: duplicate node 'a.example'"),
        ("name: b}", "name: B}", "nodes.yaml:22: metadata.name: a lowercase RFC 1123 subdomain"),
        ('{cpu: "4"}', "{cpu: four}", "nodes.yaml:22: status.capacity.cpu: 'four' is not a quantity"),
        ('{cpu: "4"}', "[]", "nodes.yaml:22: status.capacity: must be a mapping"),
        ("kind: List", "kind: [", "nodes.yaml:"),
    ],
)
def test_a_mistake_in_a_list_of_nodes_is_told_with_its_line(old: str, new: str, message: str) -> None:
    with pytest.raises(BadCluster) as caught:
        parse(NODES.replace(old, new, 1), "nodes.yaml")
    assert str(caught.value).startswith(message)


def test_a_list_without_nodes_is_refused() -> None:
    with pytest.raises(BadCluster, match=r"nodes\.yaml: contains no nodes"):
        parse("apiVersion: v1\nkind: List\nitems: []\n", "nodes.yaml")


DEVICES = """\
pools:
  - name: gpu
    counts: {node: 2}
    capacity: {cpu: 96}
    devices:
      - {driver: gpu.example.org, class: gpu, count: 3, attributes: {model: large, memory: 80, fast: true}}
"""


def test_devices_of_a_pool_are_offered_by_each_of_its_nodes() -> None:
    cluster = parse(DEVICES, "cluster.yaml")
    made = list(slices(cluster))
    assert [one["spec"]["nodeName"] for one in made] == ["gpu-n0", "gpu-n1"]
    attributes = {"model": {"string": "large"}, "memory": {"int": 80}, "fast": {"bool": True}}
    assert made[0]["spec"]["devices"][2] == {"name": "device-2", "attributes": attributes}
    (made_class,) = device_classes(cluster)
    assert meta.name(made_class) == "gpu"
    assert "gpu.example.org" in made_class["spec"]["selectors"][0]["cel"]["expression"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("{driver: gpu.example.org}", "cluster.yaml:6: pools[0].devices[0]: missing key 'count'"),
        ("{driver: UP, count: 1}", "cluster.yaml:6: pools[0].devices[0].driver:"),
        ("{driver: a, count: 200}", "cluster.yaml:6: pools[0].devices[0].count: must not be more than 128"),
        ("{driver: a, count: 1, model: x}", "cluster.yaml:6: pools[0].devices[0]: unknown key 'model'"),
    ],
)
def test_mistakes_in_devices_are_told(wrong: str, told: str) -> None:
    lines = DEVICES.splitlines()
    text = "\n".join([*lines[:5], f"      - {wrong}"])
    with pytest.raises(BadCluster) as failed:
        parse(text, "cluster.yaml")
    assert told in str(failed.value)
