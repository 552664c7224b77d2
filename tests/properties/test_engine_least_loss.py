"""Evictions against brute force: whatever stands in the way, what goes is what loses least, and the verdict says so."""

from __future__ import annotations

import pytest
from hypothesis import given

from echelon.engine import Evict, Leaf, LossBound, decide, problems
from echelon.engine.placement.objective import groups_of
from echelon.engine.preemption import region_search
from echelon.engine.preemption.loss import Incumbent
from echelon.engine.preemption.victim_table import Victims
from echelon.testing.placement import NOW
from tests.forced_ways import without_branching, without_victim_solver
from tests.properties.brute_force import least_loss
from tests.properties.contests import contests
from tests.properties.hierarchies import Instance, examples
from tests.properties.least_loss import loses_least
from tests.properties.reached import Reached, reaches


def loses_least_and_knows_it(reached: Reached, instance: Instance) -> None:
    verdict = loses_least(reached, instance.cluster.view, instance.demand)
    assert verdict is None or verdict.least, "within these sizes the budget suffices"


@reaches(placed=16, blocked=37, evicted=21)
@examples(150)
@given(contests(with_terms=False, max_nodes=12, max_pods=10))
def test_a_tree_evicts_what_loses_least(reached: Reached, instance: Instance) -> None:
    loses_least_and_knows_it(reached, instance)


@reaches(placed=9, blocked=89, evicted=22)
@examples(250)
@given(contests(with_terms=True, max_nodes=8, max_pods=8))
def test_pods_with_terms_between_them_evict_what_loses_least_and_keep_the_pods_they_need(
    reached: Reached, instance: Instance
) -> None:
    loses_least_and_knows_it(reached, instance)


def promises_no_more_than_there_is(reached: Reached, instance: Instance, patch: pytest.MonkeyPatch) -> Evict | None:
    """The way of many victims, on instances that brute force can judge."""
    without_branching(patch)
    verdict = decide(instance.cluster.view, instance.demand, NOW)
    wrong = problems(instance.cluster.view, instance.demand, verdict, NOW)
    assert [problem for problem in wrong if "would cost less" not in problem] == []
    if not isinstance(verdict, Evict):
        return None
    least = least_loss(instance.cluster.view, instance.demand, NOW)
    assert least is not None
    reached("evicted")
    found = verdict.loss.as_bound
    assert verdict.bound <= least[:4] <= found
    assert found == least[:4] or not verdict.least
    return verdict


@reaches(evicted=7)
@examples(100)
@given(contests(with_terms=False, max_nodes=8, max_pods=8))
def test_what_is_reckoned_or_spared_without_branching_never_promises_too_much(
    reached: Reached, instance: Instance
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        without_victim_solver(patch)
        promises_no_more_than_there_is(reached, instance, patch)


@reaches(evicted=4)
@examples(60)
@given(contests(with_terms=True, max_nodes=8, max_pods=8))
def test_the_solver_never_promises_too_much_with_terms_between_pods(reached: Reached, instance: Instance) -> None:
    with pytest.MonkeyPatch.context() as patch:
        promises_no_more_than_there_is(reached, instance, patch)


def anything_that_suffices(one: region_search.RegionSearch, candidates: Victims, best: Incumbent) -> LossBound:
    spared = one.problem.spare(candidates)
    best.offer(one.problem.trial.loss(spared), spared)
    return one.problem.lower_bound


@reaches(evicted=16)
@examples(120)
@given(contests(with_terms=False, max_nodes=8, max_pods=8))
def test_the_solver_names_those_whose_eviction_loses_least(reached: Reached, instance: Instance) -> None:
    """Neither arithmetic nor branching helps it; it is not told of unlisted keys and of who holds what exclusively."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(region_search.RegionSearch, "_first_answer", anything_that_suffices)
        verdict = promises_no_more_than_there_is(reached, instance, patch)
    groups = groups_of(instance.demand.root)
    untold = any(group.topology == "pool" or (isinstance(group, Leaf) and group.exclusive) for group in groups)
    assert verdict is None or verdict.least or untold
