"""A Node as the engine sees it."""

from __future__ import annotations

from echelon.api.views.cluster_views import NodeView
from echelon.engine import Taint
from echelon.scheduler.intake.object_facts import node_of
from echelon.testing.builders import make_node


def test_taints_are_read_one_by_one() -> None:
    node = make_node("n")
    node["spec"]["taints"] = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "c", "effect": "NoExecute"}]
    assert node_of(NodeView(node)).taints == (Taint("a", "", "NoSchedule"), Taint("b", "c", "NoExecute"))


def test_a_node_with_thousands_of_taints_takes_only_pods_that_tolerate_everything() -> None:
    node = make_node("n")
    node["spec"]["taints"] = [{"key": f"t{index}", "effect": "PreferNoSchedule"} for index in range(2_000)]
    assert node_of(NodeView(node)).taints == (Taint("2000 taints", "", "NoSchedule"),)


def test_of_thousands_of_resources_the_native_ones_count() -> None:
    node = make_node("n")
    node["status"]["allocatable"] = {f"a.example/{index:05}": "1" for index in range(2_000)} | {"cpu": "4", "pods": "9"}
    seen = node_of(NodeView(node)).allocatable
    assert (seen["cpu"], seen["pods"], len(seen)) == (4000, 9, 1_000)
    assert list(seen) == sorted(seen)
