"""The judge stands at every door from the scheduler to the engine, and reports a false answer at each of them."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from echelon.engine import Demand, Evict, Loss, Placed, decide
from echelon.scheduler.acting import deciding, reservation
from echelon.testing.placement import NOW, ClusterBuilder, gang, pods
from tests.judging import DECIDE_DOORS, SOONEST_DOORS, Judge


def question() -> tuple[Any, Demand, Placed]:
    """A view, a demand, and a placement on a node that is too small."""
    cluster = ClusterBuilder().node("large", cpu=4).node("small", cpu=1)
    demand = Demand(gang(1, pods(1, cpu=4)))
    placed = decide(cluster.view, demand, NOW)
    assert isinstance(placed, Placed)
    return cluster.view, demand, replace(placed, assignment=dict.fromkeys(placed.assignment, "small"))


def test_decisions_and_reservations_are_doors() -> None:
    assert {module for module, _ in DECIDE_DOORS} == {deciding, reservation}
    assert [module for module, _ in SOONEST_DOORS] == [reservation]


@pytest.mark.parametrize(("module", "name"), DECIDE_DOORS, ids=lambda value: getattr(value, "__name__", value))
def test_a_false_verdict_is_reported_at_every_door(module: ModuleType, name: str) -> None:
    view, demand, false = question()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, lambda *_: false)
        second = Judge()
        second.install(patch)
        getattr(module, name)(view, demand, NOW)
    assert second.wrong


@pytest.mark.parametrize(("module", "name"), SOONEST_DOORS, ids=lambda value: getattr(value, "__name__", value))
def test_a_false_reservation_is_reported(module: ModuleType, name: str) -> None:
    view, demand, false = question()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, lambda *_: Evict((), Loss(0, 0, 0, 0), false))
        second = Judge()
        second.install(patch)
        getattr(module, name)(view, demand, (), None)
    assert second.wrong
