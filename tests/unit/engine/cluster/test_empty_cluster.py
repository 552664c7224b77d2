"""A cluster that has no nodes yet."""

from __future__ import annotations

from echelon.engine import (
    Blocked,
    ClusterView,
    Composite,
    Demand,
    Leaf,
    PodClass,
    Shape,
    decide,
    for_group,
    sentence,
)


def test_everything_is_proved_blocked_and_every_group_has_its_reason() -> None:
    leaf = Leaf(2, 2, (PodClass(Shape((("cpu", 1000), ("pods", 1))), (10, 11)),), topology="rack")
    verdict = decide(ClusterView(("rack",)), Demand(Composite(1, 1, (leaf,))), 0.0)
    assert isinstance(verdict, Blocked)
    assert verdict.proved
    assert "room for none" in sentence(verdict, {})
    assert "room for none" in for_group(verdict, 1, {})
