"""The engine against brute force on small instances: same feasibility and objective, and every verdict checks out."""

from __future__ import annotations

from hypothesis import given

from echelon.engine import Blocked, Demand, Placed, problems
from echelon.testing.placement import NOW, ClusterBuilder
from tests.properties.best_objective import optimum
from tests.properties.brute_force import feasible
from tests.properties.hierarchies import examples
from tests.properties.least_loss import loses_least
from tests.properties.reached import Reached, reaches
from tests.properties.small_instances import contested, instances


def agrees(reached: Reached, cluster: ClusterBuilder, demand: Demand) -> None:
    before = cluster.view.fingerprint()
    verdict = cluster.decide(demand.root, demand.priority, may_preempt=False)
    assert cluster.view.fingerprint() == before
    assert problems(cluster.view, demand, verdict, NOW) == []
    best = optimum(cluster.view, demand)
    assert (best is not None) == feasible(cluster.view, demand)
    if best is not None:
        assert isinstance(verdict, Placed), verdict
        reached("placed")
        assert verdict.objective == verdict.bound == best
    else:
        assert isinstance(verdict, Blocked), verdict
        reached("blocked")
        assert verdict.proved


@reaches(placed=74, blocked=50)
@examples(250)
@given(instances(mixed=False))
def test_equal_pods_are_placed_as_well_as_brute_force_places_them(
    reached: Reached, instance: tuple[ClusterBuilder, Demand]
) -> None:
    agrees(reached, *instance)


@reaches(placed=42, blocked=82)
@examples(250)
@given(instances(mixed=True))
def test_mixed_pods_are_placed_as_well_as_brute_force_places_them(
    reached: Reached, instance: tuple[ClusterBuilder, Demand]
) -> None:
    agrees(reached, *instance)


@reaches(placed=52, blocked=58, evicted=9)
@examples(250)
@given(contested(mixed=False))
def test_equal_pods_evict_what_loses_least(reached: Reached, instance: tuple[ClusterBuilder, Demand]) -> None:
    cluster, demand = instance
    loses_least(reached, cluster.view, demand)


@reaches(placed=25, blocked=80, evicted=19)
@examples(250)
@given(contested(mixed=True))
def test_mixed_pods_evict_what_loses_least(reached: Reached, instance: tuple[ClusterBuilder, Demand]) -> None:
    cluster, demand = instance
    loses_least(reached, cluster.view, demand)
