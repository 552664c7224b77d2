"""A cluster with more nodes, for a trial: what is tried there is not seen in the view it was made from."""

from __future__ import annotations

import pytest

from echelon.engine import ClusterView, Node, Taint, Unit
from echelon.engine.cluster.node_table import NodeTable
from echelon.testing.placement import LEVELS, ClusterBuilder, amounts, exclusive, gpu_racks, shape


def more(view: ClusterView, *names: str, rack: str = "r1") -> ClusterView:
    """Nodes with a label, a taint and a resource that no other node has."""
    labels = {LEVELS["block"]: "b1", LEVELS["rack"]: rack, "pool": "fresh"}
    have = {**dict(amounts(gpu=8, pods=110)), "example.com/new": 1}
    return view.enlarged(
        [Node(name, {**labels, LEVELS["host"]: name}, have, (Taint("new", "", "NoSchedule"),)) for name in names]
    )


def test_more_nodes_are_where_they_belong_and_the_others_are_as_they_were() -> None:
    view = gpu_racks(2, 2).view
    assert more(view, "r1-9", "r1-0a").node_names() == ["r1-0", "r1-0a", "r1-1", "r1-9", "r2-0", "r2-1"]
    assert view.node_names() == ["r1-0", "r1-1", "r2-0", "r2-1"]


def test_nothing_that_is_tried_with_more_nodes_is_seen_without_them() -> None:
    cluster = gpu_racks(2, 2)
    cluster.run("r2-0", gpu=3)
    view, asked = cluster.view, shape(gpu=1, tolerations=())
    view.node_table.column("pool")
    before, epoch = view.fingerprint(), view.node_table.epoch
    slots, known = view.slot_cache.slots(asked).rows.tolist(), dict(view.node_table.resources)
    trial = more(view, "r1-9")
    trial.node_table.replace(Node("r1-9", trial.node_table.nodes[2].labels, {}), {})
    trial.node_table.charge(trial.node_table.row("r2-0") or 0, asked.requests, 1)
    assert trial.slot_cache.slots(asked).rows.tolist() == [8, 8, 0, 4, 8]
    assert (view.fingerprint(), view.node_table.epoch, view.node_table.resources) == (before, epoch, known)
    assert view.slot_cache.slots(asked).rows.tolist() == slots == [8, 8, 5, 8]
    assert view.node_table.column("pool").values == {}
    assert [view.node_table.row(name) for name in (*view.node_names(), "r1-9")] == [0, 1, 2, 3, None]


def test_holders_of_domains_hold_them_with_more_nodes_too() -> None:
    cluster, alone = gpu_racks(1, 1), exclusive("rack")
    cluster.run("r2-0", group=7, exclusive=alone)
    view = cluster.view
    assert view.node_table.size == 2
    assert list(view.exclusivity.holders(alone)) == [1]
    assert list(more(view, "n", rack="r1a").exclusivity.holders(alone)) == [2]
    assert list(view.exclusivity.holders(alone)) == [1]


@pytest.mark.parametrize("batch", [["b", "c"], ["a", "z"], ["a", "c", "m", "z"]], ids=["one spot", "ends", "all over"])
def test_rows_come_in_order_wherever_they_are_inserted(batch: list[str]) -> None:
    cluster = ClusterBuilder().node("b1", cpu=1).node("n", cpu=2)
    for name in batch:
        cluster.node(name, cpu=3)
    names = sorted([*batch, "b1", "n"])
    assert cluster.view.node_names() == names
    sizes = {"b1": 1000, "n": 2000}
    table = cluster.view.node_table
    assert table.free[table.resources["cpu"]].tolist() == [sizes.get(name, 3000) for name in names]


@pytest.fixture(params=[True, False], ids=["zones", "no zones"])
def racks(request: pytest.FixtureRequest) -> NodeTable:
    cluster = ClusterBuilder()
    for block in ("b1", "b2"):
        for rack in ("r1", "r2"):
            cluster.node(f"{block}-{rack}", rack=rack, block=block, **({"zone": "z"} if request.param else {}))
    return cluster.view.node_table


def test_every_domain_is_found_by_its_path(racks: NodeTable) -> None:
    for level in range(-1, len(racks.levels)):
        for index in range(len(racks.starts(level))):
            assert racks.domain_called(level, racks.domain_path(level, index)) == index
    assert racks.domain_called(racks.level_of[LEVELS["rack"]], ("z", "b9", "r1")) is None
    assert racks.domain_called(racks.level_of[LEVELS["rack"]], ("b2", "r9")) is None


def test_a_domain_is_found_by_its_path_where_some_nodes_lack_labels() -> None:
    table = (
        ClusterBuilder()
        .node("a", zone="x", rack="r")
        .node("b", block="x", rack="r")
        .node("c", zone="x", block="y", rack="r")
        .view.node_table
    )
    level = table.level_of[LEVELS["rack"]]
    assert [table.domain_path(level, index) for index in range(3)] == [("x", "r"), ("x", "r"), ("x", "y", "r")]
    assert [table.domain_called(level, path) for path in (("x", "r"), ("x", "y", "r"), ("y", "r"))] == [0, 2, None]


def test_units_are_found_by_the_priority_they_have_last() -> None:
    view = ClusterBuilder().view
    for unit in (Unit(1, 5), Unit(2, 3), Unit(3, 9), Unit(1, 4), Unit(3, 2), Unit(3, 9)):
        view.put_unit(unit)
    view.remove_unit(2)
    assert [unit.id for unit in view.units_below(9)] == [1]
    assert [unit.id for unit in view.units_below(10)] == [1, 3]
    assert view.units_below(4) == []
