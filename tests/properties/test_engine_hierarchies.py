"""The engine against brute force on tight hierarchies: up to 4 levels of groups, 12 nodes and 10 pods."""

from __future__ import annotations

import pytest
from hierarchies import Instance, examples, instances
from hypothesis import given
from oracle import feasible, least_loss

from echelon.engine.check import problems
from echelon.engine.cycle import decide
from echelon.engine.verdict import Blocked, Evict, Placed
from echelon.testing.placement import NOW

pytestmark = pytest.mark.timeout(3600)


@examples(700)
@given(instances())
def test_a_hierarchy_is_placed_exactly_when_brute_force_places_it(instance: Instance) -> None:
    view, demand = instance.cluster.view, instance.demand
    verdict = decide(view, demand, NOW)
    assert problems(view, demand, verdict, NOW) == []
    if feasible(view, demand):
        assert isinstance(verdict, Placed), verdict
    else:
        assert isinstance(verdict, Blocked), verdict
        assert verdict.proved, "within these sizes the budget suffices"


@examples(300)
@given(instances(victims=True, max_nodes=8, max_pods=8))
def test_a_hierarchy_evicts_what_brute_force_finds_to_lose_least(instance: Instance) -> None:
    view, demand = instance.cluster.view, instance.demand
    verdict = decide(view, demand, NOW)
    assert problems(view, demand, verdict, NOW) == []
    if feasible(view, demand):
        assert isinstance(verdict, Placed), verdict
        return
    least = least_loss(view, demand, NOW)
    if least is None:
        assert isinstance(verdict, Blocked), verdict
    else:
        assert isinstance(verdict, Evict), verdict
        loss = verdict.loss
        found = (loss.budget_violations, loss.highest_priority, loss.work, loss.units, loss.ids)
        assert found == least
