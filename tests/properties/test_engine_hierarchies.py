"""The engine against brute force on tight hierarchies: up to 4 levels of groups, 12 nodes and 10 pods."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from echelon.engine import Blocked, ClusterView, Demand, Limits, Node, Objective, Placed, decide, problems
from echelon.testing.placement import LEVELS, NOW, copied
from tests.properties.best_objective import optimum
from tests.properties.hierarchies import Instance, draw_instance, examples, instances
from tests.properties.least_loss import loses_least
from tests.properties.reached import Reached, reaches


def is_best(reached: Reached, view: ClusterView, demand: Demand) -> None:
    """The engine places as well as brute force does and knows it, or proves that nothing can be placed."""
    verdict, best = decide(view, demand, NOW), optimum(view, demand)
    assert problems(view, demand, verdict, NOW) == []
    if best is None:
        assert isinstance(verdict, Blocked), verdict
        reached("blocked")
        assert verdict.proved, "within these sizes the budget suffices"
    else:
        assert isinstance(verdict, Placed), verdict
        reached("placed")
        assert verdict.objective == best
        assert verdict.bound == best


def is_bounded(reached: Reached, verdict: object, best: Objective | None) -> None:
    """Whatever the budget: nothing is better than the bound, and no gap means that nothing is better."""
    if isinstance(verdict, Placed):
        assert best is not None
        reached("placed" if any(verdict.gap) else "placed_best")
        assert verdict.bound <= best <= verdict.objective
        assert min(verdict.gap) >= 0
    else:
        assert isinstance(verdict, Blocked)
        reached("proved" if verdict.proved else "undecided")
        assert not (verdict.proved and best), verdict


@reaches(placed=220, blocked=129)
@examples(700)
@given(instances())
def test_a_hierarchy_is_placed_as_well_as_brute_force_places_it(reached: Reached, instance: Instance) -> None:
    is_best(reached, instance.cluster.view, instance.demand)


@reaches(placed=37, blocked=63)
@examples(200)
@given(instances(max_nodes=7, max_pods=6, with_terms=True))
def test_pods_with_terms_between_them_are_placed_as_well_as_brute_force_places_them(
    reached: Reached, instance: Instance
) -> None:
    is_best(reached, instance.cluster.view, instance.demand)


@reaches(placed=1, placed_best=25, proved=15, undecided=1)
@examples(100)
@given(instances(), st.integers(1, 20))
def test_a_short_budget_leaves_an_honest_bound(reached: Reached, instance: Instance, steps: int) -> None:
    view = instance.cluster.view
    best = optimum(view, instance.demand)
    verdict = decide(view, instance.demand, NOW, Limits(steps, fixes=0))
    assert problems(view, instance.demand, verdict, NOW) == []
    is_bounded(reached, verdict, best)


@reaches(placed=1, placed_best=23, proved=26, undecided=0)
@examples(100)
@example(draw_instance(1074, 1, 1, victims=False, with_terms=True))  # cordoned nodes are domains to be even over
@given(st.booleans().flatmap(lambda with_terms: instances(max_nodes=8, max_pods=7, with_terms=with_terms)))
def test_beyond_the_sizes_of_the_exact_search_the_bound_is_honest(reached: Reached, instance: Instance) -> None:
    """The same demand on a cluster with many nodes that take nothing, though they count where pods are to be even."""
    larger = copied(instance.cluster.view)
    for number in range(30):
        name = f"shut-{number}"
        larger.put_node(Node(name, {LEVELS["host"]: name, LEVELS["zone"]: "shut"}, {"cpu": 8000}, (), True))
    verdict = decide(larger, instance.demand, NOW)
    assert problems(larger, instance.demand, verdict, NOW) == []
    is_bounded(reached, verdict, optimum(larger, instance.demand))


@reaches(placed=33, blocked=67, evicted=49)
@examples(300)
@example(draw_instance(1416, 2, 2, victims=True))  # a group that runs wants a domain for itself that it shares
@given(instances(victims=True, max_nodes=8, max_pods=8))
def test_a_hierarchy_evicts_what_brute_force_finds_to_lose_least(reached: Reached, instance: Instance) -> None:
    loses_least(reached, instance.cluster.view, instance.demand)
