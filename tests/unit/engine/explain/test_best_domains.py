"""Which domains an explanation tells first, and where remedies are looked for."""

from __future__ import annotations

import pytest

from echelon.engine import Blocked
from echelon.testing.placement import ClusterBuilder, gang, pods


def full_racks(cluster: ClusterBuilder) -> ClusterBuilder:
    for rack in ("b", "c"):
        for number in range(2):
            cluster.node(f"{rack}{number}", gpu=8, rack=rack)
            cluster.run(f"{rack}{number}", gpu=8, priority=1000)
    return cluster


@pytest.mark.parametrize("taken", [False, True])
def test_a_rack_that_could_never_help_is_told_last(taken: bool) -> None:
    """Rack a has no devices at all; the others have, and are full."""
    cluster = full_racks(ClusterBuilder().nodes("a", 2, cpu=64, rack="a"))
    if taken:
        cluster.run("a-0", cpu=64)
    verdict = cluster.decide(gang(2, pods(2, gpu=8), key="rack"))
    assert isinstance(verdict, Blocked)
    assert [count.domain for count in verdict.shortages[0].tried] == [("b",), ("c",), ("a",)]
    assert {fix.kind for fix in verdict.fixes} >= {"add", "free"}


def test_where_the_best_rack_is_past_help_the_next_one_is_mended() -> None:
    """Rack a has room for one of two pods and no other node that could take one; rack b can be emptied."""
    cluster = full_racks(ClusterBuilder().node("a0", gpu=8, rack="a").node("a1", gpu=4, rack="a"))
    cluster.run("a1", gpu=4, priority=1000)
    verdict = cluster.decide(gang(2, pods(2, gpu=8), key="rack"))
    assert isinstance(verdict, Blocked)
    assert verdict.shortages[0].tried[0].domain == ("a",)
    assert [fix.domain for fix in verdict.fixes if fix.kind == "free"] == [("b",)]
